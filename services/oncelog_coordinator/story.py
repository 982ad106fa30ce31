"""What a shard decided lately, in order: the biography of a transactional.id, for people.

A bounded ring per shard, in memory only. Steps that changed nothing are kept too when they refused something: a
fenced zombie is the most asked-about event of all.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from oncelog.ids import Millis
from oncelog.machine import Decision
from oncelog_coordinator.core.markers import MarkersDelivered
from oncelog_coordinator.core.sink_events import DescribeSink, ListSinks
from oncelog_coordinator.core.txn_events import DescribeTransaction, ListTransactions
from oncelog_coordinator.core.txn_state import TxnMetadata

_QUESTIONS: Final = (DescribeTransaction, ListTransactions, DescribeSink, ListSinks)
"""They decide nothing, and their answers may be long."""


@dataclass(frozen=True, slots=True)
class StoryStep:
    """One decision about one transactional.id."""

    time: Millis
    transactional_id: str
    cause: str
    """The event's class: EndTxn, TxnTimedOut, MarkersDelivered …"""
    label: str
    state: str
    """After the step; empty where it changed nothing."""
    producer_id: int
    producer_epoch: int


class Story:
    """Keeps the newest `steps_max` steps of a shard."""

    def __init__(self, steps_max: int) -> None:
        self._steps: deque[tuple[Millis, Any, Decision[Any]]] = deque(maxlen=steps_max)

    def observe(self, event: Any, decision: Decision[Any], now: Millis) -> None:
        """Called by the driver for each decision; keeps references only, so it costs next to nothing."""
        if not isinstance(event, _QUESTIONS):
            self._steps.append((now, event, decision))

    def steps(self, transactional_id: str) -> Iterator[StoryStep]:
        """The kept steps of this id, oldest first."""
        for time, event, decision in self._steps:
            if isinstance(event, MarkersDelivered):
                name = event.decision_key.name
            else:
                name = getattr(event, "transactional_id", "")
            if name != transactional_id:
                continue
            last = next((r for r in reversed(decision.records) if isinstance(r, TxnMetadata)), None)
            yield StoryStep(
                time,
                name,
                type(event).__name__,
                decision.label,
                last.state.kafka_name if last else "",
                last.producer_id if last else getattr(event, "producer_id", -1),
                last.producer_epoch if last else getattr(event, "producer_epoch", -1),
            )
