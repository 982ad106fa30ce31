"""Trace context across a call: the caller's span, and the transaction that the answer names (ADR 0028).

The caller sends the span that calls, and its transaction's trace where it is known. The answer names the transaction
that the call turned out to belong to. Every span that waits for the answer belongs to that transaction, too.
"""

from typing import TYPE_CHECKING

from oncelog.api.v1.types_pb2 import TraceContext
from oncelog.telemetry import spans
from oncelog.trace import TransactionTrace, read_traceparent, write_traceparent

if TYPE_CHECKING:
    from oncelog.api.v1.peer_pb2 import SessionCall, SessionReply


def trace_message(trace: TransactionTrace, *, is_kept: bool) -> TraceContext:
    return TraceContext(
        traceparent=write_traceparent(trace.trace_id, trace.root_id, is_kept=is_kept),
        start_ns=trace.start_ns,
    )


def read_trace(message: TraceContext) -> tuple[TransactionTrace, bool] | None:
    """Return the trace, and True if it is kept; None for an empty message or one that cannot be read."""
    found = read_traceparent(message.traceparent)
    if found is None:
        return None
    return TransactionTrace(found.trace_id, found.span_id, message.start_ns), found.is_kept


def calling_span() -> "spans.Span | None":
    """Return the span that makes a call now; None in a process without tracing."""
    return None if spans.recorder is None else spans.current()


def write_caller(call: "SessionCall", caller: "spans.Span | None") -> None:
    """Write the caller's span into a SessionCall."""
    if caller is None:
        return
    home = caller.home
    call.traceparent = write_traceparent(home.trace_id, caller.span_id, is_kept=home.is_kept)
    if home.trace is not None:
        call.trace.CopyFrom(trace_message(home.trace, is_kept=home.is_kept))
    else:
        call.trace.start_ns = home.start_ns
        home.unanswered = (*home.unanswered, caller)


def serving_span(path: str, call: "SessionCall") -> "spans.Span | spans.Nothing":
    """Return the outermost span of a call that names its caller's span; NOTHING for one without."""
    caller = read_traceparent(call.traceparent) if spans.recorder is not None else None
    if caller is None:
        return spans.NOTHING
    known = read_trace(call.trace)
    trace = None if known is None else known[0]
    _, service, method = path.rsplit("/", 2)
    name = f"{service.rpartition('.')[2]}/{method}"
    span = spans.outermost(name, spans.Kind.SERVER, trace=trace, caller=caller)
    if trace is None and isinstance(span, spans.Span) and call.trace.start_ns:
        # A transaction that begins with this call began with the request of the client.
        span.home.start_ns = min(span.home.start_ns, call.trace.start_ns)
    return span


def answered_trace(served: "spans.Span | spans.Nothing") -> TraceContext | None:
    """Return the trace for the SessionReply if the call was of a transaction, else None."""
    if not isinstance(served, spans.Span) or served.home.trace is None:
        return None
    return trace_message(served.home.trace, is_kept=served.home.is_kept)


def take_answered(reply: "SessionReply", caller: "spans.Span | None") -> None:
    """Move the spans that waited for this reply into the trace that the reply names."""
    if caller is None or not reply.HasField("trace"):
        return
    known = read_trace(reply.trace)
    if known is not None:
        home = caller.home
        home.move(known[0], is_kept=known[1])
        if caller in home.unanswered:
            at = home.unanswered.index(caller)
            home.unanswered = (*home.unanswered[:at], *home.unanswered[at + 1 :])
