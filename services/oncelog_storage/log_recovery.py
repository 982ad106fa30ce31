"""Opening a log: what a crash left is made whole, and producer state is rebuilt.

1. The newest readable producer snapshot at or below the recovery point is loaded; later ones are dropped.
2. From its offset on every batch is read: length, CRC and offset order are checked, indexes are rebuilt, producer
   state, aborted transactions and leader epochs are replayed. Nothing before it is read, however large the log is.
3. An unfinished write at the log's end is cut off and set aside, and after a power cut what that took (`damage`). All
   other damage leaves the files as they are: the partition stays closed with an error that says what to do.
4. What can be derived is derived: indexes, aborted transactions and producer state whose files are missing, damaged, or
   disagree with what was written down of them.
"""

import logging
import os
from itertools import pairwise
from pathlib import Path
from typing import Final

from oncelog.errors import KafkaError
from oncelog.record.batch import CONTROL, LENGTH_PREFIX_BYTES
from oncelog_storage.core.aborted_index import (
    CHECKS_FILE,
    AbortedCheck,
    AbortedTransactionEntry,
    decode_checks,
)
from oncelog_storage.core.leader_epochs import (
    CorruptLeaderEpochs,
    LeaderEpochs,
    decode_leader_epochs,
)
from oncelog_storage.core.producer_snapshot import CorruptSnapshot, decode_snapshot
from oncelog_storage.core.replay import CUT_BATCH, HeaderFields, replay_batch
from oncelog_storage.damage import (
    Behind,
    behind,
    damaged,
    is_lost_in_power_cut,
    is_unfinished_write,
    set_aside_segment,
    set_aside_tail,
)
from oncelog_storage.files import (
    TEMPORARY_SUFFIX,
    StorageFailed,
    way_out,
    way_out_of_damage,
)
from oncelog_storage.log import (
    DELETED_SUFFIX,
    GAPS_FILE,
    LEADER_EPOCH_CHECKPOINT,
    NOT_REPLICATED,
    PartitionLog,
)
from oncelog_storage.segment import LOG_SUFFIX, CorruptSegment, Segment
from oncelog_storage.segment_indexes import INDEX_SUFFIXES
from oncelog_storage.segment_swap import finish_interrupted, forget_checks

_log = logging.getLogger(__name__)

SNAPSHOT_SUFFIX = ".snapshot"


UNKNOWN_LOG_START: Final = -1
"""Nothing was written down of it: the log begins where its first segment does."""


def recover(
    log: PartitionLog,
    recovery_point: int,
    log_start_offset: int,
    now: int,
    *,
    may_have_lost_power: bool = False,
    may_be_of_older_version: bool = False,
) -> None:
    """Load `log` from its directory. Raises StorageFailed where records are damaged or gone.

    `may_have_lost_power`: the machine was started again since the log was last used. `may_be_of_older_version`: the log
    may have been used last by a version that left an index without its segment.
    """
    log.exists_on_disk = True
    log.recovery_point = recovery_point
    log.has_gaps = (log.directory / GAPS_FILE).exists()
    log.log_start_offset = max(log_start_offset, 0)
    try:
        finish_interrupted(log.directory)
        log.segments = _find_segments(
            log, misses_segments=not (may_have_lost_power or may_be_of_older_version)
        )
        log.leader_epochs = _read_leader_epochs(log.directory)
        if log.segments:
            first_offset = log.segments[0].base_offset
            if UNKNOWN_LOG_START < log_start_offset < first_offset:
                # Retention moves the log start before it takes files away, so it was not retention.
                raise StorageFailed(
                    f"{log.directory}: records {log_start_offset} to {first_offset - 1} are gone, their segment files"
                    f" are missing; {_way_out(log)}"
                )
            log.log_start_offset = max(log.log_start_offset, first_offset)
        _Recovery(log, now, may_have_lost_power=may_have_lost_power).run()
    except OSError as error:
        advice = way_out(error, "check the disk and the folder's permissions")
        raise StorageFailed(
            f"cannot open {log.directory}: {error.strerror}; {advice}, then restart the node"
        ) from error


def _way_out(log: PartitionLog) -> str:
    return way_out_of_damage(str(log.directory.parent))


def _find_segments(log: PartitionLog, *, misses_segments: bool) -> list[Segment]:
    """The segments in order; leftovers of interrupted deletions and writes are removed.

    Raises StorageFailed where a segment is missing that has an index, if that counts (`misses_segments`).
    """
    segments = []
    index_paths = []
    with os.scandir(log.directory) as entries:
        for entry in entries:
            if entry.name.endswith((DELETED_SUFFIX, TEMPORARY_SUFFIX)):
                os.unlink(entry.path)
            elif entry.name.endswith(INDEX_SUFFIXES):
                index_paths.append(entry.path)
            elif entry.name.endswith(LOG_SUFFIX) and entry.name.removesuffix(LOG_SUFFIX).isdigit():
                status = entry.stat()
                segments.append(
                    Segment(
                        log.directory,
                        int(entry.name.removesuffix(LOG_SUFFIX)),
                        log.files,
                        size_bytes=status.st_size,
                        created_ms=status.st_mtime_ns // 1_000_000,
                    )
                )
    segments.sort(key=lambda segment: segment.base_offset)
    log_paths = {segment.log_path for segment in segments}
    for path in sorted(index_paths):
        stem = path.rpartition(".")[0]
        if stem + LOG_SUFFIX in log_paths:
            continue
        base_offset = os.path.basename(stem)
        is_before = bool(segments) and base_offset < os.path.basename(segments[0].log_path)
        if not is_before and misses_segments:
            # A segment that is removed in order loses its indexes first.
            raise StorageFailed(f"{stem}{LOG_SUFFIX} is missing; {_way_out(log)}")
        # A checkpoint may finish an index just after retention took its segment away.
        os.unlink(path)
    for segment, following in pairwise(segments):
        segment.end_offset = following.base_offset
    return segments


def _read_aborted_checks(directory: Path) -> dict[int, AbortedCheck] | None:
    """None: nothing is known of what the aborted indexes must hold."""
    try:
        return decode_checks((directory / CHECKS_FILE).read_text())
    except (FileNotFoundError, ValueError):
        return None


def _read_leader_epochs(directory: Path) -> LeaderEpochs:
    try:
        return decode_leader_epochs((directory / LEADER_EPOCH_CHECKPOINT).read_text())
    except FileNotFoundError:
        return LeaderEpochs()
    except (CorruptLeaderEpochs, UnicodeDecodeError) as error:
        _log.warning("%s: %s; they are read from the batches", directory, error)
        return LeaderEpochs()


def snapshot_offsets(directory: Path) -> list[int]:
    """Offsets of the producer snapshots here, ascending."""
    return sorted(
        int(name.removesuffix(SNAPSHOT_SUFFIX))
        for name in os.listdir(directory)
        if name.endswith(SNAPSHOT_SUFFIX) and name.removesuffix(SNAPSHOT_SUFFIX).isdigit()
    )


class _Recovery:
    def __init__(self, log: PartitionLog, now: int, *, may_have_lost_power: bool) -> None:
        self._log = log
        self._now = now
        self._may_have_lost_power = may_have_lost_power
        self._leader_epoch = -1
        """Of the batch before."""

    def run(self) -> None:
        log = self._log
        start = self._sound_start(self._load_snapshot())
        self._find_leader_epochs(start)
        # What is replayed tells its epochs itself, and a checkpoint file may be older than a truncation.
        log.leader_epochs.truncate_from(start)
        log.log_end_offset = log.log_start_offset
        first = log.segment_index(start)
        for index, segment in enumerate(log.segments[first:], first):
            if index > first and segment.base_offset != log.log_end_offset:
                self._end_before_hole(index)
                break
            if not self._replay_segment(index, segment, start):
                break
        self._require_what_was_safe()
        if log.log_start_offset > log.log_end_offset:
            self._start_over_at(log.log_start_offset)
        log.leader_epochs.truncate_from(max(log.log_end_offset, 1))
        log.unflushed_records = 0

    def _sound_start(self, start: int) -> int:
        """`start`, or the log's beginning if an aborted index before it cannot be believed.

        A missing entry would show aborted records to consumers. The index itself cannot tell that one is missing, so it
        is held against its checkpoint, and without that, all of it is derived again.
        """
        log = self._log
        if not log.segments or start <= log.segments[0].base_offset:
            return start
        checks = _read_aborted_checks(log.directory)
        try:
            if checks is None:
                raise CorruptSegment(f"{log.directory / CHECKS_FILE} is missing or damaged")
            for segment in log.segments:
                segment.aborted_check = checks.get(segment.base_offset, AbortedCheck())
                if segment.base_offset < start and segment.aborted_check.entry_count:
                    segment.read_aborted_file()
        except CorruptSegment as error:
            _log.warning("%s; all of %s is read for that", error, log.partition)
            log.producers.restore(())
            return log.segments[0].base_offset
        return start

    def _find_leader_epochs(self, start: int) -> None:
        """Read them from the batches before `start` where their file tells none.

        An epoch that begins replaces that file unsynced, so a power cut can leave it empty. A follower that knows no
        epochs would not notice that its log and its leader's have parted.
        """
        log = self._log
        if (
            log.leader_epochs.latest >= 0
            or not log.segments
            or start <= log.segments[0].base_offset
        ):
            return
        for segment in log.segments[: log.segment_index(start) + 1]:
            for _, fields, _, _ in segment.scan(0, segment.base_offset, segment.end_offset):
                if fields[0] >= start:
                    return
                if fields[2] > log.leader_epochs.latest:
                    log.leader_epochs.assign(fields[2], fields[0])

    def _require_what_was_safe(self) -> None:
        """Asked before anything is deleted: files behind a hole may be all that a backup does not have."""
        log = self._log
        if log.log_end_offset < log.recovery_point:
            raise StorageFailed(
                f"{log.directory} ends at offset {log.log_end_offset}, but {log.recovery_point} was safe on disk;"
                f" {_way_out(log)}"
            )

    def _usable_snapshots(self) -> list[int]:
        """The best first. One taken above the high watermark has forgotten the transactions that end above it, and the
        LSO would pass them; so it serves only where the high watermark is not known, and holds the LSO until that is
        above it.

        Or where segments behind the others were deleted. They were below the high watermark, so what is written down
        of that is old. A transaction that is open in such a snapshot may have had its marker there, and nobody would
        ever end it."""
        log = self._log
        committed, above = [], []
        for offset in reversed(snapshot_offsets(log.directory)):
            if offset > log.recovery_point:
                # Written just before a crash: the log behind it may not be what it was taken from.
                (log.directory / f"{offset:020d}{SNAPSHOT_SUFFIX}").unlink()
            elif offset <= log.committed_at_load:
                committed.append(offset)
            else:
                above.append(offset)
        if log.committed_at_load <= 0:
            return [*committed, *above]
        if committed and log.segments and committed[0] < log.segments[0].base_offset:
            return [*reversed(above), *committed]
        return committed

    def _load_snapshot(self) -> int:
        """Restore producer state; returns the offset from which the log must be replayed."""
        log = self._log
        for offset in self._usable_snapshots():
            path = log.directory / f"{offset:020d}{SNAPSHOT_SUFFIX}"
            try:
                log.producers.restore(decode_snapshot(path.read_bytes()))
            except CorruptSnapshot as error:
                _log.warning("%s: %s; an older one or the log itself serves", path, error)
                path.unlink()
                continue
            if offset > log.committed_at_load:
                log.producers.hold(log.log_start_offset, offset)
            return max(offset, log.segments[0].base_offset) if log.segments else offset
        return log.segments[0].base_offset if log.segments else log.log_start_offset

    def _replay_segment(self, index: int, segment: Segment, start: int) -> bool:
        """Scan from `start`, or from the segment's beginning. False: it was cut, it is the last one now."""
        log = self._log
        position, log.log_end_offset = 0, segment.base_offset
        if segment.rewind_indexes(start) and start > segment.base_offset:
            position, log.log_end_offset = segment.position_of(start)
            if position > segment.size_bytes:
                # Everything before `start` was synced once; the header of its last batch stands, the rest is gone.
                raise segment.corrupt(segment.size_bytes, CUT_BATCH)
            self._check_boundary(segment, position, log.log_end_offset, start)
            segment.read_first_timestamp()
        end_offset = segment.end_offset
        try:
            for batch_position, fields, view, at in segment.scan(
                position, log.log_end_offset, end_offset
            ):
                self._check_tail_gap(segment, batch_position, fields)
                try:
                    self._replay_batch(segment, batch_position, fields, view, at, start)
                except KafkaError as error:
                    raise segment.corrupt(batch_position, str(error)) from error
        except CorruptSegment as error:
            self._cut(index, segment, error)
            return False
        segment.end_offset = log.log_end_offset
        if segment is not log.segments[-1]:
            segment.index_largest_timestamp()
        return True

    def _check_boundary(self, segment: Segment, position: int, offset: int, start: int) -> None:
        """A batch ended where the snapshot was taken, so the next one begins there, if its offset is not damaged.

        In the newest segment only: elsewhere compaction may have taken what was around. Raises CorruptSegment.
        """
        log = self._log
        is_bound = start == log.recovery_point or not log.config.is_compacted
        if (
            segment is log.segments[-1]
            and is_bound
            and offset != start
            and position < segment.size_bytes
        ):
            raise segment.corrupt(position, f"offset {offset} stands where {start} begins")

    def _check_tail_gap(self, segment: Segment, position: int, fields: HeaderFields) -> None:
        """Nothing follows the log's last batch that could tell a damaged base offset from a gap, so a gap there must
        be one that compaction can have made: here, or at the leader, when this replica copied a compacted topic.
        """
        log = self._log
        is_last = position + fields[1] + LENGTH_PREFIX_BYTES == segment.size_bytes
        if (
            fields[0] > log.log_end_offset
            and is_last
            and segment is log.segments[-1]
            and not (log.config.is_compacted or log.has_gaps)
        ):
            raise segment.corrupt(position, f"offset {fields[0]} follows {log.log_end_offset - 1}")

    def _replay_batch(
        self,
        segment: Segment,
        position: int,
        fields: HeaderFields,
        view: memoryview,
        at: int,
        start: int,
    ) -> None:
        log = self._log
        last_offset = fields[0] + fields[6]
        if fields[0] >= start:
            if fields[2] < self._leader_epoch and log.committed_at_load < NOT_REPLICATED:
                # The CRC does not cover it. Followers would cut themselves back to where a false epoch begins.
                raise segment.corrupt(
                    position, f"leader epoch {fields[2]} follows {self._leader_epoch}"
                )
            self._leader_epoch = fields[2]
            if fields[2] > log.leader_epochs.latest:
                log.leader_epochs.assign(fields[2], fields[0])
            completed = replay_batch(log.producers, fields, view, at)
            if completed is not None and fields[5] & CONTROL:
                log.producers.high_watermark_moved(min(last_offset + 1, log.committed_at_load))
                if not completed.is_commit:
                    segment.add_aborted(
                        AbortedTransactionEntry(
                            completed.producer_id,
                            completed.first_offset,
                            completed.marker_offset,
                            completed.last_stable_offset,
                        )
                    )
        segment.index_batch(
            position,
            fields[1] + LENGTH_PREFIX_BYTES,
            last_offset,
            fields[8],
            log.config.index_interval_bytes,
        )
        log.log_end_offset = last_offset + 1

    def _end_before_hole(self, index: int) -> None:
        """The segment before `index` ends too early, or one is missing between."""
        log = self._log
        segment, following = log.segments[index - 1], log.segments[index]
        self._require_what_was_safe()
        reason = f"offset {log.log_end_offset} is missing, {following.base_offset} follows"
        found = behind(segment, segment.size_bytes, log.log_end_offset, log.segments[index:])
        if not self._may_have_lost_power:
            raise damaged(segment, segment.size_bytes, log.log_end_offset, reason, found)
        self._set_aside(index - 1, segment.size_bytes, reason, found)

    def _cut(self, index: int, segment: Segment, error: CorruptSegment) -> None:
        """End the log before the damage, if nothing is behind it that was acknowledged. Raises CorruptSegment."""
        log = self._log
        offset, later = log.log_end_offset, log.segments[index + 1 :]
        may_cut = is_torn = not later and is_unfinished_write(segment, error, offset)
        if self._may_have_lost_power:
            may_cut = is_torn or is_lost_in_power_cut(segment, error, offset)
        found = Behind() if is_torn else behind(segment, error.position, offset, later)
        if offset < log.recovery_point or not may_cut:
            raise damaged(segment, error.position, offset, error.reason, found) from error
        self._set_aside(index, error.position, error.reason, found)

    def _set_aside(self, index: int, position: int, reason: str, found: Behind) -> None:
        """Segment `index` is the last one and ends at `position`; what is behind that is kept in other files."""
        log = self._log
        segment, later = log.segments[index], log.segments[index + 1 :]
        size_bytes = segment.size_bytes - position + sum(each.size_bytes for each in later)
        log.set_aside_bytes += size_bytes
        log.set_aside_records += found.record_count
        _log.warning(
            "%s: %d bytes with %d readable records are set aside from byte %d, offset %d on (%s)",
            segment.log_path,
            size_bytes,
            found.record_count,
            position,
            log.log_end_offset,
            reason,
        )
        # Aborted transactions behind the cut are gone too, and their indexes are about to shrink.
        forget_checks(log.directory, [each.base_offset for each in log.segments[index:]])
        for each in reversed(later):
            set_aside_segment(each)
        del log.segments[index + 1 :]
        if position < segment.size_bytes:
            set_aside_tail(segment, position, is_readable=bool(found.record_count))
        segment.size_bytes = position
        segment.end_offset = log.log_end_offset
        segment.truncate_to_size()

    def _start_over_at(self, offset: int) -> None:
        """The log ends before its start: records were deleted that a power cut then took. Begin empty at the start."""
        log = self._log
        for segment in reversed(log.segments):
            set_aside_segment(segment)
        log.segments = []
        log.log_end_offset = offset
        log.recovery_point = offset
