"""The choice of which traces (OpenTelemetry) are exported: by a ratio that every process applies alike, and by how the
transaction ended.

```
add_spans(home, spans) ──▶ head ratio or a verdict says kept ──▶ sink
                      └──▶ not decided yet: wait under the trace id ──▶ verdict(trace_id, is_kept) ──▶ sink, or dropped
```

A home is the spans of one request in this process; a verdict says whether a trace is kept. Waiting spans are bounded in
number and in time; the oldest trace is dropped first.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from oncelog.telemetry.spans import Attributes, Home, Kind, Span
from oncelog.trace import Traceparent, TransactionTrace

SPANS_WAITING_MAX: Final = 20_000
"""The most spans that wait for a verdict, about 20 MB."""
WAITING_S_MAX: Final = 960.0
"""Seconds that spans wait at most: Kafka's longest transaction timeout, and a minute."""
VERDICTS_MAX: Final = 20_000
_RATIO_BITS: Final = 64
_RATIO_MASK: Final = (1 << _RATIO_BITS) - 1


class EndedSpan(NamedTuple):
    """A span as it is exported. Only spans that are kept are turned into one, since most are not."""

    name: str
    kind: Kind
    trace_id: int
    span_id: int
    parent_id: int
    """The id of the span above; 0: this is the trace's root."""
    start_ns: int
    end_ns: int
    attributes: Attributes
    error: str = ""
    links: Sequence[Traceparent] = ()


_OfHome = tuple[int, Sequence[Span]]
"""(root above the outermost span, spans of one home). They become `EndedSpan`s when they are kept."""


class _Waiting:
    """The spans of one trace that wait until it is known whether the trace is kept."""

    __slots__ = ("count", "homes", "since_s")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.homes: list[_OfHome] = []
        self.count = 0


class TraceRecorder:
    """Decides which spans are exported: `ratio` of all traces, and those whose verdict says so. `sink` gets the spans,
    and neither waits nor raises; `root_sink` gets root spans, and soon sends them."""

    def __init__(
        self,
        sink: Callable[[EndedSpan], None],
        ratio: float,
        *,
        late_ms: int,
        root_sink: Callable[[EndedSpan], None] | None = None,
        spans_waiting_max: int = SPANS_WAITING_MAX,
        waiting_s_max: float = WAITING_S_MAX,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._root_sink = root_sink or sink
        self._ids_below = round(ratio * (1 << _RATIO_BITS))
        """The bound of kept trace ids, as in OpenTelemetry's TraceIdRatioBased: a function of the id, so all processes
        agree."""
        self.late_ms = late_ms
        """Milliseconds: a transaction that was open for longer is kept."""
        self._spans_waiting_max = spans_waiting_max
        self._waiting_s_max = waiting_s_max
        self._monotonic_s = monotonic_s
        self._waiting: OrderedDict[int, _Waiting] = OrderedDict()
        self._verdicts: OrderedDict[int, bool] = OrderedDict()
        self._rooted: OrderedDict[int, None] = OrderedDict()
        """The traces whose root this process has exported or dropped: another root of such a trace is ignored."""
        self._next_look_s = -math.inf
        """The time before which no waiting span is too old."""
        self.spans_waiting = 0
        self.spans_kept = 0
        self.spans_dropped = 0

    # ------------------------------------------------------------------------------------------------ what comes in

    def add_spans(self, home: Home, ended: Sequence[Span]) -> None:
        """Add the ended spans of one request. They are exported, dropped, or kept waiting until their transaction has
        ended."""
        trace = home.trace
        trace_id = home.trace_id if trace is None else trace.trace_id
        if home.is_kept:
            self.verdict(trace_id, is_kept=True)
        if trace is not None and home.unanswered:
            self._keep_first(home, trace, ended)
        root_id = 0 if trace is None else trace.root_id
        if (trace_id & _RATIO_MASK) < self._ids_below:
            self._keep(trace_id, [(root_id, ended)])
            return
        waiting = self._waiting.get(trace_id)
        if waiting is None:  # Otherwise there is no verdict yet.
            verdict = self._verdicts.get(trace_id)
            if verdict:
                self._keep(trace_id, [(root_id, ended)])
                return
            if trace is None or verdict is False:
                # Without a transaction no verdict will come.
                self.spans_dropped += len(ended)
                return
            waiting = self._waiting[trace_id] = self._new_waiting()
        waiting.homes.append((root_id, ended))
        count = len(ended)
        waiting.count += count
        self.spans_waiting += count
        if self.spans_waiting > self._spans_waiting_max:
            self._give_up(self._monotonic_s())

    def root(
        self,
        trace: TransactionTrace,
        name: str,
        end_ns: int,
        attributes: Attributes,
        *,
        is_kept: bool,
    ) -> None:
        """Export the root span of a transaction's trace if `is_kept`, and export or drop its waiting spans accordingly.

        It comes from the coordinator that wrote the completion, or from the next one, which cannot know whether the
        first one exported it. A trace that had its root from this process gets no second one.
        """
        if trace.trace_id in self._rooted:
            return
        self._rooted[trace.trace_id] = None
        if len(self._rooted) > VERDICTS_MAX:
            self._rooted.popitem(last=False)
        self.verdict(trace.trace_id, is_kept=is_kept)
        if not self.is_kept(trace.trace_id):
            self.spans_dropped += 1
            return
        self.spans_kept += 1
        self._root_sink(
            EndedSpan(
                name,
                Kind.INTERNAL,
                trace.trace_id,
                trace.root_id,
                0,
                min(trace.start_ns, end_ns),
                end_ns,
                attributes,
            )
        )

    def verdict(self, trace_id: int, *, is_kept: bool) -> None:
        """Decide on a trace, because its transaction has ended: its waiting spans are exported or dropped. A trace that
        was kept stays kept."""
        known = self._verdicts.get(trace_id)
        if known is is_kept or known:
            return  # Nothing waits for a verdict that is there.
        self._verdicts[trace_id] = is_kept
        if known is not None:
            self._verdicts.move_to_end(trace_id)
        if len(self._verdicts) > VERDICTS_MAX:
            self._verdicts.popitem(last=False)
        waiting = self._waiting.pop(trace_id, None)
        if waiting is None:
            return
        self.spans_waiting -= waiting.count
        if is_kept or self.is_in_head(trace_id):
            self._keep(trace_id, waiting.homes)
        else:
            self.spans_dropped += waiting.count

    def is_in_head(self, trace_id: int) -> bool:
        """True if the trace is in the share that is always exported, however its transaction ends."""
        return (trace_id & _RATIO_MASK) < self._ids_below

    def is_kept(self, trace_id: int) -> bool:
        """True if the trace is known to be kept: by the ratio, or by how its transaction ended."""
        is_in_head = (trace_id & _RATIO_MASK) < self._ids_below
        return is_in_head or self._verdicts.get(trace_id, False)

    # ------------------------------------------------------------------------------------------------

    def _keep(self, trace_id: int, homes: Sequence[_OfHome]) -> None:
        for root_id, ended in homes:
            self.spans_kept += len(ended)
            for one in ended:
                self._sink(_ended(one, trace_id, root_id))

    def _keep_first(self, home: Home, trace: TransactionTrace, ended: Sequence[Span]) -> None:
        """Export copies of these spans in the trace under which the request came, if that trace is exported.

        Called processes that did not learn of the transaction have exported their spans in that trace, below these.
        Each copy has a link to its span in the transaction's trace. The copy of the outermost span has no parent.
        """
        first_id = home.first_trace_id
        if first_id == trace.trace_id:
            return
        if not self.is_in_head(first_id) and not (home.caller is not None and home.caller.is_kept):
            return
        self.spans_kept += len(ended)
        for one in ended:
            link = Traceparent(trace.trace_id, one.span_id, True)
            parent_id = 0 if one.parent is None else one.parent.span_id
            copied = _ended(one, first_id, 0)
            self._sink(copied._replace(parent_id=parent_id, links=(*copied.links, link)))

    def _new_waiting(self) -> _Waiting:
        now = self._monotonic_s()
        if now > self._next_look_s:
            self._give_up(now)
        return _Waiting(now)

    def _give_up(self, now: float) -> None:
        """Drop the waiting spans of traces that wait for too long, and of the oldest if there are too many."""
        while self._waiting:
            oldest, its = next(iter(self._waiting.items()))
            old_at_s = its.since_s + self._waiting_s_max
            if now <= old_at_s and self.spans_waiting <= self._spans_waiting_max:
                self._next_look_s = old_at_s
                return
            del self._waiting[oldest]
            self.spans_waiting -= its.count
            self.spans_dropped += its.count
        self._next_look_s = now + self._waiting_s_max


def _ended(span: Span, trace_id: int, root_id: int) -> EndedSpan:
    """Return a span as it is exported. A request's outermost span is a child of the transaction's root, with a link to
    its caller; without a transaction it is a child of its caller."""
    home = span.home
    links, caller = span.links, home.caller
    if span.parent is not None:
        parent_id = span.parent.span_id
    elif root_id:
        parent_id = root_id
        if caller is not None:
            moved = caller._replace(trace_id=trace_id) if home.is_caller_ours else caller
            links = [*links, moved]
    else:
        parent_id = 0 if caller is None else caller.span_id
    attributes = dict(span.attributes)
    for details in span.details:
        attributes |= details()
    return EndedSpan(
        span.name,
        span.kind,
        trace_id,
        span.span_id,
        parent_id,
        span.start_ns,
        span.end_ns,
        attributes,
        span.error,
        tuple(links),
    )
