"""Which traces leave this process: by a ratio that every process applies alike, and by what became of the transaction.

```
take(home, spans) ──▶ head ratio or a verdict says kept ──▶ sink
                 └──▶ not decided yet: wait under the trace id ──▶ verdict(trace_id, is_kept) ──▶ sink, or dropped
```

What waits is bounded in spans and in time; the oldest trace goes first.
"""

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from oncelog.telemetry.spans import Home, Kind, Span, Value
from oncelog.trace import Traceparent, TransactionTrace

SPANS_WAITING_MAX: Final = 20_000
"""About 20 MB."""
WAITING_S_MAX: Final = 960.0
"""Kafka's longest transaction timeout, and a minute."""
VERDICTS_MAX: Final = 20_000
_RATIO_BITS: Final = 64
_RATIO_MASK: Final = (1 << _RATIO_BITS) - 1


@dataclass(frozen=True, slots=True)
class EndedSpan:
    """As it is exported."""

    name: str
    kind: Kind
    trace_id: int
    span_id: int
    parent_id: int
    """0: the trace's root."""
    start_ns: int
    end_ns: int
    attributes: dict[str, Value]
    error: str = ""
    links: Sequence[Traceparent] = field(default=())


def is_in_ratio(trace_id: int, ratio: float) -> bool:
    """As OpenTelemetry's TraceIdRatioBased: a function of the id, so every process comes to the same result."""
    return (trace_id & _RATIO_MASK) < round(ratio * (1 << _RATIO_BITS))


class TraceRecorder:
    """An `oncelog.telemetry.spans.Recorder`. `sink` takes spans that are kept; it neither waits nor raises."""

    def __init__(
        self,
        sink: Callable[[EndedSpan], None],
        ratio: float,
        *,
        late_ms: int,
        spans_waiting_max: int = SPANS_WAITING_MAX,
        waiting_s_max: float = WAITING_S_MAX,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sink = sink
        self._ratio = ratio
        self.late_ms = late_ms
        """A transaction that was open for longer is kept."""
        self._spans_waiting_max = spans_waiting_max
        self._waiting_s_max = waiting_s_max
        self._monotonic_s = monotonic_s
        self._waiting: OrderedDict[int, tuple[float, list[EndedSpan]]] = OrderedDict()
        self._verdicts: OrderedDict[int, bool] = OrderedDict()
        self.spans_waiting = 0
        self.spans_kept = 0
        self.spans_dropped = 0

    # ------------------------------------------------------------------------------------------------ what comes in

    def take(self, home: Home, ended: Sequence[Span]) -> None:
        """Spans of one home, now that it is known where they belong."""
        spans = [_ended(one, home) for one in ended]
        self.add(home.trace_id, spans, is_kept=home.is_kept, may_wait=home.trace is not None)

    def add(
        self, trace_id: int, spans: Sequence[EndedSpan], *, is_kept: bool, may_wait: bool = True
    ) -> None:
        """`may_wait`: somebody will say what became of it."""
        if is_kept:
            self.verdict(trace_id, is_kept=True)
        if is_kept or self.is_kept(trace_id):
            self._keep(spans)
        elif not may_wait or self._verdicts.get(trace_id) is False:
            self.spans_dropped += len(spans)
        else:
            self._wait(trace_id, spans)

    def root(
        self,
        trace: TransactionTrace,
        name: str,
        end_ns: int,
        attributes: dict[str, Value],
        *,
        is_kept: bool,
    ) -> None:
        """The root of a transaction's trace, by whoever wrote its completion; with it the verdict."""
        root = EndedSpan(
            name,
            Kind.INTERNAL,
            trace.trace_id,
            trace.root_id,
            0,
            min(trace.start_ns, end_ns),
            end_ns,
            attributes,
        )
        self.add(trace.trace_id, [root], is_kept=is_kept)
        self.verdict(trace.trace_id, is_kept=is_kept)

    def verdict(self, trace_id: int, *, is_kept: bool) -> None:
        """What became of a transaction is known. Kept once is kept for good."""
        if not is_kept and self._verdicts.get(trace_id):
            return
        self._verdicts[trace_id] = is_kept
        self._verdicts.move_to_end(trace_id)
        if len(self._verdicts) > VERDICTS_MAX:
            self._verdicts.popitem(last=False)
        _, spans = self._waiting.pop(trace_id, (0.0, []))
        self.spans_waiting -= len(spans)
        if is_kept or self.is_in_head(trace_id):
            self._keep(spans)
        else:
            self.spans_dropped += len(spans)

    def is_in_head(self, trace_id: int) -> bool:
        """Kept whatever becomes of it."""
        return is_in_ratio(trace_id, self._ratio)

    def is_kept(self, trace_id: int) -> bool:
        """As far as is known now."""
        return self.is_in_head(trace_id) or self._verdicts.get(trace_id, False)

    # ------------------------------------------------------------------------------------------------

    def _keep(self, spans: Sequence[EndedSpan]) -> None:
        self.spans_kept += len(spans)
        for one in spans:
            self._sink(one)

    def _wait(self, trace_id: int, spans: Sequence[EndedSpan]) -> None:
        now = self._monotonic_s()
        _, waiting = self._waiting.setdefault(trace_id, (now, []))
        waiting.extend(spans)
        self.spans_waiting += len(spans)
        while self._waiting:
            oldest, (since, its_spans) = next(iter(self._waiting.items()))
            is_old = now - since > self._waiting_s_max
            if not is_old and self.spans_waiting <= self._spans_waiting_max:
                return
            del self._waiting[oldest]
            self.spans_waiting -= len(its_spans)
            self.spans_dropped += len(its_spans)


def _ended(span: Span, home: Home) -> EndedSpan:
    """The outermost of a home is below the transaction's root, and linked to its caller; without a transaction it is
    below its caller."""
    links, caller = span.links, home.caller
    if span.parent is not None:
        parent_id = span.parent.span_id
    elif home.trace is not None:
        parent_id = home.trace.root_id
        if caller is not None:
            moved = caller._replace(trace_id=home.trace_id) if home.is_caller_ours else caller
            links = [*links, moved]
    else:
        parent_id = 0 if caller is None else caller.span_id
    return EndedSpan(
        span.name,
        span.kind,
        home.trace_id,
        span.span_id,
        parent_id,
        span.start_ns,
        span.end_ns,
        span.attributes,
        span.error,
        links,
    )
