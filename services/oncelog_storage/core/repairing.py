"""What is damaged in the log of a node that does not run, and what goes when that is accepted.

A partition that is damaged where no start may cut (`core.damage`) stays closed until somebody decides. The decision
offered is Kafka's: the log ends before the first damage. What is behind it is set aside, never deleted.

Pure: the caller reads segments and counts records when it is asked to.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from oncelog.ids import Partition
from oncelog.wording import counted
from oncelog_storage.core.damage import Behind
from oncelog_storage.core.segment_files import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_stem,
    is_index,
    offsets_of,
)


class FoundSegment(NamedTuple):
    base_offset: int
    size_bytes: int


class FoundLog(NamedTuple):
    """What is known of a partition's log before its segments are read."""

    partition: Partition
    segments: Sequence[FoundSegment]
    """In their order."""
    index_bases: Sequence[int]
    """Of segments that have or had an index, ascending."""
    log_start_offset: int
    recovery_point: int


class Read(NamedTuple):
    """How far the sound batches of a segment go."""

    position: int
    end_offset: int
    reason: str = ""
    """What is wrong with the next one."""
    may_cut: bool = False
    """A start cuts it off by itself."""


class Damage(NamedTuple):
    """Of one partition, and what accepting it means."""

    partition: Partition
    reason: str
    log_start_offset: int
    """Where the log would begin."""
    kept_end: int
    """Where it would end; with 0 and no folder it begins anew."""
    segment_index: int
    """The segment that would be the last one; -1 for none."""
    position: int
    """Where that would end."""
    found: Behind
    """What is readable behind that, and would be set aside."""


def missing_folder(partition: Partition, recovery_point: int) -> Damage:
    contents = f" with {counted(recovery_point, 'offset')}" if recovery_point else ""
    return Damage(partition, f"its folder is missing{contents}", 0, 0, -1, 0, Behind())


def damage_of(
    log: FoundLog,
    read: Callable[[int, int], Read],
    count_behind: Callable[[int, int, int], Behind],
) -> Damage | None:
    """The first damage.

    `read(index, offset)` reads a segment, which begins with `offset`. `count_behind(index, position, offset)` counts
    what is readable from there on, in the later segments too.
    """
    segments = log.segments
    end = first = segments[0].base_offset if segments else log.log_start_offset
    start = max(log.log_start_offset, first)
    for index, segment in enumerate(segments):
        if segment.base_offset != end:
            last, position = index - 1, segments[index - 1].size_bytes
            reason = _missing(end, segment.base_offset)
        else:
            last, (position, end, reason, may_cut) = index, read(index, end)
            if not reason or may_cut:
                continue
            reason = f"{file_stem(segment.base_offset)}{LOG_SUFFIX}, byte {position}: {reason}"
        found = count_behind(last, position, end)
        return Damage(log.partition, reason, start, end, last, position, found)
    reason = _missing_around(log, first, end)
    if not reason:
        return None
    size_bytes = segments[-1].size_bytes if segments else 0
    return Damage(log.partition, reason, start, end, len(segments) - 1, size_bytes, Behind())


def _missing_around(log: FoundLog, first: int, end: int) -> str:
    """Of a log whose segments, from `first` to `end`, are sound; "" for nothing."""
    bases = {segment.base_offset for segment in log.segments}
    lost = [base for base in log.index_bases if base >= end and base not in bases]
    if lost:
        return f"{file_stem(lost[0])}{LOG_SUFFIX} is missing"
    if end < log.recovery_point:
        return _missing(end, log.recovery_point)
    return _missing(log.log_start_offset, first) if log.log_start_offset < first else ""


def _missing(offset: int, behind: int) -> str:
    return f"offsets {offset} to {behind - 1} are missing"


def stale_files(damage: Damage, kept: Iterable[int], names: Iterable[str]) -> list[str]:
    """Files of the folder that speak of what is given up. `kept`: the base offsets of the segments that stay."""
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
