"""Metrics about tracing itself: how many spans were kept, dropped and wait. There are none while tracing is off."""

from collections.abc import Iterator

from oncelog.process.role_metrics import RoleMetric, counters_by, gauge
from oncelog.telemetry import spans


def trace_metrics() -> Iterator[RoleMetric]:
    recorder = spans.recorder
    if recorder is None:
        return
    yield counters_by(
        "oncelog_trace_spans",
        "Spans of traces that are kept, handed to the exporter; and of those that are not.",
        "what",
        {"kept": recorder.spans_kept, "dropped": recorder.spans_dropped},
    )
    yield gauge(
        "oncelog_trace_spans_waiting",
        "Spans of transactions of which it is not known yet whether they are kept.",
        recorder.spans_waiting,
    )
