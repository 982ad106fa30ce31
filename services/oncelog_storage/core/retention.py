"""Retention: the segments that may be deleted by age, by size, or because the log's start has passed them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from oncelog.topic_config import TopicConfig
from oncelog_storage.core.cleaning_plan import SegmentFacts
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.partition import PartitionReplica


class LogStart(NamedTuple):
    """The offset where a log must start by its topic's retention."""

    offset: int
    rolls: bool = False
    """True if even the newest segment is too old. A new segment is begun first.

    So a log without appends becomes empty, as Kafka's does.
    """


def log_start_of(partition: PartitionReplica, newest: Iterable[int], now: int) -> LogStart:
    """Return the log start by the topic's retention. `now` is in ms.

    `newest` yields the largest timestamp of each segment, -1 for none; only the needed ones are read. A compacted topic
    keeps everything. A follower takes its log's start from the leader.
    """
    log = partition.log
    if not log.segments or not log.config.is_deleted or not partition.leadership.is_here:
        return LogStart(log.log_start_offset)
    sizes = [(segment.base_offset, segment.size_bytes) for segment in log.segments]
    end, facts = log.log_end_offset, _facts(log, newest)
    offset = keep_from(log.config, facts, sizes, end, partition.high_watermark, now)
    if offset == end > log.segments[-1].base_offset:
        return LogStart(offset, rolls=True)
    return LogStart(segment_start(sizes, offset))


def _facts(log: LogState, newest: Iterable[int]) -> Iterator[SegmentFacts]:
    ends = [*(segment.base_offset for segment in log.segments[1:]), log.log_end_offset]
    for segment, end, newest_ms in zip(log.segments, ends, newest, strict=True):
        yield SegmentFacts.of(segment, end, newest_ms)


def keep_from(
    config: TopicConfig,
    facts: Iterable[SegmentFacts],
    sizes: Sequence[tuple[int, int]],
    log_end_offset: int,
    high_watermark: int,
    now: int,
) -> int:
    """Return the offset below which the topic's retention keeps nothing. It is never above the high watermark.

    `facts` of the segments are read only as far as they are needed. `sizes`: (base offset, bytes) of each.
    """
    expired = _expired_before(config, facts, log_end_offset, high_watermark, now)
    return min(max(expired, _surplus_before(config, sizes)), high_watermark)


def _expired_before(
    config: TopicConfig,
    facts: Iterable[SegmentFacts],
    log_end_offset: int,
    high_watermark: int,
    now: int,
) -> int:
    """Return the base offset of the first segment that retention.ms still keeps; the log's end if it keeps none."""
    if config.retention_ms < 0:
        return 0
    for segment in facts:
        is_young = now - segment.newest_ms <= config.retention_ms
        if is_young or segment.end_offset > high_watermark or not segment.size_bytes:
            return segment.base_offset
    return log_end_offset


def _surplus_before(config: TopicConfig, sizes: Sequence[tuple[int, int]]) -> int:
    """Return the log start when the whole old segments beyond retention.bytes are deleted. The newest segment always
    stays.
    """
    if config.retention_bytes < 0:
        return 0
    surplus = sum(size_bytes for _, size_bytes in sizes) - config.retention_bytes
    for base_offset, size_bytes in sizes[:-1]:
        if surplus < size_bytes:
            return base_offset
        surplus -= size_bytes
    return sizes[-1][0]


def segment_start(sizes: Sequence[tuple[int, int]], offset: int) -> int:
    """Return the base offset of the last segment that begins at or below `offset`; 0 for none."""
    return max((base_offset for base_offset, _ in sizes if base_offset <= offset), default=0)


def removable_below(
    log_start: int,
    recovery_point: int,
    replica_count: int,
    snapshots: Iterable[int],
    committed: int,
) -> int:
    """Return the offset below which segments may be deleted: the next start of the node reads nothing below it.

    `log_start` is the one stored on disk, `committed` the stored high watermark, `snapshots` the producer snapshots'
    offsets. The start of a partition with followers loads the newest snapshot up to `committed` (`core.recovery`).
    That may be much older than the recovery point, and the batches behind it are replayed. A transaction that is open
    in the snapshot would stay open if its marker were deleted.
    """
    below = min(log_start, recovery_point)
    if replica_count <= 1:
        return below
    return min(below, max((offset for offset in snapshots if offset <= committed), default=0))


def removable_snapshots(
    offsets: Sequence[int], checkpoint: int, committed: int, kept_count: int
) -> list[int]:
    """Return the offsets of the snapshots that may be deleted.

    These stay: the newest `kept_count` up to the offset `checkpoint`, any after it, and the newest up to `committed`.
    That is the stored high watermark, from which a start after a crash begins. `offsets` ascend.
    """
    usable = [offset for offset in offsets if offset <= checkpoint]
    below = max((offset for offset in usable if offset <= committed), default=None)
    return [offset for offset in usable[:-kept_count] if offset != below]
