"""A partition with its log and its waiting requests: the I/O around `core.partition.PartitionReplica`.

A decision and its write are one synchronous step. What may happen before it (a verification, a check in a thread) and
after it (replication, a sync) is awaited by the callers.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.batch import LOG_APPEND_TIME, BatchHeader, stamp_max_timestamp
from oncelog.record.control import MARKER_BYTES
from oncelog.topic_config import FLUSH_NEVER
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Appended, MarkerToWrite
from oncelog_storage.core.verification import VerificationGuard
from oncelog_storage.files import PassingShortage, StorageFailed
from oncelog_storage.log import PartitionLog
from oncelog_storage.repeated_append import is_last_batch
from oncelog_storage.waiters import OffsetWaiters

_log = logging.getLogger(__name__)

_NEVER_MS: Final = 2**53
"""A flush.ms of this or more means that the log is never flushed by time; the default is the largest i64."""
_ANY_BYTES: Final = 2**31
"""The number that waiting fetches are told when the HW or LSO moved without an append, so that each of them wakes.

A waiting fetch subtracts the number of new bytes from those that it lacks (`watch`). This one is larger than any.
"""


class HostedPartition(PartitionReplica):
    """One partition that this node leads or follows, with its log and its waiting requests.

    The node calls `local_end_moved` after a sync that `request_flush` asked for.
    """

    log: PartitionLog

    def __init__(
        self,
        log: PartitionLog,
        *,
        flushes_always: bool,
        request_flush: Callable[["HostedPartition"], None],
        request_checkpoint: Callable[["HostedPartition"], None],
        checkpoint_bytes: int,
        high_watermark: int | None = None,
    ) -> None:
        super().__init__(log, high_watermark)
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flushes_always = flushes_always
        self._request_flush = request_flush
        self._request_checkpoint = request_checkpoint
        self._checkpoint_bytes = checkpoint_bytes
        self._commit_waiters = OffsetWaiters()
        self._local_waiters = OffsetWaiters()
        self._movement_waiters: dict[Callable[[int], None], None] = {}

    def take_offline(self, failure: StorageFailed) -> KafkaError:
        """Take the partition offline, because data that should be sound is not. Return the error for its requests.

        Other partitions go on. After a shortage of descriptors or memory the partition stays online, for the data may
        be sound.
        """
        if isinstance(failure, PassingShortage):
            _log.warning("%s", failure)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))
        if self.offline is None:
            self.offline = str(failure)
            _log.error("%s is offline: %s", self.partition, failure)
            self.release_waiters()
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)

    # Appending.

    def append_produced(
        self,
        records: bytes,
        header: BatchHeader,
        guard: VerificationGuard | None,
        *,
        needs_guard: bool,
        now: int,
    ) -> Appended:
        """Check a producer's batch (duplicate, sequence, epoch, transaction: rules 5 to 8 of docs/kafka-facts.md, 9),
        and write it.

        Return its place, or that of its first append. Raises KafkaError, KAFKA_STORAGE_ERROR included.
        """
        found = self.find_produced(header, guard, needs_guard=needs_guard)
        if found is not None:
            return found
        appended = self._write(records, header, now)
        self.written(header)
        counts = self.counts
        counts.produced_records += header.record_count
        counts.produced_bytes += len(records)
        return appended

    def append_from_coordinator(
        self,
        records: bytes,
        header: BatchHeader,
        coordinator_epoch: int,
        expected_base_offset: int | None,
        now: int,
    ) -> Appended:
        """Check a coordinator's batch by `find_from_coordinator`, and write it. Raises KafkaError."""
        found = self.find_from_coordinator(
            header,
            coordinator_epoch,
            expected_base_offset,
            lambda base_offset: is_last_batch(self.log, header, base_offset),
        )
        if found is not None:
            return found
        if not header.is_control:
            return self._write(records, header, now)
        base_offset = self.log.log_end_offset
        self.append_markers([self.marker_of_coordinator(records, header)], now)
        return Appended(base_offset, base_offset, -1)

    def append_markers(self, markers: Sequence[MarkerToWrite], now: int) -> None:
        """Write these markers together, so that the LSO passes them in one step.

        Raises KafkaError(KAFKA_STORAGE_ERROR), and then no marker is written.
        """
        if not markers:
            return
        try:
            self.log.append_markers(markers, self.leadership.leader_epoch, now)
        except StorageFailed as failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        self.markers_written(markers)
        self._grown(MARKER_BYTES * len(markers))

    def _write(self, records: bytes, header: BatchHeader, now: int) -> Appended:
        log_append_time = -1
        to_write: bytes | bytearray = records
        if self.log.config.is_log_append_time:
            log_append_time = now
            to_write = bytearray(records)
            stamp_max_timestamp(to_write, LOG_APPEND_TIME, now)
            attributes = header.attributes | LOG_APPEND_TIME
            header = header._replace(max_timestamp=now, attributes=attributes)
        try:
            base_offset = self.log.append(to_write, header, self.leadership.leader_epoch, now)
        except StorageFailed as failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        self._grown(len(records))
        return Appended(base_offset, base_offset + header.last_offset_delta, log_append_time)

    # What has moved, and who is told.

    def _grown(self, size_bytes: int) -> None:
        if not self.keep_up():
            self.local_end_moved(self.log.log_end_offset, size_bytes)
        if self.replicas is not None:
            self.replicas.appended(asyncio.get_running_loop().time())
            self.notify_replicas()

    def keep_up(self) -> bool:
        """Request the checkpoint or sync that is due after a write. Return True if a sync is requested or runs.

        The write then counts only after the sync, by `local_end_moved`.
        """
        log = self.log
        if log.bytes_since_checkpoint >= self._checkpoint_bytes:
            self._request_checkpoint(self)
        if self._flushes_always or log.unflushed_records >= log.config.flush_messages:
            self._request_flush(self)
        if log.config.flush_ms < _NEVER_MS and self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(
                log.config.flush_ms / 1000, self._flush_is_due
            )
        return self.is_flushing

    def _flush_is_due(self) -> None:
        self._flush_timer = None
        if self.log.unflushed_records:
            self._request_flush(self)

    def local_end_moved(self, offset: int, size_bytes: int = _ANY_BYTES) -> None:
        """Set the offset up to which this node has written and, if the topic wants it, synced. Wake the requests that
        wait for it. `size_bytes` is how much was appended; by default, waiting fetches wake in any case.
        """
        has_moved = self.move_local_end(offset)
        self._local_waiters.reached(offset)
        if has_moved:
            self.high_watermark_moved(size_bytes)

    def high_watermark_moved(self, size_bytes: int = _ANY_BYTES) -> None:
        """Wake the producers, readers and followers that wait for the high watermark, which has moved.

        A waiting fetch wakes if `size_bytes`, the number of new bytes, is enough for it; by default it is.
        """
        self._commit_waiters.reached(self.high_watermark)
        for notify in tuple(self._movement_waiters):
            notify(size_bytes)
        if self.replicas is not None:
            self.notify_replicas()

    def follow_replicas(self) -> None:
        """Move the high watermark to what the in-sync replicas have, and wake the requests that wait for it."""
        if self.move_with_followers():
            self.high_watermark_moved()

    def isr_changed(self) -> None:
        """Move the high watermark after the controller changed the ISR, or refuse waiting producers if it is too
        small.
        """
        if self.has_enough_replicas:
            self.follow_replicas()
        else:
            self.refuse_waiters(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    @property
    def commits_at_once(self) -> bool:
        """True if the next write is committed at once: it waits for no follower and no sync."""
        never_syncs = self.log.config.flush_messages >= FLUSH_NEVER and not self._flushes_always
        return self.replicas is None and never_syncs and not self.is_flushing

    async def wait_committed(self, last_offset: int, timeout_s: float) -> ErrorCode:
        """Wait until the high watermark has passed `last_offset`, and return NONE.

        Otherwise return REQUEST_TIMED_OUT after `timeout_s`, or the code that says why it never will.
        """
        if self.high_watermark > last_offset:
            return ErrorCode.NONE
        return await self._commit_waiters.wait(last_offset, timeout_s)

    async def wait_written(self, last_offset: int, timeout_s: float) -> ErrorCode:
        """Wait until `last_offset` is written here and, if the topic wants it, synced; return NONE. That is what acks=1
        asks for.

        Otherwise return REQUEST_TIMED_OUT after `timeout_s`, or another error code.
        """
        if self.local_end > last_offset:
            return ErrorCode.NONE
        return await self._local_waiters.wait(last_offset, timeout_s)

    def watch(self, notify: Callable[[int], None]) -> None:
        """Call `notify(number of new bytes)` whenever the high watermark or the last stable offset moves, until
        `unwatch`. The number is `_ANY_BYTES` where nothing was appended. Waiting fetches use this.
        """
        self._movement_waiters[notify] = None

    def unwatch(self, notify: Callable[[int], None]) -> None:
        self._movement_waiters.pop(notify, None)

    def release_waiters(self) -> None:
        """End all waits, because leadership, the topic or the disk is gone, or the node stops."""
        code = (
            ErrorCode.KAFKA_STORAGE_ERROR
            if self.offline is not None
            else ErrorCode.NOT_LEADER_OR_FOLLOWER
        )
        self.refuse_waiters(code)
        for notify in tuple(self._movement_waiters):
            notify(_ANY_BYTES)
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    def refuse_waiters(self, code: ErrorCode) -> None:
        """End the waits of producers, for a commit or for a write here, with this code.

        The records may be committed all the same.
        """
        self._commit_waiters.refuse(code)
        self._local_waiters.refuse(code)
