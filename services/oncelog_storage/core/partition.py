"""A partition that this node leads or follows: who may append, what is committed, and what a reader may see.

```
LSO ≤ HW ≤ LEO     LEO grows with each write
                   HW follows: at once, or when the disk has synced (flush policy) and every in-sync follower has it
                   LSO follows the HW, held back by the oldest undecided transaction
```

Pure: nothing here writes, waits or reads a clock. `HostedPartition` asks for a decision and makes the write in one
synchronous step, so no lock is needed. Methods named `move_…` return whether the high watermark moved. At a follower
`follow_high_watermark` moves it and wakes nobody: no reader waits there today (KIP-392 would have to wake them).
Expected refusals are `KafkaError`s that the servicer turns into codes; times are milliseconds since 1970.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import INTERNAL_TOPICS
from oncelog.record.batch import BatchHeader, Codec, read_single_batch
from oncelog.record.check import check_producer_batch
from oncelog.record.control import MARKER_BYTES, decode_marker
from oncelog.record.recompress import recompressed
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.checkpoint_files import encode_topic_id
from oncelog_storage.core.leader_state import LeaderState, Liveness
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.partition_values import (
    Appended,
    Divergence,
    FollowerPosition,
    Leadership,
    MarkerToWrite,
    PositionTaken,
)
from oncelog_storage.core.produced import rules_of_topic
from oncelog_storage.core.producer_state import KeptBatch, ProducerEntry
from oncelog_storage.core.topic_counts import TopicCounts
from oncelog_storage.core.verification import VerificationGuard, Verifications

UNKNOWN_LEADERSHIP: Final = Leadership(-1, -1, False, 0, 0)


class PartitionReplica:
    """One partition of this node, led or followed: it decides what is appended, committed and read.

    It changes nothing of `log` but the producer state.
    """

    def __init__(self, log: LogState, high_watermark: int | None = None) -> None:
        self.log = log
        self.partition: Final = log.partition
        self.counts = TopicCounts()
        """Counters of the partition's topic on this node."""
        self.verifications = Verifications()
        self.high_watermark = log.log_end_offset if high_watermark is None else high_watermark
        self.local_end = log.log_end_offset
        """Below this offset the node has done its part: records are written, and synced where the topic wants it."""
        self.replicas: LeaderState | None = None
        """The state of the followers, while this node leads the partition and there are other replicas; otherwise None.
        """
        self.leadership = UNKNOWN_LEADERSHIP
        self.offline: str | None = None
        """The reason why the partition serves nothing: data that should be sound is not. None: it is served."""
        self.coordinator_epoch = -1
        self.is_truncating = False
        """True if the log is about to be cut, or begins again."""
        self.is_flushing = False
        """True if a sync of the log is under way or wanted."""
        self._replica_watchers: tuple[Callable[[], None], ...] = ()
        log.producers.high_watermark_moved(self.high_watermark)

    @property
    def config(self) -> TopicConfig:
        return self.log.config

    # Leading and following.

    def leads_in(self, leader_epoch: int) -> bool:
        """True if this node leads the partition with followers in this leader epoch."""
        return self.replicas is not None and self.replicas.leader_epoch == leader_epoch

    def lead(
        self,
        node_id: int,
        leader_epoch: int,
        replicas: Iterable[int],
        isr: Iterable[int],
        partition_epoch: int,
        now_s: float,
    ) -> None:
        """Lead the partition, as the metadata say. A new leader epoch begins at the log's end.

        The caller has already entered the epoch into the log. `now_s` is monotonic.
        """
        if self.replicas is not None and self.leads_in(leader_epoch):
            self.replicas.image_moved(replicas, isr, partition_epoch, now_s)
            return
        self.verifications = Verifications()
        self._learn_coordinator_epoch()
        log_end_offset = self.log.log_end_offset
        self.replicas = LeaderState(
            node_id, leader_epoch, log_end_offset, replicas, isr, partition_epoch, now_s
        )

    def follow(self) -> None:
        """Follow another leader: drop the state of followers, and the verification guards (KIP-890) of transactions.

        That leader writes the markers that would invalidate these guards.
        """
        self.replicas = None
        self.verifications = Verifications()

    def _learn_coordinator_epoch(self) -> None:
        """Set the coordinator epoch of an internal topic's partition to the greatest one in its log (ADR 0016).

        A coordinator's own batches carry it as producer epoch. Producers with a transaction, open or ended, are
        clients, whose epochs do not count.
        """
        if self.partition.topic not in INTERNAL_TOPICS:
            return
        for entry in self.log.producers.entries():
            if entry.coordinator_epoch < 0 and entry.current_txn_first_offset < 0:
                self.coordinator_epoch = max(self.coordinator_epoch, entry.producer_epoch)

    # What may be read.

    @property
    def last_stable_offset(self) -> int:
        """The offset that a read_committed consumer may not reach (docs/kafka-facts.md, 9).

        It is the smaller of the high watermark and the first offset of the oldest undecided transaction. It is never
        below the log's start, which may have passed that offset.
        """
        first_unstable = self.log.producers.first_unstable_offset()
        if first_unstable is None or first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(first_unstable, self.log.log_start_offset)

    def lso_holder(self) -> ProducerEntry | None:
        """Return the producer whose open transaction holds the LSO below the HW; None if there is none."""
        entry = self.log.producers.oldest_ongoing()
        if entry is None or entry.current_txn_first_offset > self.last_stable_offset:
            return None
        return entry

    # Refusals.

    def require_leader(self) -> None:
        """Check that this node leads the partition and serves it.

        Raises KafkaError(NOT_LEADER_OR_FOLLOWER or KAFKA_STORAGE_ERROR).
        """
        if not self.leadership.is_here:
            raise KafkaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.partition} is led by node {self.leadership.leader}",
            )
        if self.offline is not None:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline)

    def require_leader_epoch(self, current_leader_epoch: int) -> None:
        """Check the leader epoch that a client knows; -1 for none (KIP-320).

        Raises KafkaError(FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH).
        """
        leader_epoch = self.leadership.leader_epoch
        if 0 <= current_leader_epoch < leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)
        if current_leader_epoch > leader_epoch:
            raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def require_topic(self, topic_id: bytes, error_code: ErrorCode) -> None:
        """Check the topic id that a client meant; empty stands for any topic of this name.

        Raises KafkaError for another topic.
        """
        if topic_id and topic_id != self.log.topic_id:
            raise KafkaError(
                error_code,
                f"{self.partition} is of the topic with id {encode_topic_id(self.log.topic_id)} here,"
                f" not of the one with {encode_topic_id(topic_id)}",
            )

    def require_enough_replicas(self) -> None:
        """Check that acks=all is possible: it needs min.insync.replicas, or all replicas if the topic has fewer.

        Raises KafkaError.
        """
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

    # Produce.

    def header_of_produced(self, records: bytes) -> BatchHeader:
        """Return the header of a client's batch that is whole and not too large. Raises KafkaError."""
        return read_single_batch(records, self.log.config.max_message_bytes)

    def check_produced(
        self,
        records: bytes,
        header: BatchHeader,
        now: int,
        pause: Callable[[], None] | None = None,
    ) -> bytes:
        """Check the records of a client's batch. Return the batch as it may be appended.

        A thread may call this, with a `pause` that is called now and then to let other threads run. Raises KafkaError.
        """
        rules = rules_of_topic(self.log.config, now)
        return check_producer_batch(records, header, rules, pause)

    def wants_other_codec(self, header: BatchHeader) -> bool:
        """True if the topic's compression.type is neither `producer` nor the batch's codec."""
        codec = self.log.config.codec
        return codec is not None and codec != header.codec

    def recompressed(self, records: bytes) -> bytes:
        """Return the batch in the topic's codec. Raises KafkaError(MESSAGE_TOO_LARGE) if it is too long in that codec.

        This takes CPU time by the size of the batch. It reads nothing but the config, so any thread may call it.
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
        """Return the first offset and timestamp of a batch that was appended before (docs/kafka-facts.md, 9, rule 5);
        None if it was not.
        """
        if header.producer_id < 0:
            return None
        kept = self.log.producers.find_duplicate(header)
        return None if kept is None else self._repeated(kept)

    def begin_verification(
        self, header: BatchHeader, *, supports_epoch_bump: bool, now: int
    ) -> VerificationGuard | None:
        """Return the guard (KIP-890) of a transaction that the coordinator must be asked about. None: it is open here
        already.

        Raises KafkaError(INVALID_PRODUCER_EPOCH) for a stale epoch. `now` is in ms.
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

    def find_produced(
        self,
        header: BatchHeader,
        guard: VerificationGuard | None,
        *,
        needs_guard: bool,
    ) -> Appended | None:
        """Check a batch's sequence, epoch and transaction (rules 5 to 8 of docs/kafka-facts.md, 9). None: the batch may
        be written.

        Otherwise the batch was appended before, and its first place is returned. Raises KafkaError.
        """
        if header.producer_id < 0:
            return None
        producers = self.log.producers
        kept = producers.find_duplicate(header)
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
        error = producers.check_batch(header, self.verifications.get(header.producer_id))
        if error:
            raise _refused(error, header)
        return None

    def find_from_coordinator(
        self,
        header: BatchHeader,
        coordinator_epoch: int,
        expected_base_offset: int | None,
        is_last_batch: Callable[[int], bool],
    ) -> Appended | None:
        """Check a coordinator's batch for its shard (its partition of an internal topic). None: the batch may be
        written.

        Otherwise the batch was appended before, and its first place is returned. A coordinator is an idempotent
        producer to its shard, so a retry gets the offset of the first append. The coordinator is fenced by its
        coordinator epoch, which the caller has made durable, and by where it expects the log to end. A coordinator that
        has not read the newest record must not decide past it.

        A group's coordinator also appends for transactions: offsets under the client's producer id without sequences,
        and the markers that end them (ADR 0015). `is_last_batch(base_offset)` says whether the log ends with this very
        batch there. Raises KafkaError.
        """
        if coordinator_epoch < self.coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"coordinator epoch {coordinator_epoch} is older than {self.coordinator_epoch} in {self.partition}",
            )
        self.coordinator_epoch = coordinator_epoch
        log = self.log
        if header.producer_id >= 0:
            kept = log.producers.find_duplicate(header)
            if kept is not None:
                return self._repeated(kept)
            # A marker's epochs were checked where its transaction's version is known.
            error = ErrorCode.NONE if header.is_control else log.producers.check_batch(header)
            if error:
                raise _refused(error, header)
        if expected_base_offset is not None and expected_base_offset != log.log_end_offset:
            if header.base_sequence < 0 and is_last_batch(expected_base_offset):
                last_offset = expected_base_offset + header.last_offset_delta
                return Appended(expected_base_offset, last_offset, -1, True)
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"{self.partition} ends at {log.log_end_offset}, not at {expected_base_offset}",
            )
        return None

    def marker_of_coordinator(self, records: bytes, header: BatchHeader) -> MarkerToWrite:
        """Return the marker in a control batch of a group's coordinator, which has checked it against the transaction's
        version.

        Raises KafkaError(INVALID_RECORD) for bytes that are no marker.
        """
        marker = decode_marker(records)
        if marker is None or len(records) != MARKER_BYTES:
            raise KafkaError(ErrorCode.INVALID_RECORD, "a control batch that ends no transaction")
        return MarkerToWrite(
            header.producer_id,
            header.producer_epoch,
            marker.coordinator_epoch,
            marker.is_commit,
            bytearray(records),
        )

    def written(self, header: BatchHeader) -> None:
        """Drop the verification of a client's transactional batch, because the batch is in the log."""
        if header.is_transactional:
            self.verifications.appended(header.producer_id, header.producer_epoch, False)

    def markers_written(self, markers: Sequence[MarkerToWrite]) -> None:
        for marker in markers:
            self.verifications.appended(marker.producer_id, marker.producer_epoch, True)

    def _repeated(self, kept: KeptBatch) -> Appended:
        timestamp = kept.timestamp if self.config.is_log_append_time else -1
        return Appended(kept.base_offset, kept.last_offset, timestamp, True)

    # High watermark.

    def move_local_end(self, offset: int) -> bool:
        """Set the offset below which this node's records are written and, if the topic wants it, synced. Return True if
        the high watermark moved.
        """
        self.local_end = offset
        if self.replicas is not None:
            return self.move_with_followers()
        if self.leadership.is_here:
            self._move_high_watermark(offset)
        return self.leadership.is_here

    def move_with_followers(self) -> bool:
        """Move the high watermark to what the followers have; it never moves back. Return True if it moved.

        Below min.insync.replicas it stands still: a committed record must be on that many nodes (KIP-966).
        """
        assert self.replicas is not None
        reached = self.replicas.high_watermark(self.local_end)
        if reached <= self.high_watermark or not self.has_enough_replicas:
            return False
        self._move_high_watermark(reached)
        return True

    def _move_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        self.log.producers.high_watermark_moved(offset)

    def follow_high_watermark(self, offset: int) -> None:
        """Follow the leader's high watermark, as far as the log on this follower goes."""
        reached = min(offset, self.log.log_end_offset)
        if reached > self.high_watermark:
            self._move_high_watermark(reached)

    def truncated(self, *, has_started_over: bool) -> None:
        """Move the local end and the high watermark back after the log was cut.

        `has_started_over` says that the log is empty now, and may begin at another offset.
        """
        log = self.log
        # An empty log may begin behind where the old one ended, and has nothing that this node could still do.
        self.local_end = (
            log.log_end_offset if has_started_over else min(self.local_end, log.log_end_offset)
        )
        self._move_high_watermark(
            max(min(self.high_watermark, log.log_end_offset), log.log_start_offset)
        )

    # Followers.

    def notify_replicas(self) -> None:
        """Wake the followers: there are records, a high watermark, a log start or another leader to fetch."""
        for notify in self._replica_watchers:
            notify()

    def add_replica_watcher(self, notify: Callable[[], None]) -> None:
        self._replica_watchers = (*self._replica_watchers, notify)

    def remove_replica_watcher(self, notify: Callable[[], None]) -> None:
        self._replica_watchers = tuple(each for each in self._replica_watchers if each != notify)

    def take_position(
        self,
        node_id: int,
        node_epoch: int,
        position: FollowerPosition,
        liveness: Liveness,
        now_s: float,
    ) -> PositionTaken:
        """Count a follower as having everything below its fetch offset, if its history is this log's. Return what that
        changed.

        `now_s` is monotonic. Raises KafkaError(REPLICA_NOT_AVAILABLE) if this node does not lead the partition with
        followers, or if the other node is no replica.
        """
        log, state = self.log, self.replicas
        if state is None or node_id not in state.followers:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        diverging = self.divergence(position.last_fetched_leader_epoch, position.fetch_offset)
        offset = position.fetch_offset
        if diverging is not None or not log.log_start_offset <= offset <= log.log_end_offset:
            return PositionTaken(diverging)
        progress = state.followers[node_id]
        progress.fetched(offset, log.log_end_offset, node_epoch, liveness, now_s)
        has_log_start_moved = progress.log_start_offset != position.log_start_offset
        progress.log_start_offset = position.log_start_offset
        if node_id in state.isr or state.pending is not None:
            return PositionTaken(None, has_log_start_moved, self.move_with_followers())
        may_join = state.may_join(node_id, self.high_watermark)
        return PositionTaken(None, has_log_start_moved, may_join=may_join)

    def divergence(self, last_epoch: int, fetch_offset: int) -> Divergence | None:
        """Return where a follower's log diverges from this one (KIP-595); None if it does not."""
        log = self.log
        if last_epoch < 0:
            return None
        epoch, end_offset = log.leader_epochs.end_offset_for(last_epoch, log.log_end_offset)
        if epoch < 0:
            # An epoch that nobody here knows: its records are none of this history.
            is_before = fetch_offset <= log.log_start_offset
            return None if is_before else Divergence(-1, log.log_start_offset)
        if epoch < last_epoch or end_offset < fetch_offset:
            return Divergence(epoch, end_offset)
        return None


def _refused(error: ErrorCode, header: BatchHeader) -> KafkaError:
    return KafkaError(
        error,
        f"producer {header.producer_id} epoch {header.producer_epoch} sequence {header.base_sequence}",
    )
