"""What clients wrote to and read from the partitions led here, by topic: plain numbers, added to with each request."""

from collections.abc import Iterator
from typing import Final

from oncelog.ids import INTERNAL_TOPICS

TOPICS_MAX: Final = 1_000
OTHERS: Final = ""
"""No topic has this name: those beyond the limit, together."""


class TopicCounts:
    """Only ever larger, so that two readings tell the growth."""

    __slots__ = ("consumed_bytes", "consumed_records", "produced_bytes", "produced_records")

    def __init__(self) -> None:
        self.produced_records = 0
        self.produced_bytes = 0
        self.consumed_records = 0
        """Offsets that were given: markers and aborted records as well."""
        self.consumed_bytes = 0

    def is_used(self) -> bool:
        return bool(self.produced_bytes or self.consumed_bytes)


class CountsOfTopics:
    """The partitions of one topic share their numbers. The first topics have numbers of their own, for as long as they
    exist."""

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
        """It was deleted."""
        self._counts.pop(topic, None)

    def used(self) -> Iterator[tuple[str, TopicCounts]]:
        """Those of which anything was written or read, the others last."""
        for topic, counts in self._counts.items():
            if counts.is_used():
                yield topic, counts
        if self._others.is_used():
            yield OTHERS, self._others
