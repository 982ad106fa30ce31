"""Goes through one log's batches in order and finds holes, damage and transactions, and how long the last stable offset
stood still.

The last stable offset (LSO) stands at the first offset of the oldest open transaction. When the marker of that
transaction comes, it moves to the next oldest one, or to the log's end. So one transaction is the cause of each
standstill:

```
offset    10  20      50      80
A         ●───────────▲                  10 to 50: the LSO stands at 10 because of A
B             ●───────────────▲          50 to 80: at 20, because of B
```
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from oncelog_server.log_audit.core.rows import BatchRow, Event, Kind

WHOLE: Final = "whole"
OPEN: Final = "open"


@dataclass(slots=True)
class _Open:
    """A transaction that is open where the walk stands: its marker has not come yet."""

    producer_epoch: int
    first_offset: int
    first_ms: int
    last_offset: int
    last_ms: int
    batches: int = 1


class LogWalk:
    """Goes through the log of one replica. Call `add` with every row in the order of its files, then `end`; both yield
    what they find.

    `first` is any row of the log: it says whose log this is.
    """

    def __init__(self, first: BatchRow) -> None:
        self._of = (first.replica, first.topic, first.partition)
        self._is_compacted = first.is_compacted
        self._is_whole = not first.is_compacted and first.log_start == 0
        self._first: BatchRow | None = None
        self._next: int | None = None
        """The offset after the last batch that was added; None: none was added."""
        self._sound_end: int | None = None
        self._pending: list[Event] = []
        """Holes and damage since the last batch whose checksum holds."""
        self._open: OrderedDict[int, _Open] = OrderedDict()
        """The open transactions by producer id, the oldest first."""
        self._held_since_ms = -1
        self._last_ms = -1
        self._count = 0

    def add(self, row: BatchRow) -> Iterator[Event]:
        if row.unreadable_bytes:
            expected = row.segment if self._next is None else self._next
            self._suspect(Kind.UNREADABLE, expected, expected, row.unreadable_bytes)
            return
        if self._first is None:
            self._first = row
            self._is_whole &= row.base_offset == 0
        expected = row.base_offset if self._next is None else self._next
        if row.base_offset != expected and not self._is_compacted:
            kind = Kind.HOLE if row.base_offset > expected else Kind.OVERLAP
            self._suspect(kind, expected, row.base_offset)
        self._next = row.last_offset + 1
        if not row.is_sound:
            self._suspect(Kind.DAMAGED, expected, row.last_offset + 1, 1)
            return
        self._is_whole &= all(one.kind not in (Kind.HOLE, Kind.OVERLAP) for one in self._pending)
        yield from self._pending
        self._pending.clear()
        self._count += 1
        self._sound_end = self._next
        self._last_ms = row.time_ms
        if row.marker and row.producer_id >= 0:
            yield from self._ended(row)
        elif row.is_transactional and not row.is_control and row.producer_id >= 0:
            self._written(row)

    def end(self) -> Iterator[Event]:
        """Yield what is only known at the end of the log: transactions that are still open, a torn end, and a summary
        of the log.
        """
        if self._pending:
            first = self._pending[0]
            yield first._replace(
                kind=Kind.TORN_END, end_offset=first.offset, total=len(self._pending)
            )
        if self._sound_end is None or self._first is None:
            return
        for producer_id, one in self._open.items():
            yield Event(
                *self._of,
                Kind.OPEN,
                one.first_offset,
                one.last_offset,
                producer_id=producer_id,
                producer_epoch=one.producer_epoch,
                from_ms=one.first_ms,
                to_ms=one.last_ms,
                total=one.batches,
            )
        if self._open:
            yield self._standstill(self._sound_end, self._last_ms, OPEN)
        yield Event(
            *self._of,
            Kind.LOG,
            self._first.base_offset,
            self._sound_end,
            expected=self._first.leader_epoch,
            to_ms=self._last_ms,
            total=self._count,
            outcome=WHOLE if self._is_whole else "",
        )

    def _suspect(self, kind: Kind, offset: int, end_offset: int, total: int = 0) -> None:
        before = self._pending[-1] if self._pending else None
        if before is not None and before.kind == kind == Kind.DAMAGED:
            self._pending[-1] = before._replace(end_offset=end_offset, total=before.total + total)
        else:
            self._pending.append(Event(*self._of, kind, offset, end_offset, total=total))

    def _written(self, row: BatchRow) -> None:
        opened = self._open.get(row.producer_id)
        if opened is not None:
            opened.last_offset, opened.last_ms = row.last_offset, row.time_ms
            opened.batches += 1
            return
        if not self._open:
            self._held_since_ms = row.time_ms
        self._open[row.producer_id] = _Open(
            row.producer_epoch, row.base_offset, row.time_ms, row.last_offset, row.time_ms
        )

    def _ended(self, row: BatchRow) -> Iterator[Event]:
        opened = self._open.get(row.producer_id)
        if opened is None:
            yield Event(
                *self._of,
                Kind.EMPTY_MARKER,
                row.base_offset,
                row.last_offset,
                row.producer_id,
                row.producer_epoch,
                from_ms=row.time_ms,
                to_ms=row.time_ms,
                outcome=row.marker,
            )
            return
        if next(iter(self._open)) == row.producer_id:
            yield self._standstill(row.base_offset, row.time_ms, row.marker)
            self._held_since_ms = row.time_ms
        del self._open[row.producer_id]
        yield Event(
            *self._of,
            Kind.TRANSACTION,
            opened.first_offset,
            row.base_offset,
            row.producer_id,
            row.producer_epoch,
            from_ms=opened.first_ms,
            to_ms=row.time_ms,
            total=opened.batches,
            outcome=row.marker,
        )

    def _standstill(self, end_offset: int, to_ms: int, outcome: str) -> Event:
        producer_id, holder = next(iter(self._open.items()))
        return Event(
            *self._of,
            Kind.STANDSTILL,
            holder.first_offset,
            end_offset,
            producer_id=producer_id,
            producer_epoch=holder.producer_epoch,
            from_ms=self._held_since_ms,
            to_ms=to_ms,
            total=end_offset - holder.first_offset,
            outcome=outcome,
        )
