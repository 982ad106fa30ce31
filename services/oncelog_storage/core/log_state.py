"""The state of a partition's log in memory: its start and end, its segments, its producers, its leader epochs.

A write goes through three steps, and the caller writes the bytes: where the append goes (`room_for`), the bytes with
their offset and leader epoch (`stamp`, `stamped_markers`), and the change of this state (`wrote_batch`,
`wrote_markers`).
"""

import struct
from collections.abc import Sequence
from enum import Enum
from typing import Final

from oncelog.ids import Partition
from oncelog.record.batch import (
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    largest_timestamp,
    read_header,
    stamp_max_timestamp,
)
from oncelog.record.control import MARKER_BYTES
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.checkpoint_files import encode_topic_id
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.partition_values import MarkerToWrite
from oncelog_storage.core.producer_state import ProducerStates
from oncelog_storage.core.segment_checks import LogChecks, SegmentCheck
from oncelog_storage.core.segment_state import Addition, SegmentState, must_roll

NOT_REPLICATED: Final = 2**63 - 1
"""The high watermark at load of a log that only this node has: all of the log is committed."""


_STAMP: Final = struct.Struct(">qii")


class Room(Enum):
    """The segment that an append goes to: the newest one, a new one, or the log's first."""

    NEWEST = "newest"
    """The append goes to the newest segment."""
    NEXT = "next"
    """The append goes to a new segment, and the newest one is sealed."""
    FIRST = "first"
    """The append makes the first segment of the log."""


class LogState:
    """The state of a log in memory, without its files, from which the pure code decides.

    `oncelog_storage.log.PartitionLog` extends it with segments that have files.
    """

    def __init__(self, partition: Partition, topic_id: bytes, config: TopicConfig) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.config = config
        self.producers = ProducerStates()
        self.leader_epochs = LeaderEpochs()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        """Everything below this offset is safe on disk."""
        self.committed_at_load = NOT_REPLICATED
        """The high watermark when the log was loaded. Markers behind it are not yet known to be replicated."""
        self.has_gaps = False
        """True if a copied batch does not follow the one before it: the leader's log had been cleaned."""
        self.proven_end = 0
        """The offset up to which the log must reach, as other files on disk say."""
        self.segments: Sequence[SegmentState] = ()
        self.exchanged: frozenset[int] = frozenset()
        """The base offsets of segments that are about to be replaced by a cleaned one."""
        self.is_derived = False
        """True if aborted transactions were read from the batches, and would be read from them again at the next start.
        """
        self.truncation_count = 0
        """The number of truncations. What was read from the log before a truncation may not be used after it."""
        self.exists_on_disk = False
        self.flushed_offset = 0
        self.names_made = 0
        """The number of files and folders made by this process.

        A name that was never synced can be lost with its content.
        """
        self.names_synced = 0
        self.unflushed_records = 0
        self.bytes_since_checkpoint = 0

    @property
    def is_dirty(self) -> bool:
        """True if the log has something that no checkpoint has written yet."""
        return self.log_end_offset > self.recovery_point or self.is_derived

    def room_for(self, added: Addition, now: int) -> Room:
        if not self.segments:
            return Room.FIRST
        newest = self.segments[-1]
        if newest.size_bytes and must_roll(newest, added, self.config, self.partition, now):
            return Room.NEXT
        return Room.NEWEST

    def stamp(self, header: BatchHeader, leader_epoch: int) -> bytes:
        """Return the first bytes of a batch: the offset, length and leader epoch it gets here.

        Its CRC covers none of them.
        """
        return _STAMP.pack(self.log_end_offset, header.batch_length, leader_epoch)

    def wrote_batch(
        self, segment: SegmentState, position: int, size_bytes: int, header: BatchHeader
    ) -> int:
        """Update indexes, producer state and log end for a batch that was written at the log's end. Return its base
        offset.
        """
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        interval_bytes = self.config.index_interval_bytes
        timestamp = largest_timestamp(header)
        segment.index_batch(position, size_bytes, last_offset, timestamp, interval_bytes)
        if header.producer_id >= 0:
            self.producers.apply_batch(header, base_offset)
        self.appended(size_bytes, last_offset + 1, header.record_count)
        return base_offset

    def stamped_markers(
        self, markers: Sequence[MarkerToWrite], leader_epoch: int, now: int
    ) -> bytes:
        """Write the offset and leader epoch into each marker, and return all in one piece, so that no reader sees only
        some.
        """
        for index, marker in enumerate(markers):
            length = MARKER_BYTES - LENGTH_PREFIX_BYTES
            _STAMP.pack_into(marker.batch, 0, self.log_end_offset + index, length, leader_epoch)
            if self.config.is_log_append_time:
                stamp_max_timestamp(marker.batch, LOG_APPEND_TIME, now)
        return b"".join(marker.batch for marker in markers)

    def wrote_markers(
        self, segment: SegmentState, position: int, markers: Sequence[MarkerToWrite]
    ) -> int:
        """Update indexes, producer state and log end for markers that were written at the log's end. Return the first
        one's offset.
        """
        base_offset = self.log_end_offset
        for offset, marker in enumerate(markers, base_offset):
            # This is not this node's clock: a group's coordinator made its markers by its own.
            timestamp = largest_timestamp(read_header(marker.batch))
            segment.index_batch(
                position + (offset - base_offset) * MARKER_BYTES,
                MARKER_BYTES,
                offset,
                timestamp,
                self.config.index_interval_bytes,
            )
            completed = self.producers.apply_marker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                is_commit=marker.is_commit,
                marker_offset=offset,
                timestamp=timestamp,
            )
            segment.ended(completed)
        self.appended(MARKER_BYTES * len(markers), base_offset + len(markers), len(markers))
        return base_offset

    def droppable(self, offset: int) -> int:
        """Return the number of segments that end at or below `offset`. The newest segment always stays."""
        starts = [segment.base_offset for segment in self.segments[1:]]
        return next((at for at, start in enumerate(starts) if start > offset), len(starts))

    def checks(self, *, safe_end: int | None = None, kept_from: int = 0) -> LogChecks:
        """Return the checks (size, CRC of the first header) of all segments, for `segments-checkpoint`.

        The next start compares the files with them. Segments wholly below `kept_from` are about to be removed.
        `safe_end` is the recovery point unless it is given.
        """
        removed = {segment.base_offset for segment in self.segments[: self.droppable(kept_from)]}
        return LogChecks(
            encode_topic_id(self.topic_id),
            self.partition.partition,
            self.log_start_offset,
            self.recovery_point if safe_end is None else safe_end,
            {
                segment.base_offset: SegmentCheck(
                    segment.size_bytes, segment.head_crc, segment.aborted_check
                )
                for segment in self.segments
                # A segment has no file before its first batch.
                if segment.size_bytes or segment.head_crc
            },
        ).unsure_of(self.exchanged | removed)

    def checks_before_cut(self, index: int, position: int, end: int) -> LogChecks:
        """Return the checks to write before segment `index` is cut at `position`, whose offset is `end`.

        They are true both before the cut and after it.
        """
        checks, segment = self.checks(safe_end=min(self.recovery_point, end)), self.segments[index]
        kept = SegmentCheck(position, segment.head_crc, segment.aborted_check_below(end))
        segments = {**checks.segments, segment.base_offset: kept}
        later = [each.base_offset for each in self.segments[index + 1 :]]
        return checks._replace(segments=segments).unsure_of(later)

    def appended(self, size_bytes: int, log_end_offset: int, record_count: int) -> None:
        """Move the log's end to `log_end_offset` after a write, and count it for the next flush and checkpoint."""
        self.log_end_offset = log_end_offset
        self.unflushed_records += record_count
        self.bytes_since_checkpoint += size_bytes

    def advance_log_start(self, offset: int) -> None:
        """Move the log's start. Records below `offset` are no longer served, and segments wholly below it may go."""
        if offset > self.log_start_offset:
            self.log_start_offset = offset
