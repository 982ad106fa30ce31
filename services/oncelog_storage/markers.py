"""Markers of ended transactions, from the marker sender's request to the partitions' logs (docs/kafka-facts.md, 3, 9).

`core.marker_requests` groups them and `core.markers` decides which are written. This module asks coordinators, and
waits for commits.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final, NamedTuple

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.rpc import plain
from oncelog.rpc.transaction_starts import TransactionStarts
from oncelog.runtime import Clock
from oncelog.telemetry import spans
from oncelog_storage import direct_answers
from oncelog_storage.changed_settings import ChangedSettings
from oncelog_storage.core.marker_requests import (
    Asked,
    StartQuestions,
    awaited_offset,
    by_partition,
    require_own_marker,
)
from oncelog_storage.core.markers import marker_batches, needs_its_start
from oncelog_storage.core.partition_values import MarkerRequest
from oncelog_storage.feed_events import StorageEvents
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.produce import refuse
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.traces import MarkerSpans, OpenTraces

_COMMIT_TIMEOUT_S: Final = 30.0


class MarkerHandler:
    """The handler of WriteTxnMarkers requests.

    `starts` asks coordinators when transactions began. It is not called while the verification of writes is off: the
    leader itself knows no starts then. So it cannot tell a late marker, of an earlier TV1 transaction, from others.
    """

    def __init__(
        self,
        replica_manager: ReplicaManager,
        starts: TransactionStarts,
        changed: ChangedSettings,
        clock: Clock,
        events: StorageEvents | None = None,
        traces: OpenTraces | None = None,
    ) -> None:
        self._replica_manager = replica_manager
        self._traces = traces or OpenTraces()
        self._starts = starts
        self._changed = changed
        self._clock = clock
        self._events = events

    async def write(self, request: pb.WriteTxnMarkersRequest) -> pb.WriteTxnMarkersResponse:
        """Write the markers of a request, and wait for their commits.

        Markers of one partition are written together, whatever their order in the request. All partitions have theirs
        before the first commit is waited for: a request takes one round of replication.
        """
        response = pb.WriteTxnMarkersResponse()
        is_on = self._changed.verifies_transactions
        groups = by_partition(request.markers, response.results, is_verification_on=is_on)
        await self._learn_starts(StartQuestions(groups, self._replica_manager))
        markers = MarkerSpans()
        waiting: list[_Written] = []
        for partition, group in groups.items():
            start_ns = time.time_ns()
            written = self._write_to(partition, group)
            if written is not None and written.awaited_offset is not None:
                waiting.append(written._replace(start_ns=start_ns))
                continue
            if written is not None:
                self._tell(written, ErrorCode.NONE)
            markers.wrote(*partition, start_ns, time.time_ns())
        if len(waiting) == 1:
            await self._commit(waiting[0], markers)
        elif waiting:
            await asyncio.gather(*(self._commit(one, markers) for one in waiting))
        if spans.recorder is not None:
            for marker in request.markers:
                self._traces.ended(marker)
            markers.record(request, response)
        return response

    def write_at_once(self, request: plain.WriteTxnMarkersRequest) -> list[bool]:
        """Write those markers that need no wait.

        Return, for each marker, True if all its logs have it and it is committed.

        For a marker with False, the caller must call `write`, which asks the coordinator and waits.
        """
        groups: dict[Partition, list[Asked]] = {}
        answers: list[list[direct_answers.MarkerAnswer]] = []
        for marker in request.markers:
            name = marker.transactional_id if self._changed.verifies_transactions else ""
            wanted = MarkerRequest(*marker[:6], name)
            mine = [direct_answers.MarkerAnswer() for _ in marker.partitions]
            answers.append(mine)
            if all(self._is_at_once(partition, wanted) for partition in marker.partitions):
                request.about_to_write(marker)
                for partition, answer in zip(marker.partitions, mine, strict=True):
                    groups.setdefault(partition, []).append(Asked(wanted, answer))
        for partition, group in groups.items():
            written = self._write_to(partition, group)
            if written is not None and written.awaited_offset is None:
                self._tell(written, ErrorCode.NONE)
        return [not any(answer.error_code for answer in mine) for mine in answers]

    def _is_at_once(self, partition: Partition, wanted: MarkerRequest) -> bool:
        """True if the marker waits neither for a coordinator nor for a commit."""
        try:
            led = self._replica_manager.led(*partition)
        except KafkaError:
            return False
        return led.commits_at_once and not needs_its_start(led, wanted)

    async def _learn_starts(self, questions: StartQuestions) -> None:
        if not questions or not self._changed.verifies_transactions:
            return
        starts = await asyncio.gather(*(self._starts.start_of(*key) for key in questions))
        questions.learn(starts, self._clock.now())

    def _write_to(self, partition: Partition, group: list[Asked]) -> "_Written | None":
        """Write the markers of one partition. None: all of them are refused, and their answers say why."""
        try:
            require_own_marker(partition)
            led = self._replica_manager.led(*partition)
            led.require_enough_replicas()
            codes = write_markers(led, [wanted for wanted, _ in group], self._clock.now())
        except KafkaError as error:
            for _, answer in group:
                refuse(answer, error)
            return None
        last_offset = led.log.log_end_offset - 1
        return _Written(partition, led, group, codes, last_offset, awaited_offset(led, codes))

    async def _commit(self, written: "_Written", markers: MarkerSpans) -> None:
        assert written.awaited_offset is not None
        code = await written.led.wait_committed(written.awaited_offset, _COMMIT_TIMEOUT_S)
        self._tell(written, code)
        markers.wrote(*written.partition, written.start_ns, time.time_ns())

    def _tell(self, written: "_Written", code: ErrorCode) -> None:
        """Fill the answers of markers that were written. `code` says if they are committed."""
        for (wanted, answer), refused in zip(written.group, written.codes, strict=True):
            answer.error_code = refused or code
            if self._events is not None:
                self._events.marker(
                    written.partition,
                    wanted,
                    int(refused or code),
                    written.last_offset,
                    written.led.last_stable_offset,
                )


class _Written(NamedTuple):
    """Markers of one partition that are in its log."""

    partition: Partition
    led: HostedPartition
    group: list[Asked]
    codes: list[ErrorCode]
    """One code for each marker: NONE, or the reason why it was not written."""
    last_offset: int
    awaited_offset: int | None
    """The offset that must be committed; None: there is nothing to wait for."""
    start_ns: int = 0


def write_markers(
    led: HostedPartition, requests: Sequence[MarkerRequest], now: int
) -> list[ErrorCode]:
    """Append these markers together. Return one code for each.

    REQUEST_TIMED_OUT: nobody could say if the marker is of an earlier transaction (late), and the sender sends it
    again. Raises KafkaError(KAFKA_STORAGE_ERROR) if none could be written.
    """
    codes: list[ErrorCode] = []
    for batch in marker_batches(led, requests, now):
        led.append_markers(batch.markers, now)
        codes = batch.codes
    return codes
