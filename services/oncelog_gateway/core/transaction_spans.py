"""Groups the events of a timeline by transaction: when each one began, first wrote, was decided and was complete, and
why it ended.

Events of the coordinator's state say where one transaction ends and the next begins. An event of another role belongs
to the transaction that was open then, or to the last one: news of a marker may come late. Events of no transaction,
such as a producer's start, stand between two.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from oncelog.telemetry.events import Event

Outcome = Literal["open", "committing", "aborting", "committed", "aborted"]
Phase = Literal["adding", "producing", "marking"]

REASONS: Final = {
    "TxnTimedOut": "timed out",
    "ForceTerminate": "ended by an operator",
    "CompletePrepared": "decided by an operator",
    "InitProducerId": "ended by InitProducerId",
}
"""The reason why a transaction ended, by the request that decided it. EndTxn is the producer's own end and needs no
reason.
"""
_OF_THE_LAST: Final = frozenset({"marker_queued", "marker_sent", "marker_failed", "marker"})
_OUTCOMES: Final[dict[str, Outcome]] = {
    "Ongoing": "open",
    "PrepareCommit": "committing",
    "PrepareAbort": "aborting",
    "CompleteCommit": "committed",
    "CompleteAbort": "aborted",
}
SLOW_FACTOR: Final = 10
SLOW_AT_LEAST_MS: Final = 100


@dataclass(slots=True)
class Span:
    """One transaction of a timeline: its events, and its times and outcome as these tell them."""

    events: list[Event]
    producer_id: int
    producer_epoch: int
    began_ms: int
    is_begin_known: bool = True
    """False if the begin of the transaction is older than the history."""
    first_record_ms: int | None = None
    decided_ms: int | None = None
    ended_ms: int | None = None
    outcome: Outcome = "open"
    reason: str = ""
    marked: dict[str, int] = field(default_factory=dict)
    """The time at which each partition had its marker."""
    partitions: dict[str, None] = field(default_factory=dict)
    refusals: int = 0
    trace_id: str = ""
    """The trace id, also of a trace that was not kept; empty: the transaction's coordinator records no traces."""

    @property
    def key(self) -> str:
        """The id of the transaction's first event, by which pages name it. It stays the same while more
        events arrive.
        """
        return self.events[0].id

    def duration_ms(self, now_ms: int) -> int:
        return max((self.ended_ms or now_ms) - self.began_ms, 0)

    def phases(self, now_ms: int) -> list[tuple[Phase, int, int]]:
        """Return (phase, begin, end) for each phase of the transaction, in order and without a gap. Times are
        milliseconds since 1970. The clocks of two roles may disagree: such times are moved into order.
        """
        until = max(self.ended_ms or now_ms, self.began_ms)
        decided = min(max(self.decided_ms or until, self.began_ms), until)
        wrote = min(max(self.first_record_ms or decided, self.began_ms), decided)
        found: list[tuple[Phase, int, int]] = [("adding", self.began_ms, wrote)]
        if self.first_record_ms is not None:
            found.append(("producing", wrote, decided))
        if self.decided_ms is not None:
            found.append(("marking", decided, until))
        return found


@dataclass(frozen=True, slots=True)
class Between:
    """Events in the timeline of a transactional.id that lie between two transactions and belong to neither."""

    events: tuple[Event, ...]


def gather(events: Sequence[Event]) -> list[Span | Between]:
    """Return the transactions of these events, and the events between them. Both `events` and the result are oldest
    first.
    """
    gathering = _Gathering()
    for event in events:
        gathering.add_event(event)
    return gathering.end()


def slow_from_ms(spans: Sequence[Span], now_ms: int) -> int:
    """Return the duration from which a transaction counts as slow among these: ten times their median, and at least a
    tenth of a second.
    """
    durations = sorted(one.duration_ms(now_ms) for one in spans)
    median = durations[len(durations) // 2] if durations else 0
    return max(SLOW_FACTOR * median, SLOW_AT_LEAST_MS)


class _Gathering:
    def __init__(self) -> None:
        self._found: list[Span | Between] = []
        self._span: Span | None = None
        """The transaction that is open, or else the last one."""
        self._ended: Span | None = None
        """The last transaction that is complete."""
        self._between: list[Event] = []

    def add_event(self, event: Event) -> None:
        if event.kind == "transaction":
            self._change(event)
            return
        span = self._span
        if event.kind in _OF_THE_LAST and (span is None or span.decided_ms is None):
            span = self._ended
        elif span is not None and span.ended_ms is not None and event.kind not in _OF_THE_LAST:
            span = None
        if span is None:
            self._between.append(event)
            return
        span.events.append(event)
        if event.kind == "opened" and span.first_record_ms is None:
            span.first_record_ms = event.time_ms
        elif event.kind == "marker" and event.number("error_code") <= 0:
            span.marked[f"{event.text('topic')}-{event.number('partition')}"] = event.time_ms
        elif event.kind == "refused":
            span.refusals += max(event.number("count"), 1)

    def end(self) -> list[Span | Between]:
        self._close()
        return self._found

    def _change(self, event: Event) -> None:
        outcome = _OUTCOMES.get(event.text("state"))
        begins = event.text("cause") == "transaction_started"
        if outcome is None or event.text("cause") == "empty_abort":
            self._between.append(event)
            return
        span = self._span
        if begins or span is None or span.ended_ms is not None:
            if outcome in ("committed", "aborted") and not begins:
                # Written once more, or told after a hole: it says nothing of when.
                self._between.append(event)
                return
            span = self._begin(event, begins)
        else:
            span.events.append(event)
        if added := event.text("added"):
            # The names of a field that was cut end with "…": it is shown as it is.
            span.partitions.update(dict.fromkeys(added.split(",")))
        span.outcome = outcome
        span.trace_id = event.text("trace_id") or span.trace_id
        if outcome in ("committing", "aborting") and span.decided_ms is None:
            span.decided_ms = event.time_ms
            span.reason = REASONS.get(event.text("request"), "")
        elif outcome in ("committed", "aborted"):
            span.decided_ms = span.decided_ms or event.time_ms
            span.ended_ms = event.time_ms
            self._ended = span

    def _begin(self, event: Event, is_begin_known: bool) -> Span:
        self._close()
        began_ms = event.time_ms
        if not is_begin_known and event.number("start_time_ms") > 0:
            began_ms = min(event.number("start_time_ms"), began_ms)
        epoch = event.number("previous_producer_epoch" if not is_begin_known else "producer_epoch")
        self._span = Span([event], event.number("producer_id"), epoch, began_ms, is_begin_known)
        self._found.append(self._span)
        return self._span

    def _close(self) -> None:
        if self._between:
            self._found.append(Between(tuple(self._between)))
            self._between = []
