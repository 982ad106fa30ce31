"""A partition as its leader sees it: who may append, what is committed, and who waits for it.

```
LSO ≤ HW ≤ LEO     LEO grows with each write
                   HW follows: at once, or when the disk has synced (flush policy) and every in-sync follower has it
                   LSO follows the HW, held back by the oldest undecided transaction
```

Everything that decides about an append and the append itself happen in one synchronous step, so no lock is needed.
Expected refusals are `KafkaError`s that the servicer turns into codes; times are milliseconds since 1970.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import BatchHeader, Codec, read_single_batch, stamp_log_append_time
from oncelog.record.check import check_producer_batch
from oncelog.record.control import MARKER_BYTES, decode_marker
from oncelog.record.recompress import recompressed
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.leader_state import LeaderState
from oncelog_storage.core.produced import rules_of_topic
from oncelog_storage.core.producer_state import KeptBatch, ProducerEntry
from oncelog_storage.core.verification import VerificationGuard, Verifications
from oncelog_storage.files import PassingShortage, StorageFailed
from oncelog_storage.log import MarkerToWrite, PartitionLog, client_batch
from oncelog_storage.partition_values import (
    Appended,
    Leadership,
)
from oncelog_storage.repeated_append import is_last_batch
from oncelog_storage.waiters import OffsetWaiters

_log = logging.getLogger(__name__)

_NEVER_MS: Final = 2**53
"""A flush.ms of this or more means never; the default is the largest i64."""
_ANY_BYTES: Final = 2**31
"""Told to waiters when something moved that is no append."""


class PartitionLeader:
    """One partition of this node. `flush` asks for a sync of the log; `flushed` is called back when it is done."""

    def __init__(
        self,
        log: PartitionLog,
        *,
        flushes_always: bool,
        request_flush: Callable[["PartitionLeader"], None],
        request_checkpoint: Callable[["PartitionLeader"], None],
        checkpoint_bytes: int,
        high_watermark: int | None = None,
    ) -> None:
        self.log = log
        self.verifications = Verifications()
        self.high_watermark = log.log_end_offset if high_watermark is None else high_watermark
        self.local_end = log.log_end_offset
        """Up to here this node has done its part: written, and synced where that is asked for."""
        self.replicas: LeaderState | None = None
        """While this node leads the partition and there are other replicas."""
        self.is_truncating = False
        log.producers.high_watermark_moved(self.high_watermark)
        self.leadership = Leadership(-1, -1, False, 0, 0)
        self.offline: str | None = None
        self.coordinator_epoch = -1
        self.is_flushing = False
        self._flush_timer: asyncio.TimerHandle | None = None
        self._flushes_always = flushes_always
        self._request_flush = request_flush
        self._request_checkpoint = request_checkpoint
        self._checkpoint_bytes = checkpoint_bytes
        self._commit_waiters = OffsetWaiters()
        self._local_waiters = OffsetWaiters()
        self._movement_waiters: dict[Callable[[int], None], None] = {}
        self._replica_watchers: tuple[Callable[[], None], ...] = ()

    @property
    def partition(self) -> Partition:
        return self.log.partition

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    # What may be read.

    @property
    def last_stable_offset(self) -> int:
        """The offset a read_committed consumer may not reach (facts 9).

        The smaller of the high watermark and the first offset of the oldest undecided transaction, and never below the
        log's start, which may have passed that offset.
        """
        first_unstable = self.log.producers.first_unstable_offset()
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log.log_start_offset)

    def lso_holder(self) -> ProducerEntry | None:
        """The producer whose open transaction holds the LSO below the HW."""
        entry = self.log.producers.oldest_ongoing()
        if entry is None or entry.current_txn_first_offset > self.last_stable_offset:
            return None
        return entry

    # Refusals.

    def require_leader(self) -> None:
        """Raises KafkaError(NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR)."""
        if not self.leadership.is_here:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.partition} is led by node {self.leadership.leader}",
            )
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)

    def require_leader_epoch(self, current_leader_epoch: int) -> None:
        """The epoch a client believes in, -1 for none (KIP-320). Raises KafkaError(FENCED… or UNKNOWN_LEADER_EPOCH)."""
        leader_epoch = self.leadership.leader_epoch
        if 0 <= current_leader_epoch < leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if current_leader_epoch > leader_epoch:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def require_enough_replicas(self) -> None:
        """acks=all needs min.insync.replicas, or all there are if the topic has fewer. Raises KafkaError."""
        if not self.has_enough_replicas:
            raise KafkaError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self.partition} has {self.leadership.isr_count} in-sync replicas,"
                f" min.insync.replicas={self.log.config.min_insync_replicas}",
            )

    @property
    def has_enough_replicas(self) -> bool:
        leadership, wanted = self.leadership, self.log.config.min_insync_replicas
        if leadership.isr_count >= wanted:
            return True
        return max(leadership.isr_count, 1) >= min(wanted, max(leadership.replica_count, 1))

    def take_offline(self, failure: StorageFailed) -> KafkaError:
        """Data that should be sound is not: serve nothing more from here. The other partitions go on.

        A shortage of descriptors or memory says nothing about the data: it is answered and the partition stays.
        """
        if isinstance(failure, PassingShortage):
            _log.warning("%s", failure)
            return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure))
        if self.offline is None:
            self.offline = str(failure)
            _log.error("%s is offline: %s", self.partition, failure)
            self.release_waiters()
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)

    # Produce.

    def header_of_produced(self, records: bytes) -> BatchHeader:
        """The header of a client's batch that is whole and not too large. Raises KafkaError."""
        return read_single_batch(records, self.log.config.max_message_bytes)

    def check_produced(
        self,
        records: bytes,
        header: BatchHeader,
        now: int,
        pause: Callable[[], None] | None = None,
    ) -> None:
        """Raise KafkaError unless the batch may be appended as far as its records go. A thread may call it, with
        `pause`."""
        rules = rules_of_topic(self.log.config, now)
        check_producer_batch(records, header, rules, pause)

    def wants_other_codec(self, header: BatchHeader) -> bool:
        """The topic's compression.type is neither `producer` nor the batch's codec."""
        codec = self.log.config.codec
        return codec is not None and codec != header.codec

    def recompressed(self, records: bytes) -> bytes:
        """The batch in the topic's codec. Raises KafkaError(MESSAGE_TOO_LARGE) when it is too long in that one.

        It takes CPU for as long as the batch is large; it reads nothing but the config, so any thread may do it.
        """
        config = self.log.config
        changed = recompressed(records, config.codec or Codec.NONE, config.compression_level)
        if len(changed) > config.max_message_bytes:
            raise KafkaError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{self.partition}: the batch has {len(changed)} bytes in the topic's compression.type,"
                f" above max.message.bytes={config.max_message_bytes}",
            )
        return changed

    def find_duplicate(self, header: BatchHeader) -> Appended | None:
        """The answer to a batch that is here already: its first offset and timestamp (facts 9, rule 5)."""
        if header.producer_id < 0:
            return None
        kept = self.log.producers.find_duplicate(client_batch(header))
        return None if kept is None else self._repeated(kept)

    def begin_verification(
        self, header: BatchHeader, *, supports_epoch_bump: bool, now: int
    ) -> VerificationGuard | None:
        """The guard under which the coordinator must be asked; None when this transaction is known here.

        Raises KafkaError(INVALID_PRODUCER_EPOCH) for a stale epoch.
        """
        producers = self.log.producers
        error = producers.check_epoch(header.producer_id, header.producer_epoch)
        if error:
            raise _refused(error, header)
        if producers.has_ongoing_transaction(header.producer_id, header.producer_epoch):
            return None
        return self.verifications.begin(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            supports_epoch_bump=supports_epoch_bump,
            now=now,
        )

    def append_produced(
        self,
        records: bytes,
        header: BatchHeader,
        guard: VerificationGuard | None,
        *,
        needs_guard: bool,
        now: int,
    ) -> Appended:
        """Rules 5 to 8 of facts 9, then the write. Raises KafkaError, KAFKA_STORAGE_ERROR included."""
        if header.producer_id < 0:
            return self._write(records, header, now)
        producers = self.log.producers
        batch = client_batch(header)
        kept = producers.find_duplicate(batch)
        if kept is not None:
            return self._repeated(kept)
        if (
            header.is_transactional
            and needs_guard
            and not producers.has_ongoing_transaction(header.producer_id, header.producer_epoch)
            and not self.verifications.is_verified(header.producer_id, guard)
        ):
            raise KafkaError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {header.producer_id} has no transaction under way in {self.partition}",
            )
        error = producers.check_batch(batch, self.verifications.get(header.producer_id))
        if error:
            raise _refused(error, header)
        appended = self._write(records, header, now)
        if header.is_transactional:
            self.verifications.appended(header.producer_id, header.producer_epoch, False)
        return appended

    def append_from_coordinator(
        self,
        records: bytes,
        header: BatchHeader,
        coordinator_epoch: int,
        expected_base_offset: int | None,
        now: int,
    ) -> Appended:
        """A coordinator's batch into its shard. Raises KafkaError.

        A coordinator is an idempotent producer to its shard, so a retry of an append whose answer was lost is answered
        with the first one's offset. It is fenced by its coordinator epoch, which the caller has made durable, and by
        where it expects the log to end: one that has not read the newest record must not decide past it.

        A group's coordinator also appends for transactions: offsets under the client's producer id without sequences,
        and the markers that end them (ADR 0015). The log's end tells whether those are here already.
        """
        if coordinator_epoch < self.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is older than {self.coordinator_epoch} in {self.partition}",
            )
        self.coordinator_epoch = coordinator_epoch
        if header.producer_id >= 0:
            batch = client_batch(header)
            kept = self.log.producers.find_duplicate(batch)
            if kept is not None:
                return self._repeated(kept)
            # A marker's epochs were checked where its transaction's version is known.
            error = ErrorCode.NONE if header.is_control else self.log.producers.check_batch(batch)
            if error:
                raise _refused(error, header)
        if expected_base_offset is not None and expected_base_offset != self.log.log_end_offset:
            if header.base_sequence < 0 and is_last_batch(self.log, header, expected_base_offset):
                last_offset = expected_base_offset + header.last_offset_delta
                return Appended(expected_base_offset, last_offset, -1, True)
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"{self.partition} ends at {self.log.log_end_offset}, not at {expected_base_offset}",
            )
        if header.is_control:
            return self._append_coordinators_marker(records, header, now)
        return self._write(records, header, now)

    def _append_coordinators_marker(
        self, records: bytes, header: BatchHeader, now: int
    ) -> Appended:
        """The group's coordinator has checked it against the transaction's version; here the plainest rule is kept."""
        marker = decode_marker(records)
        if marker is None or len(records) != MARKER_BYTES:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a control batch that ends no transaction")
        base_offset = self.log.log_end_offset
        self.append_markers(
            [
                MarkerToWrite(
                    header.producer_id,
                    header.producer_epoch,
                    marker.coordinator_epoch,
                    marker.is_commit,
                    bytearray(records),
                )
            ],
            now,
        )
        return Appended(base_offset, base_offset, -1)

    def append_markers(self, markers: Sequence[MarkerToWrite], now: int) -> None:
        """Together, so that the LSO passes them in one step.

        Raises KafkaError(KAFKA_STORAGE_ERROR): none is written."""
        if not markers:
            return
        try:
            self.log.append_markers(markers, self.leadership.leader_epoch, now)
        except StorageFailed as failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        for marker in markers:
            self.verifications.appended(marker.producer_id, marker.producer_epoch, True)
        self._grown(MARKER_BYTES * len(markers))

    def _write(self, records: bytes, header: BatchHeader, now: int) -> Appended:
        log_append_time = -1
        to_write: bytes | bytearray = records
        if self.config.is_log_append_time:
            log_append_time = now
            to_write = bytearray(records)
            stamp_log_append_time(to_write, now)
            header = header._replace(max_timestamp=now)
        try:
            base_offset = self.log.append(to_write, header, self.leadership.leader_epoch, now)
        except StorageFailed as failure:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(failure)) from failure
        self._grown(len(records))
        return Appended(base_offset, base_offset + header.last_offset_delta, log_append_time)

    def _repeated(self, kept: KeptBatch) -> Appended:
        timestamp = kept.timestamp if self.config.is_log_append_time else -1
        return Appended(kept.base_offset, kept.last_offset, timestamp, True)

    # High watermark.

    def _grown(self, size_bytes: int) -> None:
        if not self.keep_up():
            self.local_end_moved(self.log.log_end_offset, size_bytes)
        if self.replicas is not None:
            self.replicas.appended(asyncio.get_running_loop().time())
            self.tell_replicas()

    def keep_up(self) -> bool:
        """After a write: ask for the checkpoint or sync that is due. Returns whether a sync is awaited."""
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
        """This node has done its part up to `offset`."""
        self.local_end = offset
        self._local_waiters.reached(offset)
        if self.replicas is not None:
            self.follow_replicas(size_bytes)
        elif self.leadership.is_here:
            self.advance_high_watermark(offset, size_bytes)

    def follow_replicas(self, size_bytes: int = _ANY_BYTES) -> None:
        """Move the high watermark to what the followers have. It never moves back.

        Below min.insync.replicas it stands still: what is committed must be on that many nodes (KIP-966).
        """
        assert self.replicas is not None
        reached = self.replicas.high_watermark(self.local_end)
        if reached > self.high_watermark and self.has_enough_replicas:
            self.advance_high_watermark(reached, size_bytes)
            self.tell_replicas()

    def isr_changed(self) -> None:
        """The controller has decided: the high watermark may move, or commitment has become impossible for now."""
        if self.has_enough_replicas:
            self.follow_replicas()
        else:
            self.refuse_waiters(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def advance_high_watermark(self, offset: int, size_bytes: int = _ANY_BYTES) -> None:
        """Records below `offset` are committed; whoever waits for them is told."""
        self.high_watermark = offset
        self.log.producers.high_watermark_moved(offset)
        self._commit_waiters.reached(offset)
        for notify in tuple(self._movement_waiters):
            notify(size_bytes)

    def follow_high_watermark(self, offset: int) -> None:
        """As a follower: what the leader said of the high watermark, as far as the log goes here."""
        if offset > self.high_watermark:
            self.high_watermark = offset
            self.log.producers.high_watermark_moved(offset)

    def truncated(self) -> None:
        """The log is shorter now, or empty and elsewhere."""
        log = self.log
        # An empty log may begin behind where the old one ended, and has nothing that this node could still do.
        self.local_end = (
            min(self.local_end, log.log_end_offset) if log.segments else log.log_end_offset
        )
        self.high_watermark = max(
            min(self.high_watermark, log.log_end_offset), log.log_start_offset
        )
        log.producers.high_watermark_moved(self.high_watermark)

    async def wait_committed(self, last_offset: int, timeout_s: float) -> ErrorCode:
        """NONE once the high watermark has passed `last_offset`; REQUEST_TIMED_OUT, or why it never will."""
        if self.high_watermark > last_offset:
            return ErrorCode.NONE
        return await self._commit_waiters.wait(last_offset, timeout_s)

    async def wait_written(self, last_offset: int, timeout_s: float) -> ErrorCode:
        """NONE once this node has done its part for `last_offset`: what acks=1 asks for."""
        if self.local_end > last_offset:
            return ErrorCode.NONE
        return await self._local_waiters.wait(last_offset, timeout_s)

    def tell_replicas(self) -> None:
        """Followers have something to fetch: records, a high watermark, a log start or another leader."""
        for tell in self._replica_watchers:
            tell()

    def add_replica_watcher(self, tell: Callable[[], None]) -> None:
        self._replica_watchers = (*self._replica_watchers, tell)

    def remove_replica_watcher(self, tell: Callable[[], None]) -> None:
        self._replica_watchers = tuple(each for each in self._replica_watchers if each != tell)

    def watch(self, notify: Callable[[int], None]) -> None:
        """Call `notify(bytes)` whenever HW or LSO move, until `unwatch`."""
        self._movement_waiters[notify] = None

    def unwatch(self, notify: Callable[[int], None]) -> None:
        self._movement_waiters.pop(notify, None)

    def release_waiters(self) -> None:
        """Leadership, the topic or the disk is gone, or the node stops: nobody may wait on."""
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
        """Whoever waits for a commit gets this answer; the record may be there all the same."""
        self._commit_waiters.refuse(code)
        self._local_waiters.refuse(code)


def _refused(error: ErrorCode, header: BatchHeader) -> KafkaError:
    return KafkaError(
        error,
        f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}",
    )
