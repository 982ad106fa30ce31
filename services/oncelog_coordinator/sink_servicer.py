"""The Spark sink calls of the TransactionCoordinator service: protobuf to sink events and back, nothing else."""

from collections.abc import Callable
from typing import Any

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import Millis, Partition, ProducerEpoch, ProducerId, Sequence
from oncelog.runtime import DriverStopped
from oncelog.telemetry import spans
from oncelog_coordinator.core.sink import SinkEvent
from oncelog_coordinator.core.sink_events import (
    AbortAttempt,
    AttemptDescription,
    BranchMessage,
    CommitBatch,
    DeleteSink,
    DescribeSink,
    JoinAttempt,
    ListSinks,
    ListSinksAnswer,
    OpenAttempt,
    SealBranch,
    SinkDescription,
    SinkListing,
)
from oncelog_coordinator.core.sink_records import UNKNOWN
from oncelog_coordinator.shards import Shards, ShardUnavailable


class SinkCalls:
    """A sink lives on the shard of its name."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def OpenAttempt(
        self, request: pb.OpenAttemptRequest, context: object
    ) -> pb.OpenAttemptResponse:
        try:
            answer = await self._ask(
                request.sink,
                lambda request_id: OpenAttempt(
                    request_id, request.sink, request.nonce, Millis(request.timeout_ms)
                ),
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.OpenAttemptResponse(**_refusal(unavailable))
        return pb.OpenAttemptResponse(
            **_outcome(answer),
            sink_epoch=answer.sink_epoch,
            is_traced=spans.recorder is not None,
        )

    async def JoinAttempt(
        self, request: pb.JoinAttemptRequest, context: object
    ) -> pb.JoinAttemptResponse:
        try:
            answer = await self._ask(
                request.sink,
                lambda request_id: JoinAttempt(
                    request_id,
                    request.sink,
                    request.nonce,
                    request.query_id,
                    request.run_id,
                    request.batch_id,
                    request.task_partition,
                    request.task_attempt_id,
                    request.adopt_query,
                ),
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.JoinAttemptResponse(
                **_refusal(unavailable), producer_id=-1, producer_epoch=-1
            )
        return pb.JoinAttemptResponse(
            **_outcome(answer),
            producer_id=answer.producer_id,
            producer_epoch=answer.producer_epoch,
            transactional_id=answer.transactional_id,
        )

    async def SealBranch(
        self, request: pb.SealBranchRequest, context: object
    ) -> pb.SealBranchResponse:
        try:
            answer = await self._ask(
                request.sink,
                lambda request_id: SealBranch(
                    request_id,
                    request.sink,
                    request.nonce,
                    ProducerId(request.producer_id),
                    ProducerEpoch(request.producer_epoch),
                    tuple(
                        (Partition(last.topic, last.partition), Sequence(last.last_sequence))
                        for last in request.last_sequences
                    ),
                    request.row_count,
                    request.crc32c,
                    request.row_checksum if request.HasField("row_checksum") else UNKNOWN,
                ),
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.SealBranchResponse(**_refusal(unavailable))
        return pb.SealBranchResponse(**_outcome(answer))

    async def CommitBatch(
        self, request: pb.CommitBatchRequest, context: object
    ) -> pb.CommitBatchResponse:
        try:
            answer = await self._ask(
                request.sink,
                lambda request_id: CommitBatch(
                    request_id,
                    request.sink,
                    request.batch_id,
                    tuple(_branch_message(message) for message in request.messages),
                ),
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.CommitBatchResponse(**_refusal(unavailable))
        return pb.CommitBatchResponse(**_outcome(answer))

    async def AbortAttempt(
        self, request: pb.AbortAttemptRequest, context: object
    ) -> pb.AbortAttemptResponse:
        try:
            answer = await self._ask(
                request.sink,
                lambda request_id: AbortAttempt(request_id, request.sink, tuple(request.nonces)),
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.AbortAttemptResponse(**_refusal(unavailable))
        return pb.AbortAttemptResponse(
            error_code=answer.error_code,
            error_message=answer.error_message,
            aborted=answer.aborted,
        )

    async def DescribeSink(
        self, request: pb.DescribeSinkRequest, context: object
    ) -> pb.DescribeSinkResponse:
        try:
            answer: SinkDescription = await self._ask(
                request.sink, lambda request_id: DescribeSink(request_id, request.sink)
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.DescribeSinkResponse(error_code=unavailable.error_code, sink=request.sink)
        return _sink_description(answer)

    async def ListSinks(
        self, request: pb.ListSinksRequest, context: object
    ) -> pb.ListSinksResponse:
        found: list[pb.ListSinksResponse.Sink] = []
        try:
            for _, driver in self._shards.drivers():
                request_id = driver.request_id()
                answer: ListSinksAnswer = await driver.ask(ListSinks(request_id), request_id)
                found += map(_listing, answer.sinks)
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.ListSinksResponse(**_refusal(unavailable))
        return pb.ListSinksResponse(sinks=found)

    async def DeleteSink(
        self, request: pb.DeleteSinkRequest, context: object
    ) -> pb.DeleteSinkResponse:
        try:
            answer = await self._ask(
                request.sink, lambda request_id: DeleteSink(request_id, request.sink)
            )
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.DeleteSinkResponse(**_refusal(unavailable))
        return pb.DeleteSinkResponse(
            error_code=answer.error_code, error_message=answer.error_message
        )

    async def _ask(self, sink: str, event: Callable[[int], SinkEvent]) -> Any:
        if not sink:
            raise ShardUnavailable(ErrorCode.INVALID_REQUEST)
        return await self._shards.ask(sink, event)


def _refusal(unavailable: ShardUnavailable | DriverStopped) -> dict[str, Any]:
    return {"error_code": unavailable.error_code, "error_message": str(unavailable)}


def _outcome(answer: Any) -> dict[str, Any]:
    return {
        "error_code": answer.error_code,
        "error_message": answer.error_message,
        "answer": answer.answer,
    }


def _branch_message(message: pb.BranchMessage) -> BranchMessage:
    return BranchMessage(
        message.nonce,
        message.query_id,
        message.skipped,
        message.task_partition,
        ProducerId(message.producer_id),
        ProducerEpoch(message.producer_epoch),
        message.row_count,
        message.row_checksum if message.HasField("row_checksum") else UNKNOWN,
    )


def _sink_description(sink: SinkDescription) -> pb.DescribeSinkResponse:
    return pb.DescribeSinkResponse(
        error_code=sink.error_code,
        sink=sink.sink,
        query_id=sink.query_id,
        last_committed_batch_id=sink.last_committed_batch_id,
        sink_epoch=sink.sink_epoch,
        attempts=[_attempt(attempt) for attempt in sink.attempts],
        decisions=[
            pb.DescribeSinkResponse.Decision(
                batch_id=decision.batch_id,
                nonce=decision.nonce,
                branch_count=decision.branch_count,
                row_count=decision.row_count,
                decided_time_ms=decision.decided_time_ms,
                row_checksum=None if decision.row_checksum == UNKNOWN else decision.row_checksum,
            )
            for decision in sink.decisions
        ],
    )


def _listing(sink: SinkListing) -> pb.ListSinksResponse.Sink:
    return pb.ListSinksResponse.Sink(
        sink=sink.sink,
        query_id=sink.query_id,
        is_job=sink.is_job,
        last_committed_batch_id=sink.last_committed_batch_id,
        last_used_ms=sink.last_used_ms,
        attempt_count=sink.attempt_count,
    )


def _attempt(attempt: AttemptDescription) -> pb.DescribeSinkResponse.Attempt:
    return pb.DescribeSinkResponse.Attempt(
        nonce=attempt.nonce,
        batch_id=attempt.batch_id,
        state=attempt.state,
        opened_time_ms=attempt.opened_time_ms,
        deadline_ms=attempt.deadline_ms,
        branches=[
            pb.DescribeSinkResponse.Branch(
                task_partition=branch.task_partition,
                task_attempt_id=branch.task_attempt_id,
                producer_id=branch.producer_id,
                producer_epoch=branch.producer_epoch,
                sealed=branch.sealed,
                row_count=branch.row_count,
            )
            for branch in attempt.branches
        ],
    )
