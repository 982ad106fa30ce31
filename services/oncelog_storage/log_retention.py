"""Which segments may be deleted: by age, by size, or because the log's start has passed them."""

from oncelog_storage.log import PartitionLog


def advance_by_retention(
    log: PartitionLog, high_watermark: int, now: int, *, is_leader: bool = True
) -> bool:
    """Move the log's start past what the topic's retention no longer covers. Returns whether segments may go now.

    The caller makes the new start durable and then drops them: in the other order a crash between the two would leave
    a log that seems to have lost data. Nothing at or above the high watermark goes. When even the newest segment is too
    old the log rolls first, so that a log without appends becomes empty, as Kafka's does. A compacted topic keeps
    everything. A follower takes its log's start from the leader and only drops what lies before it.
    """
    if not log.segments:
        return False
    if log.config.is_deleted and is_leader:
        keep_from = max(_expired_before(log, high_watermark, now), _surplus_before(log))
        keep_from = min(keep_from, high_watermark)
        last = log.segments[-1]
        if keep_from > last.base_offset and keep_from == log.log_end_offset and last.size_bytes:
            log.roll(now)
        log.advance_log_start(_segment_start_at_or_below(log, keep_from))
    return len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset


def _expired_before(log: PartitionLog, high_watermark: int, now: int) -> int:
    """Where the first segment begins that is still young enough."""
    retention_ms = log.config.retention_ms
    if retention_ms < 0:
        return 0
    for index, segment in enumerate(log.segments):
        newest = segment.max_timestamp()[0] if segment.size_bytes else -1
        if newest < 0:
            newest = segment.created_ms
        end = _end_of(log, index)
        if now - newest <= retention_ms or end > high_watermark or not segment.size_bytes:
            return segment.base_offset
    return log.log_end_offset


def _surplus_before(log: PartitionLog) -> int:
    """Where the log would begin if whole old segments above retention.bytes went; the newest always stays."""
    if log.config.retention_bytes < 0:
        return 0
    surplus = log.size_bytes - log.config.retention_bytes
    for segment in log.segments[:-1]:
        if surplus < segment.size_bytes:
            return segment.base_offset
        surplus -= segment.size_bytes
    return log.segments[-1].base_offset


def _end_of(log: PartitionLog, index: int) -> int:
    if index + 1 < len(log.segments):
        return log.segments[index + 1].base_offset
    return log.log_end_offset


def _segment_start_at_or_below(log: PartitionLog, offset: int) -> int:
    return max(
        (segment.base_offset for segment in log.segments if segment.base_offset <= offset),
        default=0,
    )
