"""Markers of ended transactions, from the marker sender's request to the partitions' logs (facts 3, 9).

`core.markers` decides which of them are written.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, Partition
from oncelog.rpc.transaction_starts import TransactionStarts
from oncelog.runtime import Clock
from oncelog.telemetry import spans
from oncelog_storage.changed_settings import ChangedSettings
from oncelog_storage.core.markers import StartQuestion, marker_batches, needs_its_start
from oncelog_storage.core.partition_values import MarkerRequest
from oncelog_storage.feed_events import StorageEvents
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.produce import refuse
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.traces import MarkerSpans, OpenTraces

_COMMIT_TIMEOUT_S: Final = 30.0

Asked = tuple[MarkerRequest, types_pb2.PartitionError]
"""A marker for one partition, and where its answer goes."""


class MarkerHandler:
    """While nothing is verified a leader does not know when a transaction began: `starts` is not asked, and late
    markers of TV1 are not told from others."""

    def __init__(
        self,
        manager: ReplicaManager,
        starts: TransactionStarts,
        changed: ChangedSettings,
        clock: Clock,
        events: StorageEvents | None = None,
        traces: OpenTraces | None = None,
    ) -> None:
        self._manager = manager
        self._traces = traces or OpenTraces()
        self._starts = starts
        self._changed = changed
        self._clock = clock
        self._events = events

    async def write(self, request: pb.WriteTxnMarkersRequest) -> pb.WriteTxnMarkersResponse:
        """Markers of one partition are written together, whatever their order in the request."""
        response = pb.WriteTxnMarkersResponse()
        by_partition: dict[Partition, list[Asked]] = {}
        for marker in request.markers:
            result = response.results.add(producer_id=marker.producer_id)
            wanted = MarkerRequest(
                marker.producer_id,
                marker.producer_epoch,
                marker.commit,
                marker.coordinator_epoch,
                marker.transaction_version,
                marker.transaction_start_ms,
                marker.transactional_id if self._changed.verifies_transactions else "",
            )
            for each in marker.partitions:
                answer = result.partitions.add(topic=each.topic, partition=each.partition)
                partition = Partition(each.topic, each.partition)
                by_partition.setdefault(partition, []).append((wanted, answer))
        await self._learn_starts(
            (partition, wanted) for partition, group in by_partition.items() for wanted, _ in group
        )
        markers = MarkerSpans()
        for partition, group in by_partition.items():
            start_ns = time.time_ns()
            await self._write_to(partition, group)
            markers.wrote(*partition, start_ns, time.time_ns())
        if spans.recorder is not None:
            for marker in request.markers:
                self._traces.ended(marker)
            markers.record(request, response)
        return response

    async def _learn_starts(self, markers: Iterable[tuple[Partition, MarkerRequest]]) -> None:
        """Ask, once for each transaction. What nobody answers stays unknown, and its marker is refused."""
        unknown: dict[tuple[str, int], list[StartQuestion]] = {}
        for partition, wanted in markers:
            try:
                hosted = self._manager.get(*partition)
            except KafkaError:
                continue
            if needs_its_start(hosted, wanted):
                key = (wanted.transactional_id, wanted.producer_id)
                unknown.setdefault(key, []).append(StartQuestion.about(hosted, wanted))
        if not unknown or not self._changed.verifies_transactions:
            return
        starts = await asyncio.gather(*(self._starts.ask(*key) for key in unknown))
        for start_ms, waiting in zip(starts, unknown.values(), strict=True):
            for question in waiting:
                question.learn(start_ms, self._clock.now())

    async def _write_to(self, partition: Partition, group: list[Asked]) -> None:
        try:
            if partition.topic == CONSUMER_OFFSETS_TOPIC:
                # Written here, the shard's coordinator would not know of it (ADR 0015).
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    f"markers for {partition} go to the coordinator of that group shard",
                )
            hosted = self._manager.get(*partition)
            hosted.require_enough_replicas()
            codes = write_markers(hosted, [wanted for wanted, _ in group], self._clock.now())
            last_offset = hosted.log.log_end_offset - 1
            if hosted.high_watermark <= last_offset and ErrorCode.NONE in codes:
                code = await hosted.wait_committed(last_offset, _COMMIT_TIMEOUT_S)
                codes = [each or code for each in codes]
        except KafkaError as error:
            for _, answer in group:
                refuse(answer, error)
            return
        for (wanted, answer), code in zip(group, codes, strict=True):
            answer.error_code = code
            if self._events is not None:
                self._events.marker(
                    partition, wanted, int(code), last_offset, hosted.last_stable_offset
                )


def write_markers(
    hosted: HostedPartition, requests: Sequence[MarkerRequest], now: int
) -> list[ErrorCode]:
    """Append these markers together; one code each. REQUEST_TIMED_OUT for one of which nobody could say whether it is
    late: the sender brings it again.

    Raises KafkaError(KAFKA_STORAGE_ERROR) when none could be written.
    """
    codes: list[ErrorCode] = []
    for batch in marker_batches(hosted, requests, now):
        hosted.append_markers(batch.markers, now)
        codes = batch.codes
    return codes
