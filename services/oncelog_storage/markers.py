"""Markers of ended transactions, from the marker sender's request to the partitions' logs (facts 3, 9).

Under TV1 a marker may be of another transaction than the one it would end (`core/verification.py`). Where the leader
does not know when that one began, after an election or a restart, its coordinator is asked first.
"""

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, Partition
from oncelog.rpc.transaction_starts import TransactionStarts
from oncelog.runtime import Clock
from oncelog_storage.changed_settings import ChangedSettings
from oncelog_storage.core.verification import KnownStart, Verifications
from oncelog_storage.feed_events import StorageEvents
from oncelog_storage.hosted import HostedPartitions
from oncelog_storage.log import MarkerToWrite
from oncelog_storage.partition import PartitionLeader
from oncelog_storage.partition_values import MarkerRequest, marker_to_write
from oncelog_storage.produce import refuse
from oncelog_storage.traces import MarkerSpans, OpenTraces

_COMMIT_TIMEOUT_S: Final = 30.0
_TV2: Final = 2

Asked = tuple[MarkerRequest, types_pb2.PartitionError]
"""A marker for one partition, and where its answer goes."""


class MarkerHandler:
    """While nothing is verified a leader does not know when a transaction began: `starts` is not asked, and late
    markers of TV1 are not told from others."""

    def __init__(
        self,
        hosted: HostedPartitions,
        starts: TransactionStarts,
        changed: ChangedSettings,
        clock: Clock,
        events: StorageEvents | None = None,
        traces: OpenTraces | None = None,
    ) -> None:
        self._hosted = hosted
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
            for wanted, _ in group:
                self._traces.ended(wanted.producer_id)
        markers.record(request, response)
        return response

    async def _learn_starts(self, markers: Iterable[tuple[Partition, MarkerRequest]]) -> None:
        """Ask, once for each transaction. What nobody answers stays unknown, and its marker is refused.

        Also about a marker that looks late: this node may lead no more and not have heard, the open transaction have
        ended elsewhere, and a marker that is called late here be lost. An answer is for the leadership that asked:
        while it was on its way another leader may have let the next transaction in, and a leadership that begins now
        does not know of that.
        """
        unknown: dict[tuple[str, int], list[_Asking]] = {}
        for partition, wanted in markers:
            try:
                leader = self._hosted.get(*partition)
            except KafkaError:
                continue
            if wanted.transactional_id and _is_late(leader, wanted) is not False:
                key = (wanted.transactional_id, wanted.producer_id)
                unknown.setdefault(key, []).append(_Asking.about(leader, wanted))
        if not unknown or not self._changed.verifies_transactions:
            return
        starts = await asyncio.gather(*(self._starts.ask(*key) for key in unknown))
        for start_ms, waiting in zip(starts, unknown.values(), strict=True):
            for asking in waiting:
                asking.learn(start_ms, self._clock.now())

    async def _write_to(self, partition: Partition, group: list[Asked]) -> None:
        try:
            if partition.topic == CONSUMER_OFFSETS_TOPIC:
                # Written here, the shard's coordinator would not know of it (ADR 0015).
                raise KafkaError(
                    ErrorCode.NOT_LEADER_OR_FOLLOWER,
                    f"markers for {partition} go to the coordinator of that group shard",
                )
            leader = self._hosted.get(*partition)
            leader.require_enough_replicas()
            codes = write_markers(leader, [wanted for wanted, _ in group], self._clock.now())
            last_offset = leader.log.log_end_offset - 1
            if leader.high_watermark <= last_offset and ErrorCode.NONE in codes:
                code = await leader.wait_committed(last_offset, _COMMIT_TIMEOUT_S)
                codes = [each or code for each in codes]
        except KafkaError as error:
            for _, answer in group:
                refuse(answer, error)
            return
        for (wanted, answer), code in zip(group, codes, strict=True):
            answer.error_code = code
            if self._events is not None:
                self._events.marker(
                    partition, wanted, int(code), last_offset, leader.last_stable_offset
                )


class _Asking(NamedTuple):
    """A marker about which the coordinator is asked, and what was known when it was."""

    verifications: Verifications
    wanted: MarkerRequest
    known: KnownStart | None

    @classmethod
    def about(cls, leader: PartitionLeader, wanted: MarkerRequest) -> "_Asking":
        verifications = leader.verifications
        return cls(verifications, wanted, verifications.known_start(wanted.producer_id))

    def learn(self, start_ms: int | None, now: int) -> None:
        producer_id = self.wanted.producer_id
        if self.known is not None and start_ms in (None, self.wanted.transaction_start_ms):
            self.verifications.forget_start(producer_id, self.known)
        if start_ms is not None:
            self.verifications.learn_start(producer_id, start_ms, now)


def _is_late(leader: PartitionLeader, request: MarkerRequest) -> bool | None:
    """None: this leader does not know. A marker of TV2 never is: its epoch says of which transaction it is."""
    if request.transaction_version >= _TV2:
        return False
    return leader.verifications.is_late_marker(
        request.producer_id,
        request.transaction_start_ms,
        leader.log.producers.has_any_ongoing_transaction(request.producer_id),
    )


def write_markers(
    leader: PartitionLeader, requests: Sequence[MarkerRequest], now: int
) -> list[ErrorCode]:
    """Append these markers together; one code each. REQUEST_TIMED_OUT for one of which nobody could say whether it is
    late: the sender brings it again.

    Raises KafkaError(KAFKA_STORAGE_ERROR) when none could be written.
    """
    codes: list[ErrorCode] = []
    markers: list[MarkerToWrite] = []
    seen: set[int] = set()
    for request in requests:
        if request.producer_id in seen:
            # The check of a second marker of a producer needs the first one applied.
            leader.append_markers(markers, now)
            markers, seen = [], set()
        code = _check(leader, request)
        codes.append(code or ErrorCode.NONE)
        if code is ErrorCode.NONE:
            seen.add(request.producer_id)
            markers.append(marker_to_write(request, now))
    leader.append_markers(markers, now)
    return codes


def _check(leader: PartitionLeader, request: MarkerRequest) -> ErrorCode | None:
    """NONE: write it. None: it is late, and was written long ago."""
    is_late = _is_late(leader, request)
    if is_late:
        return None
    # One of Kafka's own API names no transactional.id, and is written as Kafka writes it.
    if is_late is None and request.transactional_id:
        return ErrorCode.REQUEST_TIMED_OUT
    return leader.log.producers.check_marker(
        request.producer_id,
        request.producer_epoch,
        request.coordinator_epoch,
        request.transaction_version,
    )
