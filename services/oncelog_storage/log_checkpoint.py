"""The checkpoints of a log: they limit the work after a crash, and make data survive a power cut.

On the loop: `prepare` takes producer state and index parts as they are at the log's end. In a worker thread: `write`
syncs the log first, then indexes, then puts the snapshot in place; only then may the caller move the recovery point to
that offset. On the loop again: `finish`. In this order a crash anywhere leaves a recovery point whose data, indexes and
snapshot are all there.
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from oncelog.ids import Partition
from oncelog_storage.core.leader_epochs import encode_leader_epochs
from oncelog_storage.core.producer_snapshot import encode_snapshot
from oncelog_storage.core.retention import removable_snapshots
from oncelog_storage.core.segment_files import (
    LEADER_EPOCH_CHECKPOINT,
    SNAPSHOT_SUFFIX,
    file_stem,
)
from oncelog_storage.files import (
    StorageFailed,
    sync_directory,
    sync_file,
    way_out,
    write_at,
    write_atomically,
)
from oncelog_storage.log import PartitionLog
from oncelog_storage.log_recovery import snapshot_offsets
from oncelog_storage.segment import Segment
from oncelog_storage.segment_checks import ChecksFile, TakenChecks, remove_old_checks

SNAPSHOTS_KEPT: Final = 2
"""The number of snapshots that are kept. The older one is used when the newest is unreadable."""


class Checkpoint(NamedTuple):
    """The content of a partition's files that a clean start needs, taken when the log ended at `offset`: the producer
    snapshot, the leader epochs, the checks of segments and the unwritten parts of indexes."""

    directory: Path
    offset: int
    snapshot: bytes
    leader_epochs: bytes
    checks_file: ChecksFile
    checks: TakenChecks
    log_paths: list[str]
    index_parts: list[tuple[Segment, list[tuple[str, int, bytes]]]]


def prepare(log: PartitionLog) -> Checkpoint:
    """Return a copy of what must be written, so that the next start, even after a crash, scans nothing before the
    current log end.
    """
    dirty = log.segments[log.segment_index(log.recovery_point) :]
    for segment in dirty:
        # A start reads nothing before the checkpoint, so the time index must know all of it.
        segment.index_largest_timestamp()
    # Others have something to write when their indexes were damaged and built again.
    repaired = [segment for segment in log.segments[: -len(dirty)] if not segment.is_written]
    for segment in log.segments:
        segment.current_aborted_check()
    checkpoint = Checkpoint(
        log.directory,
        log.log_end_offset,
        encode_snapshot(log.producers.entries()),
        encode_leader_epochs(log.leader_epochs).encode(),
        log.checks_file,
        log.checks_file.prepare_write(log.checks(safe_end=log.log_end_offset)),
        [segment.log_path for segment in dirty if segment.size_bytes],
        # An index without its segment would tell that somebody removed that.
        [(segment, segment.unwritten()) for segment in (*repaired, *dirty) if segment.has_file],
    )
    log.bytes_since_checkpoint = 0
    return checkpoint


def write(checkpoint: Checkpoint, sync: Callable[[list[str]], None]) -> None:
    """Sync the log with `sync`, then write what depends on it. A worker thread calls this. Raises OSError."""
    sync(checkpoint.log_paths)
    for _, parts in checkpoint.index_parts:
        for path, position, data in parts:
            if data or not _has_size(path, position):
                write_at(path, position, data)
    directory = checkpoint.directory
    checkpoint.checks_file.write(checkpoint.checks, sync=True)
    remove_old_checks(directory)
    write_atomically(directory / LEADER_EPOCH_CHECKPOINT, checkpoint.leader_epochs, sync=True)
    name = file_stem(checkpoint.offset) + SNAPSHOT_SUFFIX
    write_atomically(directory / name, checkpoint.snapshot, sync=True)


def _has_size(path: str, size_bytes: int) -> bool:
    try:
        return os.path.getsize(path) == size_bytes
    except FileNotFoundError:
        return False


def finish(log: PartitionLog, checkpoint: Checkpoint) -> None:
    """Update the log in memory, after the recovery point of this checkpoint was written to disk."""
    for segment, parts in checkpoint.index_parts:
        segment.written(parts)
    log.checkpointed(checkpoint.offset)
    if not log.checks_file.is_newest(checkpoint.checks):
        # A segment began meanwhile, and what was written down with it knows an older recovery point.
        log.note_checks()


def discard(checkpoint: Checkpoint) -> None:
    """Remove the checkpoint's snapshot, because the log was truncated meanwhile.

    A worker thread calls this. Raises OSError.
    """
    name = file_stem(checkpoint.offset) + SNAPSHOT_SUFFIX
    (checkpoint.directory / name).unlink(missing_ok=True)


def remove_old_snapshots(checkpoint: Checkpoint, committed: int) -> None:
    """Delete snapshots by `core.retention.removable_snapshots`. A worker thread calls this. Raises OSError."""
    directory = checkpoint.directory
    if not directory.is_dir():
        return
    offsets = snapshot_offsets(directory)
    for offset in removable_snapshots(offsets, checkpoint.offset, committed, SNAPSHOTS_KEPT):
        os.unlink(directory / (file_stem(offset) + SNAPSHOT_SUFFIX))


def unsynced_paths(log: PartitionLog) -> list[str]:
    """Return the segment files that may hold bytes which are not yet on disk."""
    dirty = log.segments[log.segment_index(max(log.recovery_point, log.flushed_offset)) :]
    return [segment.log_path for segment in dirty if segment.size_bytes]


def sync_recovered(folder: Path, logs: Iterable[PartitionLog]) -> dict[Partition, StorageFailed]:
    """Sync recovered logs. Return those whose sync failed, with the reason.

    What a killed process left in the system's cache reads as if it were safe. It is synced before any position is sent,
    above all to a leader that counts replicas. The positions of logs that failed may not be sent. All `logs` are in
    `folder`, which may hold thousands and is synced once. This call blocks.
    """
    dirty = [log for log in logs if log.is_dirty]
    if not dirty:
        return {}
    try:
        sync_directory(folder)
    except OSError as error:
        failure = _sync_failed(folder, error)
        return {log.partition: failure for log in dirty}
    failures = {}
    for log in dirty:
        assert log.directory.parent == folder, (log.directory, folder)
        try:
            sync_logs(unsynced_paths(log))
            sync_directory(log.directory)
        except OSError as error:
            failures[log.partition] = _sync_failed(log.directory, error)
        else:
            log.flushed_offset = log.log_end_offset
    return failures


def _sync_failed(path: Path, error: OSError) -> StorageFailed:
    failure = StorageFailed(
        f"cannot sync {path}: {error.strerror}; {way_out(error)}, then restart the node"
    )
    failure.__cause__ = error
    return failure


def sync_logs(paths: list[str]) -> None:
    """Sync these files.

    A worker thread calls this. A segment that was deleted meanwhile needs no sync. Raises OSError.
    """
    for path in paths:
        try:
            sync_file(path)
        except FileNotFoundError:
            continue
