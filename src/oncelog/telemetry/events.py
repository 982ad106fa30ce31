"""An event that a role publishes for consoles and watching programs, and a filter of events: what the role decided or
wrote, and when."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.ids import Partition

HOLE: Final = "hole"

Value = str | int


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that a role decided or wrote. `fields` depends on the kind (docs/events.md)."""

    id: str
    """The event's id, `milliseconds-sequence` as in a Redis stream; ids grow."""
    time_ms: int
    """Milliseconds since 1970, by the clock of the role that publishes the event."""
    role: str
    node: int
    kind: str
    fields: Mapping[str, Value]

    def text(self, name: str) -> str:
        """Return the event's field of this name as text; empty when it is absent."""
        return str(self.fields.get(name, ""))

    def number(self, name: str) -> int:
        """Return the event's field of this name as a number; -1 when it is absent or no number."""
        value = self.fields.get(name, -1)
        return value if isinstance(value, int) else -1


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter of events. Empty fields match everything. A `hole` (missing events) matches always: a reader must know
    of it."""

    kinds: frozenset[str] = frozenset()
    transactional_id: str | None = None
    producer_id: int | None = None
    topic: str | None = None
    partition: int | None = None

    def matches(self, event: Event) -> bool:
        if event.kind == HOLE:
            return True
        if self.kinds and event.kind not in self.kinds:
            return False
        if self.transactional_id not in (None, event.fields.get("transactional_id")):
            return False
        producers = (event.number("producer_id"), event.number("previous_producer_id"))
        if self.producer_id is not None and self.producer_id not in producers:
            return False
        return self.topic is None or any(
            one.topic == self.topic and self.partition in (None, one.partition)
            for one in partitions_of(event)
        )


def partitions_of(event: Event) -> Iterator[Partition]:
    """Yield the partitions that an event names."""
    if "topic" in event.fields:
        yield Partition(event.text("topic"), event.number("partition"))
    for name in ("added", "names"):
        for written in filter(None, event.text(name).split(",")):
            topic, _, number = written.rpartition("-")
            if topic and number.isdecimal():
                yield Partition(topic, int(number))


def order_of(event_id: str) -> tuple[int, int]:
    """Return an event's id as two numbers, by which ids compare. Raises ValueError for a text that is no id."""
    milliseconds, _, sequence = event_id.partition("-")
    return int(milliseconds), int(sequence or 0)
