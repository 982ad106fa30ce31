"""The work of `oncelog storage repair` in the folder of a stopped node: it finds damage, and gives up what is accepted.

`core.repairing` decides. This module reads the folder, and sets aside what is given up. It deletes none of it.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.record.batch import LENGTH_PREFIX_BYTES
from oncelog_storage.core.recovery import lost_from, proven_end
from oncelog_storage.core.repairing import (
    Damage,
    FoundLog,
    Read,
    damage_of,
    missing_folder,
    stale_files,
)
from oncelog_storage.core.replay import BASE_OFFSET, BATCH_LENGTH, LAST_OFFSET_DELTA
from oncelog_storage.core.segment_checks import FoundSegment
from oncelog_storage.core.segment_files import GAPS_FILE, LOG_SUFFIX, index_bases, offsets_of
from oncelog_storage.damage import behind, judge, set_aside_segment, set_aside_tail
from oncelog_storage.files import OpenFiles, way_out
from oncelog_storage.log_directory import LogDirectory, write_checkpoints
from oncelog_storage.segment import CorruptSegment, Segment
from oncelog_storage.segment_checks import read_checks, remove_checks
from oncelog_storage.segment_swap import finish_interrupted

__all__ = ["Damage", "Repair"]

_OPEN_FILES: Final = 16


class Repair:
    """The data folder of a node that does not run, locked until `close`, to be examined and repaired. Raises
    OncelogError.
    """

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
        """Read every record of every partition, and return the damage. Raises OncelogError."""
        try:
            return list(self._examined())
        except OSError as error:
            raise self._failed(error) from error

    def _examined(self) -> Iterator[Damage]:
        directory = self._directory
        for partition in directory.hosted_without_folder():
            yield missing_folder(partition, directory.recovery_points.get(partition, 0))
        for partition, _ in directory.partitions():
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
        directory = self._directory
        folder = directory.partition_path(partition)
        checks = read_checks(folder) if directory.keeps_checks else None
        recovery_point = directory.recovery_points.get(partition)
        known_start = 0 if checks is None else checks.log_start_offset
        log = FoundLog(
            partition,
            [
                FoundSegment(segment.base_offset, segment.size_bytes, segment.read_head())
                for segment in segments
            ],
            index_bases(os.listdir(folder)),
            directory.log_start_offsets.get(partition, known_start),
            max(recovery_point or 0, proven_end(recovery_point, checks, ())),
            checks,
            lost_from(recovery_point, checks, may_have_lost_power=directory.may_have_lost_power),
            may_have_gaps=partition in directory.cleaner_offsets or (folder / GAPS_FILE).exists(),
        )
        return damage_of(
            log,
            lambda index, offset: _read(segments[index], offset, segments[index + 1 :]),
            lambda index, position, offset: (
                behind(segments[index], position, offset, segments[index + 1 :])
                if index >= 0
                else behind(segments[0], 0, offset, segments[1:])
            ),
        )

    def accept(self, damage: Damage) -> None:
        """Give up what is damaged: end the log before it, and set aside the rest. Raises OncelogError."""
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
        write_checkpoints([directory.log_start_offsets.encoded()])
        segments = self._segments(partition)
        kept_count = damage.segment_index + 1
        # The next start reads what is left, and writes them down again.
        remove_checks(folder)
        for segment in reversed(segments[kept_count:]):
            set_aside_segment(segment)
        kept = segments[:kept_count]
        if kept and damage.position < kept[-1].size_bytes:
            set_aside_tail(kept[-1], damage.position, is_readable=True)
            kept[-1].size_bytes = damage.position
            kept[-1].truncate_to_size()
        for name in stale_files(damage, [each.base_offset for each in kept], os.listdir(folder)):
            os.unlink(folder / name)


def _read(segment: Segment, offset: int, later: Sequence[Segment]) -> Read:
    """Return the end of a segment's sound batches, and what is wrong with the batch that follows them, if one does.

    `offset` is the one that the segment must begin with; `later` are the segments after it. Raises OSError.
    """
    position = 0
    end_offset = later[0].base_offset if later else -1
    try:
        for at, fields, _, _ in segment.scan(0, offset, end_offset):
            position = at + fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
            offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
    except CorruptSegment as error:
        may_cut = judge(segment, error, offset, is_newest=not later).may_cut
        return Read(position, offset, error.reason, may_cut)
    finally:
        segment.close()
    return Read(position, offset)
