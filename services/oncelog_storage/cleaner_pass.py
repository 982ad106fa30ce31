"""One pass over a compacted log, in a thread of its own: learn where each key was written last, then write the segments
anew without what has been superseded.

What it reads cannot change: sealed segments below the recovery point, through descriptors of its own. What it writes
nobody sees before `segment_swap`. After each millisecond of work it sleeps, so that the event loop never waits long for
the interpreter, and as long as its share of the disk asks for.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from oncelog.errors import KafkaError, OncelogError
from oncelog.record.batch import HEADER, LENGTH_PREFIX_BYTES, Buffer
from oncelog.record.bulk import corrupt_errors
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.cleaning import BatchCleaner, LastWord, Transactions, learn_keys
from oncelog_storage.core.offset_map import OffsetMap
from oncelog_storage.core.replay import CUT, HeaderFields, whole_batch_at
from oncelog_storage.core.segment_files import ABORTED_INDEX_SUFFIX, CLEANED_SUFFIX
from oncelog_storage.files import FILE_MODE, OpenFiles, write_at, write_fully
from oncelog_storage.segment import Segment
from oncelog_storage.segment_swap import discard

_CHUNK_BYTES: Final = 1 << 20
_SLICE_S: Final = 0.001
_REST_SHARE: Final = 0.5
"""Of the time a slice took: what the thread sleeps before the next one, at least."""


class CleaningStopped(OncelogError):
    """The node stops, or the log is no longer what the pass began with. Nothing was changed."""


class CorruptSource(OncelogError):
    """A segment holds bytes that are no batch; the log is not cleaned until it is repaired."""


class Pace:
    """Rests between slices of work; `io_bytes_per_s` counts what is read and written, 0 for no limit."""

    def __init__(self, io_bytes_per_s: int, is_stopping: threading.Event) -> None:
        self._io_bytes_per_s = io_bytes_per_s
        self._is_stopping = is_stopping
        self._slice_began = time.perf_counter()
        self._slice_bytes = 0

    def worked(self, size_bytes: int) -> None:
        """Called after each batch. Raises CleaningStopped."""
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


class Source(NamedTuple):
    """A sealed segment as it was when the pass began."""

    base_offset: int
    end_offset: int
    size_bytes: int
    log_path: str
    created_ms: int


class PassSettings(NamedTuple):
    """What the topic and the node ask of the pass."""

    first_dirty: int
    now: int
    delete_retention_ms: int
    index_interval_bytes: int
    map_bytes_max: int


class CleanedSegment(NamedTuple):
    """Written and synced as `.cleaned`. `segment` has its size and its indexes."""

    segment: Segment
    replaced: tuple[int, ...]
    bytes_before: int


class CleaningPass:
    """`learn` first, then `rewrite` group by group in order."""

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
        self._aborted = aborted
        self._settings = settings
        self._pace = pace
        self._map = OffsetMap(settings.map_bytes_max)
        self._transactions = Transactions(aborted)
        self._cleaner = BatchCleaner(
            self._map,
            self._transactions,
            last_words,
            settings.now,
            settings.delete_retention_ms,
        )

    def learn(self) -> int:
        """Fill the map from the first dirty offset on; returns the offset up to which it reaches.

        Raises CleaningStopped, CorruptSource, OSError.
        """
        corrupt: tuple[type[Exception], ...] = (KafkaError, *corrupt_errors())
        start = self._settings.first_dirty
        transactions = Transactions(entry for entry in self._aborted if entry.last_offset >= start)
        for source in self._sources:
            if source.end_offset <= start:
                continue
            for position, fields, batch in self._batches(source):
                try:
                    is_learnt = learn_keys(self._map, transactions, fields, batch, start)
                except corrupt as error:
                    raise _corrupt(source, position, error) from error
                if not is_learnt:
                    return self._map.latest_offset + 1
                self._pace.worked(len(batch))
        return self._sources[-1].end_offset

    def rewrite(self, first: int, behind: int) -> CleanedSegment | None:
        """Write these sources as one segment; None when all of it stays as it is.

        Raises CleaningStopped, CorruptSource, OSError.
        """
        corrupt: tuple[type[Exception], ...] = (KafkaError, *corrupt_errors())
        sources = self._sources[first:behind]
        draft = _Draft(self._directory, self._files, sources, self._settings.index_interval_bytes)
        self._transactions.kept.clear()
        is_changed = len(sources) > 1
        try:
            for source in sources:
                for position, fields, batch in self._batches(source):
                    is_last = source is sources[-1] and position + len(batch) == source.size_bytes
                    try:
                        kept = self._cleaner.clean(fields, batch, is_last=is_last)
                    except corrupt as error:
                        raise _corrupt(source, position, error) from error
                    is_changed = is_changed or kept is not batch
                    if kept is not None:
                        draft.add(kept)
                    self._pace.worked(len(batch) + len(kept or b""))
            if not is_changed:
                draft.abandon()
                return None
            segment = draft.finish(self._transactions.kept)
        except BaseException:
            draft.abandon()
            raise
        bytes_before = sum(source.size_bytes for source in sources)
        return CleanedSegment(segment, tuple(s.base_offset for s in sources), bytes_before)

    def _batches(self, source: Source) -> Iterator[tuple[int, HeaderFields, memoryview]]:
        """(position, header, bytes) of each batch."""
        descriptor = os.open(source.log_path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            position, expected, chunk_bytes = 0, source.base_offset, _CHUNK_BYTES
            while position < source.size_bytes:
                wanted = min(chunk_bytes, source.size_bytes - position)
                view, at = memoryview(os.pread(descriptor, wanted, position)), 0
                reason = CUT[0]
                while at < len(view):
                    fields, reason = whole_batch_at(view, at, expected)
                    if reason:
                        break
                    size_bytes = fields[1] + LENGTH_PREFIX_BYTES
                    expected = fields[0] + fields[6] + 1
                    if expected > source.end_offset:
                        # The CRC does not cover a batch's offset, and a wrong one would be written anew.
                        reason = f"offset {fields[0]} stands before {source.end_offset}"
                        break
                    yield position + at, fields, view[at : at + size_bytes]
                    at += size_bytes
                position += at
                if not reason:
                    continue
                if reason not in CUT or position + len(view) - at >= source.size_bytes or not view:
                    raise _corrupt(source, position, reason)
                chunk_bytes = _CHUNK_BYTES if at else 4 * chunk_bytes
        finally:
            os.close(descriptor)


def _corrupt(source: Source, position: int, error: Exception | str) -> CorruptSource:
    return CorruptSource(f"{source.log_path} at byte {position}: {error}")


class _Draft:
    """A segment being written under its `.cleaned` names."""

    def __init__(
        self, directory: Path, files: OpenFiles, sources: Sequence[Source], interval_bytes: int
    ) -> None:
        newest = sources[-1].created_ms
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
        self._segment.index_batch(
            self._written_bytes + self._pending_bytes,
            len(batch),
            fields[0] + fields[6],
            fields[8],
            self._interval_bytes,
        )
        self._pending.append(batch)
        self._pending_bytes += len(batch)
        if self._pending_bytes >= _CHUNK_BYTES:
            self._flush()

    def finish(self, aborted: Sequence[AbortedTransactionEntry]) -> Segment:
        """Sync all of it; the segment is as it will be in the log."""
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
            write_fully(self._descriptor, (b"".join(self._pending),), self._written_bytes)
            self._written_bytes += self._pending_bytes
            self._pending, self._pending_bytes = [], 0

    def _close(self) -> None:
        self._is_open = False
        os.close(self._descriptor)
