"""Recent events of all roles in memory, found by transactional.id, producer id or partition.

```
roles ──▶ EventFeed ──▶ Redis stream ──▶ StreamReader ──┐
                                                         ├──▶ History ──▶ timelines, subscribers
roles of the same process ──▶ LocalFeed ─────────────────┘
```

The history holds the newest `events_max` events, and the first ones of transactions that are open for longer than that.
It is only for watching: what is missing is shown as a hole. Each event carries its `origin` (one start of one process)
and a `number` without gaps. A number that is seen again is a repetition and is dropped. A number that is skipped
becomes a hole.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from oncelog.ids import Partition
from oncelog.telemetry.events import HOLE, Event, EventFilter, Value, order_of, partitions_of
from oncelog.telemetry.open_transactions import Deferred, OpenTransactions

EVENTS_MAX: Final = 20_000
SUBSCRIBER_EVENTS_MAX: Final = 1_000
ORIGINS_MAX: Final = 1_000
"""The most starts of processes whose numbers are known; the one that was silent longest is forgotten."""

Key = tuple[str, str | int | Partition]


class Subscription:
    """A watcher's queue of the events that come from now on. If it is full, the oldest events are dropped, and a hole
    says how many."""

    def __init__(self, wanted: Callable[[Event], bool], events_max: int) -> None:
        self._wanted = wanted
        self._events: deque[Event] = deque()
        self._events_max = events_max
        self._dropped = 0
        self._news = asyncio.Event()

    def offer(self, event: Event) -> None:
        if not self._wanted(event):
            return
        if len(self._events) >= self._events_max:
            self._events.popleft()
            self._dropped += 1
        self._events.append(event)
        self._news.set()

    async def next(self, timeout_s: float) -> list[Event]:
        """Return all events that came since the last call; wait for one, and return none after `timeout_s`."""
        if not self._events:
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return []
        self._news.clear()
        events = list(self._events)
        self._events.clear()
        dropped, self._dropped = self._dropped, 0
        if dropped:
            first = events[0]
            events.insert(
                0, Event(first.id, first.time_ms, "gateway", -1, HOLE, {"count": dropped})
            )
        return events


class History:
    """The newest events of all roles, kept in memory. It belongs to one event loop; every method returns at once."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self._events: deque[Event] = deque()
        self._events_max = events_max
        self._deferred: deque[Deferred] = deque()
        self._opened = OpenTransactions()
        self._by_key: dict[Key, deque[Event]] = {}
        self._numbers: dict[str, int] = {}
        self._subscriptions: set[Subscription] = set()
        self._last_ms = 0
        self._sequence = 0
        self.away_reason = ""
        """The reason why no events come at this moment; empty while they do."""

    @property
    def oldest_ms(self) -> int | None:
        """The time of the oldest known event, in ms since 1970. None: there is none."""
        self._settle()
        return self._events[0].time_ms if self._events else None

    def __len__(self) -> int:
        self._settle()
        return len(self._events)

    # ------------------------------------------------------------------------------------------------- in

    def add_event(self, fields: Mapping[str, Value], event_id: str | None = None) -> None:
        """Add one event as its role published it. A repetition is dropped. If numbers of its origin (one start of one
        process) are missing, a hole is added first. `event_id` None: an id is made of its time."""
        fields = dict(fields)
        kind, time_ms = str(fields.pop("kind", "")), _integer(fields.pop("time_ms", 0))
        role, node = str(fields.pop("role", "")), _integer(fields.pop("node", -1))
        origin, number = str(fields.pop("origin", "")), _integer(fields.pop("number", -1))
        identity = event_id or self._next_id(time_ms)
        if origin and number >= 0:
            expected = self._numbers.pop(origin, None)
            length = _integer(fields.get("count", 1)) if kind == HOLE else 1
            if expected is not None and number < expected:
                self._numbers[origin] = expected
                return
            self._numbers[origin] = number + length
            if len(self._numbers) > ORIGINS_MAX:
                del self._numbers[next(iter(self._numbers))]
            if expected is not None and number > expected:
                self._add(Event(identity, time_ms, role, node, HOLE, {"count": number - expected}))
        self._add(Event(identity, time_ms, role, node, kind, fields))

    def defer(self, told: Deferred) -> None:
        """Add an event without building it yet, so that it costs one append: it is built only if somebody asks."""
        self._deferred.append(told)
        if len(self._deferred) > self._events_max:
            self._make_room()
        if self._subscriptions:
            self._settle()

    def _make_room(self) -> None:
        """Drop the two oldest events; built ones go before those that `defer` added. It drops two, so that no call
        takes long."""
        for _ in range(2):
            if self._events:
                self._forget(self._events.popleft())
            elif len(self._deferred) > self._events_max:
                told = self._deferred.popleft()
                self._opened.forget(told.when["kind"], told.fields, told)

    def _settle(self) -> None:
        while self._deferred:
            told = self._deferred.popleft()
            self.add_event({name: value for part in told for name, value in part.items()})

    def _next_id(self, time_ms: int) -> str:
        if time_ms > self._last_ms:
            self._last_ms, self._sequence = time_ms, 0
        else:
            self._sequence += 1
        return f"{self._last_ms}-{self._sequence}"

    def _add(self, event: Event) -> None:
        self._events.append(event)
        for key in _keys(event):
            self._by_key.setdefault(key, deque()).append(event)
        if len(self._events) > self._events_max:
            self._forget(self._events.popleft())
        for subscription in tuple(self._subscriptions):
            subscription.offer(event)

    def _forget(self, event: Event) -> None:
        self._opened.forget(event.kind, event.fields, event)
        for key in _keys(event):
            known = self._by_key[key]
            known.popleft()
            if not known:
                del self._by_key[key]

    # ------------------------------------------------------------------------------------------------ out

    def of_transaction(
        self, transactional_id: str, producer_ids: Iterable[int] = ()
    ) -> list[Event]:
        """Return the events of this transactional.id and of its producer ids, oldest first. `producer_ids`: further
        ones that the caller knows."""
        self._settle()
        found = self._opened.of_transaction(transactional_id)
        found += self._by_key.get(("transactional_id", transactional_id), ())
        producers = set(producer_ids)
        for event in found:
            producers |= {event.number("producer_id"), event.number("previous_producer_id")}
        # An event of a role other than the coordinator has no transactional.id, but a producer id.
        for producer_id in producers - {-1}:
            found += (
                event
                for event in self._by_key.get(("producer_id", producer_id), ())
                if "transactional_id" not in event.fields
            )
        return _in_order(found)

    def of_producer(self, producer_id: int) -> list[Event]:
        self._settle()
        first = self._opened.of_producer(producer_id)
        return _in_order([*first, *self._by_key.get(("producer_id", producer_id), ())])

    def of_partition(self, partition: Partition) -> list[Event]:
        self._settle()
        return _in_order(self._by_key.get(("partition", partition), ()))

    def holes(self, since_ms: int = 0) -> list[Event]:
        """Return the events that mark a hole, that is, a time for which events are missing. The oldest comes first."""
        self._settle()
        return [event for event in self._events if event.kind == HOLE and event.time_ms >= since_ms]

    def newest(self, events_max: int, wanted: EventFilter | None = None) -> list[Event]:
        """Return the newest events that match, oldest first."""
        self._settle()
        found: list[Event] = []
        for event in reversed(self._events):
            if len(found) == events_max:
                break
            if wanted is None or wanted.matches(event):
                found.append(event)
        return found[::-1]

    def after(self, event_id: str, wanted: EventFilter) -> Iterator[Event]:
        """Yield the events after this id, for a watcher that reconnects. A hole comes first if the id is not known any
        more."""
        self._settle()
        last = order_of(event_id)
        if self._events and order_of(self._events[0].id) > last:
            yield Event(event_id, self._events[0].time_ms, "gateway", -1, HOLE, {"count": -1})
        for event in self._events:
            if order_of(event.id) > last and wanted.matches(event):
                yield event

    def subscribe(
        self, wanted: EventFilter, events_max: int = SUBSCRIBER_EVENTS_MAX
    ) -> Subscription:
        self._settle()
        subscription = Subscription(wanted.matches, events_max)
        self._subscriptions.add(subscription)
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    @property
    def subscriber_count(self) -> int:
        return len(self._subscriptions)


class LocalFeed:
    """A `Feed` into the history of the same process: it needs no Redis and no task."""

    def __init__(self, history: History, role: str, node_id: int) -> None:
        self._history = history
        self._common: dict[str, Value] = {"role": role, "node": node_id}

    def publish(self, kind: str, **fields: Value) -> None:
        """Add the event to the history. It never waits and never raises."""
        now: dict[str, Value] = {"kind": kind, "time_ms": time.time_ns() // 1_000_000}
        self._history.defer(Deferred(self._common, now, fields))

    def start(self) -> None:
        """Do nothing: there is nothing to start."""

    async def stop(self) -> None:
        """Do nothing: there is nothing to stop."""


def _keys(event: Event) -> set[Key]:
    keys: set[Key] = {("partition", partition) for partition in partitions_of(event)}
    if "transactional_id" in event.fields:
        keys.add(("transactional_id", event.text("transactional_id")))
    for name in ("producer_id", "previous_producer_id"):
        if event.number(name) >= 0:
            keys.add(("producer_id", event.number(name)))
    return keys


def _in_order(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: (event.time_ms, order_of(event.id)))


def _integer(value: Value) -> int:
    try:
        return int(value)
    except ValueError:
        return -1
