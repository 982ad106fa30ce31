"""Reads one partition for a page of records: forward from an offset, or backward from it.

A page has a limit of bytes, and reads at least one batch of each partition, so that it always gets ahead. Backward, a
partition is read in windows, each a range of offsets that ends where the page stands. If a window is too large for the
bytes, a smaller one is read instead.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import iter_headers
from oncelog_gateway.core.record_filter import RecordFilter
from oncelog_gateway.core.record_walk import Outcome, Seen, Transaction, Unreadable, Walk
from oncelog_gateway.record_pace import Pace, Turns
from oncelog_gateway.record_resources import Isolation
from oncelog_gateway.records_behind import aborted_in
from oncelog_gateway.roles import Roles

FIRST_FETCH_BYTES: Final = 16 << 10
FETCH_BYTES: Final = 256 << 10
"""Bytes of one fetch at most, which the leader reads at once. Each fetch is four times as large as the one before, up
to this.
"""
WINDOW_MAX: Final = 10_000
"""Offsets that are read at once when reading backward."""
EXPANSION: Final = 16
"""Bytes of decompressed records that count as one byte of a batch: zeros compress a thousandfold."""
UNREADABLE_BYTES: Final = 4 << 20
"""Bytes that a batch which cannot be shown counts as: it may have been decompressed in vain."""
ASKED_MAX: Final = 200
"""The most transactions of one page whose outcomes are asked of leaders. A filter by outcome may hide most of them."""
SHOWN_BYTES_MAX: Final = 4 << 20
"""Bytes of the keys, values and headers of one page."""

_OUTCOMES: Final[dict[int, Outcome]] = {
    storage_pb2.IN_COMMITTED: "committed",
    storage_pb2.IN_ABORTED: "aborted",
    storage_pb2.IN_OPEN: "open",
}


class Newest(NamedTuple):
    """The reader's choice to see the newest records: a page begins at the end of each partition, and reads backward."""


class Oldest(NamedTuple):
    """The reader's choice to see the oldest records: a page begins at the start of each partition, and reads
    forward.
    """


class FromOffset(NamedTuple):
    offset: int


class FromTime(NamedTuple):
    """The reader's choice to begin at the first record that is not older than the timestamp, and to read forward."""

    timestamp_ms: int


Begin = Newest | Oldest | FromOffset | FromTime


@dataclass(frozen=True, slots=True)
class Wanted:
    """A request for one page of records: where the page begins, filters and limits."""

    begin: Begin = Newest()
    partition: int | None = None
    isolation: Isolation = "read_uncommitted"
    filter: RecordFilter = RecordFilter()
    limit: int = 100
    bytes_max: int = 1 << 20
    content_bytes: int = 4_096
    cursor: str | None = None
    are_markers_wanted: bool = True
    outcomes: frozenset[Outcome] = frozenset()
    """Outcomes of the records to show; empty: all."""

    @property
    def is_committed_only(self) -> bool:
        return self.isolation == "read_committed"


@dataclass(slots=True)
class PageSoFar:
    """The state of one page of records while it is read: what it has read so far, in all partitions, and what it may
    still read.
    """

    wanted: Wanted
    bytes_left: int
    shown_bytes_left: int = SHOWN_BYTES_MAX
    bytes_read: int = 0
    record_bytes: int = 0
    """Bytes of the records that were looked at, decompressed."""
    looked: int = 0
    """Number of records that were looked at, shown or not."""
    aborted: int = 0
    markers: int = 0
    filtered: int = 0
    asked: int = 0
    """Number of transactions that a leader was asked about."""
    failures: dict[str, KafkaError] = field(default_factory=dict)
    unreadable_from: int = 0
    """The offset at which the present window begins, or at which a batch in it begins that cannot be shown."""

    @property
    def spent(self) -> int:
        """Bytes that the page has used of its limit: those that were fetched, and a sixteenth of the
        decompressed ones.
        """
        return self.bytes_read + self.record_bytes // EXPANSION


class Found(NamedTuple):
    partition: int
    seen: Seen
    outcome: Outcome
    last_stable_offset: int


class _Last:
    """Keeps the last `most` of the records that it is given, for a page that reads backward."""

    def __init__(self, most: int) -> None:
        self._found: deque[Seen] = deque(maxlen=most)
        self.count = 0
        """The number of records that were given in all."""

    def keep_record(self, seen: Seen) -> bool:
        self._found.append(seen)
        self.count += 1
        return True

    def newest_first(self) -> list[Seen]:
        return list(reversed(self._found))


@dataclass(frozen=True, slots=True)
class Source:
    """One partition that a page reads, with the offsets that its leader described when the page began."""

    roles: Roles
    partition: Partition
    known: storage_pb2.PartitionDescription
    pace: Pace

    async def forward(
        self, offset: int, share: int, page: PageSoFar
    ) -> tuple[list[Found], int | None]:
        """Return at most `share` records from `offset` on, and the offset where the next page goes on; None: the end is
        reached.
        """
        start, end = max(offset, self.known.log_start_offset), end_of(self.known, page.wanted)
        found: list[Seen] = []
        rows: list[Found] = []

        def keep_record(seen: Seen) -> bool:
            if len(rows) + len(found) == share or page.shown_bytes_left <= 0:
                return False
            found.append(seen)
            page.shown_bytes_left -= content_size(seen, page.wanted.content_bytes)
            return True

        position, spent = start, page.spent
        left, has_more = max(page.bytes_left, 1), start < end
        while has_more:
            before = position
            position = await self._scan(position, end, page, left, keep_record)
            # Behind the last stable offset some of them may turn out not to be wanted.
            rows += await self._decided(found, page)
            left = page.bytes_left - (page.spent - spent)
            has_more = (
                bool(page.wanted.outcomes and found)
                and before < position < end
                and len(rows) < share
                and min(left, page.shown_bytes_left) > 0
                and page.asked < ASKED_MAX
            )
            found.clear()
        return rows, position if position < end else None

    async def backward(
        self, before: int, share: int, page: PageSoFar
    ) -> tuple[list[Found], int | None]:
        """Return the last `share` records before the offset `before`, newest first, and the offset before which the
        next page goes on. None: the start of the log is reached.
        """
        begin = self.known.log_start_offset
        before = min(before, end_of(self.known, page.wanted))
        rows: list[Found] = []
        window, left, cost, goes_on = share, page.bytes_left, 0, False
        # The first window may be too large. What is learnt from it must not cost the page.
        quota = max(left // 4, 1)
        while before > begin and len(rows) < share and page.shown_bytes_left > 0:
            if goes_on and left <= cost:
                break
            start = max(before - window, begin)
            found = _Last(share - len(rows))
            counts = (page.aborted, page.markers, page.filtered)
            spent, looked, page.unreadable_from = page.spent, page.looked, start
            position = await self._scan(
                start, before, page, max(min(left, quota), 1), found.keep_record
            )
            cost = page.spent - spent
            left -= cost
            if position < before and before - start > 1:
                # Nearer to the place: what was read is not the newest.
                page.aborted, page.markers, page.filtered = counts
                nearer = max(min(position - start, before - position), 1)
                window = nearer if left > 0 else 1
                continue
            goes_on = True
            kept = _as_many_as_fit(found.newest_first(), page)
            rows += await self._decided(kept, page)
            all_kept = len(kept) == found.count
            before = max(page.unreadable_from, begin) if all_kept else kept[-1].record.offset
            if page.looked == looked:
                # Compaction leaves wide gaps.
                window *= 8
            elif page.asked >= ASKED_MAX:
                break
            elif cost * 8 <= quota:
                window = min(window * 4, WINDOW_MAX)
        return rows, before if before > begin else None

    async def _scan(
        self,
        start: int,
        end: int,
        page: PageSoFar,
        bytes_max: int,
        keep_record: Callable[[Seen], bool],
    ) -> int:
        """Fetch from `start` towards `end`, and call `keep_record` with each record that the page wants. It stops when
        `keep_record` returns False, or at a limit of bytes.

        Returns the offset behind the last record that was looked at.
        """
        walk, turns, position, left = Walk(), Turns(self.pace), start, bytes_max
        record_bytes_left = max(bytes_max, FETCH_BYTES) * EXPANSION
        fetch_bytes, is_stable = FIRST_FETCH_BYTES, start < self.known.last_stable_offset
        while position < end and left > 0:
            isolation = types_pb2.READ_COMMITTED if is_stable else types_pb2.READ_UNCOMMITTED
            fetched = await self.roles.fetch(
                self.partition, position, min(left, fetch_bytes), isolation
            )
            turns.begin()
            if not fetched.records:
                if not is_stable or page.wanted.is_committed_only:
                    return end
                is_stable = False
                continue
            page.bytes_read += len(fetched.records)
            left -= len(fetched.records)
            fetch_bytes = min(fetch_bytes * 4, FETCH_BYTES)
            aborted = aborted_in(fetched) if is_stable else None
            for one in walk.through(fetched.records, aborted):
                if isinstance(one, Unreadable):
                    header = one.header
                    page.failures[f"{self.partition}@{header.base_offset}"] = _unreadable(
                        self.partition, one
                    )
                    page.record_bytes += UNREADABLE_BYTES
                    page.unreadable_from = min(page.unreadable_from, header.base_offset)
                    await turns.next()
                    return min(max(position, header.next_offset), end)
                size = content_size(one)
                await turns.next()
                offset = one.record.offset
                if offset < position:
                    continue
                if offset >= end:
                    return end
                if _is_wanted(one, page) and not keep_record(one):
                    return offset
                position = offset + 1
                page.looked += 1
                page.record_bytes += size
                record_bytes_left -= size
                if record_bytes_left <= 0:
                    return position
            # A batch may end with offsets whose records compaction took.
            for _, header in iter_headers(fetched.records):
                position = max(position, header.next_offset)
        return min(position, end)

    async def _decided(self, found: Sequence[Seen], page: PageSoFar) -> list[Found]:
        """Return the records with their outcomes. Where the fetch does not tell an outcome, the leader is asked, once
        for each transaction.

        Records whose outcome is not wanted are left out, and counted.
        """
        stable = self.known.last_stable_offset
        first: dict[Transaction, int] = {}
        for one in found:
            if one.outcome is None and one.transaction is not None:
                first.setdefault(one.transaction, one.record.offset)
        page.asked += len(first)
        outcomes = dict(
            zip(first, await asyncio.gather(*map(self._outcome, first.values())), strict=True)
        )
        rows = []
        for one in found:
            outcome = one.outcome
            if outcome is None:
                outcome = outcomes[one.transaction] if one.transaction is not None else "plain"
            if page.wanted.outcomes and outcome not in page.wanted.outcomes:
                page.filtered += 1
                page.shown_bytes_left += content_size(one, page.wanted.content_bytes)
                continue
            rows.append(Found(self.partition.partition, one, outcome, stable))
        return rows

    async def _outcome(self, offset: int) -> Outcome:
        described = await self.roles.describe_record(self.partition, offset)
        return _OUTCOMES.get(described.fate, "open")


def end_of(one: storage_pb2.PartitionDescription, wanted: Wanted) -> int:
    return one.last_stable_offset if wanted.is_committed_only else one.high_watermark


def _is_wanted(seen: Seen, page: PageSoFar) -> bool:
    """True if the page shows the record. If not, adds it to the page's count of records that are not shown."""
    wanted = page.wanted
    if seen.outcome == "marker" and (wanted.is_committed_only or not wanted.are_markers_wanted):
        page.markers += 1
        return False
    if seen.outcome == "aborted" and wanted.is_committed_only:
        page.aborted += 1
        return False
    is_shown = not wanted.outcomes or seen.outcome is None or seen.outcome in wanted.outcomes
    if is_shown and wanted.filter.fits(seen.record):
        return True
    page.filtered += 1
    return False


def _as_many_as_fit(found: Iterable[Seen], page: PageSoFar) -> list[Seen]:
    kept = []
    for one in found:
        if page.shown_bytes_left <= 0:
            break
        kept.append(one)
        page.shown_bytes_left -= content_size(one, page.wanted.content_bytes)
    return kept


def content_size(seen: Seen, of_each: int | None = None) -> int:
    """Return how many bytes the key, the value and the headers' values have. With `of_each`, each of them counts for at
    most so many.
    """
    record = seen.record
    sizes = [len(one) for one in (record.key, record.value) if one is not None]
    sizes += [len(value) for _, value in record.headers if value is not None]
    return sum(sizes) if of_each is None else sum(min(size, of_each) for size in sizes)


def _unreadable(partition: Partition, one: Unreadable) -> KafkaError:
    header = one.header
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{partition}: offsets {header.base_offset} to {header.last_offset} are not shown: {one.why}",
    )
