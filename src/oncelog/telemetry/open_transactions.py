"""The first events of transactions that are still open, after newer events of others pushed them out of the history.

It gets each event when the history drops it, so in the order in which the events came. The first events of a
transaction are kept. When the history drops the event of its end, too, the transaction is forgotten. So a transaction
that blocks others for hours keeps its begin, its client and its last sign of life, however busy the other ids are.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from oncelog.telemetry.events import HOLE, Event, Value

IDS_MAX: Final = 10_000
"""The most transactional ids. Beyond it, the one that began first is forgotten: its end may have been missed."""
FIRST_MAX: Final = 8
"""The most first events of one id, beside the last one that was forgotten."""
_OPEN: Final = frozenset({"Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class Deferred(NamedTuple):
    """An event that is not built yet, because nobody has asked for it: only its parts are kept. `who` has the role and
    the node id of the publisher."""

    who: Mapping[str, Value]
    when: Mapping[str, Value]
    """The event's time and kind."""
    fields: Mapping[str, Value]

    def event(self) -> Event:
        fields = {name: value for part in self for name, value in part.items()}
        time_ms, node = fields.pop("time_ms"), fields.pop("node")
        kind, role = str(fields.pop("kind")), str(fields.pop("role"))
        return Event(f"{time_ms}-0", int(time_ms), role, int(node), kind, fields)


class _Kept:
    __slots__ = ("first", "last", "left_out", "producer_id")

    def __init__(self, first: list[Event | Deferred], producer_id: Value) -> None:
        self.first = first
        self.producer_id = producer_id
        self.last: Event | Deferred | None = None
        self.left_out = 0
        """The number of events that were left out between the first ones and the last."""

    def add(self, told: Event | Deferred) -> None:
        if len(self.first) < FIRST_MAX:
            self.first.append(told)
            return
        self.left_out += self.last is not None
        self.last = told

    def events(self) -> list[Event]:
        found = [_made(one) for one in self.first]
        if self.last is None:
            return found
        last = _made(self.last)
        if self.left_out:
            count = {"count": self.left_out}
            found.append(Event(last.id, last.time_ms, "gateway", -1, HOLE, count))
        return [*found, last]


class OpenTransactions:
    """The first events of each open transaction, of those that the history has dropped. Each event of a busy process
    comes here, so one costs only a few look-ups."""

    def __init__(self, ids_max: int = IDS_MAX) -> None:
        self._ids_max = ids_max
        self._kept: dict[Value, _Kept] = {}
        self._id_of: dict[Value, Value] = {}
        """Producer id → transactional id: roles other than the coordinator may know no transactional.id."""
        self._initialised: dict[Value, Event | Deferred] = {}
        """The last InitProducerId of each id. It names the client, which the additions of a TV2 producer do not."""

    def forget(self, kind: Value, fields: Mapping[str, Value], told: Event | Deferred) -> None:
        """Get an event that the history drops. It is kept if its transaction is open; the end of a transaction drops
        what was kept of it."""
        name = fields.get("transactional_id")
        if kind == "transaction" and name is not None:
            self._change(name, fields, told)
            return
        if name is None:
            name = self._id_of.get(fields.get("producer_id", -1))
        if name is not None and (kept := self._kept.get(name)):
            kept.add(told)

    def of_transaction(self, transactional_id: str) -> list[Event]:
        """Return the events that are kept here of this transactional id, oldest first. None are kept if it has no open
        transaction, or the history still has all of it."""
        kept = self._kept.get(transactional_id)
        return [] if kept is None else kept.events()

    def of_producer(self, producer_id: int) -> list[Event]:
        return self.of_transaction(str(self._id_of.get(producer_id, "")))

    def _change(self, name: Value, fields: Mapping[str, Value], told: Event | Deferred) -> None:
        state = fields.get("state")
        if state not in _OPEN:
            self._drop(name)
            if state == "Empty":
                self._initialised.pop(name, None)
                self._initialised[name] = told
                if len(self._initialised) > self._ids_max:
                    del self._initialised[next(iter(self._initialised))]
            return
        kept = self._kept.get(name)
        if kept is not None and fields.get("cause") != "transaction_started":
            kept.add(told)
            return
        self._drop(name)
        before = self._initialised.get(name)
        producer_id = fields.get("producer_id", -1)
        self._kept[name] = _Kept([told] if before is None else [before, told], producer_id)
        if producer_id != -1:
            self._id_of[producer_id] = name
        if len(self._kept) > self._ids_max:
            self._drop(next(iter(self._kept)))

    def _drop(self, name: Value) -> None:
        kept = self._kept.pop(name, None)
        if kept is not None and self._id_of.get(kept.producer_id) == name:
            del self._id_of[kept.producer_id]


def _made(told: Event | Deferred) -> Event:
    return told if isinstance(told, Event) else told.event()
