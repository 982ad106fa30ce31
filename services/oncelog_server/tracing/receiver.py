"""Receives spans by OTLP over gRPC, as an OpenTelemetry collector does, and writes each as a line of JSON.

python -m oncelog_server.tracing.receiver --port 4317 spans.jsonl
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final, TextIO

import grpc.aio
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as collector
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as collector_grpc
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

OTLP_PORT: Final = 4317
_ERROR: Final = 2


@dataclass(frozen=True, slots=True)
class ReceivedSpan:
    """One received span, with what the tree needs of it. Ids are hex, times Unix nanoseconds."""

    name: str
    service: str
    instance: str
    trace_id: str
    span_id: str
    parent_id: str
    """Span id of the parent; empty for a root."""
    start_ns: int
    end_ns: int
    error: str
    attributes: dict[str, str | int | float | bool]
    links: list[str] = field(default_factory=list)
    """Span ids of the linked spans."""
    linked_traces: list[str] = field(default_factory=list)
    """The trace id of each link."""


def spans_of(request: collector.ExportTraceServiceRequest) -> list[ReceivedSpan]:
    """Return the spans of one ExportTraceServiceRequest."""
    found = []
    for of_resource in request.resource_spans:
        resource = _attributes(of_resource.resource.attributes)
        for of_scope in of_resource.scope_spans:
            for span in of_scope.spans:
                is_error = span.status.code == _ERROR
                found.append(
                    ReceivedSpan(
                        span.name,
                        str(resource.get("service.name", "")),
                        str(resource.get("service.instance.id", "")),
                        span.trace_id.hex(),
                        span.span_id.hex(),
                        span.parent_span_id.hex(),
                        span.start_time_unix_nano,
                        span.end_time_unix_nano,
                        (span.status.message or "error") if is_error else "",
                        _attributes(span.attributes),
                        [link.span_id.hex() for link in span.links],
                        [link.trace_id.hex() for link in span.links],
                    )
                )
    return found


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, str | int | float | bool]:
    values: dict[str, str | int | float | bool] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        values[pair.key] = getattr(pair.value, kind) if kind else ""
    return values


class Receiver(collector_grpc.TraceServiceServicer):
    """The gRPC service of a collector: writes the spans that it receives to `out`."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    async def Export(  # noqa: N802 - OTLP names it
        self, request: collector.ExportTraceServiceRequest, context: object
    ) -> collector.ExportTraceServiceResponse:
        for span in spans_of(request):
            self._out.write(json.dumps(asdict(span)) + "\n")
        self._out.flush()
        return collector.ExportTraceServiceResponse()


async def receive(host: str, port: int, out: TextIO) -> None:
    """Receive spans into `out` until SIGTERM or Ctrl-C. It prints a line with its address when it listens."""
    server = grpc.aio.server()
    # opentelemetry ships no types of it.
    collector_grpc.add_TraceServiceServicer_to_server(Receiver(out), server)  # type: ignore[no-untyped-call]
    bound = server.add_insecure_port(f"{host}:{port}")
    await server.start()
    print(f"receiving traces on {host}:{bound}", flush=True)
    stop_requested = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop_requested.set)
    await stop_requested.wait()
    await server.stop(0.5)


def read_spans(path: Path) -> list[ReceivedSpan]:
    """Return the spans that a receiver has written so far. A line that is still being written is left for later."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [ReceivedSpan(**json.loads(line)) for line in lines if line.endswith("\n")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m oncelog_server.tracing.receiver")
    parser.add_argument("out", type=Path, help="file that gets a line of JSON for each span")
    parser.add_argument("--port", type=int, default=OTLP_PORT, help="0: any free one")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for pods and containers")
    options = parser.parse_args()
    try:
        with options.out.open("a") as out:
            asyncio.run(receive(options.host, options.port, out))
    except (OSError, RuntimeError) as error:
        print(f"cannot receive traces: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
