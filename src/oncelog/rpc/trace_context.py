"""Trace context across a call between processes (ADR 0028).

The caller sends its current span, and its transaction's trace where that is known. The answer names the trace of the
transaction that the call turned out to belong to. Every span that waits for the answer is moved into that trace.
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
    """Return the trace in this message, and True if it is to be exported; None if the message is empty or cannot be
    read.
    """
    found = read_traceparent(message.traceparent)
    if found is None:
        return None
    return TransactionTrace(found.trace_id, found.span_id, message.start_ns), found.is_kept


def calling_span() -> "spans.Span | None":
    """Return the current span, as the caller of a call; None in a process without tracing."""
    return None if spans.recorder is None else spans.current()


def write_caller(call: "SessionCall", caller: "spans.Span | None") -> None:
    """Write the caller's span, and its transaction's trace if known, into the message of a call."""
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
    """Return the span of a call that is served here, below the caller's span. NOTHING if the call names no span."""
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
    """Return the trace of the transaction that this served call belonged to, for its reply; None: it belonged to
    none.
    """
    if not isinstance(served, spans.Span) or served.home.trace is None:
        return None
    return trace_message(served.home.trace, is_kept=served.home.is_kept)


def take_answered(reply: "SessionReply", caller: "spans.Span | None") -> None:
    """Move the caller's spans that waited for this reply into the trace that the reply names."""
    if caller is None or not reply.HasField("trace"):
        return
    known = read_trace(reply.trace)
    if known is not None:
        home = caller.home
        home.move(known[0], is_kept=known[1])
        if caller in home.unanswered:
            at = home.unanswered.index(caller)
            home.unanswered = (*home.unanswered[:at], *home.unanswered[at + 1 :])
