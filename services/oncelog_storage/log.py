"""One partition's log: its segments in order, its producer state, its start and its end.

```
log start ──────────── recovery point ─────── LSO ─── HW ─── LEO
 deleted before │ synced, never scanned │ scanned after a crash
```

An append is one write to the newest segment followed by changes in memory; nothing is awaited between. A write that
fails is cut off again, so the log holds whole batches only. Reading checks every batch's CRC. Opening after a crash is
`log_recovery`'s work, checkpoints are `log_checkpoint`'s. Not thread-safe: it belongs to the event loop.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from oncelog.ids import Partition
from oncelog.record.batch import BatchHeader, largest_timestamp
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.checkpoint_files import encode_topic_id
from oncelog_storage.core.fetching import LogSlice
from oncelog_storage.core.leader_epochs import encode_leader_epochs
from oncelog_storage.core.log_state import LogState, Room
from oncelog_storage.core.partition_values import MarkerToWrite
from oncelog_storage.core.read_places import ReadPlaces
from oncelog_storage.core.segment_files import (
    CHECKS_FILE,
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    SUFFIXES,
)
from oncelog_storage.core.segment_state import Addition, aborted_between, segment_index
from oncelog_storage.files import (
    FOLDER_MODE,
    OpenFiles,
    StorageFailed,
    read_failed,
    rename_deleted,
    sync_directory,
    sync_file,
    write_atomically,
)
from oncelog_storage.segment import CorruptSegment, Segment
from oncelog_storage.segment_checks import ChecksFile

_log = logging.getLogger(__name__)


class PartitionLog(LogState):
    """One partition's log on disk. It makes its folder with the first append."""

    def __init__(
        self,
        directory: Path,
        partition: Partition,
        topic_id: bytes,
        config: TopicConfig,
        files: OpenFiles,
    ) -> None:
        super().__init__(partition, topic_id, config)
        self.directory = directory
        self.files = files
        self.segments: list[Segment] = []
        self.folder_made: Callable[[PartitionLog], None] = _ignore
        """The callback that is called when the folder was made."""
        self.start_over_count = 0
        """The number of times that the whole log was dropped, to be copied again or to begin at a later offset."""
        self.checks_file = ChecksFile(directory)
        self.folder_lock = asyncio.Lock()
        """The lock that is held while a checkpoint is taken and written, and while segments are exchanged or cut."""
        self.set_aside_bytes = 0
        self.set_aside_records = 0
        """The number of readable records that the start cut off and set aside (`damage`)."""
        self.failure: str | None = None
        """The reason why the log can take no writes at the moment, mostly a full disk; None: it takes them."""
        # The segment whose end a failed write passed, with bytes that could not be cut off yet.
        self._uncut: Segment | None = None
        self._places = ReadPlaces[Segment]()

    # State.

    @property
    def size_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    def segment_index(self, offset: int) -> int:
        """Return the index of the segment that holds `offset`, or of the one before a gap."""
        return segment_index(self.segments, offset)

    # Appending.

    def append(
        self, records: bytes | bytearray, header: BatchHeader, leader_epoch: int, now: int
    ) -> int:
        """Write one data batch that the caller has checked. Return its base offset. Raises StorageFailed."""
        size_bytes, last_offset = len(records), self.log_end_offset + header.last_offset_delta
        added = Addition(size_bytes, last_offset, largest_timestamp(header))
        segment = self.segment_for(added, now)
        position = segment.size_bytes
        stamp = self.stamp(header, leader_epoch)
        self.write(segment, (stamp, memoryview(records)[16:]), size_bytes)
        if leader_epoch > self.leader_epochs.latest:
            self.assign_leader_epoch(leader_epoch, self.log_end_offset)
        return self.wrote_batch(segment, position, size_bytes, header)

    def append_markers(self, markers: Sequence[MarkerToWrite], leader_epoch: int, now: int) -> int:
        """Write these markers in one write. Return the offset of the first one. Raises StorageFailed."""
        data, last_offset = (
            self.stamped_markers(markers, leader_epoch, now),
            self.log_end_offset + len(markers) - 1,
        )
        segment = self.segment_for(Addition(len(data), last_offset, now), now)
        position = segment.size_bytes
        self.write(segment, (data,), len(data))
        if leader_epoch > self.leader_epochs.latest:
            self.assign_leader_epoch(leader_epoch, self.log_end_offset)
        return self.wrote_markers(segment, position, markers)

    def write(
        self, segment: Segment, buffers: tuple[bytes | memoryview, ...], size_bytes: int
    ) -> None:
        """Append bytes to the newest segment, whole or not at all. Raises StorageFailed."""
        try:
            if self._uncut is not None:
                # The log may have rolled since, so this need not be the segment that is written now.
                self._uncut.truncate_to_size()
                self._uncut = None
            if not segment.size_bytes:
                # In this order a kill leaves no batch in a segment that `segments-checkpoint` does not have.
                segment.begin(buffers)
                self.names_made += 1
                self.write_checks()
            segment.write(buffers, size_bytes)
        except OSError as error:
            raise self._write_failed(segment, error) from error
        if self.failure is not None:
            _log.warning("%s takes writes again", self.partition)
            self.failure = None

    def _write_failed(self, segment: Segment, error: OSError) -> StorageFailed:
        self._uncut = self._uncut or segment
        try:
            self._uncut.truncate_to_size()
            self._uncut = None
        except OSError:
            # Tried again before the next write; until then nothing behind size_bytes is ever served.
            pass
        message = (
            f"cannot write {segment.log_path}: {error.strerror}; free space or repair the disk,"
            " producers retry by themselves"
        )
        if self.failure is None:
            _log.error("%s", message)
        self.failure = message
        return StorageFailed(message)

    def write_checks(self) -> None:
        """Write `segments-checkpoint` for the segments as they are now, unsynced. Raises OSError."""
        self.checks_file.write(self.checks_file.prepare_write(self.checks()), sync=False)

    @contextmanager
    def exchanging(self, base_offsets: Iterable[int]) -> Iterator[Callable[[], None]]:
        """Mark these segments as unsure in `segments-checkpoint`, while a cleaned segment takes their place.

        The caller first runs the yielded function in a worker thread, which writes that file. It stays so until
        `note_checks`.
        """
        self.exchanged = frozenset(base_offsets)
        taken = self.checks_file.prepare_write(self.checks())
        try:
            yield lambda: self.checks_file.write(taken, sync=True)
        finally:
            self.exchanged = frozenset()

    def note_checks(self) -> None:
        """Write `segments-checkpoint` for the segments as they are now. A failure is logged and not raised: the stored
        file is then older, and the next start reads more of the log.
        """
        try:
            self.write_checks()
        except OSError as error:
            _log.warning("%s: cannot write %s: %s", self.partition, CHECKS_FILE, error.strerror)

    def segment_for(self, added: Addition, now: int) -> Segment:
        """Return the newest segment, or a new one if the append does not fit any more. Raises StorageFailed."""
        match self.room_for(added, now):
            case Room.NEWEST:
                segment = self.segments[-1]
                segment.written_ms = now
                return segment
            case Room.NEXT:
                return self.roll(now)
        if not self.exists_on_disk:
            self._create_directory()
        return self._add_segment(now)

    def roll(self, now: int) -> Segment:
        """Begin a new segment at the log's end."""
        self.segments[-1].index_largest_timestamp()
        self.segments[-1].end_offset = self.log_end_offset
        return self._add_segment(now)

    def _add_segment(self, now: int) -> Segment:
        segment = Segment(
            self.directory, self.log_end_offset, self.files, created_ms=now, is_new=True
        )
        self.segments.append(segment)
        return segment

    def _create_directory(self) -> None:
        try:
            self.directory.mkdir(FOLDER_MODE, exist_ok=True)
            self.write_topic_id()
        except OSError as error:
            raise StorageFailed(
                f"cannot create {self.directory}: {error.strerror}; free space or make the folder writable"
            ) from error
        self.exists_on_disk = True
        self.folder_made(self)

    def write_topic_id(self) -> None:
        """Write the topic id into the partition's folder. Raises OSError."""
        content = f"version: 0\ntopic_id: {encode_topic_id(self.topic_id)}\n".encode()
        write_atomically(self.directory / PARTITION_METADATA, content, sync=False)

    def make_folder_durable(self) -> None:
        """Sync the partition's folder, so that a log without a record outlasts a power cut.

        Raises StorageFailed and OSError.
        """
        # A folder may be there without this file: a power cut can have taken it.
        if not (self.directory / PARTITION_METADATA).exists():
            self._create_directory()
        sync_file(str(self.directory / PARTITION_METADATA))
        sync_directory(self.directory)
        sync_directory(self.directory.parent)

    def assign_leader_epoch(self, leader_epoch: int, start_offset: int) -> None:
        """Add a leader epoch whose records begin at `start_offset`, and write the epochs to their file.

        The first append makes the folder. Before that the epoch is in memory only, and the batches tell it afterwards.
        """
        if self.leader_epochs.assign(leader_epoch, start_offset) and self.exists_on_disk:
            self.write_leader_epochs(sync=False)

    def write_leader_epochs(self, *, sync: bool) -> None:
        """Write the leader epochs. If that fails, the next start after a crash derives them from the batches."""
        try:
            write_atomically(
                self.directory / LEADER_EPOCH_CHECKPOINT,
                encode_leader_epochs(self.leader_epochs).encode(),
                sync=sync,
            )
        except OSError as error:
            _log.warning("%s: cannot write %s: %s", self.partition, LEADER_EPOCH_CHECKPOINT, error)

    # Reading.

    def read(self, fetch_offset: int, upper_offset: int, bytes_max: int) -> LogSlice:
        """Return batches from the one that holds `fetch_offset` up to `upper_offset`, from one segment.

        At least one batch is returned when there is one. Raises CorruptSegment, StorageFailed.
        """
        if fetch_offset >= upper_offset or not self.segments:
            return LogSlice(b"", -1)
        segment = self.segments[self.segment_index(fetch_offset)]
        try:
            place = self._places.position_of(segment, fetch_offset)
            position, base_offset = place or segment.position_of(fetch_offset)
            records, next_offset = segment.read(position, base_offset, upper_offset, bytes_max)
        except OSError as error:
            raise read_failed(self.directory, error) from error
        if not records:
            if position < segment.size_bytes:
                # Compaction took what lay between `fetch_offset` and `upper_offset`.
                return LogSlice(b"", -1)
            # Every segment ends with a batch, compacted or not: going on with the next one would leave records out
            # without a word.
            raise segment.corrupt(position, f"offset {fetch_offset} is missing")
        is_newest = segment is self.segments[-1]
        self._places.was_read(segment, next_offset, position + len(records), is_newest=is_newest)
        return LogSlice(records, next_offset)

    def aborted_transactions(
        self, fetch_offset: int, upper_offset: int
    ) -> list[AbortedTransactionEntry]:
        """Return the aborted transactions with data in [fetch_offset, upper_offset) (docs/kafka-facts.md, 5.3).

        Raises StorageFailed.
        """
        later = self.segments[self.segment_index(fetch_offset) :] if self.segments else ()
        try:
            return aborted_between(
                (segment.aborted() for segment in later), fetch_offset, upper_offset
            )
        except OSError as error:
            raise read_failed(self.directory, error) from error

    def checkpointed(self, recovery_point: int) -> None:
        """Set the recovery point, below which everything is synced. Indexes of sealed segments below it may leave
        memory.
        """
        self.recovery_point = max(self.recovery_point, recovery_point)
        self.is_derived = False
        for segment in self.segments[: self.droppable(recovery_point)]:
            if not self._places.is_recent(segment):
                segment.unload()

    # Deleting.

    def drop_segments_before(self, offset: int) -> list[str]:
        """Take segments that end at or below `offset` out of the log. Return their files, renamed, to be removed.

        The newest segment always stays.
        """
        dropped: list[str] = []
        for _ in range(self.droppable(offset)):
            segment = self.segments.pop(0)
            segment.close()
            if segment is self._uncut:
                self._uncut = None
            # The .log goes last: an index without it tells a start that somebody removed it.
            for suffix in reversed(SUFFIXES):
                path = segment.path(suffix)
                if os.path.exists(path):
                    dropped.append(rename_deleted(path))
        if dropped:
            self._places.forget_sealed()
            sync_directory(self.directory)
        return dropped

    def forget_reads(self) -> None:
        """Drop the positions of reads in the segments, which are about to be replaced."""
        self._uncut = None
        self._places.forget()

    def replace_segments(self, first: int, behind: int, segment: Segment) -> None:
        """Put a cleaned segment into the place of the segments from `first` to before `behind`.

        Its file already has the first one's name.
        """
        for replaced in self.segments[first:behind]:
            replaced.close()
        self.segments[first:behind] = [segment]
        self._places.forget_sealed()

    def close(self) -> None:
        for segment in self.segments:
            segment.close()


def _ignore(_log: PartitionLog) -> None:
    pass


__all__ = ["CorruptSegment", "LogSlice", "PartitionLog"]
