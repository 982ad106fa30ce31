"""The Spark sink calls of the TransactionCoordinator service: protobuf requests become events, answers become
protobuf.
"""

from collections.abc import Callable
from dataclasses import asdict
from typing import Concatenate, ParamSpec, TypeVar

from oncelog.api.v1 import coordinator_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import Millis, Partition, ProducerEpoch, ProducerId, Sequence
from oncelog.runtime import DriverStopped
from oncelog.telemetry import spans
from oncelog_coordinator.core.sink import SinkEvent
from oncelog_coordinator.core.sink_events import (
    AbortAnswer,
    AbortAttempt,
    AttemptAnswer,
    BranchMessage,
    CallAnswer,
    CommitBatch,
    DeleteSink,
    DescribeSink,
    JoinAnswer,
    JoinAttempt,
    ListSinks,
    ListSinksAnswer,
    OpenAnswer,
    OpenAttempt,
    SealBranch,
    SinkDescription,
)
from oncelog_coordinator.core.sink_records import UNKNOWN
from oncelog_coordinator.shards import Shards, ShardUnavailable

AnswerT = TypeVar("AnswerT")
P = ParamSpec("P")


class SinkCalls:
    """The methods of the TransactionCoordinator service for Spark sinks. A sink's name selects its shard.

    Answers of the state machine and responses have the same fields.
    """

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def OpenAttempt(
        self, request: pb.OpenAttemptRequest, context: object
    ) -> pb.OpenAttemptResponse:
        answer = await self._ask_sink(
            OpenAnswer, OpenAttempt, request.sink, request.nonce, Millis(request.timeout_ms)
        )
        return pb.OpenAttemptResponse(**asdict(answer), is_traced=spans.recorder is not None)

    async def JoinAttempt(
        self, request: pb.JoinAttemptRequest, context: object
    ) -> pb.JoinAttemptResponse:
        answer = await self._ask_sink(
            JoinAnswer,
            JoinAttempt,
            request.sink,
            request.nonce,
            request.query_id,
            request.run_id,
            request.batch_id,
            request.task_partition,
            request.task_attempt_id,
            request.adopt_query,
        )
        return pb.JoinAttemptResponse(**asdict(answer))

    async def SealBranch(
        self, request: pb.SealBranchRequest, context: object
    ) -> pb.SealBranchResponse:
        answer = await self._ask_sink(
            AttemptAnswer,
            SealBranch,
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
        )
        return pb.SealBranchResponse(**asdict(answer))

    async def CommitBatch(
        self, request: pb.CommitBatchRequest, context: object
    ) -> pb.CommitBatchResponse:
        messages = tuple(map(_branch_message, request.messages))
        answer = await self._ask_sink(
            AttemptAnswer, CommitBatch, request.sink, request.batch_id, messages
        )
        return pb.CommitBatchResponse(**asdict(answer))

    async def AbortAttempt(
        self, request: pb.AbortAttemptRequest, context: object
    ) -> pb.AbortAttemptResponse:
        answer = await self._ask_sink(
            AbortAnswer, AbortAttempt, request.sink, tuple(request.nonces)
        )
        return pb.AbortAttemptResponse(**asdict(answer))

    async def DescribeSink(
        self, request: pb.DescribeSinkRequest, context: object
    ) -> pb.DescribeSinkResponse:
        answer = await self._ask_sink(
            lambda error_code, _: SinkDescription(error_code, request.sink),
            DescribeSink,
            request.sink,
        )
        return pb.DescribeSinkResponse(**asdict(answer))

    async def ListSinks(
        self, request: pb.ListSinksRequest, context: object
    ) -> pb.ListSinksResponse:
        found: list[pb.ListSinksResponse.Sink] = []
        try:
            for _, driver in self._shards.drivers():
                request_id = driver.request_id()
                answer: ListSinksAnswer = await driver.ask(ListSinks(request_id), request_id)
                found += [pb.ListSinksResponse.Sink(**asdict(sink)) for sink in answer.sinks]
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.ListSinksResponse(
                error_code=unavailable.error_code, error_message=str(unavailable)
            )
        return pb.ListSinksResponse(sinks=found)

    async def DeleteSink(
        self, request: pb.DeleteSinkRequest, context: object
    ) -> pb.DeleteSinkResponse:
        answer = await self._ask_sink(CallAnswer, DeleteSink, request.sink)
        return pb.DeleteSinkResponse(**asdict(answer))

    async def _ask_sink(
        self,
        refused: Callable[[ErrorCode, str], AnswerT],
        event: Callable[Concatenate[int, str, P], SinkEvent],
        sink: str,
        /,
        *fields: P.args,
        **named: P.kwargs,
    ) -> AnswerT:
        """Send the sink's state machine an event of this class with these fields, and return its answer.

        Without an answer, because the shard is not here or has stopped, return `refused(error code, reason)`. Where an
        answer's class has these two as its first fields, it is passed as `refused`.
        """
        try:
            if not sink:
                raise ShardUnavailable(ErrorCode.INVALID_REQUEST)
            answer: AnswerT = await self._shards.ask(
                sink, lambda request_id: event(request_id, sink, *fields, **named)
            )
            return answer
        except (ShardUnavailable, DriverStopped) as unavailable:
            return refused(unavailable.error_code, str(unavailable))


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
