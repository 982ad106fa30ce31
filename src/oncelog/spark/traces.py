"""Spans of a micro-batch in Spark's processes (ADR 0028): the driver's opening, each task, and the driver's end.

All are below the root span of the attempt (one try of a batch). Its id follows from the attempt's nonce, and the
coordinator exports it. OpenTelemetry's variables turn it on, as in every other process. Driver and executors each need
them in their environment (`spark.executorEnv.OTEL_EXPORTER_OTLP_ENDPOINT`). Without an endpoint nothing is loaded and
nothing is recorded.

Tracing never fails a batch: a value that cannot be meant or a missing package is one warning in the worker's log. A
Python worker is killed without notice when its application ends, so spans are sent as soon as they end.
"""

import functools
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog.telemetry import spans
from oncelog.trace import TransactionTrace, attempt_trace

if TYPE_CHECKING:
    from oncelog.spark.attempt import AttemptName, TaskIdentity
    from oncelog.telemetry.tracing import Tracing

_log = logging.getLogger(__name__)

SERVICE: Final = "oncelog-spark"
SENT_WITHIN_S: Final = 1.0
"""Seconds in which spans are sent. A collector takes milliseconds;
for one that is away a process waits once, until it is back."""

AnySpan = spans.Span | spans.Nothing


@contextmanager
def opening_span(attempt: "AttemptName") -> Iterator[AnySpan]:
    """Open the driver's span around OpenAttempt, the begin of a batch's try. It is a trace of its own at first, because
    a refused attempt has none."""
    process = _process(os.getpid())
    if process is None:
        yield spans.NOTHING
        return
    with process.sending(), _failing_kept("open attempt", None) as span:
        span.set(**{"oncelog.sink": attempt.sink})
        yield span


def opened(span: AnySpan, attempt: "AttemptName") -> None:
    """Move the span into the trace of the attempt (a try of a batch), which is open now. Where the coordinator records
    no spans it stays."""
    if isinstance(span, spans.Span) and attempt.is_traced:
        span.home.move(attempt_trace(attempt.nonce))


@contextmanager
def task_span(attempt: "AttemptName", task: "TaskIdentity") -> Iterator[AnySpan]:
    """Open the span of one Spark task, in the trace of the attempt (a try of a batch)."""
    with _span(f"task {task.task_partition}", attempt) as span:
        attributes: dict[str, spans.Value] = {
            "oncelog.batch_id": task.batch_id,
            "spark.query_id": task.query_id,
            "spark.run_id": task.run_id,
            "spark.partition_id": task.task_partition,
            "spark.task_attempt_id": task.task_attempt_id,
        }
        span.set(**attributes)
        yield span


@contextmanager
def ending_span(
    what: str, attempt: "AttemptName", batch_id: int | None = None
) -> Iterator[AnySpan]:
    """Open the driver's span around the commit or the abort of a batch. `what` says which of these, in the span's
    name."""
    with _span(f"{what} batch", attempt) as span:
        if batch_id is not None:
            span.set(**{"oncelog.batch_id": batch_id})
        yield span


@contextmanager
def _span(name: str, attempt: "AttemptName") -> Iterator[AnySpan]:
    """Open a span below the root span of the attempt (one try of a batch)."""
    process = _process(os.getpid()) if attempt.is_traced else None
    if process is None:
        yield spans.NOTHING
        return
    with process.sending(), _failing_kept(name, attempt_trace(attempt.nonce)) as span:
        span.set(**{"oncelog.sink": attempt.sink})
        yield span


@contextmanager
def _failing_kept(name: str, trace: TransactionTrace | None) -> Iterator[spans.Span]:
    """Open a span that is exported if it fails, otherwise only by the sampling ratio: this process does not learn how
    the batch ends."""
    span = spans.outermost(name, spans.Kind.INTERNAL, trace=trace)
    assert isinstance(span, spans.Span), "a process that records has a recorder"
    home = span.home
    home.is_kept = True
    try:
        with span:
            yield span
            home.is_kept = False
    finally:
        assert spans.recorder is not None, "a process that records has a recorder"
        spans.recorder.verdict(home.trace_id, is_kept=home.is_kept)


class _Process:
    """The tracing of one Python worker of Spark, which sends its spans from a thread."""

    def __init__(self, tracing: "Tracing") -> None:
        self.tracing = tracing
        self._sending: threading.Thread | None = None

    @contextmanager
    def sending(self) -> Iterator[None]:
        try:
            yield
        finally:
            self._send()

    def _send(self) -> None:
        if self._sending is not None and self._sending.is_alive():
            # An earlier thread found no collector yet. If it finds one, it sends this too.
            return
        self._sending = threading.Thread(
            target=self.tracing.flush, name="oncelog traces", daemon=True
        )
        self._sending.start()
        self._sending.join(SENT_WITHIN_S)


@functools.cache
def _process(pid: int) -> _Process | None:
    """Return the tracing of this Python worker; None: it records no spans. Workers are forked, so each process has its
    own."""
    try:
        from oncelog.telemetry.tracing import build_tracing, is_wanted

        if not is_wanted(os.environ):
            return None
        tracing = build_tracing(SERVICE, 0, os.environ)
    except (OncelogError, OSError, ValueError) as error:
        _log.warning("the sink writes no traces in this process: %s", error)
        return None
    spans.recorder = tracing.recorder
    return _Process(tracing)
