"""The producer state of a partition: its memory of producers, for exactly-once appends (docs/kafka-facts.md, 1.2, 9).

Per producer id: its epoch, its last five batches (so that a retry is recognised and answered with the offset it got
the first time), the coordinator epoch of its last marker, and where its open transaction begins. Per partition: the
transactions that are undecided, which together with the high watermark give the last stable offset.

```
check_batch / check_marker ── read ──▶ ErrorCode     (before the write)
apply_batch / apply_marker ── write ─▶ new state     (after it; also used by replay, which checks nothing)
```

A transaction that has its marker still holds the LSO until the high watermark has passed the marker: the next leader
might not have it. Times are milliseconds since 1970.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode
from oncelog.ids import (
    NO_COORDINATOR_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    PRODUCER_EPOCH_MAX,
    SEQUENCE_MAX,
    SeenTransaction,
)
from oncelog.record.batch import BatchHeader, largest_timestamp
from oncelog_storage.core.verification import VerificationEntry

BATCHES_KEPT: Final = 5
"""The number of batches kept for each producer, which is how far a retry may lie back.

It is the Java client's largest max.in.flight.requests.per.connection with idempotence (docs/kafka-facts.md, 10).
"""

NO_OFFSET: Final = -1


class KeptBatch(NamedTuple):
    """One of a producer's last batches, kept to recognise a retry. `last_sequence` is -1 for a batch without
    sequences.
    """

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that has just got its marker at `marker_offset`.

    `last_stable_offset` is the LSO after the HW has passed the marker; the aborted index keeps it.
    """

    producer_id: int
    first_offset: int
    marker_offset: int
    is_commit: bool
    last_stable_offset: int


class ProducerEntry:
    """The state of one producer id in one partition."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "last_timestamp",
        "producer_epoch",
        "producer_id",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.producer_epoch: int = NO_PRODUCER_EPOCH
        self.coordinator_epoch: int = NO_COORDINATOR_EPOCH
        self.last_timestamp = -1
        self.current_txn_first_offset = NO_OFFSET
        self.batches: deque[KeptBatch] = deque(maxlen=BATCHES_KEPT)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    def move_to_epoch(self, producer_epoch: int) -> None:
        """Move to this producer epoch. Sequences belong to an epoch, so a new epoch starts without batches."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


class ProducerStates:
    """The producer states of one partition, with its undecided transactions."""

    def __init__(self) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self.has_forgotten = False
        """True if a producer that wrote here may have no entry: it expired, or this memory began with a part of the
        log.
        """
        # First offset → producer id. Transactions begin in offset order, so the first key is the oldest.
        self._ongoing: dict[int, int] = {}
        # First offset → marker offset, for markers that the high watermark has not passed.
        self._unreplicated: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def entries(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    # Checks: they read.

    def find_duplicate(self, batch: BatchHeader) -> KeptBatch | None:
        """Return the kept batch that this one repeats exactly, at the same epoch; None if there is none.

        The kept batch's offset is the answer (docs/kafka-facts.md, 9, rule 5).
        """
        entry = self._entries.get(batch.producer_id)
        if entry is None or entry.producer_epoch != batch.producer_epoch or batch.base_sequence < 0:
            return None
        if 0 <= entry.last_sequence == batch.base_sequence - 1:
            return None  # The batch follows the last one, as nearly all do.
        last_sequence = batch.last_sequence
        for kept in entry.batches:
            # Batches that end at the same sequence and are as long begin at the same one.
            if kept.last_sequence == last_sequence and kept.offset_delta == batch.last_offset_delta:
                return kept
        return None

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """True if the producer has an open transaction at this epoch.

        One at another epoch does not count (docs/kafka-facts.md, 1.2).
        """
        entry = self._entries.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset >= 0
            and entry.producer_epoch == producer_epoch
        )

    def has_any_ongoing_transaction(self, producer_id: int) -> bool:
        """True if the producer has an open transaction, at any producer epoch."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.current_txn_first_offset >= 0

    def is_as_seen(self, producer_id: int, seen: SeenTransaction) -> bool:
        """True if the producer's open transaction is the one that an operator has seen, and has not grown since.

        A producer of TV1 may begin again at the same epoch. If its last transaction hangs, its new records belong to
        that one, and only the last offset shows that.
        """
        entry = self._entries.get(producer_id)
        return entry is not None and seen == (entry.current_txn_first_offset, entry.last_offset)

    def check_epoch(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        """Return INVALID_PRODUCER_EPOCH for a stale producer epoch, else NONE: rule 1 of docs/kafka-facts.md, 9."""
        entry = self._entries.get(producer_id)
        if entry is not None and producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        return ErrorCode.NONE

    def check_batch(
        self, batch: BatchHeader, verification: VerificationEntry | None = None
    ) -> ErrorCode:
        """Return the error code of a batch that is no duplicate: rules 1, 6 and 7 of docs/kafka-facts.md, 9 on epoch,
        sequence and transaction.

        A base sequence of -1 is a coordinator's batch on a client's behalf (docs/kafka-facts.md, 5.2): epochs count,
        sequences do not.
        """
        entry = self._entries.get(batch.producer_id)
        if entry is not None and batch.producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if batch.base_sequence >= 0 and not self._is_in_sequence(entry, batch, verification):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        if entry is not None and entry.current_txn_first_offset >= 0 and not batch.is_transactional:
            return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def check_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        transaction_version: int,
    ) -> ErrorCode:
        """Return NONE if this marker may be written, else its error code (docs/kafka-facts.md, 9, "Markers").

        A marker of an unknown producer id is accepted. Under TV2 an end of a transaction raises the epoch. So a marker
        at the stored epoch is late and must not end the transaction that has begun since. It is accepted if no
        transaction is open, for it only repeats (KAFKA-19999), and at the largest epoch, which the end could not raise.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            return ErrorCode.NONE
        if transaction_version >= 2:
            is_harmless_repeat = producer_epoch == entry.producer_epoch and (
                entry.current_txn_first_offset < 0 or producer_epoch == PRODUCER_EPOCH_MAX
            )
            if producer_epoch <= entry.producer_epoch and not is_harmless_repeat:
                return ErrorCode.INVALID_PRODUCER_EPOCH
        elif producer_epoch < entry.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if coordinator_epoch < entry.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def _is_in_sequence(
        self,
        entry: ProducerEntry | None,
        batch: BatchHeader,
        verification: VerificationEntry | None,
    ) -> bool:
        sequence = batch.base_sequence
        if verification is not None:
            # Under TV2 every transaction begins at a fresh epoch, so a partition without state must see sequence 0.
            if verification.supports_epoch_bump and entry is None and sequence != 0:
                return False
            if sequence > verification.lowest_sequence:
                return False
        if entry is None:
            # Its first batch may have been refused a moment ago, and comes again: it must find its place free.
            return sequence == 0 or self.has_forgotten
        if entry.producer_epoch == NO_PRODUCER_EPOCH:
            return True
        if batch.producer_epoch != entry.producer_epoch:
            return sequence == 0
        last = entry.last_sequence
        return sequence == last + 1 or (sequence == 0 and last == SEQUENCE_MAX)

    # Changes: they never refuse, what they are given is in the log.

    def apply_batch(self, batch: BatchHeader, base_offset: int) -> None:
        """Update the producer's epoch, last batches and open transaction for a data batch that was written at
        `base_offset`.
        """
        producer_id, offset_delta = batch.producer_id, batch.last_offset_delta
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        entry.move_to_epoch(batch.producer_epoch)
        last_offset, timestamp = base_offset + offset_delta, largest_timestamp(batch)
        entry.batches.append(KeptBatch(batch.last_sequence, last_offset, offset_delta, timestamp))
        entry.last_timestamp = timestamp
        if entry.current_txn_first_offset < 0 and batch.is_transactional:
            entry.current_txn_first_offset = base_offset
            self._ongoing[base_offset] = producer_id

    def apply_marker(
        self,
        *,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int,
        is_commit: bool,
        marker_offset: int,
        timestamp: int,
    ) -> CompletedTransaction | None:
        """Update the producer's state for a marker that was written.

        Return the transaction that it ended; None if the producer had none open here.
        """
        entry = self._entries.get(producer_id)
        if entry is None:
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        first_offset = entry.current_txn_first_offset
        entry.move_to_epoch(producer_epoch)
        entry.current_txn_first_offset = NO_OFFSET
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        if first_offset < 0:
            return None
        del self._ongoing[first_offset]
        self._unreplicated[first_offset] = marker_offset
        other = self.first_ongoing_offset()
        return CompletedTransaction(
            producer_id,
            first_offset,
            marker_offset,
            is_commit,
            marker_offset + 1 if other is None else other,
        )

    def high_watermark_moved(self, high_watermark: int) -> None:
        """Stop holding the LSO for transactions whose marker is below the high watermark: every in-sync replica has
        it.
        """
        if not self._unreplicated:
            return
        passed = [first for first, marker in self._unreplicated.items() if marker < high_watermark]
        for first_offset in passed:
            del self._unreplicated[first_offset]

    def expire(self, now: int, expiration_ms: int) -> int:
        """Forget producers that were silent for `expiration_ms` and have no open transaction. Return their number."""
        expired = [
            entry.producer_id
            for entry in self._entries.values()
            if entry.current_txn_first_offset < 0 and now - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._entries[producer_id]
            self.has_forgotten = True
        return len(expired)

    def restore(self, entries: Iterable[ProducerEntry]) -> None:
        """Replace all entries by those of a snapshot.

        A snapshot lacks producers that were forgotten before it was taken.
        """
        self.has_forgotten = True
        self._entries = {entry.producer_id: entry for entry in entries}
        self._ongoing = {
            entry.current_txn_first_offset: entry.producer_id
            for entry in sorted(self._entries.values(), key=lambda e: e.current_txn_first_offset)
            if entry.current_txn_first_offset >= 0
        }
        self._unreplicated = {}

    def hold(self, first_offset: int, until: int) -> None:
        """Hold the LSO at `first_offset` until the high watermark reaches `until`.

        Nobody knows which transactions from `first_offset` on were ended by markers below `until`. Any of them may hold
        the LSO.
        """
        self._unreplicated[first_offset] = until - 1

    # The last stable offset.

    @property
    def ongoing_count(self) -> int:
        return len(self._ongoing)

    def first_ongoing_offset(self) -> int | None:
        return next(iter(self._ongoing), None)

    def oldest_ongoing(self) -> ProducerEntry | None:
        """Return the producer whose open transaction began first, and so holds the LSO; None if there is none."""
        first = self.first_ongoing_offset()
        return None if first is None else self._entries[self._ongoing[first]]

    def has_late_transaction(self, now: int, late_ms: int) -> bool:
        """True if the oldest open transaction has written nothing for longer than any transaction may be open
        (KIP-664).

        A coordinator may know the transaction or not, so a hanging one is late too.
        """
        oldest = self.oldest_ongoing()
        return oldest is not None and 0 < oldest.last_timestamp < now - late_ms

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of the oldest transaction that is open or whose marker the HW has not passed; None
        for none.
        """
        first = next(iter(self._ongoing), None)
        if not self._unreplicated:
            return first
        oldest_ended = min(self._unreplicated)
        return oldest_ended if first is None else min(first, oldest_ended)
