"""What `oncelog storage repair` finds in the folder of a stopped node, and what it gives up when it is told to.

A partition that is damaged where no start may cut (`damage`) stays closed until somebody decides. The decision offered
here is Kafka's: the log ends before the first damage. What is behind it is set aside, never deleted.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.record.batch import LENGTH_PREFIX_BYTES
from oncelog.wording import counted
from oncelog_storage.core.damage import Behind
from oncelog_storage.core.segment_files import (
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_stem,
    index_bases,
    is_index,
    offsets_of,
)
from oncelog_storage.damage import behind, judge, set_aside_segment, set_aside_tail
from oncelog_storage.files import OpenFiles, way_out
from oncelog_storage.log_directory import LOG_STARTS, LogDirectory, write_checkpoints
from oncelog_storage.log_recovery import snapshot_offsets
from oncelog_storage.segment import CorruptSegment, Segment
from oncelog_storage.segment_swap import finish_interrupted, forget_checks

_OPEN_FILES: Final = 16


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


class Repair:
    """The folder of a node that does not run; `close` gives it back. Raises OncelogError."""

    def __init__(self, path: Path) -> None:
        inner = path / "logs"
        self.path = inner if inner.is_dir() else path
        if not self.path.is_dir():
            raise OncelogError(f"there is no folder {self.path}; name the data folder of a node")
        self._directory = LogDirectory(self.path)
        self._files = OpenFiles(_OPEN_FILES)
        try:
            self.damaged_checkpoints = self._directory.open_for_repair()
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        self._files.close_all()
        self._directory.close()

    def _failed(self, error: OSError) -> OncelogError:
        return OncelogError(
            f"cannot use the data folder {self.path}: {error.strerror}; {way_out(error)}"
        )

    @property
    def partition_count(self) -> int:
        return len(self._directory.partitions())

    def examine(self) -> list[Damage]:
        """Reads every record of every partition. Raises OncelogError."""
        try:
            return list(self._examined())
        except OSError as error:
            raise self._failed(error) from error

    def _examined(self) -> Iterator[Damage]:
        for partition in self._directory.hosted_without_folder():
            end = self._directory.recovery_points.get(partition, 0)
            contents = f" with {counted(end, 'offset')}" if end else ""
            yield Damage(partition, f"its folder is missing{contents}", 0, 0, -1, 0, Behind())
        for partition, _ in self._directory.partitions():
            damage = self._examine(partition, self._segments(partition))
            if damage is not None:
                yield damage

    def _segments(self, partition: Partition) -> list[Segment]:
        folder = self._directory.partition_path(partition)
        found = []
        for base_offset in offsets_of(os.listdir(folder), LOG_SUFFIX):
            segment = Segment(folder, base_offset, self._files)
            segment.size_bytes = os.stat(segment.log_path).st_size
            found.append(segment)
        return found

    def _examine(self, partition: Partition, segments: Sequence[Segment]) -> Damage | None:
        known_start = self._directory.log_start_offsets.get(partition, 0)
        first = segments[0].base_offset if segments else known_start
        start = max(known_start, first)
        end = first
        for index, segment in enumerate(segments):
            reason, position = "", 0
            later = segments[index + 1 :]
            if segment.base_offset != end:
                before = segments[index - 1]
                found = behind(before, before.size_bytes, end, segments[index:])
                reason = f"offsets {end} to {segment.base_offset - 1} are missing"
                return Damage(partition, reason, start, end, index - 1, before.size_bytes, found)
            position, end, error = _walk(segment, end, later)
            if error is None or judge(segment, error, end, is_newest=not later).may_cut:
                continue
            found = behind(segment, position, end, later)
            reason = f"{file_stem(segment.base_offset)}.log, byte {position}: {error.reason}"
            return Damage(partition, reason, start, end, index, position, found)
        reason = self._missing(partition, segments, end)
        if not reason and segments and known_start < first:
            reason = f"offsets {known_start} to {first - 1} are missing"
        size_bytes = segments[-1].size_bytes if segments else 0
        if not reason:
            return None
        return Damage(partition, reason, start, end, len(segments) - 1, size_bytes, Behind())

    def _missing(self, partition: Partition, segments: Sequence[Segment], end: int) -> str:
        bases = {segment.base_offset for segment in segments}
        lost = [base for base in self._index_bases(partition) if base >= end and base not in bases]
        if lost:
            return f"{file_stem(lost[0])}.log is missing"
        safe = self._directory.recovery_points.get(partition, 0)
        return f"offsets {end} to {safe - 1} are missing" if end < safe else ""

    def _index_bases(self, partition: Partition) -> list[int]:
        return index_bases(os.listdir(self._directory.partition_path(partition)))

    def accept(self, damage: Damage) -> None:
        """Give up what is damaged or missing. Raises OncelogError."""
        try:
            self._accept(damage)
        except OSError as error:
            raise self._failed(error) from error

    def _accept(self, damage: Damage) -> None:
        directory, partition = self._directory, damage.partition
        folder = directory.partition_path(partition)
        if not folder.is_dir():
            write_checkpoints(directory.forget(partition))
            return
        finish_interrupted(folder)
        # First what is promised, then the files: a start between the two finds the damage as it was.
        directory.lower(partition, damage.kept_end)
        directory.log_start_offsets[partition] = damage.log_start_offset
        write_checkpoints([directory.encoded(LOG_STARTS)])
        segments = self._segments(partition)
        behind_it = segments[damage.segment_index + 1 :]
        forget_checks(folder, [each.base_offset for each in segments[damage.segment_index :]])
        for segment in reversed(behind_it):
            set_aside_segment(segment)
        if damage.segment_index >= 0:
            last = segments[damage.segment_index]
            if damage.position < last.size_bytes:
                set_aside_tail(last, damage.position, is_readable=True)
                last.size_bytes = damage.position
                last.truncate_to_size()
        for offset in snapshot_offsets(folder):
            if offset > damage.kept_end:
                os.unlink(folder / f"{file_stem(offset)}{SNAPSHOT_SUFFIX}")
        kept = {segment.base_offset for segment in segments[: damage.segment_index + 1]}
        for name in os.listdir(folder):
            if is_index(name) and int(name.partition(".")[0]) not in kept:
                os.unlink(folder / name)


def _walk(
    segment: Segment, offset: int, later: Sequence[Segment]
) -> tuple[int, int, CorruptSegment | None]:
    """(where the sound batches end, the offset there, what is wrong with the next)."""
    position = 0
    end_offset = later[0].base_offset if later else -1
    try:
        for at, fields, _, _ in segment.scan(0, offset, end_offset):
            position, offset = at + fields[1] + LENGTH_PREFIX_BYTES, fields[0] + fields[6] + 1
    except CorruptSegment as error:
        return position, offset, error
    finally:
        segment.close()
    return position, offset, None
