"""Counts of what clients wrote to and read from the partitions led here, by topic. Each request adds to them."""

from collections.abc import Iterator
from typing import Final

from oncelog.ids import INTERNAL_TOPICS

TOPICS_MAX: Final = 1_000
OTHERS: Final = ""
"""The name of the counts of all topics beyond the limit, together. No topic has this name."""


class TopicCounts:
    """The counts of one topic. They only grow, so the difference of two readings is what happened between them."""

    __slots__ = ("consumed_bytes", "consumed_records", "produced_bytes", "produced_records")

    def __init__(self) -> None:
        self.produced_records = 0
        self.produced_bytes = 0
        self.consumed_records = 0
        """The number of offsets in fetch responses, including markers and aborted records."""
        self.consumed_bytes = 0

    def is_used(self) -> bool:
        return bool(self.produced_bytes or self.consumed_bytes)


class CountsOfTopics:
    """The counts of all topics. The partitions of one topic share their counts.

    The first `TOPICS_MAX` topics have counts of their own, for as long as they exist. All later ones share one.
    """

    def __init__(self) -> None:
        self._counts: dict[str, TopicCounts] = {}
        self._others = TopicCounts()

    def of(self, topic: str) -> TopicCounts:
        found = self._counts.get(topic)
        if found is None:
            if len(self._counts) >= TOPICS_MAX and topic not in INTERNAL_TOPICS:
                return self._others
            found = self._counts[topic] = TopicCounts()
        return found

    def forget(self, topic: str) -> None:
        """Forget the counts of a topic that was deleted."""
        self._counts.pop(topic, None)

    def used(self) -> Iterator[tuple[str, TopicCounts]]:
        """Yield the topics with counts that are not 0. The shared counts of other topics come last."""
        for topic, counts in self._counts.items():
            if counts.is_used():
                yield topic, counts
        if self._others.is_used():
            yield OTHERS, self._others
