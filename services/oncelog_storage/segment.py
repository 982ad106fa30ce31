"""One segment: a stretch of the log in a file, with its three indexes beside it.

`<20-digit base offset>` + `.log` batches, `.index` offset → position, `.timeindex` timestamp → offset, `.txnindex`
aborted transactions. Appends touch the `.log` only; index entries gather in memory and are written at the next
checkpoint, since a crash before it scans this part of the log again anyway. A sealed segment's indexes are loaded when
first asked for.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from oncelog.record.batch import HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC
from oncelog.record.records import decode_batch
from oncelog_storage.core.aborted_index import (
    AbortedCheck,
    AbortedTransactionEntry,
    CorruptAbortedIndex,
    decode_entries,
    entries_below,
)
from oncelog_storage.core.offset_index import CorruptIndex, OffsetIndex
from oncelog_storage.core.replay import CUT, CUT_HEADER, HeaderFields, whole_batch_at
from oncelog_storage.core.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from oncelog_storage.core.time_index import TimeIndex, decode_entry
from oncelog_storage.files import OpenFiles, StorageFailed, touch, way_out_of_damage, write_fully
from oncelog_storage.segment_indexes import (
    ABORTED_INDEX_SUFFIX,
    INDEX_SUFFIXES,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    SegmentIndexes,
)

_log = logging.getLogger(__name__)

LOG_SUFFIX: Final = ".log"
SUFFIXES: Final = (LOG_SUFFIX, *INDEX_SUFFIXES)

_WALK_BYTES: Final = 16 * 1024
_SCAN_BYTES: Final = 1 << 20


class CorruptSegment(StorageFailed):
    """Bytes in a segment that are no record batch, where one must be; `position` is where, `reason` what is wrong."""

    def __init__(self, message: str, position: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.position = position
        self.reason = reason


def file_stem(offset: int) -> str:
    return f"{offset:020d}"


class Segment:
    """Offsets from `base_offset` on. `size_bytes` is what counts: bytes behind it were never acknowledged."""

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        files: OpenFiles,
        *,
        size_bytes: int = 0,
        created_ms: int = 0,
        is_new: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self.first_timestamp = -1
        self.end_offset = -1
        """Behind the last batch, or where the next segment begins; -1 while a scan has not found it."""
        self.aborted_check = AbortedCheck()
        """What the last checkpoint says that the file of aborted transactions begins with."""
        self._stem = str(directory / file_stem(base_offset))
        self.log_path = self._stem + LOG_SUFFIX
        self._files = files
        self._bytes_since_entry = 0
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self._knows_max_timestamp = is_new
        self._indexes: SegmentIndexes | None = (
            SegmentIndexes(OffsetIndex(base_offset), TimeIndex(base_offset), []) if is_new else None
        )

    def path(self, suffix: str) -> str:
        return self._stem + suffix

    @property
    def has_file(self) -> bool:
        """It is made by the first append."""
        return self.size_bytes > 0 or os.path.exists(self.log_path)

    # Writing.

    def write(self, buffers: tuple[bytes | memoryview, ...], size_bytes: int) -> None:
        """Append bytes. Raises OSError; then `truncate_to_size` must succeed before the next write."""
        descriptor = self._files.get(self.log_path, create=True)
        write_fully(descriptor, buffers, self.size_bytes)
        if not self.size_bytes:
            # From the first record on it tells that there is a segment, if somebody removes that.
            touch(self.path(OFFSET_INDEX_SUFFIX))
        self.size_bytes += size_bytes

    def truncate_to_size(self) -> None:
        """Cut off what a failed write left behind `size_bytes`. Raises OSError."""
        os.ftruncate(self._files.get(self.log_path, create=True), self.size_bytes)

    def index_batch(
        self,
        position: int,
        size_bytes: int,
        last_offset: int,
        max_timestamp: int,
        interval_bytes: int,
    ) -> None:
        """Take a batch into the indexes: an entry whenever `interval_bytes` have gone by."""
        self.end_offset = last_offset + 1
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_timestamp_offset = last_offset
        if self.first_timestamp < 0:
            self.first_timestamp = max_timestamp
        if self._bytes_since_entry > interval_bytes:
            indexes = self._loaded()
            indexes.offset.append(last_offset, position)
            indexes.time.maybe_append(self._max_timestamp, self._max_timestamp_offset)
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def add_aborted(self, entry: AbortedTransactionEntry) -> None:
        self._loaded().aborted.append(entry)

    def index_largest_timestamp(self) -> None:
        """Put it into the time index, where it will be looked for when the batches are not read again: when no more
        batches come, as Kafka does, and with each checkpoint.
        """
        if self._max_timestamp >= 0:
            self._loaded().time.maybe_append(self._max_timestamp, self._max_timestamp_offset)

    def unwritten(self) -> list[tuple[str, int, bytes]]:
        """(path, position, bytes) of index parts that are not in their files; empty parts create the files."""
        return [] if self._indexes is None else self._indexes.unwritten(self._stem)

    def current_aborted_check(self) -> AbortedCheck:
        """For the aborted transactions known now: what the next checkpoint keeps."""
        if (
            self._indexes is not None
            and len(self._indexes.aborted) != self.aborted_check.entry_count
        ):
            self.aborted_check = self.aborted_check.extended(self._indexes.aborted)
        return self.aborted_check

    def written(self, parts: list[tuple[str, int, bytes]]) -> None:
        """These parts are in their files now."""
        if self._indexes is not None:
            self._indexes.written(parts)

    # Indexes.

    @property
    def index_bytes(self) -> int:
        return self._indexes.offset.size_bytes if self._indexes is not None else 0

    @property
    def is_loaded(self) -> bool:
        return self._indexes is not None

    @property
    def is_written(self) -> bool:
        """The files have all of the indexes."""
        return self._indexes is None or self._indexes.is_written

    def unload(self) -> None:
        """Give a sealed segment's indexes back; they are read again when needed. What no file has stays."""
        if self.is_written:
            self._indexes = None

    def _loaded(self) -> SegmentIndexes:
        if self._indexes is None:
            self._indexes = self._load_indexes()
        return self._indexes

    def _load_indexes(self) -> SegmentIndexes:
        aborted = self.read_aborted_file()
        try:
            offset_index = OffsetIndex(self.base_offset, _read_file(self.path(OFFSET_INDEX_SUFFIX)))
            time_index = TimeIndex(self.base_offset, _read_file(self.path(TIME_INDEX_SUFFIX)))
            offset_index.check(self.size_bytes)
            time_index.check()
        except (CorruptIndex, FileNotFoundError):
            # Both can be had from the log itself; the partition's next checkpoint writes them.
            return self._rebuilt(aborted)
        return SegmentIndexes(offset_index, time_index, aborted)

    def _rebuilt(self, aborted: list[AbortedTransactionEntry]) -> SegmentIndexes:
        indexes = SegmentIndexes(
            OffsetIndex(self.base_offset), TimeIndex(self.base_offset), aborted
        )
        self._indexes = indexes
        self._bytes_since_entry = 0
        self._max_timestamp, self._max_timestamp_offset = -1, self.base_offset
        for position, fields, _, _ in self.scan(0, self.base_offset, self.end_offset):
            self.index_batch(
                position, fields[1] + LENGTH_PREFIX_BYTES, fields[0] + fields[6], fields[8], 4096
            )
        self.index_largest_timestamp()
        return indexes

    def read_aborted_file(self) -> list[AbortedTransactionEntry]:
        """Raises CorruptSegment."""
        path = self.path(ABORTED_INDEX_SUFFIX)
        try:
            data = _read_file(path)
        except FileNotFoundError:
            data = b""
        try:
            if not self.aborted_check.holds(data):
                raise CorruptAbortedIndex(
                    f"the first {self.aborted_check.entry_count} entries are not what was written"
                )
            return decode_entries(data)
        except CorruptAbortedIndex as error:
            raise CorruptSegment(
                f"{path}: {error}; restart the node, and it is built again from the log"
            ) from error

    def rewind_indexes(self, offset: int) -> bool:
        """Before a scan from `offset`: keep only what lies before it. False: unusable, scan from the beginning.

        Raises CorruptSegment for the aborted index.
        """
        aborted: list[AbortedTransactionEntry] = []
        if offset > self.base_offset:
            aborted = entries_below(self.read_aborted_file(), offset)
        elif os.path.exists(path := self.path(ABORTED_INDEX_SUFFIX)):
            # All of it is found again; what it held before, damaged perhaps, must not outlive that.
            os.unlink(path)
        self.aborted_check = AbortedCheck()
        try:
            offset_index = OffsetIndex(self.base_offset, _read_file(self.path(OFFSET_INDEX_SUFFIX)))
            time_index = TimeIndex(self.base_offset, _read_file(self.path(TIME_INDEX_SUFFIX)))
            offset_index.truncate_from(offset)
            time_index.truncate_from(offset)
            offset_index.check(self.size_bytes)
            time_index.check()
            if start := offset_index.lookup(offset):
                self._walk(start, offset)
            is_usable = True
        except (CorruptIndex, CorruptSegment, FileNotFoundError):
            offset_index, time_index = OffsetIndex(self.base_offset), TimeIndex(self.base_offset)
            is_usable = False
        self._indexes = SegmentIndexes(offset_index, time_index, aborted)
        if is_usable and offset > self.base_offset and not self._is_true(*time_index.last()):
            is_usable = False
            self._indexes = SegmentIndexes(
                OffsetIndex(self.base_offset), TimeIndex(self.base_offset), aborted
            )
        self._max_timestamp, self._max_timestamp_offset = self._indexes.time.last()
        self._knows_max_timestamp = True
        return is_usable

    def read_first_timestamp(self) -> None:
        """The first batch's, from the file: the segment's age counts from it, whatever part of it is scanned."""
        head = os.pread(self._descriptor(), HEADER_BYTES, 0)
        if len(head) == HEADER_BYTES:
            self.first_timestamp = HEADER.unpack(head)[8]

    def max_timestamp(self) -> tuple[int, int]:
        """(largest timestamp in ms, offset of the batch's end that has it); (-1, …) in an empty segment."""
        if not self._knows_max_timestamp:
            was_loaded, last = self.is_loaded, self._last_time_entry()
            if self.size_bytes and not self._is_true(*last):
                # Retention deletes by it.
                self._rebuilt(self.aborted())
                last = self._loaded().time.last()
            self._max_timestamp, self._max_timestamp_offset = last
            self._knows_max_timestamp = True
            if not was_loaded:
                self.unload()
        return self._max_timestamp, self._max_timestamp_offset

    def _last_time_entry(self) -> tuple[int, int]:
        if self._indexes is not None:
            return self._indexes.time.last()
        try:
            with open(self.path(TIME_INDEX_SUFFIX), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size >= TIME_ENTRY_BYTES and size % TIME_ENTRY_BYTES == 0:
                    file.seek(size - TIME_ENTRY_BYTES)
                    return decode_entry(file.read(TIME_ENTRY_BYTES), self.base_offset)
        except FileNotFoundError:
            pass
        return self._loaded().time.last()

    def _is_true(self, timestamp: int, offset: int) -> bool:
        """An entry of the time index names the last offset of a batch, and its timestamp. Raises CorruptSegment."""
        position, _ = self.position_of(offset)
        head = os.pread(self._descriptor(), HEADER_BYTES, position)
        if position >= self.size_bytes or len(head) < HEADER_BYTES:
            return False
        fields = HEADER.unpack(head)
        is_true = (fields[0] + fields[6], fields[8]) == (offset, timestamp)
        if not is_true:
            _log.warning(
                "%s does not say what is in the segment and is built again",
                self.path(TIME_INDEX_SUFFIX),
            )
        return is_true

    def aborted(self) -> list[AbortedTransactionEntry]:
        """Raises CorruptSegment. Loads no other index: a fetch may have to ask every later segment."""
        return self.read_aborted_file() if self._indexes is None else self._indexes.aborted

    # Reading.

    def position_of(self, offset: int) -> tuple[int, int]:
        """(where the batch with `offset`, or the first behind it, begins; the lowest base offset it may have).

        (`size_bytes`, where the segment ends) when there is none. Reads headers only. An offset just behind a batch is
        found without looking at what follows, which after a crash may be anything. An index that leads astray is built
        again from the log. Raises CorruptSegment.
        """
        start = self._loaded().offset.lookup(offset)
        if start:
            try:
                return self._walk(start, offset)
            except CorruptSegment as error:
                _log.warning("%s; its index is not trusted and built again", error)
                self._rebuilt(self._loaded().aborted)
                start = self._loaded().offset.lookup(offset)
        return self._walk(start, offset)

    def _walk(self, position: int, offset: int) -> tuple[int, int]:
        start, reached = position, self.base_offset
        descriptor = self._descriptor()
        while position < self.size_bytes and offset > self.base_offset:
            chunk = os.pread(descriptor, min(_WALK_BYTES, self.size_bytes - position), position)
            at = 0
            while at + HEADER_BYTES <= len(chunk):
                fields = HEADER.unpack_from(chunk, at)
                if fields[1] < HEADER_BYTES - LENGTH_PREFIX_BYTES or fields[3] != MAGIC:
                    raise self.corrupt(position + at, "no record batch begins there")
                if position + at == start and start and fields[0] > offset:
                    raise self.corrupt(start, f"offset {fields[0]} stands before {offset}")
                if fields[0] > reached and not (position + at == start and start):
                    self.check_gap(position + at, fields, self.end_offset)
                if fields[0] + fields[6] >= offset:
                    return position + at, fields[0]
                at += fields[1] + LENGTH_PREFIX_BYTES
                reached = fields[0] + fields[6] + 1
                if reached == offset:
                    return position + at, reached
            if at == 0:
                raise self.corrupt(position, CUT_HEADER)
            position += at
        return position, reached

    def read(
        self, position: int, expected_offset: int, upper_offset: int, bytes_max: int
    ) -> tuple[bytes, int]:
        """(whole batches from `position` that begin below `upper_offset`, offset behind the last).

        The first must not begin below `expected_offset`, as `position_of` has found. At least one batch if there is
        one, even if it is larger than `bytes_max`. Raises CorruptSegment rather than serve a batch that fails its CRC.
        """
        available = self.size_bytes - position
        if available <= 0:
            return b"", -1
        descriptor = self._descriptor()
        data = os.pread(descriptor, min(available, max(bytes_max, HEADER_BYTES)), position)
        if len(data) >= HEADER_BYTES:
            first_bytes = HEADER.unpack_from(data)[1] + LENGTH_PREFIX_BYTES
            if len(data) < first_bytes <= available:
                data = os.pread(descriptor, first_bytes, position)
        view, at = memoryview(data), 0
        while at < len(data):
            fields, reason = whole_batch_at(view, at, expected_offset)
            if reason:
                if at and reason in CUT:
                    break
                raise self.corrupt(position + at, reason)
            if fields[0] > expected_offset:
                self.check_gap(position + at, fields, self.end_offset)
            if fields[0] >= upper_offset:
                break
            expected_offset = fields[0] + fields[6] + 1
            at += fields[1] + LENGTH_PREFIX_BYTES
        return (data if at == len(data) else data[:at]), (expected_offset if at else -1)

    def check_gap(self, position: int, fields: HeaderFields, end_offset: int) -> None:
        """Offsets are missing before this batch: compaction took them, or its base offset is damaged.

        The CRC does not cover that field. A damaged one is too high here, so it meets the batch that follows, or the
        segment's end. `end_offset` is -1 where that is not known. Raises CorruptSegment.
        """
        bound = end_offset
        following = position + fields[1] + LENGTH_PREFIX_BYTES
        if following + HEADER_BYTES <= self.size_bytes:
            bound = HEADER.unpack(os.pread(self._descriptor(), HEADER_BYTES, following))[0]
        if 0 <= bound <= fields[0] + fields[6]:
            raise self.corrupt(position, f"offset {fields[0]} stands before offset {bound}")

    def scan(
        self, position: int, expected_offset: int, end_offset: int
    ) -> Iterator[tuple[int, HeaderFields, memoryview, int]]:
        """(position, header, buffer, place in buffer) of each batch from `position` on. Raises CorruptSegment.

        `end_offset` as in `check_gap`.
        """
        descriptor = self._descriptor()
        chunk_bytes = _SCAN_BYTES
        while position < self.size_bytes:
            wanted = min(chunk_bytes, self.size_bytes - position)
            view, at = memoryview(os.pread(descriptor, wanted, position)), 0
            reason = CUT_HEADER
            while at < len(view):
                fields, reason = whole_batch_at(view, at, expected_offset)
                if reason:
                    break
                if fields[0] > expected_offset:
                    self.check_gap(position + at, fields, end_offset)
                yield position + at, fields, view, at
                expected_offset = fields[0] + fields[6] + 1
                at += fields[1] + LENGTH_PREFIX_BYTES
            position += at
            if not reason:
                chunk_bytes = _SCAN_BYTES
                continue
            needed = HEADER_BYTES
            if reason != CUT_HEADER:
                needed = fields[1] + LENGTH_PREFIX_BYTES
            if not view or reason not in CUT or position + needed > self.size_bytes:
                raise self.corrupt(position, reason)
            chunk_bytes = max(_SCAN_BYTES, needed)

    def find_timestamp(self, timestamp: int, offset_min: int) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record from `offset_min` on that is not older."""
        before = self._loaded().time.lookup(timestamp)
        if before is not None and not self._is_true(*before):
            before = self._rebuilt(self._loaded().aborted).time.lookup(timestamp)
        start = max(self.base_offset if before is None else before[1], offset_min)
        for _, fields, view, at in self.scan(*self.position_of(start), self.end_offset):
            if fields[8] < timestamp or fields[0] + fields[6] < offset_min:
                continue
            for record in decode_batch(view, at):
                if record.offset >= offset_min and record.timestamp >= timestamp:
                    return record.timestamp, record.offset, fields[2]
        return None

    def corrupt(self, position: int, reason: str) -> CorruptSegment:
        return CorruptSegment(
            f"{self.log_path} is damaged at byte {position} ({reason}); {self._way_out}",
            position,
            reason,
        )

    @property
    def _way_out(self) -> str:
        return way_out_of_damage(os.path.dirname(os.path.dirname(self.log_path)))

    def _descriptor(self) -> int:
        try:
            return self._files.get(self.log_path, create=self.size_bytes == 0)
        except FileNotFoundError as error:
            raise CorruptSegment(f"{self.log_path} is missing; {self._way_out}") from error

    def close(self) -> None:
        self._files.close(self.log_path)


def _read_file(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
