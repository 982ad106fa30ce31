"""The recovery of a log when it is opened: where replay begins, what each batch changes, where the log ends.

```
snapshots ──▶ usable_snapshots ──▶ where replay starts
batches   ──▶ Replay.replay_batch ─▶ producer state, leader epochs, indexes, log end │ BrokenBatch
end       ──▶ needed_end, starts_over
```

The caller (`log_recovery`) reads files, and cuts, deletes and sets aside what is decided here.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from oncelog.errors import KafkaError
from oncelog.record.batch import CONTROL, LENGTH_PREFIX_BYTES, largest_timestamp
from oncelog_storage.core.batch_walk import BrokenBatch, Found
from oncelog_storage.core.leader_epochs import LeaderEpochs
from oncelog_storage.core.log_state import NOT_REPLICATED, LogState
from oncelog_storage.core.replay import (
    ATTRIBUTES,
    BASE_OFFSET,
    BATCH_LENGTH,
    CUT_BATCH,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    HeaderFields,
    replay_batch,
)
from oncelog_storage.core.segment_checks import NO_POWER_LOST, LogChecks
from oncelog_storage.core.segment_state import SegmentState

UNKNOWN_LOG_START: Final = -1
"""The log start when no file says it: the log begins where its first segment does."""


class Snapshots(NamedTuple):
    """The producer snapshots that a starting node may load, and those it must delete, by offset."""

    usable: list[int]
    """The snapshots that a start may load, the best one first."""
    dropped: list[int]
    """The snapshots behind the recovery point, written just before a crash: the log there may be another one now."""


def usable_snapshots(log: LogState, offsets: Sequence[int], first_base: int | None) -> Snapshots:
    """Return the producer snapshots that a starting node may load. `offsets` ascend; `first_base` is the first
    segment's base offset.

    A snapshot above the high watermark lacks transactions that ended between the two, and the LSO would pass them. So
    such a snapshot is usable in two cases only. The caller then holds the LSO until the high watermark reaches it.

    1. The high watermark is not known.
    2. The log begins behind the newest snapshot below the high watermark. Retention deletes only below the high
       watermark, so the stored one is old. A transaction that is open in that snapshot may have had its marker in a
       deleted segment, and nobody would ever end it.
    """
    dropped = [offset for offset in reversed(offsets) if offset > log.recovery_point]
    kept = [offset for offset in reversed(offsets) if offset <= log.recovery_point]
    committed = [offset for offset in kept if offset <= log.committed_at_load]
    above = [offset for offset in kept if offset > log.committed_at_load]
    if log.committed_at_load <= 0:
        return Snapshots([*committed, *above], dropped)
    if committed and first_base is not None and committed[0] < first_base:
        return Snapshots([*reversed(above), *committed], dropped)
    return Snapshots(committed, dropped)


def replay_start(log: LogState, snapshot: int | None, first_base: int | None) -> int:
    """Return the offset from which batches are replayed.

    `snapshot` is the loaded snapshot's offset; None: there is none.
    """
    if snapshot is None:
        return log.log_start_offset if first_base is None else first_base
    return snapshot if first_base is None else max(snapshot, first_base)


def missing_start(log_start_offset: int, first_base: int) -> bool:
    """True if segments before the first one are lost: retention moves the log start before it takes files away."""
    return UNKNOWN_LOG_START < log_start_offset < first_base


def knows_no_epochs(log: LogState, start: int, first_base: int | None) -> bool:
    """True if the leader epochs must be learnt from the batches before `start`, because their file tells none.

    An epoch that begins replaces that file unsynced, so a power cut can leave it empty. A follower that knows no epochs
    would not notice that its log and its leader's have parted.
    """
    return log.leader_epochs.latest < 0 and first_base is not None and start > first_base


def learn_epochs(leader_epochs: LeaderEpochs, batches: Iterable[Found], start: int) -> None:
    """Add the leader epochs of the batches before offset `start` to `leader_epochs`, for a log whose checkpoint of them
    is missing or too old.
    """
    for _, fields, _, _ in batches:
        if fields[BASE_OFFSET] >= start:
            return
        if fields[LEADER_EPOCH] > leader_epochs.latest:
            leader_epochs.assign(fields[LEADER_EPOCH], fields[BASE_OFFSET])


class Replay:
    """Rebuilds the state of a log in memory from its batches, in order.

    Batches before `start` are in the loaded snapshot, and are only indexed.
    """

    def __init__(self, log: LogState, start: int) -> None:
        self._log = log
        self._start = start
        self._leader_epoch = -1
        """The leader epoch of the batch before."""

    def begin(self, segment: SegmentState, position: int, offset: int, *, is_newest: bool) -> None:
        """Begin the replay inside of a segment: at `position`, where `offset` was found.

        Raises BrokenBatch if the segment ends before that, or another offset must be there.
        """
        if position > segment.size_bytes:
            # Everything before `start` was synced once; the header of its last batch stands, the rest is gone.
            raise BrokenBatch(segment.size_bytes, CUT_BATCH)
        self._check_boundary(segment, position, offset, is_newest=is_newest)

    def _check_boundary(
        self, segment: SegmentState, position: int, offset: int, *, is_newest: bool
    ) -> None:
        """Raise BrokenBatch if the batch found at `position` does not begin at the snapshot's offset, where a batch
        ended.

        Only the newest segment is checked: elsewhere compaction may have taken the batches around.
        """
        log, start = self._log, self._start
        is_bound = start == log.recovery_point or not log.config.is_compacted
        if is_newest and is_bound and offset != start and position < segment.size_bytes:
            raise BrokenBatch(position, f"offset {offset} stands where {start} begins")

    def replay_batch(
        self,
        segment: SegmentState,
        position: int,
        fields: HeaderFields,
        view: memoryview,
        at: int,
        *,
        is_newest: bool,
    ) -> None:
        """Apply the next batch to producer state, leader epochs, indexes and log end.

        Raises BrokenBatch, and then nothing of the batch counts.
        """
        if is_newest:
            self._check_tail_gap(segment, position, fields)
        log, last_offset = self._log, fields[BASE_OFFSET] + fields[LAST_OFFSET_DELTA]
        if fields[BASE_OFFSET] >= self._start:
            if fields[LEADER_EPOCH] < self._leader_epoch and log.committed_at_load < NOT_REPLICATED:
                # The CRC does not cover it. Followers would cut themselves back to where a false epoch begins.
                raise BrokenBatch(
                    position, f"leader epoch {fields[LEADER_EPOCH]} follows {self._leader_epoch}"
                )
            self._leader_epoch = fields[LEADER_EPOCH]
            if fields[LEADER_EPOCH] > log.leader_epochs.latest:
                log.leader_epochs.assign(fields[LEADER_EPOCH], fields[BASE_OFFSET])
            try:
                completed = replay_batch(log.producers, fields, view, at)
            except KafkaError as error:
                raise BrokenBatch(position, str(error)) from error
            if completed is not None and fields[ATTRIBUTES] & CONTROL:
                log.producers.high_watermark_moved(min(last_offset + 1, log.committed_at_load))
                segment.ended(completed)
        segment.index_batch(
            position,
            fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES,
            last_offset,
            largest_timestamp(fields),
            log.config.index_interval_bytes,
        )
        log.log_end_offset = last_offset + 1

    def _check_tail_gap(self, segment: SegmentState, position: int, fields: HeaderFields) -> None:
        """Raise BrokenBatch for a gap before the log's last batch, unless compaction may have made it.

        No batch follows that could tell a damaged base offset from a gap. Compaction makes gaps here, or at the leader
        from which this replica copied.
        """
        log = self._log
        is_last = position + fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES == segment.size_bytes
        may_have_gaps = log.config.is_compacted or log.has_gaps
        if fields[BASE_OFFSET] > log.log_end_offset and is_last and not may_have_gaps:
            raise BrokenBatch(
                position, f"offset {fields[BASE_OFFSET]} follows {log.log_end_offset - 1}"
            )


def needed_end(log: LogState) -> int:
    """Return the offset that the log must reach; a log that ends before it has lost records that were safe on disk.

    This is checked before anything is deleted: files behind a hole may be all that a backup does not have.
    """
    return max(log.recovery_point, log.proven_end)


def proven_end(
    recovery_point: int | None, checks: LogChecks | None, snapshots: Sequence[int]
) -> int:
    """Return the offset up to which the log was safe on disk, if its recovery point is not known; else 0.

    `segments-checkpoint` and the producer snapshots say it. A log that is truncated always gets a recovery point. So
    neither can be older than a truncation.
    """
    if recovery_point is not None:
        return 0
    return max(0 if checks is None else checks.safe_end, *snapshots, 0)


def lost_from(
    recovery_point: int | None, checks: LogChecks | None, *, may_have_lost_power: bool
) -> int:
    """Return the offset from which missing or short files are no fault, because a power cut may have taken them."""
    if not may_have_lost_power:
        return NO_POWER_LOST
    if recovery_point is not None:
        return recovery_point
    return 0 if checks is None else checks.safe_end


def is_old(checks: LogChecks, recovery_point: int | None) -> bool:
    """True if the checks of `segments-checkpoint` are older than the recovery point.

    Each checkpoint writes them before it moves the recovery point.
    """
    return checks.safe_end < (recovery_point or 0)


def starts_over(log: LogState) -> bool:
    """True if the log ends before its start: a power cut took its last records, all of them deleted already.

    The log then begins empty at its start.
    """
    return log.log_start_offset > log.log_end_offset
