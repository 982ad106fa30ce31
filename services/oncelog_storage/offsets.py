"""Answers ListOffsets from a partition's segment files (`core.offset_queries` decides), and lets a new leader wait
first.
"""

from typing import Final

from oncelog_storage.core import offset_queries
from oncelog_storage.core.offset_queries import (
    FindLargest,
    LargestTimestamp,
    Listed,
    Query,
    inherited_end,
)
from oncelog_storage.core.walks import run_walk
from oncelog_storage.files import StorageFailed, read_failed
from oncelog_storage.hosted_partition import HostedPartition

_INHERIT_TIMEOUT_S: Final = 1.0


def list_offset(led: HostedPartition, timestamp: int, *, is_committed_only: bool) -> Listed:
    """Return (timestamp, offset, leader epoch) for ListOffsets, by `core.offset_queries.list_offset` on the partition's
    log.

    Raises KafkaError.
    """
    walk = offset_queries.list_offset(led, timestamp, is_committed_only=is_committed_only)
    log = led.log

    def answer(query: Query) -> int | Listed | None:
        segment = log.segments[query.segment]
        if isinstance(query, LargestTimestamp):
            return segment.max_timestamp()[0]
        if isinstance(query, FindLargest):
            return segment.find_largest(query.offset_min)
        return segment.find_timestamp(query.timestamp, query.offset_min)

    try:
        return run_walk(walk, answer)
    except StorageFailed as failure:
        raise led.take_offline(failure) from failure
    except OSError as error:
        raise led.take_offline(read_failed(log.directory, error)) from error


async def await_inherited(led: HostedPartition) -> None:
    """Wait a little until a new leader knows how far its predecessor had committed: mostly milliseconds.

    Raises KafkaError.
    """
    end_offset = inherited_end(led)
    if end_offset is not None:
        await led.wait_committed(end_offset - 1, _INHERIT_TIMEOUT_S)
        led.require_leader()
