"""Turns tracing on for this process, as OpenTelemetry's own variables say. Without an endpoint it is off.

| variable | here |
| --- | --- |
| `OTEL_EXPORTER_OTLP_ENDPOINT`, also with `TRACES_` | where spans go; without one nothing is recorded |
| `OTEL_EXPORTER_OTLP_PROTOCOL` | `grpc`; `http/protobuf` with the package of that exporter |
| `OTEL_TRACES_EXPORTER` | `otlp`; `none` turns tracing off, and so does `OTEL_SDK_DISABLED=true` |
| `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | the head ratio; aborted, fenced and late ones are kept besides |
| `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_*`, `OTEL_EXPORTER_OTLP_*` | as the SDK reads them |
"""

import importlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from oncelog.errors import OncelogError
from oncelog.telemetry import spans
from oncelog.telemetry.recorder import EndedSpan, TraceRecorder

if TYPE_CHECKING:  # Loaded where spans are exported.
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    from opentelemetry.trace import SpanContext

_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOL: Final = "OTEL_EXPORTER_OTLP_PROTOCOL"
_TRACES_PROTOCOL: Final = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_SAMPLER: Final = "OTEL_TRACES_SAMPLER"
_SAMPLER_ARG: Final = "OTEL_TRACES_SAMPLER_ARG"
_ALWAYS: Final = {"always_on": 1.0, "always_off": 0.0}
_RATIO: Final = "traceidratio"
_PARENT_BASED: Final = "parentbased_"
_GRPC_PACKAGE: Final = "opentelemetry-exporter-otlp-proto-grpc"
_PACKAGES: Final = f"opentelemetry-sdk {_GRPC_PACKAGE}"
_EXPORTERS: Final = {
    "grpc": ("opentelemetry.exporter.otlp.proto.grpc.trace_exporter", _GRPC_PACKAGE),
    "http/protobuf": (
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "opentelemetry-exporter-otlp-proto-http",
    ),
}
_EXPORTERS_LOGGERS: Final = (
    "opentelemetry.exporter.otlp.proto.grpc.exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)
_PartOfSdk: TypeAlias = Any
"""The SDK's processors and our exporters, which look only at some of what the other's class says. Our classes are no
subclasses, as the SDK is loaded late."""
TOLD_EVERY_S: Final = 60.0
SCOPE: Final = "oncelog"
ROOT_DELAY_MS: Final = 100
"""Milliseconds that a root span waits at most.
A killed process takes waiting spans with it, while other processes have sent the spans below the root."""
ROOTS_WAITING_MAX: Final = 1 << 16
"""The most roots that wait. A coordinator that takes over exports the roots of several seconds at once."""
FLUSH_MS: Final = 3_000
"""Milliseconds that a stopping process waits at most for its spans to leave."""


class SeldomTold(logging.Filter):
    """A log filter that lets the message "the collector is away" through once a minute; the exporter writes it every
    few seconds."""

    def __init__(self, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._monotonic_s = monotonic_s
        self._last_s = -math.inf
        self._kept_back = 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = self._monotonic_s()
        if now - self._last_s < TOLD_EVERY_S:
            self._kept_back += 1
            return False
        if self._kept_back:
            record.msg = f"{record.msg} (and {self._kept_back} lines like it since the last one)"
        self._last_s, self._kept_back = now, 0
        return True


class Tracing:
    """The export of this process's spans, until `stop`. OpenTelemetry's spans are built in the SDK's thread: a request
    pays only for a place in its queue."""

    def __init__(
        self, new_exporter: Callable[[], "SpanExporter"], service: str, ratio: float, late_ms: int
    ) -> None:
        from opentelemetry.sdk import resources
        from opentelemetry.sdk import trace as sdk
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        self._sdk = sdk
        self._resources = resources
        spans_exporter: _PartOfSdk = _BuildingExporter(new_exporter(), self._built)
        self._processor: _PartOfSdk = BatchSpanProcessor(spans_exporter)
        # Roots have a queue, a thread and a connection of their own: no batch of other spans delays a root.
        roots_exporter: _PartOfSdk = _BuildingExporter(new_exporter(), self._built)
        self._root_processor: _PartOfSdk = BatchSpanProcessor(
            roots_exporter, schedule_delay_millis=ROOT_DELAY_MS, max_queue_size=ROOTS_WAITING_MAX
        )
        self._sampled = _context(1, 1, is_remote=False)
        self._scope = InstrumentationScope(SCOPE)
        # What the variables name counts more than what we say, and what the SDK makes up counts less.
        named = resources.OTELResourceDetector().detect()
        self._named = frozenset(named.attributes)
        self._resource = resources.Resource.create().merge(named)
        self._say("service.name", service)
        self.recorder = TraceRecorder(
            self._queue, ratio, late_ms=late_ms, root_sink=self._queue_root
        )

    def say_node(self, node_id: int) -> None:
        """Set the node id that exported spans carry: a controller may give it only after the start."""
        self._say("service.instance.id", str(node_id))

    def flush(self) -> None:
        """Export all waiting spans. It blocks for as long as the exporter takes, which is long without a collector."""
        self._root_processor.force_flush(FLUSH_MS)
        self._processor.force_flush(FLUSH_MS)

    def stop(self) -> None:
        """Export the remaining spans. It blocks for FLUSH_MS at most, for each of the two queues."""
        self.flush()
        self._root_processor.shutdown()
        self._processor.shutdown()

    def _say(self, key: str, value: str) -> None:
        if key not in self._named:
            self._resource = self._resource.merge(self._resources.Resource({key: value}))
        self._exported = _ExportedResource(self._resource)

    def _queue(self, ended: EndedSpan) -> None:
        self._processor.on_end(_Queued(self._sampled, ended))

    def _queue_root(self, ended: EndedSpan) -> None:
        self._root_processor.on_end(_Queued(self._sampled, ended))

    def _built(self, ended: EndedSpan) -> "ReadableSpan":
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        parent = None
        if ended.parent_id:
            parent = _context(ended.trace_id, ended.parent_id, is_remote=True)
        span: Callable[..., ReadableSpan] = self._sdk.ReadableSpan
        return span(
            ended.name,
            context=_context(ended.trace_id, ended.span_id, is_remote=False),
            parent=parent,
            resource=self._exported,
            attributes=ended.attributes,
            links=[
                Link(_context(one.trace_id, one.span_id, is_remote=True)) for one in ended.links
            ],
            kind=SpanKind(ended.kind),
            status=Status(StatusCode.ERROR, ended.error) if ended.error else Status(),
            start_time=ended.start_ns,
            end_time=ended.end_ns,
            instrumentation_scope=self._scope,
        )


class _ExportedResource:
    """The two fields of an OpenTelemetry resource that an OTLP exporter reads. The SDK's own class would be a tenth of
    a span's cost: it writes its attributes as JSON for each span."""

    def __init__(self, resource: "Resource") -> None:
        self.attributes = resource.attributes
        self.schema_url = resource.schema_url


class _Queued(NamedTuple):
    """An ended span in the queue of OpenTelemetry's SDK. The SDK reads only the context, which says that the span is
    sampled."""

    context: "SpanContext"
    ended: EndedSpan


class _BuildingExporter:
    """An exporter that turns each `_Queued` span into one of the SDK's, in the SDK's thread, and hands it to the real
    exporter."""

    def __init__(
        self, exporter: "SpanExporter", built: Callable[[EndedSpan], "ReadableSpan"]
    ) -> None:
        self._exporter = exporter
        self._built = built

    def export(self, batch: Sequence[_Queued]) -> "SpanExportResult":
        return self._exporter.export([self._built(one.ended) for one in batch])

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = FLUSH_MS) -> bool:
        return bool(self._exporter.force_flush(timeout_millis))


def _context(trace_id: int, span_id: int, *, is_remote: bool) -> "SpanContext":
    from opentelemetry.trace import SpanContext, TraceFlags

    return SpanContext(trace_id, span_id, is_remote, TraceFlags(TraceFlags.SAMPLED))


@contextmanager
def traced(
    service: str, late_ms: int, environment: Mapping[str, str] = os.environ
) -> Iterator[Tracing | None]:
    """Record the spans of this process while the block runs, if the environment names an endpoint to send them to.

    `service`: `oncelog-coordinator`, unless OTEL_SERVICE_NAME says another name. Raises OncelogError for values that
    cannot be meant.
    """
    if not is_wanted(environment):
        yield None
        return
    tracing = build_tracing(service, late_ms, environment)
    spans.recorder = tracing.recorder
    try:
        yield tracing
    finally:
        spans.recorder = None
        tracing.stop()


def build_tracing(service: str, late_ms: int, environment: Mapping[str, str]) -> Tracing:
    """Return the tracing that `traced` runs. Raises OncelogError for wrong values and for packages that are not
    installed."""
    try:
        importlib.import_module("opentelemetry.sdk.trace.export")
    except ImportError as error:
        raise OncelogError(
            f"{_ENDPOINT} asks for traces, and a package for them is not installed: pip install {_PACKAGES}"
        ) from error
    seldom = SeldomTold()
    for name in _EXPORTERS_LOGGERS:
        logging.getLogger(name).addFilter(seldom)
    return Tracing(partial(_exporter, environment), service, head_ratio(environment), late_ms)


def is_wanted(environment: Mapping[str, str]) -> bool:
    """Return True if the environment asks for traces. Raises OncelogError for an exporter that is not OTLP's."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get(_EXPORTER, "").strip() or "otlp"
    if exporter not in ("otlp", "none"):
        raise OncelogError(
            f"{_EXPORTER} is {exporter!r}; oncelog exports traces by otlp, or with none not at all"
        )
    has_endpoint = any(environment.get(name, "").strip() for name in (_ENDPOINT, _TRACES_ENDPOINT))
    return exporter == "otlp" and has_endpoint


def head_ratio(environment: Mapping[str, str]) -> float:
    """Return the share of transactions, 0 to 1, whose traces are exported however they end. Raises OncelogError."""
    name = environment.get(_SAMPLER, "").strip().lower() or "parentbased_always_on"
    kind = name.removeprefix(_PARENT_BASED)
    if kind in _ALWAYS:
        return _ALWAYS[kind]
    if kind != _RATIO:
        known = ", ".join((*_ALWAYS, _RATIO))
        raise OncelogError(
            f"{_SAMPLER} is {name!r}; write one of {known}, or {_PARENT_BASED} in front of it"
        )
    text = environment.get(_SAMPLER_ARG, "").strip() or "1.0"
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise OncelogError(
            f"{_SAMPLER_ARG} is {text!r}; write a ratio from 0 to 1, 0.1 for a tenth"
        )
    return ratio


def _exporter(environment: Mapping[str, str]) -> "SpanExporter":
    """Return OpenTelemetry's exporter for the protocol in the environment; it reads the rest of OTEL_EXPORTER_OTLP_*
    itself. Raises OncelogError."""
    protocol = environment.get(_TRACES_PROTOCOL) or environment.get(_PROTOCOL) or "grpc"
    found = _EXPORTERS.get(protocol.strip().lower())
    if found is None:
        raise OncelogError(
            f"{_PROTOCOL} is {protocol!r}; oncelog speaks {' and '.join(_EXPORTERS)}"
        )
    module, package = found
    try:
        exporter: SpanExporter = importlib.import_module(module).OTLPSpanExporter()
    except ImportError as error:
        raise OncelogError(
            f"{_PROTOCOL}={protocol} needs a package that is not installed: pip install {package}"
        ) from error
    return exporter
