"""Goes through one producer's batches in one log, in order: sequences must have no gap and no repeat, and epochs must
only grow.

Within an epoch each batch begins with the sequence after the last one, and a new epoch begins at 0. The first batch
that a log still has may begin anywhere, because those before it are unknown. In a log from which nothing was removed a
producer begins at 0. A marker may take the producer to its next epoch. Compaction takes batches out of the middle:
there a sequence may jump ahead. Behind damaged bytes any sequence may come.
"""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog_server.log_audit.core.rows import BatchRow, Event, Kind, LogFacts

SEQUENCE_COUNT: Final = 2**31


class _Due(NamedTuple):
    producer_epoch: int
    sequence: int | None
    """The sequence with which the next batch must begin; None: any sequence will do."""


class ProducerWalk:
    """Goes through the batches of one producer in one log. Call `add` with every undamaged one, in the order of the
    files; it yields the faults.
    """

    def __init__(self, facts: LogFacts) -> None:
        self._facts = facts
        self._stretch = 0
        """The number of damaged stretches before the last batch."""
        self._due: _Due | None = None
        self._latest_epoch: int | None = None

    def add(self, row: BatchRow) -> Iterator[Event]:
        if self._latest_epoch is not None and row.producer_epoch < self._latest_epoch:
            yield _event(row, Kind.EPOCH_WENT_BACK, self._latest_epoch)
        self._latest_epoch = row.producer_epoch
        stretch = bisect_right(self._facts.damaged, row.base_offset)
        if stretch != self._stretch:
            self._stretch, self._due = stretch, None
        at_first = 0 if self._facts.is_whole and not stretch else None
        due = self._due
        if row.is_control or row.base_sequence < 0:
            if due is None or due.producer_epoch != row.producer_epoch:
                self._due = _Due(row.producer_epoch, at_first if due is None else 0)
            return
        if due is None and row.leader_epoch == self._facts.first_leader_epoch:
            due = _Due(row.producer_epoch, at_first)
        if due is not None:
            yield from _judged(row, due)
        self._due = _Due(row.producer_epoch, (row.last_sequence + 1) % SEQUENCE_COUNT)


def _judged(row: BatchRow, due: _Due) -> Iterator[Event]:
    wanted = due.sequence if row.producer_epoch == due.producer_epoch else 0
    if wanted is None or row.base_sequence == wanted:
        return
    is_ahead = (row.base_sequence - wanted) % SEQUENCE_COUNT < SEQUENCE_COUNT // 2
    if not is_ahead:
        yield _event(row, Kind.DUPLICATE, wanted)
    elif not row.is_compacted:
        yield _event(row, Kind.SEQUENCE_GAP, wanted)


def _event(row: BatchRow, kind: Kind, expected: int) -> Event:
    return Event(
        row.replica,
        row.topic,
        row.partition,
        kind,
        row.base_offset,
        row.last_offset,
        row.producer_id,
        row.producer_epoch,
        row.base_sequence,
        expected,
        row.time_ms,
        row.time_ms,
        outcome=row.marker,
    )
