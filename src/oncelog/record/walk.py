"""The check of every record of a producer's batch that a compiler makes fast: is each record sound?

This file and `walk.pxd`, which gives its names C types, are one Cython module. Where a wheel was built without a
compiler, `oncelog.record.check` goes without it: aiokafka's reader is compiled, too, and faster than this file as it
stands.

`largest_timestamp` accepts sound batches only. Any other batch `oncelog.record.check` reads record by record, and names
the fault.
"""

LOOK_CLOSER = -(2**63)
"""The result for a batch that is not sound, or so large that it needs care."""
_SAFE = 2**60
"""A bound for numbers: sums of two numbers below it are far from the ends of 64 bits."""
_INT = 28
_LONG = 49
"""The largest shift of a varint's last byte: `_INT` is Kafka's limit of five bytes, `_LONG` eight bytes, which need no
care."""


def largest_timestamp(
    data: bytes,
    start: int,
    end: int,
    count: int,
    base_timestamp: int,
    timestamp_min: int,
    timestamp_max: int,
    needs_key: bool,
) -> int:
    """Return the largest timestamp of `count` records, which fill `data` from `start` to `end`; -1 at least.
    LOOK_CLOSER: the records need the slow check.

    Kafka's format (docs/kafka-facts.md, 2): length, attributes, timestamp delta, offset delta, key, value and headers.
    `data`: bytes of an uncompressed batch. Timestamps are milliseconds since 1970, both bounds included.
    """
    if not -_SAFE < base_timestamp < _SAFE:
        return LOOK_CLOSER
    at, largest = start, -1
    for index in range(count):
        length, at = _varint(data, at, end, _INT)
        if at < 0 or length < 1 or length > end - at or data[at] > 0x7F:
            return LOOK_CLOSER
        record_end = at + length
        delta, at = _varint(data, at + 1, record_end, _LONG)
        if at < 0 or not timestamp_min <= base_timestamp + delta <= timestamp_max:
            return LOOK_CLOSER
        largest = max(largest, base_timestamp + delta)
        delta, at = _varint(data, at, record_end, _INT)
        if at < 0 or delta != index:
            return LOOK_CLOSER
        at = _after_bytes(data, at, record_end, not needs_key)
        at = _after_bytes(data, at, record_end, True)
        headers, at = _varint(data, at, record_end, _INT)
        if at < 0 or headers < 0:
            return LOOK_CLOSER
        for _ in range(headers):
            at = _after_bytes(data, at, record_end, False)
            at = _after_bytes(data, at, record_end, True)
            if at < 0:
                return LOOK_CLOSER
        if at != record_end:
            return LOOK_CLOSER
    return largest if at == end else LOOK_CLOSER


def _varint(data: bytes, at: int, end: int, shift_max: int) -> tuple[int, int]:
    """Return a zigzag varint before `end`, and where it ends: -1 where there is none."""
    value, shift = 0, 0
    while 0 <= at < end and shift <= shift_max:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return 0, -1


def _after_bytes(data: bytes, at: int, end: int, may_be_null: bool) -> int:
    """Return where a byte string with its length ends: -1 where it does not fit, or is null and may not be."""
    length, at = _varint(data, at, end, _INT)
    if at < 0 or length > end - at or length < -1 or (length < 0 and not may_be_null):
        return -1
    return at if length < 0 else at + length
