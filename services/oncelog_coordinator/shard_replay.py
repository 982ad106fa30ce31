"""The records of a shard's log that still count: the last one of each key, as if the log had just been compacted.

A load reads every batch but decodes only records that no later one has superseded. The others cost a few microseconds
each. Batches of clients' transactions, which a group shard has, are all kept: the marker decides whether they supersede
anything.

`recent` has the newest records, superseded or not. The last coordinator may have died before it exported their spans.
"""

import struct
from collections import deque
from collections.abc import Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from oncelog.errors import OncelogError
from oncelog.record.batch import (
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    TRANSACTIONAL,
    BatchHeader,
)
from oncelog.record.bulk import corrupt_errors, few_records_of, uncompressed

HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of a batch's header, in the order of `HEADER`."""

_MAX_TIMESTAMP: Final = 8
"""The index of the maximum timestamp in `HeaderFields`."""
_BASE_AND_LENGTH: Final = struct.Struct(">qi")
_LAST_DELTA: Final = struct.Struct(">i")
_LAST_DELTA_AT: Final = 23


def next_offset_of(data: bytes) -> int:
    """Return the offset after the last whole batch in these bytes; -1 if there is none."""
    at, end, next_offset = 0, len(data), -1
    while end - at >= HEADER_BYTES:
        base_offset, batch_length = _BASE_AND_LENGTH.unpack_from(data, at)
        behind = at + batch_length + LENGTH_PREFIX_BYTES
        if behind > end or batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
            break
        next_offset = base_offset + _LAST_DELTA.unpack_from(data, at + _LAST_DELTA_AT)[0] + 1
        at = behind
    return next_offset


class LiveRecord(NamedTuple):
    """A record of the log that still counts. For a control batch `key` is None, and `value` is the whole batch."""

    offset: int
    header: BatchHeader
    key: bytes | None
    value: bytes | None


class RecentRecord(NamedTuple):
    """One of the newest records of the log, superseded or not. `before` is the value that its key had before it; None:
    none.
    """

    header: BatchHeader
    key: bytes
    value: bytes | None
    before: bytes | None


class MalformedShard(OncelogError):
    """A batch of a shard's log is damaged: a coordinator cannot have written it."""


class LiveRecords:
    """Collects from a shard's log the newest record of each key. Call `add_batches` for the fetched bytes in order,
    then `in_order`.
    """

    def __init__(self, recent_ms: int = 0) -> None:
        """Start empty. `recent_ms` is the age, before the log's newest record, up to which `recent` yields records."""
        self._recent_ms = recent_ms
        self._recent: deque[tuple[HeaderFields, bytes, bytes | None, bytes | None]] = deque()
        self._latest: dict[bytes, tuple[int, HeaderFields, bytes | None]] = {}
        self._others: list[LiveRecord] = []
        # Keys written by transactions that are open at this place of the log, by producer id.
        self._open: dict[int, set[bytes]] = {}

    def add_batches(self, data: bytes, start: int) -> int:
        """Add every whole batch in `data` from offset `start` on; return the offset after the last one.

        Raises MalformedShard.
        """
        at, end, next_offset = 0, len(data), start
        view = memoryview(data)
        unpack = HEADER.unpack_from
        while end - at >= HEADER_BYTES:
            fields: HeaderFields = unpack(data, at)
            behind = at + fields[1] + LENGTH_PREFIX_BYTES
            if behind > end:
                break
            if behind < at + HEADER_BYTES:
                raise MalformedShard(f"the batch at offset {fields[0]} is shorter than a header")
            if fields[0] + fields[6] >= next_offset:
                try:
                    self._batch(fields, view[at:behind], start)
                except corrupt_errors(OncelogError) as error:
                    raise MalformedShard(f"batch at offset {fields[0]}: {error}") from error
                next_offset = fields[0] + fields[6] + 1
            at = behind
        return next_offset

    def in_order(self) -> Iterator[LiveRecord]:
        """Yield the records that count, by offset: each key's newest one, and all that belong to clients'
        transactions.
        """
        latest = (
            (offset, LiveRecord(offset, BatchHeader._make(fields), key, value))
            for key, (offset, fields, value) in self._latest.items()
        )
        others = ((record.offset, record) for record in self._others)
        for _, record in sorted((*latest, *others), key=itemgetter(0)):
            yield record

    def recent(self) -> Iterator[RecentRecord]:
        """Yield the records of the log's last `recent_ms` milliseconds, by offset, superseded or not.

        Those that were written as part of a client's transaction are left out.
        """
        for fields, key, value, before in self._recent:
            yield RecentRecord(BatchHeader._make(fields), key, value, before)

    def _note(self, fields: HeaderFields, key: bytes, value: bytes | None) -> None:
        known = self._latest.get(key)
        recent = self._recent
        recent.append((fields, key, value, None if known is None else known[2]))
        while recent[0][0][_MAX_TIMESTAMP] < fields[_MAX_TIMESTAMP] - self._recent_ms:
            recent.popleft()

    def _batch(self, fields: HeaderFields, batch: memoryview, start: int) -> None:
        attributes = fields[5]
        if attributes & CONTROL:
            self._open.pop(fields[9], None)
            if fields[12]:
                header = BatchHeader._make(fields)
                self._others.append(LiveRecord(fields[0], header, None, bytes(batch)))
            return
        if fields[12] == 0:
            return
        is_covered = bool(attributes & TRANSACTIONAL)
        latest = self._latest
        for record in few_records_of(uncompressed(batch)):
            key = record.key
            if key is None:
                raise ValueError("a record without a key")
            if record.offset < start:
                continue
            if self._recent_ms and not is_covered:
                self._note(fields, key, record.value)
            if is_covered:
                header = BatchHeader._make(fields)
                self._others.append(LiveRecord(record.offset, header, key, record.value))
                self._open.setdefault(fields[9], set()).add(key)
            elif record.value is None and self._is_pending(key):
                # It also takes back what an open transaction wrote, so a later record does not stand for it.
                header = BatchHeader._make(fields)
                self._others.append(LiveRecord(record.offset, header, key, None))
                latest.pop(key, None)
            else:
                latest[key] = (record.offset, fields, record.value)

    def _is_pending(self, key: bytes) -> bool:
        return any(key in keys for keys in self._open.values())
