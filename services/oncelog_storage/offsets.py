"""Offsets by meaning: earliest, latest, by timestamp, by leader epoch; and the deletion of what lies below one."""

from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog_storage.files import StorageFailed, read_failed
from oncelog_storage.hosted_partition import HostedPartition

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
"""Without tiered storage the same as EARLIEST (KIP-405)."""

NOT_FOUND: Final = (-1, -1, -1)
_INHERIT_TIMEOUT_S: Final = 1.0


def list_offset(
    leader: HostedPartition, timestamp: int, *, is_committed_only: bool
) -> tuple[int, int, int]:
    """(timestamp, offset, leader epoch) for ListOffsets (facts 3); -1 where there is none.

    A timestamp finds the first record that is not older; a hit at or above what the reader may see is "not found".
    Raises KafkaError.
    """
    log = leader.log
    upper = leader.last_stable_offset if is_committed_only else leader.high_watermark
    if timestamp == LATEST:
        _require_known_high_watermark(leader)
        return -1, upper, leader.leadership.leader_epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        return -1, start, log.leader_epochs.leader_epoch_of(start)
    if timestamp < MAX_TIMESTAMP:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"ListOffsets knows no special timestamp {timestamp}"
        )
    try:
        found = _max_timestamp(leader) if timestamp == MAX_TIMESTAMP else _find(leader, timestamp)
    except StorageFailed as failure:
        raise leader.take_offline(failure) from failure
    except OSError as error:
        raise leader.take_offline(read_failed(log.directory, error)) from error
    if found is None or found[1] >= upper:
        _require_known_high_watermark(leader)
        return NOT_FOUND
    return found


def _require_known_high_watermark(leader: HostedPartition) -> None:
    """A leader just elected may not know yet how far its predecessor had committed; a smaller end would be a lie.

    Its followers' next fetches tell it (KIP-207). Raises KafkaError, which clients retry.
    """
    replicas = leader.replicas
    if replicas is not None and leader.high_watermark < replicas.epoch_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"the leader of {leader.partition} does not know its end yet",
        )


async def await_inherited(leader: HostedPartition) -> None:
    """Mostly a new leader knows how far its predecessor had committed within milliseconds; wait for that a little."""
    state = leader.replicas
    if state is not None and leader.high_watermark < state.epoch_start_offset:
        await leader.wait_committed(state.epoch_start_offset - 1, _INHERIT_TIMEOUT_S)
        leader.require_leader()


def _find(leader: HostedPartition, timestamp: int) -> tuple[int, int, int] | None:
    log = leader.log
    for segment in log.segments:
        if segment.size_bytes == 0 or segment.max_timestamp()[0] < timestamp:
            continue
        found = segment.find_timestamp(timestamp, log.log_start_offset)
        if found is not None:
            return found
    return None


def _max_timestamp(leader: HostedPartition) -> tuple[int, int, int] | None:
    """The first record with the largest timestamp of the log (KIP-734)."""
    segments = [segment for segment in leader.log.segments if segment.size_bytes]
    if not segments:
        return None
    newest = max(segments, key=lambda segment: segment.max_timestamp()[0])
    largest = newest.max_timestamp()[0]
    if largest < 0:
        return None
    return newest.find_timestamp(largest, leader.log.log_start_offset)


def end_offset_for(leader: HostedPartition, leader_epoch: int) -> tuple[int, int]:
    """(leader epoch, end offset) for OffsetsForLeaderEpoch (KIP-101); (-1, -1) if unknown.

    The current epoch ends at the log's end even before it has written anything.
    """
    log = leader.log
    if leader_epoch == leader.leadership.leader_epoch:
        return leader_epoch, log.log_end_offset
    return log.leader_epochs.end_offset_for(leader_epoch, log.log_end_offset)


def delete_records(leader: HostedPartition, before_offset: int) -> int:
    """Move the log's start up to `before_offset` (-1: the HW); returns the new start. Raises KafkaError.

    POLICY_VIOLATION for a compacted topic, whose last values must stay; OFFSET_OUT_OF_RANGE beyond the HW.
    """
    if not leader.config.is_deleted:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"{leader.partition} has cleanup.policy=compact: its records cannot be deleted by offset",
        )
    offset = leader.high_watermark if before_offset == -1 else before_offset
    if not 0 <= offset <= leader.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} of {leader.partition} is outside 0 to {leader.high_watermark}",
        )
    log = leader.log
    if offset > log.log_start_offset:
        log.advance_log_start(offset)
        log.leader_epochs.truncate_to_start(offset)
    return log.log_start_offset
