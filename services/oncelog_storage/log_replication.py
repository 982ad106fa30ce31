"""A follower's writes to its log: it appends the leader's batches as they are, and truncates its own.

A copied batch keeps its offset and its leader epoch; only its CRC and its place behind the log's end are checked, since
the leader has decided everything else. Producer state, aborted transactions, leader epochs and indexes follow from the
batches, as they do when a log is opened.

Truncation is a crash on purpose: the files are cut and the log is loaded from them again. So it then knows what
a node that never had the cut records would know.
"""

import logging
import os
from collections.abc import Sequence

from oncelog_storage import log_recovery
from oncelog_storage.core.copied import (
    CopiedBatch,
    NoCopy,
    begins_before,
    copied_batches,
    fitting,
    has_gap,
    wrote_copied,
)
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.segment_files import (
    GAPS_FILE,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    file_stem,
    is_derived,
)
from oncelog_storage.damage import remove_segment
from oncelog_storage.files import StorageFailed, touch, way_out
from oncelog_storage.log import PartitionLog
from oncelog_storage.log_recovery import snapshot_offsets

_log = logging.getLogger(__name__)


class UnusableCopy(StorageFailed):
    """The batches that the leader sent do not fit behind this log's end, or are broken. None of them was written."""


def append_copied(log: PartitionLog, records: bytes, now: int) -> None:
    """Append the leader's batches byte for byte. Raises UnusableCopy before the write, StorageFailed while writing."""
    view = memoryview(records)
    if not log.size_bytes:
        _begin_with(log, view)
    try:
        batches: Sequence[CopiedBatch] = copied_batches(log, view)
    except NoCopy as error:
        raise UnusableCopy(str(error)) from error
    latest_epoch = log.leader_epochs.latest
    while batches:
        segment = log.segment_for(batches[0].added, now)
        run = fitting(log, segment, batches, now)
        _note_gaps(log, run)
        start, end, position = run[0].at, run[-1].at + run[-1].size_bytes, segment.size_bytes
        log.write(segment, (view[start:end],), end - start)
        wrote_copied(log, segment, position, run, view)
        batches = batches[len(run) :]
    if log.leader_epochs.latest != latest_epoch:
        log.write_leader_epochs(sync=False)


def _begin_with(log: PartitionLog, view: memoryview) -> None:
    """Begin an empty log where its first batch does: the leader's log start may lie inside of that batch.

    Raises StorageFailed.
    """
    base_offset = begins_before(log, view)
    if base_offset is None:
        return
    segments, log.segments = log.segments, []
    try:
        log.write_checks()
        for segment in segments:
            remove_segment(segment)
    except OSError as error:
        raise StorageFailed(
            f"cannot empty {log.directory}: {error.strerror}; {way_out(error)}"
        ) from error
    log.forget_reads()
    log.log_end_offset = base_offset
    log.recovery_point = min(log.recovery_point, base_offset)


def _note_gaps(log: PartitionLog, run: Sequence[CopiedBatch]) -> None:
    """Write down that the log has gaps, if these batches make one. Raises StorageFailed.

    The topic may no longer be compacted at the next start, which would take a gap for a damaged offset. The file is
    written before the batches are, so a kill never leaves a gap without it.
    """
    if log.has_gaps or not has_gap(log.log_end_offset, run):
        return
    path = log.directory / GAPS_FILE
    try:
        touch(str(path))
    except OSError as error:
        raise StorageFailed(f"cannot make {path}: {error.strerror}; {way_out(error)}") from error
    log.names_made += 1
    log.has_gaps = True
    log.producers.has_forgotten = True


def truncate(log: PartitionLog, offset: int, now: int) -> None:
    """Drop the batch that holds `offset` and all batches behind it. Raises StorageFailed.

    The caller has made a recovery point at or below `offset` durable. So the next start repairs what a crash in here
    leaves.
    """
    assert offset >= log.log_start_offset, (offset, log.log_start_offset)
    if offset >= log.log_end_offset or not log.segments:
        return
    index = log.segment_index(offset)
    segment = log.segments[index]
    position, base_offset = segment.position_of(offset)
    end = min(offset, base_offset)
    _log.info("%s: truncated from %d to %d", log.partition, log.log_end_offset, end)
    try:
        _remove_snapshots(log, above=end)
        checks = log.checks_before_cut(index, position, end)
        log.checks_file.write(log.checks_file.prepare_write(checks), sync=True)
        for later in reversed(log.segments[index + 1 :]):
            remove_segment(later)
        segment.size_bytes = position
        segment.truncate_to_size()
    except OSError as error:
        raise StorageFailed(
            f"cannot truncate {log.directory}: {error.strerror}; {way_out(error)}, then restart the node"
        ) from error
    _load_again(log, min(log.recovery_point, end), now)


def start_over(log: PartitionLog, offset: int) -> None:
    """Drop the whole log and begin an empty one at `offset`. Raises StorageFailed.

    The caller has made a recovery point of 0 and the new log start durable.
    """
    _log.info(
        "%s: its records %d to %d are dropped, it begins again at %d",
        log.partition,
        log.log_start_offset,
        log.log_end_offset - 1,
        offset,
    )
    try:
        log.close()
        if log.exists_on_disk:
            # By name: a log that could not be opened knows none of its segments.
            # A segment without its indexes is a start's to finish; an index without its segment would tell of a loss.
            names = os.listdir(log.directory)
            derived = [name for name in names if is_derived(name)]
            for name in (*derived, *(name for name in names if name.endswith(LOG_SUFFIX))):
                os.unlink(log.directory / name)
        # A start looks for the log start of folders only. A replica that forgot it would begin at 0 again, and as a
        # leader give the offsets below a second time.
        log.make_folder_durable()
    except OSError as error:
        raise StorageFailed(
            f"cannot empty {log.directory}: {error.strerror}; {way_out(error)}, then restart the node"
        ) from error
    log.forget_reads()
    log.segments = []
    log.leader_epochs = LeaderEpochs()
    log.producers.restore(())
    log.producers.has_forgotten = offset > 0
    log.log_start_offset = log.log_end_offset = log.recovery_point = log.flushed_offset = offset
    log.unflushed_records = log.bytes_since_checkpoint = 0
    log.has_gaps = False
    log.truncation_count += 1
    log.start_over_count += 1


def _load_again(log: PartitionLog, recovery_point: int, now: int) -> None:
    log.close()
    log.forget_reads()
    log.truncation_count += 1
    log.producers.restore(())
    log.proven_end = 0
    log_recovery.recover(log, recovery_point, log.log_start_offset, now)
    log.write_leader_epochs(sync=False)
    log.flushed_offset = min(log.flushed_offset, log.log_end_offset)


def _remove_snapshots(log: PartitionLog, *, above: int) -> None:
    for offset in snapshot_offsets(log.directory):
        if offset > above:
            os.unlink(log.directory / (file_stem(offset) + SNAPSHOT_SUFFIX))
