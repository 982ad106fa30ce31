"""The limits that Spark's pushed-down filters set on a read: which partitions can match, and from and to which offsets.
Pure.

Filters arrive AND-ed, so each only narrows. Values of other types than a column's are left to Spark.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from oncelog.ids import Partition

OFFSET_END: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Pruning:
    """Limits on partition, offset and timestamp within which every matching record lies. None: no limit."""

    topics: frozenset[object] | None = None
    partitions: frozenset[object] | None = None
    offset_min: int = 0
    offset_end: int = OFFSET_END
    timestamp_ms: int | None = None
    """A time in ms that no matching record is older than.
    The first offset at this time bounds the range: all before it are older."""

    def keeps(self, partition: Partition) -> bool:
        return (self.topics is None or partition.topic in self.topics) and (
            self.partitions is None or partition.partition in self.partitions
        )

    def narrowed(self, column: str, operator: str, value: object) -> "Pruning":
        """Return these limits narrowed by one filter. A filter that sets no limit, such as one on the value, changes
        nothing."""
        match column:
            case "topic":
                return self._narrowed_topics(operator, value)
            case "partition":
                return self._narrowed_partitions(operator, value)
            case "offset" if isinstance(value, int):
                return self._narrowed_offsets(operator, value)
            case "timestamp" if isinstance(value, datetime) and operator in (">", ">=", "=="):
                found = int(value.timestamp() * 1000)
                return replace(self, timestamp_ms=max(found, self.timestamp_ms or 0, 0))
        return self

    def _narrowed_topics(self, operator: str, value: object) -> "Pruning":
        names = _values(operator, value)
        if names is None:
            return self
        return replace(self, topics=names if self.topics is None else names & self.topics)

    def _narrowed_partitions(self, operator: str, value: object) -> "Pruning":
        numbers = _values(operator, value)
        if numbers is None:
            return self
        kept = numbers if self.partitions is None else numbers & self.partitions
        return replace(self, partitions=kept)

    def _narrowed_offsets(self, operator: str, value: int) -> "Pruning":
        low, high = {
            "==": (value, value + 1),
            ">": (value + 1, OFFSET_END),
            ">=": (value, OFFSET_END),
            "<": (0, value),
            "<=": (0, value + 1),
        }.get(operator, (0, OFFSET_END))
        return replace(
            self, offset_min=max(self.offset_min, low), offset_end=min(self.offset_end, high)
        )


def _values(operator: str, value: object) -> frozenset[object] | None:
    """Return the values that an equality or IN filter allows; None: it is another kind of filter."""
    if operator == "==":
        return frozenset((value,))
    return frozenset(value) if operator == "in" and isinstance(value, Iterable) else None
