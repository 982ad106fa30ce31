"""The slow look at old data: every batch of sealed segments is read and its CRC checked, a little each second.

Damage to bytes that nobody reads would otherwise be found when the last sound copy is gone. Only partitions with other
replicas are looked at: elsewhere there is nothing to repair from, and a read tells the same.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.scrubbing import Finding, look_at
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.segment import Segment


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

    As `core.scrubbing.look_at`. For a worker thread. Raises OSError.
    """
    position, end, wanted = place.position, place.size_bytes, bytes_max
    descriptor = os.open(place.segment.log_path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while position < end:
            view = memoryview(os.pread(descriptor, min(wanted, end - position), position))
            looked = look_at(
                view,
                position,
                end,
                place.expected_offset,
                place.segment.end_offset,
                place.leader_epochs,
                wanted_bytes=wanted,
            )
            if not looked.needed_bytes:
                return looked.position, looked.expected_offset, looked.finding
            wanted = looked.needed_bytes
        return end, place.expected_offset, None
    finally:
        os.close(descriptor)
