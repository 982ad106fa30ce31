"""The cut of offset ranges into Spark's tasks, and the rule by which a micro-batch waits until more records are there.
Pure.

Without options a topic-partition is one task. `maxRecordsPerPartition` and `minPartitions` cut ranges, in this order,
as in Spark's Kafka source. The same ranges are cut at the same offsets whenever they are planned, so a micro-batch that
is run again has the same tasks.
"""

import heapq
import itertools
from collections.abc import Sequence
from typing import Final

from oncelog.errors import OncelogError
from oncelog.spark.offsets import OffsetRange

TASKS_MAX: Final = 100_000
"""The most tasks of a read: each costs the driver memory and some milliseconds."""


def task_ranges(
    ranges: Sequence[OffsetRange], tasks_min: int | None, offsets_max: int | None
) -> list[OffsetRange]:
    """Cut the offset ranges for Spark's tasks, and return the pieces: none longer than `offsets_max`, and at least
    `tasks_min`, if there are enough offsets.

    Each cut is of the range with the longest pieces, so tasks become equal in size. Markers and aborted records take
    offsets too, so a task has at most `offsets_max` records. No range may be empty. Raises OncelogError where
    `offsets_max` asks for more than TASKS_MAX.
    """
    counts = [1 if offsets_max is None else -(-_size(one) // offsets_max) for one in ranges]
    if offsets_max is not None and sum(counts) > TASKS_MAX:
        raise OncelogError(
            f"option maxRecordsPerPartition is {offsets_max}, which makes {sum(counts)} tasks: give at least "
            f"{-(-sum(map(_size, ranges)) // TASKS_MAX)}, or read less at a time (at most {TASKS_MAX} tasks)"
        )
    wanted = min(tasks_min or 0, sum(map(_size, ranges)))
    by_length = [
        (-_size(one) / count, index)
        for index, (one, count) in enumerate(zip(ranges, counts, strict=True))
    ]
    heapq.heapify(by_length)
    for _ in range(wanted - sum(counts)):
        _, longest = by_length[0]
        counts[longest] += 1
        heapq.heapreplace(by_length, (-_size(ranges[longest]) / counts[longest], longest))
    return [piece for one, count in zip(ranges, counts, strict=True) for piece in _cut(one, count)]


def _cut(one: OffsetRange, count: int) -> list[OffsetRange]:
    size = _size(one)
    bounds = [one.start + size * index // count for index in range(count + 1)]
    return [OffsetRange(one.partition, *bound) for bound in itertools.pairwise(bounds)]


def _size(one: OffsetRange) -> int:
    return one.end - one.start


class TriggerDelay:
    """The rule by which a micro-batch waits until more records are there: `minOffsetsPerTrigger` and `maxTriggerDelay`.

    The first trigger of a run never waits, as in Spark's Kafka source.
    """

    def __init__(self, offsets_min: int, delay_max_ms: int) -> None:
        self._offsets_min = offsets_min
        self._delay_max_ms = delay_max_ms
        self._last_ms: float | None = None

    def waits(self, available: int, now_ms: float) -> bool:
        """Return True if this trigger should wait for more records. `available`: offsets that are not read yet. If it
        does not wait, its time is stored."""
        is_early = self._last_ms is not None and now_ms - self._last_ms < self._delay_max_ms
        if is_early and available < self._offsets_min:
            return True
        self._last_ms = now_ms
        return False
