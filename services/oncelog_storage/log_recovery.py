"""The opening of a log: it repairs what a crash left, and rebuilds producer state.

1. The newest readable producer snapshot at or below the recovery point is loaded; later ones are dropped.
2. From its offset on every batch is read: length, CRC and offset order are checked, indexes are rebuilt, producer
   state, aborted transactions and leader epochs are replayed. Nothing before it is read, however large the log is.
3. An unfinished write at the log's end is cut off and set aside, and after a power cut what that took (`damage`). All
   other damage leaves the files as they are: the partition stays closed with an error that says what to do.
4. What can be derived is derived: indexes, aborted transactions and producer state whose files are missing, damaged, or
   disagree with `segments-checkpoint`.
"""

import logging
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from oncelog_storage.core.aborted_index import NOT_KNOWN, AbortedCheck
from oncelog_storage.core.batch_walk import BrokenBatch
from oncelog_storage.core.damage import Behind
from oncelog_storage.core.leader_epochs import (
    CorruptLeaderEpochs,
    LeaderEpochs,
    decode_leader_epochs,
)
from oncelog_storage.core.producer_snapshot import CorruptSnapshot, decode_snapshot
from oncelog_storage.core.recovery import (
    UNKNOWN_LOG_START,
    Replay,
    is_old,
    knows_no_epochs,
    learn_epochs,
    lost_from,
    missing_start,
    needed_end,
    proven_end,
    replay_start,
    starts_over,
    usable_snapshots,
)
from oncelog_storage.core.replay import BASE_OFFSET, LAST_OFFSET_DELTA
from oncelog_storage.core.segment_checks import (
    Fault,
    FoundSegment,
    LogChecks,
    faults_of,
)
from oncelog_storage.core.segment_files import (
    CHECKS_FILE,
    GAPS_FILE,
    LEADER_EPOCH_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    file_stem,
    found_files,
    offsets_of,
)
from oncelog_storage.damage import (
    behind,
    damaged,
    judge,
    set_aside_segment,
    set_aside_tail,
)
from oncelog_storage.files import StorageFailed, way_out, way_out_of_damage
from oncelog_storage.log import PartitionLog
from oncelog_storage.segment import CorruptSegment, Segment
from oncelog_storage.segment_checks import forget_checks, read_checks, read_old_checks
from oncelog_storage.segment_swap import finish_interrupted

_log = logging.getLogger(__name__)


def recover(
    log: PartitionLog,
    recovery_point: int | None,
    log_start_offset: int,
    now: int,
    *,
    may_have_lost_power: bool = False,
    may_be_of_older_version: bool = False,
    keeps_checks: bool = True,
    was_cleaned: bool = False,
) -> None:
    """Load `log` from its directory. Raises StorageFailed if records are damaged or gone.

    `recovery_point` None: no file has one. `may_have_lost_power`: the machine was started again since the log was last
    used. `may_be_of_older_version`: the log may have been used last by a version that left an index without its
    segment. `keeps_checks` is False if the log may have been used last by a version without `segments-checkpoint`.
    `was_cleaned`: the log was compacted once.
    """
    log.exists_on_disk = True
    log.recovery_point = recovery_point or 0
    log.has_gaps = (log.directory / GAPS_FILE).exists()
    try:
        finish_interrupted(log.directory)
        checks = _usable_checks(log, recovery_point) if keeps_checks else None
        if checks is not None and log_start_offset == UNKNOWN_LOG_START:
            log_start_offset = checks.log_start_offset
        log.log_start_offset = max(log_start_offset, 0)
        snapshots = snapshot_offsets(log.directory)
        log.proven_end = max(log.proven_end, proven_end(recovery_point, checks, snapshots))
        log.segments = _find_segments(
            log, misses_segments=not (may_have_lost_power or may_be_of_older_version)
        )
        log.leader_epochs = _read_leader_epochs(log.directory)
        _require_start(log, log_start_offset)
        _require_segments(
            log,
            checks,
            lost_from(recovery_point, checks, may_have_lost_power=may_have_lost_power),
            may_have_gaps=log.config.is_compacted or log.has_gaps or was_cleaned,
        )
        known = _known_aborted(log.directory, checks, keeps_checks=keeps_checks)
        _Recovery(log, now, known, may_have_lost_power=may_have_lost_power).run()
        # Producers that expired are in no snapshot, and cleaning takes their batches.
        log.producers.has_forgotten = log.log_end_offset > 0
    except OSError as error:
        advice = way_out(error, "check the disk and the folder's permissions")
        raise StorageFailed(
            f"cannot open {log.directory}: {error.strerror}; {advice}, then restart the node"
        ) from error
    log.is_derived = any(not segment.aborted_check.is_known for segment in log.segments)
    if log.checks() != checks:
        log.note_checks()


def _usable_checks(log: PartitionLog, recovery_point: int | None) -> LogChecks | None:
    """Return the content of `segments-checkpoint`, if it is readable and not old. Raises StorageFailed, OSError."""
    checks = read_checks(log.directory)
    if checks is None:
        return None
    if is_old(checks, recovery_point):
        _log.warning("%s is old", log.directory / CHECKS_FILE)
        return None
    own = log.checks()
    if (checks.topic_id, checks.partition) != (own.topic_id, own.partition):
        raise StorageFailed(
            f"{log.directory} holds partition {checks.partition} of topic id {checks.topic_id}, not"
            f" {own.partition} of {own.topic_id}; {_way_out(log)}"
        )
    return checks


def _known_aborted(
    directory: Path, checks: LogChecks | None, *, keeps_checks: bool
) -> Callable[[int], AbortedCheck]:
    """Return a function that gives, by a segment's base offset, the check (entry count and CRC) that its aborted index
    must pass.
    """
    if checks is not None:
        return checks.aborted_of
    old = None if keeps_checks else read_old_checks(directory)
    return lambda base: NOT_KNOWN if old is None else old.get(base, AbortedCheck())


def _require_start(log: PartitionLog, log_start_offset: int) -> None:
    """Raise StorageFailed if records are missing at the log's start, because segment files are gone."""
    if not log.segments:
        return
    first_offset = log.segments[0].base_offset
    if missing_start(log_start_offset, first_offset):
        raise StorageFailed(
            f"{log.directory}: records {log_start_offset} to {first_offset - 1} are gone, their segment files"
            f" are missing; {_way_out(log)}"
        )
    log.log_start_offset = max(log.log_start_offset, first_offset)


def _require_segments(
    log: PartitionLog, checks: LogChecks | None, lost_from: int, *, may_have_gaps: bool
) -> None:
    """Raise StorageFailed if a segment in `segments-checkpoint` is missing, or begins otherwise than it was written.

    Raises OSError.
    """
    found = [
        FoundSegment(segment.base_offset, segment.size_bytes, segment.read_head())
        for segment in log.segments
    ]
    faults = faults_of(
        checks, found, log.log_start_offset, lost_from=lost_from, may_have_gaps=may_have_gaps
    )
    for fault in faults:
        raise _failure(log, fault)


def _failure(log: PartitionLog, fault: Fault) -> StorageFailed:
    """Return the error for a fault, with the place of the damage, if there is one."""
    for index, segment in enumerate(log.segments):
        if segment.base_offset != fault.base_offset:
            continue
        offset = segment.base_offset
        try:
            for _, fields, _, _ in segment.scan(0, offset, -1):
                offset = fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA] + 1
        except CorruptSegment as error:
            found = behind(segment, error.position, offset, log.segments[index + 1 :])
            return damaged(segment, error.position, offset, error.reason, found)
    return StorageFailed(f"{log.directory / fault.name} {fault.reason}; {_way_out(log)}")


def _way_out(log: PartitionLog) -> str:
    return way_out_of_damage(str(log.directory.parent))


def _find_segments(log: PartitionLog, *, misses_segments: bool) -> list[Segment]:
    """Return the segments in order, after removing leftovers of interrupted deletions and writes.

    Raises StorageFailed for an index without its segment if `misses_segments`: the segment file was removed.
    """
    found = found_files(os.listdir(log.directory))
    for name in found.leftovers:
        os.unlink(log.directory / name)
    missing = found.missing_segment()
    if missing and misses_segments:
        raise StorageFailed(f"{log.directory / missing} is missing; {_way_out(log)}")
    for name in found.lone_indexes:
        os.unlink(log.directory / name)
    segments = []
    for base_offset in found.base_offsets:
        segment = Segment(log.directory, base_offset, log.files)
        status = os.stat(segment.log_path)
        segment.size_bytes = status.st_size
        segment.created_ms = status.st_mtime_ns // 1_000_000
        segments.append(segment)
    for segment, following in pairwise(segments):
        segment.end_offset = following.base_offset
    return segments


def _read_leader_epochs(directory: Path) -> LeaderEpochs:
    try:
        return decode_leader_epochs((directory / LEADER_EPOCH_CHECKPOINT).read_text())
    except FileNotFoundError:
        return LeaderEpochs()
    except (CorruptLeaderEpochs, UnicodeDecodeError) as error:
        _log.warning("%s: %s; they are read from the batches", directory, error)
        return LeaderEpochs()


def snapshot_offsets(directory: Path) -> list[int]:
    """Return the offsets of the producer snapshots in this folder, ascending."""
    return offsets_of(os.listdir(directory), SNAPSHOT_SUFFIX)


class _Recovery:
    def __init__(
        self,
        log: PartitionLog,
        now: int,
        known_aborted: Callable[[int], AbortedCheck],
        *,
        may_have_lost_power: bool,
    ) -> None:
        self._log = log
        self._now = now
        self._known_aborted = known_aborted
        self._may_have_lost_power = may_have_lost_power

    @property
    def _first_base(self) -> int | None:
        segments = self._log.segments
        return segments[0].base_offset if segments else None

    def run(self) -> None:
        log = self._log
        start = self._sound_start(self._load_snapshot())
        self._find_leader_epochs(start)
        # Replayed batches tell their epochs themselves, and a checkpoint file may be older than a truncation.
        log.leader_epochs.truncate_from(start)
        log.log_end_offset = log.log_start_offset
        first = log.segment_index(start)
        replay = Replay(log, start)
        for index, segment in enumerate(log.segments[first:], first):
            if index > first and segment.base_offset != log.log_end_offset:
                self._end_before_hole(index)
                break
            if not self._replay_segment(index, segment, start, replay):
                break
        self._require_what_was_safe()
        if starts_over(log):
            self._start_over_at(log.log_start_offset)
        log.leader_epochs.truncate_from(max(log.log_end_offset, 1))
        log.unflushed_records = 0

    def _sound_start(self, start: int) -> int:
        """Return `start`, or the log's beginning if an aborted index before it cannot be believed.

        A missing entry would show aborted records to consumers. The index itself cannot show that one is missing, so it
        is compared with its check. Without that check, the whole index is derived again.
        """
        log = self._log
        if not log.segments or start <= log.segments[0].base_offset:
            return start
        try:
            for segment in log.segments:
                segment.aborted_check = self._known_aborted(segment.base_offset)
                if segment.base_offset < start:
                    if not segment.aborted_check.is_known:
                        raise CorruptSegment(
                            f"{log.directory / CHECKS_FILE} does not say which transactions were aborted in"
                            f" {segment.log_path}"
                        )
                    if segment.aborted_check.entry_count:
                        segment.read_aborted_file()
        except CorruptSegment as error:
            _log.warning("%s; all of %s is read for that", error, log.partition)
            log.producers.restore(())
            return log.segments[0].base_offset
        return start

    def _find_leader_epochs(self, start: int) -> None:
        log = self._log
        if knows_no_epochs(log, start, self._first_base):
            for segment in log.segments[: log.segment_index(start) + 1]:
                batches = segment.scan(0, segment.base_offset, segment.end_offset)
                learn_epochs(log.leader_epochs, batches, start)

    def _require_what_was_safe(self) -> None:
        log = self._log
        if log.log_end_offset < needed_end(log):
            raise StorageFailed(
                f"{log.directory} ends at offset {log.log_end_offset}, but {needed_end(log)} was safe on disk;"
                f" {_way_out(log)}"
            )

    def _load_snapshot(self) -> int:
        """Restore producer state from the best readable snapshot. Return the offset from which the log must be
        replayed.
        """
        log = self._log
        found = usable_snapshots(log, snapshot_offsets(log.directory), self._first_base)
        for offset in found.dropped:
            self._snapshot_path(offset).unlink()
        for offset in found.usable:
            path = self._snapshot_path(offset)
            try:
                log.producers.restore(decode_snapshot(path.read_bytes()))
            except CorruptSnapshot as error:
                _log.warning("%s: %s; an older one or the log itself serves", path, error)
                path.unlink()
                continue
            if offset > log.committed_at_load:
                log.producers.hold(log.log_start_offset, offset)
            return replay_start(log, offset, self._first_base)
        return replay_start(log, None, self._first_base)

    def _snapshot_path(self, offset: int) -> Path:
        return self._log.directory / (file_stem(offset) + SNAPSHOT_SUFFIX)

    def _replay_segment(self, index: int, segment: Segment, start: int, replay: Replay) -> bool:
        """Replay a segment from `start`, or from its beginning. False: it was cut, and is the last one now."""
        log = self._log
        is_newest = segment is log.segments[-1]
        position, log.log_end_offset = 0, segment.base_offset
        if segment.rewind_indexes(start) and start > segment.base_offset:
            position, log.log_end_offset = segment.position_of(start)
            try:
                replay.begin(segment, position, log.log_end_offset, is_newest=is_newest)
            except BrokenBatch as error:
                raise segment.corrupt(error.position, error.reason) from error
            segment.read_first_timestamp()
        try:
            for found in segment.scan(position, log.log_end_offset, segment.end_offset):
                try:
                    replay.replay_batch(segment, *found, is_newest=is_newest)
                except BrokenBatch as error:
                    raise segment.corrupt(error.position, error.reason) from error
        except CorruptSegment as error:
            self._cut(index, segment, error)
            return False
        segment.end_offset = log.log_end_offset
        if not is_newest:
            segment.index_largest_timestamp()
        return True

    def _end_before_hole(self, index: int) -> None:
        """End the log before segment `index`, because the segment before it ends too early or one is missing.

        Raises StorageFailed if that is no loss in a power cut.
        """
        log = self._log
        segment, following = log.segments[index - 1], log.segments[index]
        self._require_what_was_safe()
        reason = f"offset {log.log_end_offset} is missing, {following.base_offset} follows"
        found = behind(segment, segment.size_bytes, log.log_end_offset, log.segments[index:])
        if not self._may_have_lost_power:
            raise damaged(segment, segment.size_bytes, log.log_end_offset, reason, found)
        self._set_aside(index - 1, segment.size_bytes, reason, found)

    def _cut(self, index: int, segment: Segment, error: CorruptSegment) -> None:
        """End the log before the damage, if no acknowledged record is behind it. Raises CorruptSegment."""
        log = self._log
        offset, later = log.log_end_offset, log.segments[index + 1 :]
        verdict = judge(
            segment,
            error,
            offset,
            is_newest=not later,
            may_have_lost_power=self._may_have_lost_power,
        )
        found = Behind() if verdict.is_torn else behind(segment, error.position, offset, later)
        if offset < needed_end(log) or not verdict.may_cut:
            raise damaged(segment, error.position, offset, error.reason, found) from error
        self._set_aside(index, error.position, error.reason, found)

    def _set_aside(self, index: int, position: int, reason: str, found: Behind) -> None:
        """Make segment `index` the last one, ending at `position`. What is behind that is kept in other files."""
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
        if segment.aborted_check.is_known:
            segment.aborted_check = segment.aborted_check_below(log.log_end_offset)
        segment.end_offset = log.log_end_offset
        segment.truncate_to_size()

    def _start_over_at(self, offset: int) -> None:
        """Empty the log and begin at `offset`.

        This is called if the log ends before its start: a power cut took its last records, all of them deleted already.
        """
        log = self._log
        for segment in reversed(log.segments):
            set_aside_segment(segment)
        log.segments = []
        log.log_end_offset = offset
        log.recovery_point = offset
