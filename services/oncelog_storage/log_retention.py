"""Retention of one log: `core.retention` decides, the log's start moves, and an old log rolls."""

from collections.abc import Iterator

from oncelog_storage.core.cleaning_plan import SegmentFacts
from oncelog_storage.core.retention import keep_from, segment_start
from oncelog_storage.log import PartitionLog


def advance_by_retention(
    log: PartitionLog, high_watermark: int, now: int, *, is_leader: bool = True
) -> bool:
    """Move the log's start past what the topic's retention no longer covers. Returns whether segments may go now.

    The caller makes the new start durable and then drops them: in the other order a crash between the two would leave
    a log that seems to have lost data. When even the newest segment is too old the log rolls first, so that a log
    without appends becomes empty, as Kafka's does. A compacted topic keeps everything. A follower takes its log's start
    from the leader and only drops what lies before it.
    """
    if not log.segments:
        return False
    if log.config.is_deleted and is_leader:
        offset = keep_from(
            log.config, _facts(log), _sizes(log), log.log_end_offset, high_watermark, now
        )
        last = log.segments[-1]
        if offset > last.base_offset and offset == log.log_end_offset and last.size_bytes:
            log.roll(now)
        log.advance_log_start(segment_start(_sizes(log), offset))
    return len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset


def _sizes(log: PartitionLog) -> list[tuple[int, int]]:
    return [(segment.base_offset, segment.size_bytes) for segment in log.segments]


def _facts(log: PartitionLog) -> Iterator[SegmentFacts]:
    ends = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
    for segment, end in zip(log.segments, ends, strict=True):
        newest = segment.max_timestamp()[0] if segment.size_bytes else -1
        newest_ms = newest if newest >= 0 else segment.created_ms
        yield SegmentFacts(segment.base_offset, end, segment.size_bytes, -1, newest_ms)
