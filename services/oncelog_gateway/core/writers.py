"""Finds the producers that write to a topic, and adds up the sizes of the newest batches of each. Only batch headers
are read, no records.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

from oncelog.record.batch import BatchHeader


@dataclass(slots=True)
class Writer:
    producer_id: int
    """The producer's id; -1: producers without idempotence."""
    is_transactional: bool = False
    records: int = 0
    bytes: int = 0
    last_timestamp_ms: int = -1


class Writers(NamedTuple):
    rows: list[Writer]
    """The writers, first those with the most bytes."""
    writer_count: int
    records: int
    bytes: int
    """Bytes of all writers together."""
    span_ms: int
    """Milliseconds from the first to the last timestamp of what was read."""


def writers_of(headers: Iterable[BatchHeader], rows_max: int) -> Writers:
    """Add up batches by producer, and return the `rows_max` largest. Markers are left out, and all producers without an
    id are one row.
    """
    found: dict[int, Writer] = {}
    first = last = -1
    for header in headers:
        if header.is_control:
            continue
        one = found.setdefault(header.producer_id, Writer(header.producer_id))
        one.is_transactional |= header.is_transactional
        one.records += header.record_count
        one.bytes += header.size_bytes
        one.last_timestamp_ms = max(one.last_timestamp_ms, header.max_timestamp)
        if header.max_timestamp >= 0:
            last = max(last, header.max_timestamp)
            begin = header.base_timestamp if header.base_timestamp >= 0 else header.max_timestamp
            first = begin if first < 0 else min(first, begin)
    return Writers(
        nlargest(rows_max, found.values(), key=lambda one: (one.bytes, one.producer_id)),
        len(found),
        sum(one.records for one in found.values()),
        sum(one.bytes for one in found.values()),
        max(last - first, 0),
    )


def window_of(log_start: int, log_end: int, size_bytes: int, bytes_max: int) -> int:
    """Return about how many offsets before the end of a log hold `bytes_max` bytes; at least one."""
    count = log_end - log_start
    if count <= 0 or size_bytes <= bytes_max:
        return max(count, 1)
    return max(count * bytes_max // size_bytes, 1)
