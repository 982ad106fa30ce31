"""Finds the transactions that took longest, of all transactional ids, among those whose events the gateway
remembers.
"""

from collections.abc import Sequence
from heapq import nlargest
from typing import NamedTuple

from oncelog.telemetry.events import Event
from oncelog_gateway.core.transaction_spans import Span, gather


class Slow(NamedTuple):
    transactional_id: str
    span: Span
    took_ms: int
    until_decision_ms: int
    """Milliseconds until the decision, which are the producer's part: it began, wrote, and took its time to end."""
    markers_ms: int
    """Milliseconds from the decision to the last marker, which are the cluster's part."""


class Slowest(NamedTuple):
    rows: list[Slow]
    """The slowest transactions, the longest first. Open ones count with their time so far."""
    remembered: int
    """Number of all transactions that are remembered from their begin."""
    since_ms: int | None
    """Time at which the oldest of the remembered transactions began."""


def slowest(changes: Sequence[Event], rows_max: int, now_ms: int) -> Slowest:
    """Return the `rows_max` slowest transactions. `changes` are the changes of state of all transactions, oldest first.
    A transaction whose begin is no longer among them is left out.
    """
    by_id: dict[str, list[Event]] = {}
    for event in changes:
        if event.kind == "transaction":
            by_id.setdefault(event.text("transactional_id"), []).append(event)
    spans = [
        (name, one)
        for name, events in by_id.items()
        for one in gather(events)
        if isinstance(one, Span) and one.is_begin_known
    ]
    rows = nlargest(rows_max, spans, key=lambda row: row[1].duration_ms(now_ms))
    return Slowest(
        [_slow(name, span, now_ms) for name, span in rows],
        len(spans),
        min((span.began_ms for _, span in spans), default=None),
    )


def _slow(name: str, span: Span, now_ms: int) -> Slow:
    took = span.duration_ms(now_ms)
    decided = took if span.decided_ms is None else max(span.decided_ms - span.began_ms, 0)
    return Slow(name, span, took, min(decided, took), max(took - decided, 0))
