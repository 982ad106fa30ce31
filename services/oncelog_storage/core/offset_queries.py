"""The offsets that clients ask for: earliest, latest, by timestamp, by leader epoch. It also decides DeleteRecords.

`list_offset` is a generator (ADR 0031): it yields queries of a segment's files, and the caller sends the results.
"""

from collections.abc import Generator
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode, KafkaError
from oncelog_storage.core.partition import PartitionReplica

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
"""The timestamp that means EARLIEST of the local log; without tiered storage it is the same as EARLIEST (KIP-405)."""

Listed = tuple[int, int, int]
"""A result of ListOffsets: (timestamp, offset, leader epoch)."""
NOT_FOUND: Final[Listed] = (-1, -1, -1)


class LargestTimestamp(NamedTuple):
    """Yielded by the generator `list_offset` to ask for the largest timestamp in the segment with this index, in ms."""

    segment: int


class FindTimestamp(NamedTuple):
    """Yielded by the generator `list_offset` to ask for a segment's first record that is not older than `timestamp`.

    Only records from `offset_min` on count. The caller sends it, or None if there is no such record.
    """

    segment: int
    timestamp: int
    offset_min: int


class FindLargest(NamedTuple):
    """Yielded by the generator `list_offset` to ask for a segment's first record with the largest timestamp there.

    Only records from `offset_min` on count. The caller sends it, or None if there is no such record.
    """

    segment: int
    offset_min: int


Query = LargestTimestamp | FindTimestamp | FindLargest
Walk = Generator[Query, int | Listed | None, Listed | None]


def list_offset(
    led: PartitionReplica, timestamp: int, *, is_committed_only: bool
) -> Generator[Query, int | Listed | None, Listed]:
    """Return (timestamp, offset, leader epoch) for ListOffsets (docs/kafka-facts.md, 3); -1 for each part that is
    unknown.

    A timestamp finds the first record that is not older. A record at or above what the reader may see counts as not
    found. Raises KafkaError.
    """
    log = led.log
    upper = led.last_stable_offset if is_committed_only else led.high_watermark
    if timestamp == LATEST:
        _require_known_high_watermark(led)
        return -1, upper, led.leadership.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return -1, start, log.leader_epochs.leader_epoch_of(start)
    if timestamp < MAX_TIMESTAMP:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"ListOffsets knows no special timestamp {timestamp}"
        )
    if timestamp == MAX_TIMESTAMP:
        found = yield from _first_of_largest(led)
    else:
        found = yield from _first_not_older(led, timestamp)
    if found is None or found[1] >= upper:
        _require_known_high_watermark(led)
        return NOT_FOUND
    return found


def _first_not_older(led: PartitionReplica, timestamp: int) -> Walk:
    log = led.log
    for index, segment in enumerate(log.segments):
        if segment.size_bytes == 0:
            continue
        largest = yield LargestTimestamp(index)
        assert isinstance(largest, int)
        if largest < timestamp:
            continue
        found = yield FindTimestamp(index, timestamp, log.log_start_offset)
        assert not isinstance(found, int)
        if found is not None:
            return found
    return None


def _first_of_largest(led: PartitionReplica) -> Walk:
    """Return the first record with the largest timestamp that the log still has (KIP-734)."""
    log, best = led.log, None
    largest: list[tuple[int, int]] = []
    for index, segment in enumerate(log.segments):
        if segment.size_bytes:
            found = yield LargestTimestamp(index)
            assert isinstance(found, int)
            largest.append((-found, index))
    # A segment may have lost its largest: to DeleteRecords, or to the cleaner.
    for negative, index in sorted(largest):
        timestamp = -negative
        if timestamp < 0 or (best is not None and best[0] >= timestamp):
            break
        first = yield FindTimestamp(index, timestamp, log.log_start_offset)
        if first is None:
            first = yield FindLargest(index, log.log_start_offset)
        assert not isinstance(first, int)
        if first is not None and (best is None or first[0] > best[0]):
            best = first
    return best


def inherited_end(led: PartitionReplica) -> int | None:
    """Return the offset where this leader epoch began, if the leader does not know yet whether all below it is
    committed. None: it knows.

    Meanwhile it may answer no smaller end offset, because its predecessor may have committed more. The next fetches of
    followers tell the leader (KIP-207).
    """
    replicas = led.replicas
    if replicas is None or led.high_watermark >= replicas.epoch_start_offset:
        return None
    return replicas.epoch_start_offset


def _require_known_high_watermark(led: PartitionReplica) -> None:
    """Check that the leader knows the high watermark. Raises KafkaError, which clients retry."""
    if inherited_end(led) is not None:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"the leader of {led.partition} does not know its end yet",
        )


def end_offset_for(led: PartitionReplica, leader_epoch: int) -> tuple[int, int]:
    """Return (leader epoch, end offset) for OffsetsForLeaderEpoch (KIP-101); (-1, -1) if unknown.

    The current epoch ends at the log's end even before it has written anything.
    """
    log = led.log
    if leader_epoch == led.leadership.leader_epoch:
        return leader_epoch, log.log_end_offset
    return log.leader_epochs.end_offset_for(leader_epoch, log.log_end_offset)


def delete_records(led: PartitionReplica, before_offset: int) -> int:
    """Move the log's start up to `before_offset` (-1: the HW). Return the new start.

    Raises KafkaError: POLICY_VIOLATION for a compacted topic, whose last values must stay, and OFFSET_OUT_OF_RANGE
    beyond the HW.
    """
    if not led.config.is_deleted:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{led.partition} has cleanup.policy=compact: its records cannot be deleted by offset",
        )
    offset = led.high_watermark if before_offset == -1 else before_offset
    if not 0 <= offset <= led.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {led.partition} is outside 0 to {led.high_watermark}",
        )
    log = led.log
    if offset > log.log_start_offset:
        log.advance_log_start(offset)
        log.leader_epochs.truncate_to_start(offset)
    return log.log_start_offset


def low_watermark(led: PartitionReplica) -> int:
    """Return the smallest log start of the in-sync replicas. No replica serves records below it."""
    state, smallest = led.replicas, led.log.log_start_offset
    if state is None:
        return smallest
    for node_id, progress in state.followers.items():
        if node_id in state.isr:
            smallest = min(smallest, progress.log_start_offset)
    return smallest
