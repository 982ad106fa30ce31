"""Trace context across a session: the caller's span becomes the parent of what the call does (W3C traceparent).

A process without tracing never imports OpenTelemetry, and pays one look into a dict for each call.
"""

import sys
from typing import Any

_VERSION = "00"


def current_traceparent() -> str:
    """Of the span that runs now; empty when there is none."""
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return ""
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return ""
    return f"{_VERSION}-{span.trace_id:032x}-{span.span_id:016x}-{int(span.trace_flags):02x}"


def continue_trace(traceparent: str) -> None:
    """Make the caller's span the current one, for the rest of this task. One that cannot be read is ignored."""
    if "opentelemetry.trace" not in sys.modules:
        return
    from opentelemetry import context, trace

    try:
        _, trace_id, span_id, flags = traceparent.split("-")
        span = trace.SpanContext(
            int(trace_id, 16),
            int(span_id, 16),
            is_remote=True,
            trace_flags=trace.TraceFlags(int(flags, 16)),
        )
    except ValueError:
        return
    context.attach(trace.set_span_in_context(trace.NonRecordingSpan(span)))
