"""The damage in the log of a node that does not run, and what is lost when the operator accepts it.

A starting node cuts off only an unfinished write, or what a power cut spoilt (`core.damage`). A partition with other
damage stays closed until somebody decides. The decision offered is Kafka's: the log ends before the first damage. What
is behind it is set aside, never deleted.

This module is pure: the caller reads segments and counts records.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from oncelog.ids import Partition
from oncelog.wording import counted
from oncelog_storage.core.damage import Behind
from oncelog_storage.core.segment_checks import (
    NO_POWER_LOST,
    FoundSegment,
    LogChecks,
    faults_of,
)
from oncelog_storage.core.segment_files import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_stem,
    is_index,
    offsets_of,
)


class FoundLog(NamedTuple):
    """The facts about a partition's log that a starting node has before it reads the batches: files, the stored checks,
    and the offset that the log must reach.
    """

    partition: Partition
    segments: Sequence[FoundSegment]
    """The segments in the order of their offsets."""
    index_bases: Sequence[int]
    """The base offsets of segments that have or had an index, ascending."""
    log_start_offset: int
    needed_end: int
    """The offset before which the log must not end."""
    checks: LogChecks | None = None
    lost_from: int = NO_POWER_LOST
    may_have_gaps: bool = True

    def faults(self) -> dict[int, str]:
        """Return, by base offset, what is wrong with each segment that is there but is not as it was written."""
        if self.checks is not None and self.checks.partition != self.partition.partition:
            return {each.base_offset: "is another partition's" for each in self.segments}
        faults = faults_of(
            self.checks,
            self.segments,
            self.log_start_offset,
            lost_from=self.lost_from,
            may_have_gaps=self.may_have_gaps,
        )
        return {fault.base_offset: fault.reason for fault in faults}


class Read(NamedTuple):
    """The result of reading one segment: where its sound batches end, and what is wrong behind them."""

    position: int
    end_offset: int
    reason: str = ""
    """The fault of the batch behind the sound ones; "" for none."""
    may_cut: bool = False
    """True if a start cuts the damage off by itself."""


class Damage(NamedTuple):
    """The damage of one partition's log, and the log that would be left if it is accepted."""

    partition: Partition
    reason: str
    log_start_offset: int
    """The offset where the log would begin."""
    kept_end: int
    """The offset where the log would end. With 0 and no folder the log begins anew."""
    segment_index: int
    """The index of the segment that would be the last one; -1 for none."""
    position: int
    """The position in bytes where the last segment would end."""
    found: Behind
    """The readable records behind the new end, which would be set aside."""


def missing_folder(partition: Partition, recovery_point: int) -> Damage:
    contents = f" with {counted(recovery_point, 'offset')}" if recovery_point else ""
    return Damage(partition, f"its folder is missing{contents}", 0, 0, -1, 0, Behind())


def damage_of(
    log: FoundLog,
    read: Callable[[int, int], Read],
    count_behind: Callable[[int, int, int], Behind],
) -> Damage | None:
    """Return the first damage of the log; None if there is none.

    `read(index, offset)` reads a segment, which begins with `offset`. `count_behind(index, position, offset)` counts
    what is readable from there on, in the later segments too; index -1 is before the first one.
    """
    segments, faults = log.segments, log.faults()
    end = first = segments[0].base_offset if segments else log.log_start_offset
    start = max(log.log_start_offset, first)
    for index, segment in enumerate(segments):
        name = file_stem(segment.base_offset) + LOG_SUFFIX
        last, position, may_cut = index - 1, segments[index - 1].size_bytes if index else 0, False
        if segment.base_offset < end:
            reason = f"{name} begins before offset {end}"
        elif segment.base_offset > end:
            reason = _missing(end, segment.base_offset)
        elif (found := read(index, end)).reason or segment.base_offset not in faults:
            last, (position, end, reason, may_cut) = index, found
            reason = reason and f"{name}, byte {position}: {reason}"
        else:
            reason = f"{name} {faults[segment.base_offset]}"
        if reason and not may_cut:
            counts = count_behind(last, position, end)
            return Damage(log.partition, reason, start, end, last, position, counts)
    reason = _missing_around(log, first, end)
    if not reason:
        return None
    size_bytes = segments[-1].size_bytes if segments else 0
    return Damage(log.partition, reason, start, end, len(segments) - 1, size_bytes, Behind())


def _missing_around(log: FoundLog, first: int, end: int) -> str:
    """Return what is missing around the sound segments of a log, from `first` to `end`; "" for nothing."""
    bases = {segment.base_offset for segment in log.segments}
    known = {} if log.checks is None else log.checks.segments
    written = [base for base, check in known.items() if check.is_sure and base < log.lost_from]
    lost = [base for base in (*log.index_bases, *written) if base >= end and base not in bases]
    if lost:
        return f"{file_stem(min(lost))}{LOG_SUFFIX} is missing"
    if end < log.needed_end:
        return _missing(end, log.needed_end)
    return _missing(log.log_start_offset, first) if log.log_start_offset < first else ""


def _missing(offset: int, behind: int) -> str:
    return f"offsets {offset} to {behind - 1} are missing"


def stale_files(damage: Damage, kept: Iterable[int], names: Iterable[str]) -> list[str]:
    """Return the folder's files that describe a part of the log which is given up.

    `kept` are the base offsets of the segments that stay.
    """
    bases, in_folder = set(kept), sorted(names)
    snapshots = [
        f"{file_stem(offset)}{SNAPSHOT_SUFFIX}"
        for offset in offsets_of(in_folder, SNAPSHOT_SUFFIX)
        if offset > damage.kept_end
    ]
    indexes = [
        name for name in in_folder if is_index(name) and int(name.partition(".")[0]) not in bases
    ]
    return snapshots + indexes
