"""One segment: a stretch of the log in a file, with its three indexes beside it.

`<20-digit base offset>` + `.log` batches, `.index` offset → position, `.timeindex` timestamp → offset, `.txnindex`
aborted transactions. `core.segment_state` is their state in memory, `core.batch_walk` searches bytes.
"""

import logging
import os
from collections.abc import Iterator
from pathlib import Path

from oncelog.record.batch import HEADER, HEADER_BYTES, largest_timestamp
from oncelog_storage.core.aborted_index import (
    NOT_KNOWN,
    AbortedTransactionEntry,
    CorruptAbortedIndex,
    entries_below,
)
from oncelog_storage.core.batch_walk import (
    BrokenBatch,
    Found,
    Read,
    ResultT,
    Walk,
    find,
    first_not_older,
    first_of_largest,
    largest_first,
    scan,
    whole_batches,
)
from oncelog_storage.core.offset_index import CorruptIndex
from oncelog_storage.core.segment_checks import head_crc
from oncelog_storage.core.segment_files import (
    ABORTED_INDEX_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_stem,
)
from oncelog_storage.core.segment_indexes import (
    SegmentIndexes,
    aborted_entries,
    decode_indexes,
    empty_indexes,
)
from oncelog_storage.core.segment_state import SegmentState, is_entry_true
from oncelog_storage.core.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from oncelog_storage.core.time_index import decode_entry
from oncelog_storage.core.walks import run_walk
from oncelog_storage.files import (
    OpenFiles,
    StorageFailed,
    opened,
    touch,
    way_out_of_damage,
    write_fully,
)

_log = logging.getLogger(__name__)


class CorruptSegment(StorageFailed):
    """Bytes at `position` of a segment are no record batch, where one must be. `reason` says what is wrong."""

    def __init__(self, message: str, position: int = 0, reason: str = "") -> None:
        super().__init__(message)
        self.position = position
        self.reason = reason


class Segment(SegmentState):
    """One segment of a log: its state in memory, and its files."""

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
        super().__init__(base_offset, size_bytes=size_bytes, created_ms=created_ms, is_new=is_new)
        self._stem = str(directory / file_stem(base_offset))
        self.log_path = self._stem + LOG_SUFFIX
        self._files = files

    def path(self, suffix: str) -> str:
        return self._stem + suffix

    @property
    def has_file(self) -> bool:
        """True if the segment has a `.log` file, which the first append makes."""
        return self.size_bytes > 0 or os.path.exists(self.log_path)

    def read_head(self) -> bytes:
        """Return the header that the segment begins with, or fewer bytes. Raises OSError."""
        with opened(self.log_path) as descriptor:
            head = os.pread(descriptor, HEADER_BYTES, 0)
        self.head_crc = head_crc(head)
        return head

    # Writing.

    def begin(self, buffers: tuple[bytes | memoryview, ...]) -> None:
        """Make the `.log` file, because the first batch is about to be written. Raises OSError."""
        self._files.get(self.log_path, create=True)
        self.head_crc = head_crc(b"".join(buffer[:HEADER_BYTES] for buffer in buffers))

    def write(self, buffers: tuple[bytes | memoryview, ...], size_bytes: int) -> None:
        """Append bytes to the segment. Raises OSError; then `truncate_to_size` must succeed before the next write."""
        descriptor = self._files.get(self.log_path, create=True)
        write_fully(descriptor, buffers, size_bytes, self.size_bytes)
        if not self.size_bytes:
            # From the first record on the index shows that the segment is missing, if somebody removes it.
            touch(self.path(OFFSET_INDEX_SUFFIX))
        self.size_bytes += size_bytes

    def truncate_to_size(self) -> None:
        """Cut off what a failed write left behind `size_bytes`. Raises OSError."""
        os.ftruncate(self._files.get(self.log_path, create=True), self.size_bytes)

    def unwritten(self) -> list[tuple[str, int, bytes]]:
        """Return (path, position, bytes) of index parts that are not in their files. An empty part creates its file."""
        return [] if self._indexes is None else self._indexes.unwritten(self._stem)

    # Indexes.

    def _load_indexes(self) -> SegmentIndexes:
        aborted = self.read_aborted_file()
        try:
            return self._decoded(aborted)
        except (CorruptIndex, FileNotFoundError):
            # Both can be had from the log itself; the partition's next checkpoint writes them.
            return self._rebuilt(aborted)

    def _decoded(
        self, aborted: list[AbortedTransactionEntry], *, below: int | None = None
    ) -> SegmentIndexes:
        """Return the indexes from their files. Raises CorruptIndex, FileNotFoundError."""
        offset_data, _ = self._files.read_end(self.path(OFFSET_INDEX_SUFFIX))
        time_data, _ = self._files.read_end(self.path(TIME_INDEX_SUFFIX))
        return decode_indexes(
            self.base_offset, self.size_bytes, offset_data, time_data, aborted, below=below
        )

    def _rebuilt(self, aborted: list[AbortedTransactionEntry]) -> SegmentIndexes:
        with self._files.waiting():
            return self._index_again(aborted, self.scan(0, self.base_offset, self.end_offset))

    def read_aborted_file(self) -> list[AbortedTransactionEntry]:
        """Return the entries of the aborted index's file. Raises CorruptSegment."""
        path = self.path(ABORTED_INDEX_SUFFIX)
        try:
            data, _ = self._files.read_end(path)
        except FileNotFoundError:
            data = b""
        try:
            return aborted_entries(self.aborted_check, data)
        except CorruptAbortedIndex as error:
            raise CorruptSegment(
                f"{path}: {error}; restart the node, and it is built again from the log"
            ) from error

    def rewind_indexes(self, offset: int) -> bool:
        """Keep only the index entries below `offset`, from which a scan begins.

        False: the indexes are unusable, and the scan must begin at the segment's start. Raises CorruptSegment for the
        aborted index.
        """
        aborted: list[AbortedTransactionEntry] = []
        if offset > self.base_offset:
            aborted = entries_below(self.read_aborted_file(), offset)
        elif os.path.exists(path := self.path(ABORTED_INDEX_SUFFIX)):
            # All of it is found again; what it held before, damaged perhaps, must not outlive that.
            os.unlink(path)
        if offset <= self.base_offset:
            self.aborted_check = NOT_KNOWN
        self._is_aborted_derived = True
        try:
            indexes = self._decoded(aborted, below=offset)
            if start := indexes.offset.lookup(offset):
                self._find(start, offset)
            is_usable = True
        except (CorruptIndex, CorruptSegment, FileNotFoundError):
            indexes = empty_indexes(self.base_offset, aborted)
            is_usable = False
        self._indexes = indexes
        if is_usable and offset > self.base_offset and not self._is_true(*indexes.time.last()):
            is_usable = False
            self._indexes = empty_indexes(self.base_offset, aborted)
        self._max_timestamp, self._max_timestamp_offset = self._indexes.time.last()
        self._knows_max_timestamp = True
        return is_usable

    def read_first_timestamp(self) -> None:
        """Read the first batch's timestamp from the file.

        The segment's age counts from it, whatever part of it is scanned.
        """
        head = self._pread(HEADER_BYTES, 0)
        if len(head) == HEADER_BYTES:
            self.first_timestamp = largest_timestamp(HEADER.unpack(head))

    def max_timestamp(self) -> tuple[int, int]:
        """Return (largest timestamp in ms, last offset of the batch that has it); (-1, …) in an empty segment."""
        if not self._knows_max_timestamp:
            was_loaded = self.is_loaded
            try:
                last = self._last_time_entry()
                if self.size_bytes and not self._is_true(*last):
                    # Retention deletes by it.
                    self._rebuilt(self.aborted())
                    last = self._loaded().time.last()
                self._max_timestamp, self._max_timestamp_offset = last
                self._knows_max_timestamp = True
            finally:
                # The indexes are unloaded even if a part is not in memory, for then all of this is done again.
                if not was_loaded:
                    self.unload()
        return self._max_timestamp, self._max_timestamp_offset

    def _last_time_entry(self) -> tuple[int, int]:
        if self._indexes is not None:
            return self._indexes.time.last()
        try:
            entry, size = self._files.read_end(self.path(TIME_INDEX_SUFFIX), TIME_ENTRY_BYTES)
            if size >= TIME_ENTRY_BYTES and size % TIME_ENTRY_BYTES == 0:
                return decode_entry(entry, self.base_offset)
        except FileNotFoundError:
            pass
        return self._loaded().time.last()

    def _is_true(self, timestamp: int, offset: int) -> bool:
        """True if an entry of the time index names the last offset of a batch, and its timestamp.

        Raises CorruptSegment.
        """
        position, _ = self.position_of(offset)
        head = self._pread(HEADER_BYTES, position)
        if position >= self.size_bytes or len(head) < HEADER_BYTES:
            return False
        is_true = is_entry_true(HEADER.unpack(head), timestamp, offset)
        if not is_true:
            _log.warning(
                "%s does not say what is in the segment and is built again",
                self.path(TIME_INDEX_SUFFIX),
            )
        return is_true

    def aborted(self) -> list[AbortedTransactionEntry]:
        """Return the segment's aborted transactions. Raises CorruptSegment.

        No other index is loaded, for a fetch may have to ask every later segment.
        """
        return self.read_aborted_file() if self._indexes is None else self._indexes.aborted

    # Reading.

    def position_of(self, offset: int) -> tuple[int, int]:
        """Return (position of the batch that holds `offset` or of the first one behind it, lowest base offset that it
        may have).

        The position is `size_bytes` if there is no such batch. Reads headers only. An offset just behind a batch is
        found without a look at what follows, which may be anything after a crash. An index that leads astray is built
        again from the log. Raises CorruptSegment.
        """
        start = self._loaded().offset.lookup(offset)
        if start:
            try:
                return self._find(start, offset)
            except CorruptSegment as error:
                _log.warning("%s; its index is not trusted and built again", error)
                self._rebuilt(self._loaded().aborted)
                start = self._loaded().offset.lookup(offset)
        return self._find(start, offset)

    def _find(self, start: int, offset: int) -> tuple[int, int]:
        return self._walked(find(self.stretch, start, offset))

    def read(
        self, position: int, expected_offset: int, upper_offset: int, bytes_max: int
    ) -> tuple[bytes, int]:
        """Return (batches from `position` up to `upper_offset`, offset behind them or -1), by
        `core.batch_walk.whole_batches`.

        Raises CorruptSegment for a batch that fails its CRC.
        """
        if position >= self.size_bytes:
            return b"", -1
        return self._walked(
            whole_batches(self.stretch, position, expected_offset, upper_offset, bytes_max)
        )

    def _walked(self, walk: Walk[ResultT]) -> ResultT:
        """Run a walk, a generator that asks for bytes, on the segment's file, and return its result. Raises
        CorruptSegment.
        """
        try:
            return run_walk(walk, lambda wanted: self._pread(wanted.size_bytes, wanted.position))
        except BrokenBatch as error:
            raise self.corrupt(error.position, error.reason) from None

    def scan(self, position: int, expected_offset: int, end_offset: int) -> Iterator[Found]:
        """Yield each batch from `position` on. `end_offset` is -1 if it is not known. Raises CorruptSegment."""
        walk = scan(self.stretch._replace(end_offset=end_offset), position, expected_offset)
        data = b""
        try:
            step = next(walk)
            while True:
                if isinstance(step, Read):
                    data = self._pread(step.size_bytes, step.position)
                else:
                    yield step
                    data = b""
                step = walk.send(data)
        except StopIteration:
            return
        except BrokenBatch as error:
            raise self.corrupt(error.position, error.reason) from None

    def find_timestamp(self, timestamp: int, offset_min: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record from `offset_min` on that is not older than
        `timestamp`.

        None: there is no such record.
        """
        before = self._loaded().time.lookup(timestamp)
        if before is not None and not self._is_true(*before):
            before = self._rebuilt(self._loaded().aborted).time.lookup(timestamp)
        start = max(self.base_offset if before is None else before[1], offset_min)
        return first_not_older(self._batches_from(start), timestamp, offset_min)

    def find_largest(self, offset_min: int) -> tuple[int, int, int] | None:
        """Return (timestamp, offset, leader epoch) of the first record with the largest timestamp from `offset_min` on.

        None: no such record has a timestamp.
        """
        best: tuple[int, int, int] | None = None
        batches = self._batches_from(max(self.base_offset, offset_min))
        for timestamp, position, base_offset in largest_first(batches, offset_min):
            if best is not None and best[0] >= timestamp:
                break
            batch = next(self.scan(position, base_offset, self.end_offset))
            found = first_of_largest(batch, offset_min)
            if found is not None and (best is None or found[0] > best[0]):
                best = found
        return best

    def _batches_from(self, offset: int) -> Iterator[Found]:
        return self.scan(*self.position_of(offset), self.end_offset)

    def corrupt(self, position: int, reason: str) -> CorruptSegment:
        return CorruptSegment(
            f"{self.log_path} is damaged at byte {position} ({reason}); {self._way_out}",
            position,
            reason,
        )

    @property
    def _way_out(self) -> str:
        return way_out_of_damage(os.path.dirname(os.path.dirname(self.log_path)))

    def _pread(self, size_bytes: int, position: int) -> bytes:
        """Read bytes of the segment's file. Raises CorruptSegment, OSError, NotInMemory."""
        try:
            descriptor = self._files.get(self.log_path, create=self.size_bytes == 0)
        except FileNotFoundError as error:
            raise CorruptSegment(f"{self.log_path} is missing; {self._way_out}") from error
        return self._files.pread(descriptor, self.log_path, size_bytes, position)

    def close(self) -> None:
        self._files.close(self.log_path)
