"""Decides what bytes that cannot be read are: the end of one unfinished write, the loss in a power cut, or damage (ADR
0023).

This module is pure: the callers read the bytes, from the damaged place on, and do what is decided. At most
`SEARCHED_BYTES_MAX` of a file are searched.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.record.batch import CODEC_MASK, HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES
from oncelog.wording import counted
from oncelog_storage.core.replay import (
    ATTRIBUTES,
    BASE_OFFSET,
    BATCH_CRC,
    BATCH_LENGTH,
    CUT,
    LAST_OFFSET_DELTA,
    RECORD_COUNT,
    HeaderFields,
    whole_batch_at,
)

SEARCHED_BYTES_MAX: Final = 64 * 1024 * 1024
_PAGE_BYTES: Final = 4096
_CRC_FROM: Final = 21
_RECORD_BYTES_MIN: Final = 6
"""The shortest record has one byte each for attributes, two deltas, the lengths of key and value, and the header count.
"""
_MAGIC_AT: Final = 16
_MAGIC: Final = b"\x02"
_OFFSETS_AHEAD_MAX: Final = 2**31
"""Offsets within one segment are never further apart than this."""


class Behind(NamedTuple):
    """The numbers of readable records, of their bytes and of their files behind a damaged place in a log. A report of
    damage shows them.
    """

    record_count: int = 0
    size_bytes: int = 0
    file_count: int = 0

    def __str__(self) -> str:
        if not self.record_count:
            return "nothing readable is behind it"
        records = counted(self.record_count, "readable record")
        return f"{records} in {counted(self.file_count, 'file')} behind it"

    def with_file(self, other: "Behind") -> "Behind":
        """Return the sum of these counts and those of another file."""
        return Behind(*(sum(pair) for pair in zip(self, other, strict=True)))


def sound_batches(data: bytes, at: int, expected_offset: int) -> Iterator[HeaderFields]:
    """Yield the header of every sound batch (whole, and with the right CRC) from `at` on, wherever one begins. Their
    offsets rise.
    """
    view = memoryview(data)
    while at + HEADER_BYTES <= len(data):
        fields, reason = whole_batch_at(view, at, expected_offset)
        if not reason and fields[BASE_OFFSET] < expected_offset + _OFFSETS_AHEAD_MAX:
            yield fields
            expected_offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
            at += fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
            continue
        found = _next_candidate(data, at + 1, expected_offset)
        if found < 0:
            return
        at = found


def _next_candidate(data: bytes, at: int, expected_offset: int) -> int:
    """Return where the next header may begin, by its magic and a base offset that is near; -1 for nowhere."""
    while (magic_at := data.find(_MAGIC, at + _MAGIC_AT)) >= 0:
        at = magic_at - _MAGIC_AT
        base_offset = int.from_bytes(data[at : at + 8], "big", signed=True)
        if 0 <= base_offset - expected_offset < _OFFSETS_AHEAD_MAX:
            return at
        at += 1
    return -1


def counted_in(data: bytes, expected_offset: int) -> Behind:
    """Return the number of records and bytes that can still be read in one file's `data`."""
    headers = list(sound_batches(data, 0, expected_offset))
    return Behind(
        sum(fields[RECORD_COUNT] for fields in headers),
        sum(fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES for fields in headers),
        1 if headers else 0,
    )


def is_unfinished_write(data: bytes, size_bytes: int, reason: str, offset: int) -> bool:
    """True if the last `size_bytes` of the newest segment, from the damage on, are the beginning of one batch.

    `reason` says what is wrong with these bytes, and `offset` was expected there. A batch whose length was damaged
    looks the same. Its CRC, which does not cover the length, tells the difference.
    """
    if reason not in CUT or size_bytes > SEARCHED_BYTES_MAX:
        return False
    stated_crc = HEADER.unpack_from(data)[BATCH_CRC] if len(data) >= HEADER_BYTES else None
    if crc32c(data[_CRC_FROM:]) == stated_crc:
        return False
    return next(sound_batches(data, 0, offset), None) is None or _ends_in_a_record(data, offset)


def is_lost_in_power_cut(data: bytes, position: int, reason: str, offset: int) -> bool:
    """True if the damage at `position` looks like bytes that were not synced before a power cut.

    Then nothing sound follows, or a page of the batch has only zeros.
    """
    if next(sound_batches(data, 0, offset), None) is None:
        return True
    return reason not in CUT and _has_lost_page(data, position)


def _ends_in_a_record(data: bytes, offset: int) -> bool:
    """True if the records in `data`, which begins with a batch header, end inside of one record of that batch.

    Then the batch is unfinished. Each record says where the next one begins. A sound batch found in these bytes is then
    only the value of a record: a client that mirrors a log writes such values.

    If only the length of a batch was damaged, all its records are there, and the bytes that follow belong to another
    batch. A compressed batch does not show its records, so the result is False.
    """
    fields = HEADER.unpack_from(data)
    count, batch_end = fields[RECORD_COUNT], fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
    if (
        fields[BASE_OFFSET] != offset
        or fields[ATTRIBUTES] & CODEC_MASK
        or count < 1
        or fields[LAST_OFFSET_DELTA] != count - 1
    ):
        return False
    at = HEADER_BYTES
    try:
        for number in range(count):
            size, body = _varint(data, at)
            _, delta_at = _varint(data, body + 1)
            delta, _ = _varint(data, delta_at)
            at = body + size
            if size < _RECORD_BYTES_MIN or delta != number or at > batch_end:
                return False
    except IndexError:
        return True
    return at > len(data)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return (value, position behind it) of the varint at `at`.

    The value of a varint that is longer than any writer writes is -1. Raises IndexError if the varint is cut.
    """
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    return -1, at


def _has_lost_page(data: bytes, position: int) -> bool:
    """True if a page of the file has only zeros up to its end, as a power cut leaves it. Only pages that hold a part of
    the batch at `position` are looked at.
    """
    claimed = HEADER.unpack_from(data)[BATCH_LENGTH] if len(data) >= HEADER_BYTES else 0
    end = min(max(claimed + LENGTH_PREFIX_BYTES, HEADER_BYTES), len(data))
    begin = 0
    while begin < end:
        page_end = min(begin + _PAGE_BYTES - (position + begin) % _PAGE_BYTES, len(data))
        if not any(data[begin:page_end]):
            return True
        begin = page_end
    return False


class Verdict(NamedTuple):
    """Whether a log may be cut at a damaged place, and whether the rest of it is one unfinished write."""

    may_cut: bool
    """True if no acknowledged record is lost when the log ends there."""
    is_torn: bool
    """True if the rest is one unfinished write, and nothing readable is behind it."""


def verdict(
    data: bytes,
    size_bytes: int,
    position: int,
    reason: str,
    offset: int,
    *,
    is_newest: bool,
    may_have_lost_power: bool,
) -> Verdict:
    """Return whether a damaged log may be cut at the damage without the loss of an acknowledged record.

    `size_bytes` is how many bytes the segment has from the damaged `position` on; `data` has the first of them, or all.
    A killed process leaves one unfinished write at the end of the newest segment, which may be cut. More is cut only
    after a power cut.
    """
    is_torn = is_newest and is_unfinished_write(data, size_bytes, reason, offset)
    if may_have_lost_power and not is_torn:
        return Verdict(is_lost_in_power_cut(data, position, reason, offset), is_torn)
    return Verdict(is_torn, is_torn)
