"""Reads the records of a topic, a page at a time, as a consumer would: with fetches that wait for nothing.

A page reads at most its bytes, and of each partition at least one batch, so that it always goes on. Going back, a
partition is read in windows: from some offsets before the place up to it. A window that turns out too large for the
bytes is made smaller and read again.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import iter_headers
from oncelog.record.records import shown_key
from oncelog.wording import counted
from oncelog_gateway.core.internal_records import decoded
from oncelog_gateway.core.record_content import content_of
from oncelog_gateway.core.record_filter import RecordFilter
from oncelog_gateway.core.record_position import Place, Reading, queued, shares
from oncelog_gateway.core.record_walk import Outcome, Seen, Transaction, Unreadable, Walk
from oncelog_gateway.record_resources import (
    BrowsedRecord,
    Isolation,
    PartitionRead,
    RecordHeader,
    RecordPage,
    Unshown,
)
from oncelog_gateway.records_behind import aborted_in
from oncelog_gateway.resources import failure_of
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions

PARTITIONS_MAX: Final = 200
"""Of one reading of all partitions: a cursor holds a place in each."""
FETCH_BYTES: Final = 256 << 10
"""Of one fetch: what the leader reads at once."""
WINDOW_MAX: Final = 10_000
"""Offsets that are read at once on the way back."""
TURN_RECORDS: Final = 200
"""Records that are looked at before others have their turn."""
SHOWN_BYTES_MAX: Final = 4 << 20
"""Of the keys, values and headers of one page."""

_OUTCOMES: Final[dict[int, Outcome]] = {
    storage_pb2.IN_COMMITTED: "committed",
    storage_pb2.IN_ABORTED: "aborted",
    storage_pb2.IN_OPEN: "open",
}


class Newest(NamedTuple):
    """Back from the end."""


class Oldest(NamedTuple):
    """On from the beginning."""


class FromOffset(NamedTuple):
    offset: int


class FromTime(NamedTuple):
    """On from the first record that is not older."""

    timestamp_ms: int


Begin = Newest | Oldest | FromOffset | FromTime


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a page is to show."""

    begin: Begin = Newest()
    partition: int | None = None
    isolation: Isolation = "read_uncommitted"
    filter: RecordFilter = RecordFilter()
    limit: int = 100
    bytes_max: int = 1 << 20
    content_bytes: int = 4_096
    cursor: str | None = None

    @property
    def is_committed_only(self) -> bool:
        return self.isolation == "read_committed"


@dataclass(slots=True)
class _Page:
    """What a page has read so far."""

    wanted: Wanted
    bytes_left: int
    shown_bytes_left: int = SHOWN_BYTES_MAX
    bytes_read: int = 0
    aborted: int = 0
    markers: int = 0
    filtered: int = 0
    failures: dict[str, KafkaError] = field(default_factory=dict)


class _Found(NamedTuple):
    partition: int
    seen: Seen
    outcome: Outcome
    last_stable_offset: int


class _Last:
    """The last so many records of a window."""

    def __init__(self, most: int) -> None:
        self._found: deque[Seen] = deque(maxlen=most)
        self.count = 0
        """Of all that were given."""

    def take(self, seen: Seen) -> bool:
        self._found.append(seen)
        self.count += 1
        return True

    def newest_first(self) -> list[Seen]:
        return list(reversed(self._found))


class Records:
    def __init__(self, roles: Roles, transactions: Transactions) -> None:
        self._roles = roles
        self._transactions = transactions

    async def page(self, topic: str, wanted: Wanted) -> RecordPage:
        """Raises KafkaError, with the value and the way out."""
        numbers = self._partitions(topic, wanted)
        described = await self._roles.describe_partitions(
            [Partition(topic, number) for number in numbers]
        )
        page = _Page(wanted, wanted.bytes_max)
        known: dict[int, storage_pb2.PartitionDescription] = {}
        for partition, answer in described.items():
            if isinstance(answer, KafkaError):
                page.failures[str(partition)] = answer
            else:
                known[partition.partition] = answer
        if not known and page.failures:
            raise next(iter(page.failures.values()))
        reading = await self._reading(topic, wanted, known)
        # Who has nothing to be read takes no share of the page from the others.
        done = [place for place in reading.places if _is_at_end(reading, place, known, wanted)]
        waiting = tuple(place for place in reading.places if place not in done)
        parts = shares(waiting, wanted.limit)
        gone_on: list[Place] = []
        of_each: list[list[_Found]] = []
        is_read = not parts
        for index, (place, share) in enumerate(parts):
            # Each has its part of the bytes, so that the last one is not left without.
            page.bytes_left = max(wanted.bytes_max - page.bytes_read, 0) // (len(parts) - index)
            source = _Source(self._roles, Partition(topic, place.partition), known[place.partition])
            go_on = source.backward if reading.is_backward else source.forward
            try:
                rows, next_offset = await go_on(place.offset, share, page)
            except KafkaError as error:
                page.failures[str(source.partition)] = error
                gone_on.append(place)
                continue
            of_each.append(rows)
            is_read = True
            if next_offset is not None:
                gone_on.append(Place(place.partition, next_offset))
        if not is_read:
            raise next(iter(page.failures.values()))
        left = Reading(reading.is_backward, queued(waiting, len(parts), gone_on))
        # Nearly by time; records of one partition stay in the order of their offsets.
        found = list(heapq.merge(*of_each, key=_time_of, reverse=reading.is_backward))
        read = sorted([place.partition for place, _ in parts] + [one.partition for one in done])
        read_here = [known[number] for number in read]
        return RecordPage(
            topic=topic,
            isolation=wanted.isolation,
            records=await self._shown(topic, found, page),
            next_cursor=left.cursor(),
            bytes_read=page.bytes_read,
            partitions=[PartitionRead.model_validate(one) for one in read_here],
            unshown=_unshown(page, read_here),
            incomplete=[failure_of(one) for one in page.failures.values()],
        )

    def _partitions(self, topic: str, wanted: Wanted) -> Sequence[int]:
        """Those that are read. Raises KafkaError."""
        if wanted.partition is not None:
            self._roles.leader_of(Partition(topic, wanted.partition))
        every = [one.partition for one in self._roles.topic(topic).partitions]
        if wanted.cursor is not None:
            named = [place.partition for place in Reading.of_cursor(wanted.cursor).places]
            gone = sorted(set(named) - set(every))
            if gone:
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"the cursor names partition {gone[0]}, which topic {topic!r} does not have; begin anew without it",
                )
            return named
        if wanted.partition is not None:
            return [wanted.partition]
        if len(every) > PARTITIONS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"topic {topic!r} has {counted(len(every), 'partition')}, and at most {PARTITIONS_MAX} are read "
                f"together; name one: partition=0",
            )
        return every

    async def _reading(
        self,
        topic: str,
        wanted: Wanted,
        known: dict[int, storage_pb2.PartitionDescription],
    ) -> Reading:
        """Where this page begins. Raises KafkaError."""
        if wanted.cursor is not None:
            reading = Reading.of_cursor(wanted.cursor)
            places = [one for one in reading.places if one.partition in known]
            return Reading(reading.is_backward, tuple(places))
        begin = wanted.begin
        ends = {number: _end(one, wanted) for number, one in known.items()}
        if isinstance(begin, Newest):
            return Reading(True, tuple(Place(*one) for one in ends.items()))
        starts = {number: one.log_start_offset for number, one in known.items()}
        if isinstance(begin, FromTime):
            listed = await self._roles.list_offsets(
                [Partition(topic, number) for number in known], begin.timestamp_ms
            )
            for partition, answer in listed.items():
                if isinstance(answer, KafkaError):
                    raise answer
                number = partition.partition
                starts[number] = answer.offset if answer.offset >= 0 else ends[number]
        elif isinstance(begin, FromOffset):
            if wanted.partition is not None:
                _require_offset(Partition(topic, wanted.partition), begin.offset, known)
            starts = {number: max(begin.offset, start) for number, start in starts.items()}
        return Reading(False, tuple(Place(*one) for one in starts.items()))

    async def _shown(self, topic: str, found: Sequence[_Found], page: _Page) -> list[BrowsedRecord]:
        ids = {one.seen.header.producer_id for one in found if one.seen.transaction is not None}
        named, silent = await self._transactions.of_producers(sorted(ids))
        page.failures.update((one.message, one) for one in silent)
        names: dict[int, str] = {one.producer_id: one.transactional_id for one in named}
        return [_row(topic, one, names, page.wanted.content_bytes) for one in found]


@dataclass(frozen=True, slots=True)
class _Source:
    """One partition, as this page reads it."""

    roles: Roles
    partition: Partition
    known: storage_pb2.PartitionDescription

    async def forward(
        self, offset: int, share: int, page: _Page
    ) -> tuple[list[_Found], int | None]:
        """At most `share` records, and the offset to go on from. None: the end is reached."""
        start, end = max(offset, self.known.log_start_offset), _end(self.known, page.wanted)
        found: list[Seen] = []

        def take(seen: Seen) -> bool:
            if len(found) == share or page.shown_bytes_left <= 0:
                return False
            found.append(seen)
            page.shown_bytes_left -= _shown_bytes(seen, page.wanted.content_bytes)
            return True

        position = start
        if start < end:
            position = await self._scan(start, end, page, max(page.bytes_left, 1), take)
        return await self._decided(found), position if position < end else None

    async def backward(
        self, before: int, share: int, page: _Page
    ) -> tuple[list[_Found], int | None]:
        """The last `share` records before `before`, and the offset to go on before. None: the log begins there."""
        begin = self.known.log_start_offset
        before = min(before, _end(self.known, page.wanted))
        rows: list[_Found] = []
        window, left, goes_on = share, page.bytes_left, False
        while before > begin and len(rows) < share and page.shown_bytes_left > 0:
            if left <= 0 and goes_on:
                break
            start = max(before - window, begin)
            found = _Last(share - len(rows))
            counts, read = (page.aborted, page.markers, page.filtered), page.bytes_read
            position = await self._scan(start, before, page, max(left, 1), found.take)
            left -= page.bytes_read - read
            if position < before and window > 1:
                # Nearer to the place: what was read is not the newest.
                page.aborted, page.markers, page.filtered = counts
                window = max(window // 8, 1) if left > 0 else 1
                continue
            goes_on = True
            kept = _as_many_as_fit(found.newest_first(), page)
            rows += await self._decided(kept)
            before = kept[-1].record.offset if len(kept) < found.count else start
            window = min(window * 4, WINDOW_MAX)
        return rows, before if before > begin else None

    async def _scan(
        self, start: int, end: int, page: _Page, bytes_max: int, take: Callable[[Seen], bool]
    ) -> int:
        """Gives the records that are wanted to `take`, until it has enough. Returns the offset behind the last one that
        was looked at."""
        walk, position, left, looked = Walk(), start, bytes_max, 0
        is_stable = True
        while position < end and left > 0:
            isolation = types_pb2.READ_COMMITTED if is_stable else types_pb2.READ_UNCOMMITTED
            size = min(left, FETCH_BYTES)
            fetched = await self.roles.fetch(self.partition, position, size, isolation)
            if not fetched.records:
                if not is_stable or page.wanted.is_committed_only:
                    return end
                is_stable = False
                continue
            page.bytes_read += len(fetched.records)
            left -= len(fetched.records)
            aborted = aborted_in(fetched) if is_stable else None
            for one in walk.through(fetched.records, aborted):
                looked += 1
                if looked % TURN_RECORDS == 0:
                    await asyncio.sleep(0)
                if isinstance(one, Unreadable):
                    page.failures[f"{self.partition}@{one.header.base_offset}"] = _unreadable(
                        self.partition, one
                    )
                    position = max(position, one.header.next_offset)
                    continue
                offset = one.record.offset
                if offset < position:
                    continue
                if offset >= end:
                    return end
                if _is_wanted(one, page) and not take(one):
                    return offset
                position = offset + 1
            # A batch may end with offsets whose records compaction took.
            for _, header in iter_headers(fetched.records):
                position = max(position, header.next_offset)
        return min(position, end)

    async def _decided(self, found: Sequence[Seen]) -> list[_Found]:
        """With the outcomes that only the leader knows: it is asked once for each transaction."""
        stable = self.known.last_stable_offset
        first: dict[Transaction, int] = {}
        for one in found:
            if one.outcome is None and one.transaction is not None:
                first.setdefault(one.transaction, one.record.offset)
        outcomes = dict(
            zip(first, await asyncio.gather(*map(self._outcome, first.values())), strict=True)
        )
        rows = []
        for one in found:
            outcome = one.outcome
            if outcome is None:
                outcome = outcomes[one.transaction] if one.transaction is not None else "plain"
            rows.append(_Found(self.partition.partition, one, outcome, stable))
        return rows

    async def _outcome(self, offset: int) -> Outcome:
        described = await self.roles.describe_record(self.partition, offset)
        return _OUTCOMES.get(described.fate, "open")


def _end(one: storage_pb2.PartitionDescription, wanted: Wanted) -> int:
    return one.last_stable_offset if wanted.is_committed_only else one.high_watermark


def _is_at_end(
    reading: Reading,
    place: Place,
    known: Mapping[int, storage_pb2.PartitionDescription],
    wanted: Wanted,
) -> bool:
    one = known[place.partition]
    begin, end = one.log_start_offset, _end(one, wanted)
    if reading.is_backward:
        return min(place.offset, end) <= begin
    return max(place.offset, begin) >= end


def _time_of(found: _Found) -> tuple[int, int]:
    return (found.seen.record.timestamp, found.partition)


def _is_wanted(seen: Seen, page: _Page) -> bool:
    """Counts what is not."""
    if page.wanted.is_committed_only and seen.outcome in ("aborted", "marker"):
        if seen.outcome == "marker":
            page.markers += 1
        else:
            page.aborted += 1
        return False
    if page.wanted.filter.fits(seen.record):
        return True
    page.filtered += 1
    return False


def _as_many_as_fit(found: Iterable[Seen], page: _Page) -> list[Seen]:
    kept = []
    for one in found:
        if page.shown_bytes_left <= 0:
            break
        kept.append(one)
        page.shown_bytes_left -= _shown_bytes(one, page.wanted.content_bytes)
    return kept


def _shown_bytes(seen: Seen, content_bytes: int) -> int:
    record = seen.record
    parts = (record.key, record.value, *(value for _, value in record.headers))
    return sum(min(len(part), content_bytes) for part in parts if part is not None)


def _unreadable(partition: Partition, one: Unreadable) -> KafkaError:
    header = one.header
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE,
        f"{partition}: offsets {header.base_offset} to {header.last_offset} are not shown: {one.why}",
    )


def _require_offset(
    partition: Partition, offset: int, known: Mapping[int, storage_pb2.PartitionDescription]
) -> None:
    one = known[partition.partition]
    if not one.log_start_offset <= offset <= one.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"there is no offset {offset} in {partition}: its log begins at {one.log_start_offset} and ends before "
            f"{one.high_watermark}; give one of these, or oldest or newest",
        )


def _unshown(page: _Page, read: Sequence[storage_pb2.PartitionDescription]) -> Unshown:
    held_back = 0
    if page.wanted.is_committed_only:
        held_back = sum(one.high_watermark - one.last_stable_offset for one in read)
    return Unshown(
        aborted=page.aborted, markers=page.markers, held_back=held_back, filtered=page.filtered
    )


def _row(topic: str, found: _Found, names: Mapping[int, str], content_bytes: int) -> BrowsedRecord:
    record, header = found.seen.record, found.seen.header
    key, value = content_of(record.key, content_bytes), content_of(record.value, content_bytes)
    headers = [
        (shown_key(name.encode(errors="surrogateescape")), content_of(content, content_bytes))
        for name, content in record.headers
    ]
    cut = [
        name
        for name, is_cut in (
            ("key", key.is_cut),
            ("value", value.is_cut),
            ("headers", any(content.is_cut for _, content in headers)),
        )
        if is_cut
    ]
    is_known = header.has_producer_id
    fields = decoded(topic, record) if not header.is_control else None
    return BrowsedRecord(
        partition=found.partition,
        offset=record.offset,
        timestamp_ms=record.timestamp,
        outcome=found.outcome,
        read_committed=found.outcome in ("committed", "plain")
        and record.offset < found.last_stable_offset,
        marker=found.seen.marker,
        key=key.text,
        key_base64=key.base64,
        key_bytes=key.size_bytes,
        value=value.text,
        value_base64=value.base64,
        value_bytes=value.size_bytes,
        headers=[
            RecordHeader(
                name=name,
                value=content.text,
                value_base64=content.base64,
                value_bytes=content.size_bytes,
            )
            for name, content in headers
        ],
        cut=cut,
        producer_id=header.producer_id if is_known else None,
        producer_epoch=header.producer_epoch if is_known else None,
        transactional_id=names.get(header.producer_id) if found.seen.transaction else None,
        decoded=None if fields is None else dict(fields),
    )
