"""Fetch: whole batches up to the HW or the LSO, and the long poll for more.

At the wire's edge, like `produce`. A fetch that finds too little registers with its partitions; an append, a moved LSO
or its deadline wakes it. It counts the bytes that appends add, so it reads again only when there is enough.
"""

import asyncio
import contextlib
import struct
from collections.abc import Sequence
from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import iter_headers
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log import LogSlice, PartitionLog
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.settings import StorageSettings

_WAIT_MS_MAX = 3_600_000
_EMPTY_READS_MAX: Final = 100
_TURN_PARTITIONS: Final = 200
"""Read in one step of the event loop: one or two milliseconds. A fetch of more lets others go on in between."""
_RECORD_COUNT: Final = struct.Struct(">i")
_RECORD_COUNT_AT: Final = 57


class _Waiter:
    """Wakes its future when `missing_bytes` have been appended."""

    def __init__(self, missing_bytes: int) -> None:
        self._missing_bytes = missing_bytes
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def notify(self, size_bytes: int) -> None:
        self._missing_bytes -= size_bytes
        if self._missing_bytes <= 0 and not self.future.done():
            self.future.set_result(None)


class _Reading:
    """What a fetch has read so far."""

    __slots__ = ("is_final", "left_bytes", "response", "total_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.response = pb.FetchResponse()
        self.left_bytes = bytes_max
        self.total_bytes = 0
        self.is_final = False
        """Waiting is pointless because of an error."""


def _read_past_empty(log: PartitionLog, offset: int, upper: int, bytes_max: int) -> LogSlice:
    """As `PartitionLog.read`, but batches that compaction has emptied are not all that is answered if more follows.

    librdkafka takes an answer without a message for one that its limit has cut, doubles the limit, and gives up after
    the eleventh.
    """
    found = log.read(offset, upper, bytes_max)
    for _ in range(_EMPTY_READS_MAX):
        if not found.records or not _is_empty(found.records) or found.next_offset >= upper:
            break
        following = log.read(found.next_offset, upper, bytes_max)
        if not following.records:
            break
        found = following
    return found


def _is_empty(records: bytes) -> bool:
    """Only batches without records. Most answers begin with one that has some."""
    if _RECORD_COUNT.unpack_from(records, _RECORD_COUNT_AT)[0]:
        return False
    return all(header.record_count == 0 for _, header in iter_headers(records))


class FetchHandler:
    def __init__(self, settings: StorageSettings, hosted: ReplicaManager) -> None:
        self._settings = settings
        self._hosted = hosted
        self._is_stopping = False
        self._waiters: dict[_Waiter, None] = {}

    def stop(self) -> None:
        """Answer every waiting fetch with what there is."""
        self._is_stopping = True
        for waiter in tuple(self._waiters):
            waiter.notify(2**62)

    async def fetch(self, request: pb.FetchRequest) -> pb.FetchResponse:
        if len(request.partitions) > _TURN_PARTITIONS:
            return await self._fetch_many(request)
        response, total_bytes, is_final = self._read_all(request)
        if (
            is_final
            or total_bytes >= request.min_bytes
            or request.max_wait_ms <= 0
            or not request.partitions
        ):
            return response
        if self._is_stopping or len(self._waiters) >= self._settings.fetch_waiters_max:
            return response
        return await self._wait(request, response, total_bytes)

    async def _wait(
        self, request: pb.FetchRequest, response: pb.FetchResponse, total_bytes: int
    ) -> pb.FetchResponse:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(request.max_wait_ms, _WAIT_MS_MAX) / 1000
        leaders = self._leaders(request)
        is_committed_only = request.isolation_level == types_pb2.READ_COMMITTED
        while True:
            # A moving LSO may uncover any number of bytes, so a read_committed fetch looks after each move.
            waiter = _Waiter(1 if is_committed_only else request.min_bytes - total_bytes)
            self._waiters[waiter] = None
            for leader in leaders:
                leader.watch(waiter.notify)
            timer = loop.call_at(deadline, waiter.notify, 2**62)
            try:
                await waiter.future
            finally:
                timer.cancel()
                self._waiters.pop(waiter, None)
                for leader in leaders:
                    leader.unwatch(waiter.notify)
            response, total_bytes, is_final = self._read_all(request)
            if (
                is_final
                or total_bytes >= request.min_bytes
                or loop.time() >= deadline
                or self._is_stopping
            ):
                return response

    async def _fetch_many(self, request: pb.FetchRequest) -> pb.FetchResponse:
        """As `fetch`, in turns. Partitions grow while others are read, so they are watched before they are read."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + min(request.max_wait_ms, _WAIT_MS_MAX) / 1000
        missing_bytes = 1
        while True:
            waiter = _Waiter(missing_bytes)
            leaders: list[HostedPartition] = []
            reading = _Reading(min(request.max_bytes or 2**31, self._settings.fetch_bytes_max))
            try:
                for start in range(0, len(request.partitions), _TURN_PARTITIONS):
                    turn = request.partitions[start : start + _TURN_PARTITIONS]
                    for part in turn:
                        with contextlib.suppress(KafkaError):  # Reading it says which.
                            leaders.append(self._hosted.get(part.topic, part.partition))
                            leaders[-1].watch(waiter.notify)
                    self._read_some(request, turn, reading)
                    await asyncio.sleep(0)
                if (
                    reading.is_final
                    or reading.total_bytes >= request.min_bytes
                    or loop.time() >= deadline
                    or self._is_stopping
                    or len(self._waiters) >= self._settings.fetch_waiters_max
                ):
                    return reading.response
                if request.isolation_level != types_pb2.READ_COMMITTED:
                    missing_bytes = request.min_bytes - reading.total_bytes
                self._waiters[waiter] = None
                timer = loop.call_at(deadline, waiter.notify, 2**62)
                try:
                    await waiter.future
                finally:
                    timer.cancel()
            finally:
                self._waiters.pop(waiter, None)
                for leader in leaders:
                    leader.unwatch(waiter.notify)

    def _leaders(self, request: pb.FetchRequest) -> Sequence[HostedPartition]:
        return [self._hosted.get(part.topic, part.partition) for part in request.partitions]

    def _read_all(self, request: pb.FetchRequest) -> tuple[pb.FetchResponse, int, bool]:
        """(answer, bytes of records in it, whether waiting is pointless because of an error)."""
        reading = _Reading(min(request.max_bytes or 2**31, self._settings.fetch_bytes_max))
        self._read_some(request, request.partitions, reading)
        return reading.response, reading.total_bytes, reading.is_final

    def _read_some(
        self, request: pb.FetchRequest, parts: Sequence[pb.FetchPartition], reading: "_Reading"
    ) -> None:
        for part in parts:
            answer = reading.response.partitions.add(topic=part.topic, partition=part.partition)
            try:
                is_first = reading.total_bytes == 0
                self._read(request, part, answer, reading.left_bytes, is_first=is_first)
            except KafkaError as error:
                reading.is_final = True
                self._refuse(answer, error)
            size_bytes = len(answer.records)
            reading.total_bytes += size_bytes
            reading.left_bytes -= size_bytes

    def _read(
        self,
        request: pb.FetchRequest,
        part: pb.FetchPartition,
        answer: pb.FetchedPartition,
        left_bytes: int,
        *,
        is_first: bool,
    ) -> None:
        leader = self._hosted.get(part.topic, part.partition)
        leader.require_leader_epoch(part.current_leader_epoch)
        log, offset = leader.log, part.fetch_offset
        is_committed_only = request.isolation_level == types_pb2.READ_COMMITTED
        last_stable_offset = leader.last_stable_offset
        answer.high_watermark = leader.high_watermark
        answer.last_stable_offset = last_stable_offset
        answer.log_start_offset = log.log_start_offset
        answer.leader = leader.leadership.leader
        answer.leader_epoch = leader.leadership.leader_epoch
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if request.read_to_log_end:
            # A coordinator loads its shard: from now on an older one must not append behind what this one reads.
            self._hosted.admit_loader(leader, request.coordinator_epoch)
            upper = log.log_end_offset
        else:
            upper = last_stable_offset if is_committed_only else leader.high_watermark
        bytes_max = min(part.max_bytes or 2**31, left_bytes)
        if offset >= upper or (bytes_max <= 0 and not is_first):
            return
        try:
            records, next_offset = _read_past_empty(log, offset, upper, max(bytes_max, 1))
            if not records or (len(records) > bytes_max and not is_first):
                return
            answer.records = records
            if is_committed_only:
                for entry in log.aborted_transactions(offset, next_offset):
                    answer.aborted_transactions.add(
                        producer_id=entry.producer_id, first_offset=entry.first_offset
                    )
        except StorageFailed as failure:
            answer.records = b""
            raise leader.take_offline(failure) from failure

    def _refuse(self, answer: pb.FetchedPartition, error: KafkaError) -> None:
        answer.error_code = error.error_code
        if error.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
        answer.leader, answer.leader_epoch = self._hosted.leader_of(
            Partition(answer.topic, answer.partition)
        )
