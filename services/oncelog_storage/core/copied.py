"""Batches from a leader, which the follower's log copies byte for byte, in the leader's order."""

from collections.abc import Sequence
from typing import NamedTuple

from oncelog.errors import OncelogError
from oncelog.record.batch import LENGTH_PREFIX_BYTES, largest_timestamp
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.replay import (
    BASE_OFFSET,
    BATCH_LENGTH,
    LAST_OFFSET_DELTA,
    LEADER_EPOCH,
    PRODUCER_ID,
    RECORD_COUNT,
    HeaderFields,
    replay_batch,
    whole_batch_at,
)
from oncelog_storage.core.segment_state import Addition, SegmentState, must_roll


class NoCopy(OncelogError):
    """The batches that the leader sent cannot be appended here: they are broken, out of order, or overlap this log's
    end.
    """


class CopiedBatch(NamedTuple):
    fields: HeaderFields
    at: int
    """The batch's position in the bytes that the leader sent."""
    size_bytes: int

    @property
    def last_offset(self) -> int:
        return self.fields[BASE_OFFSET] + self.fields[LAST_OFFSET_DELTA]

    @property
    def added(self) -> Addition:
        return Addition(self.size_bytes, self.last_offset, largest_timestamp(self.fields))


def begins_before(log: LogState, view: memoryview) -> int | None:
    """Return the base offset of the first batch if an empty log must begin there instead of at its end; otherwise None.

    The leader's log start may lie inside of that batch.
    """
    fields, reason = whole_batch_at(view, 0, -1)
    base_offset = fields[BASE_OFFSET]
    last_offset = base_offset + fields[LAST_OFFSET_DELTA]
    return base_offset if not reason and base_offset < log.log_end_offset <= last_offset else None


def copied_batches(log: LogState, view: memoryview) -> list[CopiedBatch]:
    """Return the batches that a leader sent: whole, in order, behind the log's end, and of no older leader epoch.

    Raises NoCopy for any others.
    """
    batches = []
    at, end, epoch = 0, log.log_end_offset, log.leader_epochs.latest
    while at < len(view):
        fields, reason = whole_batch_at(view, at, -1)
        if not reason and fields[BASE_OFFSET] < end:
            reason = f"offset {fields[BASE_OFFSET]} stands where {end} or more was expected"
        if not reason and fields[LEADER_EPOCH] < epoch:
            reason = f"leader epoch {fields[LEADER_EPOCH]} follows {epoch}"
        if reason:
            raise NoCopy(f"{log.partition}: the leader sent what is no copy: {reason}")
        batch = CopiedBatch(fields, at, fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES)
        batches.append(batch)
        end, epoch = batch.last_offset + 1, fields[LEADER_EPOCH]
        at += batch.size_bytes
    return batches


def fitting(
    log: LogState, segment: SegmentState, batches: Sequence[CopiedBatch], now: int
) -> Sequence[CopiedBatch]:
    """Return the first batches that the same segment takes in one write.

    At least one batch is returned: a batch that fits nowhere has a segment of its own.
    """
    size_bytes = batches[0].size_bytes
    for count, batch in enumerate(batches[1:], 1):
        size_bytes += batch.size_bytes
        added = batch.added._replace(size_bytes=size_bytes)
        if must_roll(segment, added, log.config, log.partition, now):
            return batches[:count]
    return batches


def wrote_copied(
    log: LogState,
    segment: SegmentState,
    position: int,
    run: Sequence[CopiedBatch],
    view: memoryview,
) -> None:
    """Update the log's end, indexes, leader epochs and producer state for copied batches that were written at its end.

    They were written from `position` of the segment on.
    """
    for batch in run:
        fields = batch.fields
        if fields[LEADER_EPOCH] > log.leader_epochs.latest:
            log.leader_epochs.assign(fields[LEADER_EPOCH], fields[BASE_OFFSET])
        segment.index_batch(
            position + batch.at - run[0].at,
            batch.size_bytes,
            batch.last_offset,
            largest_timestamp(fields),
            log.config.index_interval_bytes,
        )
        if fields[PRODUCER_ID] >= 0:
            segment.ended(replay_batch(log.producers, fields, view, batch.at))
        log.appended(batch.size_bytes, batch.last_offset + 1, fields[RECORD_COUNT])


def has_gap(log_end_offset: int, run: Sequence[CopiedBatch]) -> bool:
    """True if a batch does not follow the one before it, or the log's end: the leader's log was cleaned."""
    ends = (log_end_offset, *(batch.last_offset + 1 for batch in run))
    return any(batch.fields[BASE_OFFSET] != end for batch, end in zip(run, ends, strict=False))
