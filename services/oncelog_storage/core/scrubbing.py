"""What a slow look at a sealed segment finds: every batch whole, in order, and of the leader epoch that wrote there."""

from typing import Final, NamedTuple

from oncelog.record.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.replay import CUT, CUT_HEADER, whole_batch_at

_BATCH_BYTES_MAX: Final = 64 * 1024 * 1024


class Finding(NamedTuple):
    position: int
    reason: str


class Looked(NamedTuple):
    """After one read."""

    position: int
    """Where to go on."""
    expected_offset: int
    """The lowest offset to expect there."""
    finding: Finding | None = None
    needed_bytes: int = 0
    """The batch there was cut by the read: read again, so much. 0: this look is done."""


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
    """The bytes at `position` of a segment of `size_bytes` that ends at `end_offset`, -1 for unknown.

    `wanted_bytes` were asked for. Fewer come at the segment's end, and from a file that is shorter than it was.

    What the CRC does not cover is held against what else is known: offsets must rise, and the leader epoch must be the
    one that wrote there.
    """
    at, reason, needed = 0, "", HEADER_BYTES
    while at < len(view):
        fields, reason = whole_batch_at(view, at, expected_offset)
        if reason:
            needed = HEADER_BYTES if reason == CUT_HEADER else fields[1] + LENGTH_PREFIX_BYTES
            break
        expected_offset = fields[0] + fields[6] + 1
        if 0 <= end_offset < expected_offset:
            reason = f"offset {fields[0]} stands before {end_offset}"
            break
        leader_epoch = leader_epochs.leader_epoch_of(fields[0])
        if fields[2] != leader_epoch >= 0:
            reason = f"leader epoch {fields[2]} stands where {leader_epoch} wrote"
            break
        at += fields[1] + LENGTH_PREFIX_BYTES
    if at and (not reason or reason in CUT):
        return Looked(position + at, expected_offset)
    is_cut_by_read = reason in CUT and position + needed <= size_bytes and needed > wanted_bytes
    if not is_cut_by_read or needed > _BATCH_BYTES_MAX:
        finding = Finding(position + at, reason or "the file is shorter than it was")
        return Looked(size_bytes, expected_offset, finding)
    return Looked(position, expected_offset, None, needed)
