"""Retention of one log: `core.retention` decides, and this module moves the log's start and rolls an old log."""

from oncelog_storage.core.retention import log_start_of
from oncelog_storage.hosted_partition import HostedPartition


def advance_by_retention(hosted: HostedPartition, now: int) -> bool:
    """Move the log's start past what the topic's retention no longer covers. Return True if segments may go now.

    The caller makes the new start durable and then drops them: in the other order a crash between the two would leave a
    log that seems to have lost data. `now` is in ms. Raises CorruptSegment, OSError.
    """
    log = hosted.log
    newest = (segment.max_timestamp()[0] if segment.size_bytes else -1 for segment in log.segments)
    start = log_start_of(hosted, newest, now)
    if start.rolls:
        log.roll(now)
    log.advance_log_start(start.offset)
    return log.droppable(log.log_start_offset) > 0
