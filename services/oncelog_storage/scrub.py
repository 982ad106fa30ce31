"""The slow look at old data: every batch of sealed segments is read and its CRC checked, a little each second.

Damage to bytes that nobody reads would otherwise be found when the last sound copy is gone. Only partitions with other
replicas are looked at: elsewhere there is nothing to repair from, and a read tells the same.
"""

import os
from collections.abc import Iterator
from typing import Final, NamedTuple

from oncelog.record.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.replay import CUT, CUT_HEADER, whole_batch_at
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.segment import Segment

_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024


class Place(NamedTuple):
    """What is to be read next."""

    leader: HostedPartition
    segment: Segment
    truncation_count: int
    size_bytes: int
    position: int
    expected_offset: int
    leader_epochs: LeaderEpochs
    """As they were when reading began; what is old does not change."""

    @property
    def is_current(self) -> bool:
        """The segment is still what it was when reading began; compaction and truncation replace it."""
        log = self.leader.log
        return (
            log.truncation_count == self.truncation_count
            and self.segment in log.segments[:-1]
            and self.segment.size_bytes == self.size_bytes
        )


class Finding(NamedTuple):
    position: int
    reason: str


def places(leaders: Iterator[HostedPartition]) -> list[Place]:
    """The sealed segments of replicated partitions, as they are now."""
    return [
        Place(
            leader,
            segment,
            leader.log.truncation_count,
            segment.size_bytes,
            0,
            segment.base_offset,
            LeaderEpochs(leader.log.leader_epochs.entries()),
        )
        for leader in leaders
        if leader.leadership.replica_count > 1 and leader.offline is None
        for segment in leader.log.segments[:-1]
    ]


def read_on(place: Place, bytes_max: int) -> tuple[int, int, Finding | None]:
    """(where to go on, the lowest offset to expect there, what is damaged) after about `bytes_max`.

    What the CRC does not cover is held against what else is known: offsets must rise, and the leader epoch must be the
    one that wrote there. For a worker thread. Raises OSError.
    """
    position, end, expected = place.position, place.size_bytes, place.expected_offset
    descriptor = os.open(place.segment.log_path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        wanted = bytes_max
        while position < end:
            view = memoryview(os.pread(descriptor, min(wanted, end - position), position))
            at, reason = 0, ""
            while at < len(view):
                fields, reason = whole_batch_at(view, at, expected)
                if reason:
                    break
                expected = fields[0] + fields[6] + 1
                if 0 <= place.segment.end_offset < expected:
                    reason = f"offset {fields[0]} stands before {place.segment.end_offset}"
                    break
                leader_epoch = place.leader_epochs.leader_epoch_of(fields[0])
                if fields[2] != leader_epoch >= 0:
                    reason = f"leader epoch {fields[2]} stands where {leader_epoch} wrote"
                    break
                at += fields[1] + LENGTH_PREFIX_BYTES
            if at and (not reason or reason in CUT):
                return position + at, expected, None
            needed = HEADER_BYTES if reason == CUT_HEADER else fields[1] + LENGTH_PREFIX_BYTES
            if (
                reason not in CUT
                or position + needed > end
                or needed > _BATCH_BYTES_MAX
                or not view
            ):
                return (
                    end,
                    expected,
                    Finding(position + at, reason or "the file is shorter than it was"),
                )
            wanted = needed
        return end, expected, None
    finally:
        os.close(descriptor)
