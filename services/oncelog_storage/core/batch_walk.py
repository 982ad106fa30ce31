"""Walks over a segment's bytes. A walk asks for bytes and its caller reads them, from a file or from elsewhere.

```
walk ── Read(position, size) ──▶ caller          `find`  where the batch with an offset begins
     ◀── bytes of the file ─────                 `take`  the batches a fetch is answered with
                                                 `scan`  every batch, one after the other
```

A walk is a generator: `send` it the bytes for its last `Read`; it returns what it found. It raises BrokenBatch where
bytes are no batch. The CRC does not cover a batch's base offset, so a gap before a batch is held against what follows.
"""

from collections.abc import Generator, Iterable
from typing import Final, NamedTuple, TypeVar

from oncelog.errors import OncelogError
from oncelog.record.batch import HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, largest_timestamp
from oncelog.record.records import decode_batch
from oncelog_storage.core.replay import CUT, CUT_HEADER, HeaderFields, whole_batch_at

_WALK_BYTES: Final = 16 * 1024
_SCAN_BYTES: Final = 1 << 20

ResultT = TypeVar("ResultT")


class Read(NamedTuple):
    """Bytes of the file that a walk goes on with. Fewer may come."""

    position: int
    size_bytes: int


Walk = Generator[Read, bytes, ResultT]

Found = tuple[int, HeaderFields, memoryview, int]
"""Of a batch: its position in the file, its header, a buffer, and its place in the buffer."""


class BrokenBatch(OncelogError):
    """Bytes that are no record batch, where one must be; `position` is where, `reason` what is wrong."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.position = position
        self.reason = reason


class Stretch(NamedTuple):
    """What a walk has to know of a segment."""

    base_offset: int
    size_bytes: int
    end_offset: int
    """Behind the last batch; -1 where that is not known."""


def find(stretch: Stretch, start: int, offset: int) -> Walk[tuple[int, int]]:
    """(where the batch with `offset`, or the first behind it, begins; the lowest base offset it may have).

    (`size_bytes`, where the segment ends) when there is none. `start` is 0, or a position of the offset index. An
    offset just behind a batch is found without looking at what follows, which after a crash may be anything.
    """
    position, reached = start, stretch.base_offset
    while position < stretch.size_bytes and offset > stretch.base_offset:
        chunk = yield Read(position, min(_WALK_BYTES, stretch.size_bytes - position))
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            fields: HeaderFields = HEADER.unpack_from(chunk, at)
            if fields[1] < HEADER_BYTES - LENGTH_PREFIX_BYTES or fields[3] != MAGIC:
                raise BrokenBatch(position + at, "no record batch begins there")
            is_named_by_index = position + at == start and start > 0
            if is_named_by_index and fields[0] > offset:
                raise BrokenBatch(start, f"offset {fields[0]} stands before {offset}")
            if fields[0] > reached and not is_named_by_index:
                yield from check_gap(stretch, position + at, fields)
            if fields[0] + fields[6] >= offset:
                return position + at, fields[0]
            at += fields[1] + LENGTH_PREFIX_BYTES
            reached = fields[0] + fields[6] + 1
            if reached == offset:
                return position + at, reached
        if at == 0:
            raise BrokenBatch(position, CUT_HEADER)
        position += at
    return position, reached


def take(
    stretch: Stretch, position: int, expected_offset: int, upper_offset: int, bytes_max: int
) -> Walk[tuple[bytes, int]]:
    """(whole batches from `position` that begin below `upper_offset`, offset behind the last, -1 for none).

    The first must not begin below `expected_offset`, as `find` has told it. At least one batch if there is one, even
    if it is larger than `bytes_max`.
    """
    available = stretch.size_bytes - position
    data = yield Read(position, min(available, max(bytes_max, HEADER_BYTES)))
    if len(data) >= HEADER_BYTES:
        first_bytes = HEADER.unpack_from(data)[1] + LENGTH_PREFIX_BYTES
        if len(data) < first_bytes <= available:
            data = yield Read(position, first_bytes)
    view, at = memoryview(data), 0
    while at < len(data):
        fields, reason = whole_batch_at(view, at, expected_offset)
        if reason:
            if at and reason in CUT:
                break
            raise BrokenBatch(position + at, reason)
        if fields[0] > expected_offset:
            yield from check_gap(stretch, position + at, fields)
        if fields[0] >= upper_offset:
            break
        expected_offset = fields[0] + fields[6] + 1
        at += fields[1] + LENGTH_PREFIX_BYTES
    return (data if at == len(data) else data[:at]), (expected_offset if at else -1)


def check_gap(stretch: Stretch, position: int, fields: HeaderFields) -> Walk[None]:
    """Offsets are missing before this batch: compaction took them, or its base offset is damaged.

    A damaged one is too high here, so it meets the batch that follows, or the segment's end.
    """
    bound = stretch.end_offset
    following = position + fields[1] + LENGTH_PREFIX_BYTES
    if following + HEADER_BYTES <= stretch.size_bytes:
        bound = HEADER.unpack((yield Read(following, HEADER_BYTES)))[0]
    if 0 <= bound <= fields[0] + fields[6]:
        raise BrokenBatch(position, f"offset {fields[0]} stands before offset {bound}")


def scan(
    stretch: Stretch, position: int, expected_offset: int
) -> Generator[Read | Found, bytes, None]:
    """Yields each batch from `position` on between its reads; go on after a batch with `send(b"")`."""
    size_bytes, chunk_bytes = stretch.size_bytes, _SCAN_BYTES
    while position < size_bytes:
        view, at = memoryview((yield Read(position, min(chunk_bytes, size_bytes - position)))), 0
        reason = CUT_HEADER
        while at < len(view):
            fields, reason = whole_batch_at(view, at, expected_offset)
            if reason:
                break
            if fields[0] > expected_offset:
                yield from check_gap(stretch, position + at, fields)
            yield (position + at, fields, view, at)
            expected_offset = fields[0] + fields[6] + 1
            at += fields[1] + LENGTH_PREFIX_BYTES
        position += at
        if not reason:
            chunk_bytes = _SCAN_BYTES
            continue
        needed = HEADER_BYTES
        if reason != CUT_HEADER:
            needed = fields[1] + LENGTH_PREFIX_BYTES
        # Asked for a whole batch and cut all the same: the file is shorter than it was.
        is_cut_by_read = at > 0 or needed > chunk_bytes
        if not view or reason not in CUT or position + needed > size_bytes or not is_cut_by_read:
            raise BrokenBatch(position, reason)
        chunk_bytes = max(_SCAN_BYTES, needed)


def largest_first(batches: Iterable[Found], offset_min: int) -> list[tuple[int, int, int]]:
    """(largest timestamp by its header, position, base offset) of those that reach `offset_min`, newest first."""
    found = [
        (largest_timestamp(fields), position, fields[0])
        for position, fields, _, _ in batches
        if fields[0] + fields[6] >= offset_min
    ]
    return sorted(found, key=lambda one: (-one[0], one[1]))


def first_of_largest(batch: Found, offset_min: int) -> tuple[int, int, int] | None:
    """As `first_not_older`, of the records from `offset_min` on that have the largest timestamp of them."""
    _, fields, view, at = batch
    records = (one for one in decode_batch(view, at) if one.offset >= offset_min)
    best = max(records, key=lambda one: one.timestamp, default=None)
    return None if best is None or best.timestamp < 0 else (best.timestamp, best.offset, fields[2])


def first_not_older(
    batches: Iterable[Found], timestamp: int, offset_min: int
) -> tuple[int, int, int] | None:
    """(timestamp, offset, leader epoch) of the first record from `offset_min` on that is not older than `timestamp`."""
    for _, fields, view, at in batches:
        if largest_timestamp(fields) < timestamp or fields[0] + fields[6] < offset_min:
            continue
        for record in decode_batch(view, at):
            if record.offset >= offset_min and record.timestamp >= timestamp:
                return record.timestamp, record.offset, fields[2]
    return None
