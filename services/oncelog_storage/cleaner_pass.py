"""One pass over a compacted log, in a thread of its own: it does the reads and writes of `core.cleaning_pass`.

It opens the segments' files itself, and nobody sees what it writes until `segment_swap` exchanges the files. After each
millisecond of work it sleeps, so that the event loop never waits long for the interpreter. It sleeps longer where the
limit of its disk traffic asks for that.
"""

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from oncelog.errors import OncelogError
from oncelog.record.batch import HEADER, HEADER_BYTES, Buffer, largest_timestamp
from oncelog_storage.core import cleaning_pass
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.cleaning import LastWord
from oncelog_storage.core.cleaning_pass import (
    CleaningWork,
    Keep,
    PassSettings,
    ReadSource,
    Source,
    Work,
    Worked,
)
from oncelog_storage.core.replay import BASE_OFFSET, LAST_OFFSET_DELTA, HeaderFields
from oncelog_storage.core.segment_checks import head_crc
from oncelog_storage.core.segment_files import ABORTED_INDEX_SUFFIX, CLEANED_SUFFIX
from oncelog_storage.core.walks import run_walk
from oncelog_storage.files import FILE_MODE, OpenFiles, write_at, write_fully
from oncelog_storage.segment import Segment
from oncelog_storage.segment_swap import discard

_SLICE_S: Final = 0.001
_REST_SHARE: Final = 0.5
"""The cleaner's thread sleeps at least this share of the time that its last slice took."""


class CleaningStopped(OncelogError):
    """A pass ended without a change, because the node stops or the log is no longer what the pass began with."""


class Pace:
    """The speed of the cleaner's thread: after each millisecond of work it sleeps.

    `io_bytes_per_s` counts bytes read and written; 0 means no limit.
    """

    def __init__(self, io_bytes_per_s: int, is_stopping: threading.Event) -> None:
        self._io_bytes_per_s = io_bytes_per_s
        self._is_stopping = is_stopping
        self._slice_began = time.perf_counter()
        self._slice_bytes = 0

    def worked(self, size_bytes: int) -> None:
        """Count the bytes of a batch that was cleaned. After each millisecond of work, sleep as the limit asks.

        Raises CleaningStopped when the node stops.
        """
        self._slice_bytes += size_bytes
        spent_s = time.perf_counter() - self._slice_began
        if spent_s < _SLICE_S:
            return
        rest_s = spent_s * _REST_SHARE
        if self._io_bytes_per_s:
            rest_s = max(rest_s, self._slice_bytes / self._io_bytes_per_s - spent_s)
        if self._is_stopping.wait(rest_s):
            raise CleaningStopped("the node stops")
        self._slice_began = time.perf_counter()
        self._slice_bytes = 0


class CleanedSegment(NamedTuple):
    """A cleaned segment whose `.cleaned` files are written and synced. `segment` has its size and its indexes.

    `replaced` are the base offsets of the segments whose place it takes.
    """

    segment: Segment
    replaced: tuple[int, ...]
    bytes_before: int


class CleaningPass:
    """One pass of log compaction over a log, with its reads and writes.

    The caller calls `learn` first, then `rewrite` for each group of segments in order.
    """

    def __init__(
        self,
        directory: Path,
        files: OpenFiles,
        sources: Sequence[Source],
        aborted: Sequence[AbortedTransactionEntry],
        last_words: dict[int, LastWord],
        settings: PassSettings,
        pace: Pace,
    ) -> None:
        self._directory = directory
        self._files = files
        self._sources = sources
        self._settings = settings
        self._pace = pace
        self._work = CleaningWork(sources, aborted, last_words, settings)

    def learn(self) -> int:
        """Read the part of the log that was not cleaned yet, and keep the last offset of each key in the offset map.

        Return the offset up to which the map reaches. Raises CleaningStopped, CorruptSource, OSError.
        """
        return self._do(self._work.learn(), None)

    def rewrite(self, first: int, behind: int) -> CleanedSegment | None:
        """Write the log's segments from index `first` to before `behind` as one cleaned segment. None: nothing would
        change, so nothing is written.

        Raises CleaningStopped, CorruptSource, OSError.
        """
        sources = self._sources[first:behind]
        draft = _Draft(self._directory, self._files, sources, self._settings.index_interval_bytes)
        try:
            if not self._do(self._work.rewrite(sources), draft):
                draft.abandon()
                return None
            segment = draft.finish(self._work.kept_aborted)
        except BaseException:
            draft.abandon()
            raise
        bytes_before = sum(source.size_bytes for source in sources)
        return CleanedSegment(segment, tuple(s.base_offset for s in sources), bytes_before)

    def _do(self, work: Work, draft: "_Draft | None") -> int:
        reader = _Reader()

        def answer(step: ReadSource | Keep | Worked) -> bytes:
            match step:
                case ReadSource(source, position, size_bytes):
                    return reader.read(source, position, size_bytes)
                case Keep(batch):
                    assert draft is not None
                    draft.add(batch)
                case Worked(size_bytes):
                    self._pace.worked(size_bytes)
            return b""

        try:
            return run_walk(work, answer)
        finally:
            reader.close()


class _Reader:
    """Reads bytes of segment files for a cleaning pass, and keeps one file open at a time."""

    def __init__(self) -> None:
        self._source: Source | None = None
        self._descriptor = -1

    def read(self, source: Source, position: int, size_bytes: int) -> bytes:
        if self._source is not source:
            self.close()
            self._descriptor = os.open(source.log_path, os.O_RDONLY | os.O_CLOEXEC)
            self._source = source
        return os.pread(self._descriptor, size_bytes, position)

    def close(self) -> None:
        if self._source is not None:
            self._source = None
            os.close(self._descriptor)


class _Draft:
    """A segment that a cleaning pass is writing. Its files have names with `.cleaned` until they replace the sealed
    segments.
    """

    def __init__(
        self, directory: Path, files: OpenFiles, sources: Sequence[Source], interval_bytes: int
    ) -> None:
        newest = sources[-1].changed_ms
        self._directory = directory
        self._segment = Segment(
            directory, sources[0].base_offset, files, created_ms=newest, is_new=True
        )
        self._interval_bytes = interval_bytes
        self._path = self._segment.log_path + CLEANED_SUFFIX
        self._descriptor = os.open(
            self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE
        )
        self._pending: list[Buffer] = []
        self._pending_bytes = 0
        self._written_bytes = 0
        self._is_open = True

    def add(self, batch: Buffer) -> None:
        fields: HeaderFields = HEADER.unpack_from(batch)
        if not self._segment.head_crc:
            self._segment.head_crc = head_crc(bytes(batch[:HEADER_BYTES]))
        self._segment.index_batch(
            self._written_bytes + self._pending_bytes,
            len(batch),
            fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA],
            largest_timestamp(fields),
            self._interval_bytes,
        )
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        if self._pending_bytes >= cleaning_pass.CHUNK_BYTES:
            self._flush()

    def finish(self, aborted: Sequence[AbortedTransactionEntry]) -> Segment:
        """Sync all files of the segment. Return it as it will be in the log."""
        self._flush()
        os.fdatasync(self._descriptor)
        self._close()
        segment = self._segment
        for entry in aborted:
            segment.add_aborted(entry)
        segment.index_largest_timestamp()
        segment.size_bytes = self._written_bytes
        segment.current_aborted_check()
        parts = segment.unwritten()
        for path, position, data in parts:
            write_at(path + CLEANED_SUFFIX, position, data)
        if not aborted:
            write_at(segment.path(ABORTED_INDEX_SUFFIX) + CLEANED_SUFFIX, 0, b"")
        segment.written(parts)
        os.utime(self._path, ns=(segment.created_ms * 1_000_000,) * 2)
        return segment

    def abandon(self) -> None:
        if self._is_open:
            self._close()
        discard(self._directory, self._segment.base_offset)

    def _flush(self) -> None:
        if self._pending:
            data = b"".join(self._pending)
            write_fully(self._descriptor, (data,), len(data), self._written_bytes)
            self._written_bytes += self._pending_bytes
            self._pending, self._pending_bytes = [], 0

    def _close(self) -> None:
        self._is_open = False
        os.close(self._descriptor)
