"""The scrubbing of old data: each batch of a sealed segment must be whole, in order, and of its offset's leader epoch.

Damage to bytes that nobody reads would otherwise be found when the last sound copy is gone. Only partitions with other
replicas are looked at: elsewhere there is nothing to repair from, and a read finds the same damage.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from oncelog.record.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES
from oncelog_storage.core.batch_walk import Read, Walk
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.replay import (
    BASE_OFFSET,
    BATCH_LENGTH,
    CUT,
    CUT_HEADER,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    whole_batch_at,
)
from oncelog_storage.core.segment_state import SegmentState

_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024

HostedT = TypeVar("HostedT", bound=PartitionReplica)
SegmentT = TypeVar("SegmentT", bound=SegmentState)


class Place(NamedTuple, Generic[HostedT, SegmentT]):
    """The place in a sealed segment up to which it was checked for damage, and where the check goes on."""

    hosted: HostedT
    segment: SegmentT
    truncation_count: int
    size_bytes: int
    position: int
    expected_offset: int
    leader_epochs: LeaderEpochs
    """The leader epochs when reading began. Those of old offsets do not change."""

    @property
    def is_current(self) -> bool:
        """True if the segment is still the one where reading began. Compaction and truncation replace it."""
        log = self.hosted.log
        return (
            log.truncation_count == self.truncation_count
            and self.segment in log.segments[:-1]
            and self.segment.size_bytes == self.size_bytes
        )

    @property
    def is_at_end(self) -> bool:
        return self.position >= self.size_bytes

    def behind(self, looked: "Looked") -> "Place[HostedT, SegmentT]":
        return self._replace(position=looked.position, expected_offset=looked.expected_offset)


def places(
    all_hosted: Iterable[tuple[HostedT, Sequence[SegmentT]]],
) -> list[Place[HostedT, SegmentT]]:
    """Return a place at the beginning of each sealed segment to check, of partitions that other nodes have too."""
    return [
        Place(
            hosted,
            segment,
            hosted.log.truncation_count,
            segment.size_bytes,
            0,
            segment.base_offset,
            LeaderEpochs(hosted.log.leader_epochs.entries()),
        )
        for hosted, segments in all_hosted
        if hosted.leadership.replica_count > 1 and hosted.offline is None
        for segment in segments[:-1]
    ]


class Finding(NamedTuple):
    position: int
    reason: str


class Looked(NamedTuple):
    """The result of checking one piece of a segment for damage."""

    position: int
    """The position where the next read begins, in bytes."""
    expected_offset: int
    """The lowest offset to expect where the next read begins."""
    finding: Finding | None = None
    needed_bytes: int = 0
    """The length of a batch that the read cut, and which must be read again as a whole. 0: this look is done."""


def look_at(
    view: memoryview,
    position: int,
    size_bytes: int,
    expected_offset: int,
    end_offset: int,
    leader_epochs: LeaderEpochs,
    *,
    wanted_bytes: int,
) -> Looked:
    """Check the batches at `position` of a segment of `size_bytes` that ends at `end_offset`, -1 for unknown.

    `wanted_bytes` were asked for. Fewer come at the segment's end, and from a file that is shorter than it was. The CRC
    does not cover all fields, so these are checked by other facts: offsets must rise, and the leader epoch must be the
    one that wrote there.
    """
    at, reason, needed = 0, "", HEADER_BYTES
    while at < len(view):
        fields, reason = whole_batch_at(view, at, expected_offset)
        if reason:
            batch_bytes = fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
            needed = HEADER_BYTES if reason == CUT_HEADER else batch_bytes
            break
        expected_offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
        if 0 <= end_offset < expected_offset:
            reason = f"offset {fields[BASE_OFFSET]} stands before {end_offset}"
            break
        leader_epoch = leader_epochs.leader_epoch_of(fields[BASE_OFFSET])
        if fields[LEADER_EPOCH] != leader_epoch >= 0:
            reason = f"leader epoch {fields[LEADER_EPOCH]} stands where {leader_epoch} wrote"
            break
        at += fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
    if at and (not reason or reason in CUT):
        return Looked(position + at, expected_offset)
    is_cut_by_read = reason in CUT and position + needed <= size_bytes and needed > wanted_bytes
    if not is_cut_by_read or needed > _BATCH_BYTES_MAX:
        finding = Finding(position + at, reason or "the file is shorter than it was")
        return Looked(size_bytes, expected_offset, finding)
    return Looked(position, expected_offset, None, needed)


def look_on(place: Place[HostedT, SegmentT], bytes_max: int) -> Walk[Looked]:
    """Check about `bytes_max` more bytes of a segment for damage, and return the result. A longer batch is read
    whole.
    """
    wanted = bytes_max
    while not place.is_at_end:
        data = yield Read(place.position, min(wanted, place.size_bytes - place.position))
        looked = look_at(
            memoryview(data),
            place.position,
            place.size_bytes,
            place.expected_offset,
            place.segment.end_offset,
            place.leader_epochs,
            wanted_bytes=wanted,
        )
        if not looked.needed_bytes:
            return looked
        wanted = looked.needed_bytes
    return Looked(place.size_bytes, place.expected_offset)
