"""Walks over a segment's bytes. A walk asks for bytes and its caller reads them, from a file or from elsewhere.

```
walk ── Read(position, size) ──▶ caller          `find`           where the batch with an offset begins
     ◀── bytes of the file ─────                 `whole_batches`  the batches a fetch is answered with
                                                 `scan`           every batch, one after the other
```

A walk is a generator: `send` it the bytes for its last `Read`; it returns what it found. It raises BrokenBatch where
bytes are no batch. The CRC does not cover a batch's base offset, so a gap before a batch is held against what follows.
"""

from collections.abc import Generator, Iterable
from typing import Final, NamedTuple, TypeVar

from oncelog.errors import OncelogError
from oncelog.record.batch import HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, largest_timestamp
from oncelog.record.records import decode_batch
from oncelog_storage.core.replay import (
    BASE_OFFSET,
    BATCH_LENGTH,
    BATCH_MAGIC,
    CUT,
    CUT_HEADER,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    HeaderFields,
    whole_batch_at,
)

_WALK_BYTES: Final = 16 * 1024
_SCAN_BYTES: Final = 1 << 20

ResultT = TypeVar("ResultT")


class Read(NamedTuple):
    """Yielded by a walk (a generator over a segment's bytes) to ask for these bytes of the file. The caller may send
    fewer.
    """

    position: int
    size_bytes: int


Walk = Generator[Read, bytes, ResultT]

Found = tuple[int, HeaderFields, memoryview, int]
"""A batch that a walk found: (its position in the file, its header, a buffer, its place in that buffer)."""


class BrokenBatch(OncelogError):
    """Bytes at `position` are no record batch, where one must be. `reason` says what is wrong."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"byte {position}: {reason}")
        self.position = position
        self.reason = reason


class Stretch(NamedTuple):
    """The facts about a segment that a walk over its bytes needs: base offset, size in bytes and end offset."""

    base_offset: int
    size_bytes: int
    end_offset: int
    """The offset behind the segment's last batch; -1 if it is not known."""


def find(stretch: Stretch, start: int, offset: int) -> Walk[tuple[int, int]]:
    """Return (position of the batch that holds `offset` or of the first one behind it, lowest base offset that it may
    have).

    The position is `size_bytes` if there is no such batch. `start` is 0, or a position of the offset index. An offset
    just behind a batch is found without a look at what follows, which may be anything after a crash.
    """
    position, reached = start, stretch.base_offset
    while position < stretch.size_bytes and offset > stretch.base_offset:
        chunk = yield Read(position, min(_WALK_BYTES, stretch.size_bytes - position))
        at = 0
        while at + HEADER_BYTES <= len(chunk):
            fields: HeaderFields = HEADER.unpack_from(chunk, at)
            size_bytes = fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
            if size_bytes < HEADER_BYTES or fields[BATCH_MAGIC] != MAGIC:
                raise BrokenBatch(position + at, "no record batch begins there")
            is_named_by_index = position + at == start and start > 0
            if is_named_by_index and fields[BASE_OFFSET] > offset:
                raise BrokenBatch(start, f"offset {fields[BASE_OFFSET]} stands before {offset}")
            if fields[BASE_OFFSET] > reached and not is_named_by_index:
                yield from check_gap(stretch, position + at, fields)
            if fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] >= offset:
                return position + at, fields[BASE_OFFSET]
            at += size_bytes
            reached = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
            if reached == offset:
                return position + at, reached
        if at == 0:
            raise BrokenBatch(position, CUT_HEADER)
        position += at
    return position, reached


def whole_batches(
    stretch: Stretch, position: int, expected_offset: int, upper_offset: int, bytes_max: int
) -> Walk[tuple[bytes, int]]:
    """Return (whole batches from `position` that begin below `upper_offset`, offset behind the last of them or -1).

    The first batch must not begin below `expected_offset`, which `find` returned. At least one batch is returned if
    there is one, even if it is larger than `bytes_max`.
    """
    available = stretch.size_bytes - position
    data = yield Read(position, min(available, max(bytes_max, HEADER_BYTES)))
    if len(data) >= HEADER_BYTES:
        first_bytes = HEADER.unpack_from(data)[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
        if len(data) < first_bytes <= available:
            data = yield Read(position, first_bytes)
    view, at = memoryview(data), 0
    while at < len(data):
        fields, reason = whole_batch_at(view, at, expected_offset)
        if reason:
            if at and reason in CUT:
                break
            raise BrokenBatch(position + at, reason)
        if fields[BASE_OFFSET] > expected_offset:
            yield from check_gap(stretch, position + at, fields)
        if fields[BASE_OFFSET] >= upper_offset:
            break
        expected_offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
        at += fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
    return (data if at == len(data) else data[:at]), (expected_offset if at else -1)


def check_gap(stretch: Stretch, position: int, fields: HeaderFields) -> Walk[None]:
    """Raise BrokenBatch if a batch before which offsets are missing has a damaged base offset.

    Compaction also leaves such gaps. But a damaged base offset is too high here: the batch would reach beyond the base
    offset of the next batch, or the segment's end.
    """
    bound = stretch.end_offset
    following = position + fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
    if following + HEADER_BYTES <= stretch.size_bytes:
        bound = HEADER.unpack((yield Read(following, HEADER_BYTES)))[BASE_OFFSET]
    if 0 <= bound <= fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA]:
        raise BrokenBatch(position, f"offset {fields[BASE_OFFSET]} stands before offset {bound}")


def scan(
    stretch: Stretch, position: int, expected_offset: int
) -> Generator[Read | Found, bytes, None]:
    """Yield each batch from `position` on, and a Read whenever more bytes are needed. The caller goes on after a batch
    with `send(b"")`.
    """
    size_bytes, chunk_bytes = stretch.size_bytes, _SCAN_BYTES
    while position < size_bytes:
        view, at = memoryview((yield Read(position, min(chunk_bytes, size_bytes - position)))), 0
        reason = CUT_HEADER
        while at < len(view):
            fields, reason = whole_batch_at(view, at, expected_offset)
            if reason:
                break
            if fields[BASE_OFFSET] > expected_offset:
                yield from check_gap(stretch, position + at, fields)
            yield (position + at, fields, view, at)
            expected_offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
            at += fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
        position += at
        if not reason:
            chunk_bytes = _SCAN_BYTES
            continue
        needed = HEADER_BYTES
        if reason != CUT_HEADER:
            needed = fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
        # Asked for a whole batch and cut all the same: the file is shorter than it was.
        is_cut_by_read = at > 0 or needed > chunk_bytes
        if not view or reason not in CUT or position + needed > size_bytes or not is_cut_by_read:
            raise BrokenBatch(position, reason)
        chunk_bytes = max(_SCAN_BYTES, needed)


def largest_first(batches: Iterable[Found], offset_min: int) -> list[tuple[int, int, int]]:
    """Return (largest timestamp by its header, position, base offset) of each batch that reaches `offset_min`, newest
    first.
    """
    found = [
        (largest_timestamp(fields), position, fields[BASE_OFFSET])
        for position, fields, _, _ in batches
        if fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] >= offset_min
    ]
    return sorted(found, key=lambda one: (-one[0], one[1]))


def first_of_largest(batch: Found, offset_min: int) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the record with the largest timestamp in a batch; None if no record
    has one.

    Only records from `offset_min` on count. Of several with that timestamp, the first is returned.
    """
    _, fields, view, at = batch
    records = (one for one in decode_batch(view, at) if one.offset >= offset_min)
    best = max(records, key=lambda one: one.timestamp, default=None)
    if best is None or best.timestamp < 0:
        return None
    return best.timestamp, best.offset, fields[LEADER_EPOCH]


def first_not_older(
    batches: Iterable[Found], timestamp: int, offset_min: int
) -> tuple[int, int, int] | None:
    """Return (timestamp, offset, leader epoch) of the first record from `offset_min` on that is not older than
    `timestamp`.

    None means that no record is. `timestamp` is in ms.
    """
    for _, fields, view, at in batches:
        last_offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA]
        if largest_timestamp(fields) < timestamp or last_offset < offset_min:
            continue
        for record in decode_batch(view, at):
            if record.offset >= offset_min and record.timestamp >= timestamp:
                return record.timestamp, record.offset, fields[LEADER_EPOCH]
    return None
