"""OpenTelemetry's spans of the records that a program sends and processes, on request: `Producer(…,
tracing=Tracing())`.

A span of a sent record lasts until the record is delivered. Its `traceparent` stands in the record's headers. The
cluster links the transaction's trace to this span, and a consumer's program continues the trace by `processing`. It
needs `opentelemetry-api`; without an SDK its spans are empty and nothing is written into headers.
"""

from collections.abc import Iterator, MutableSequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import context, propagate, trace
from opentelemetry.trace import Span, SpanKind, StatusCode

from oncelog.client.core.consumer_record import ConsumerRecord
from oncelog.client.delivery import OnDelivery, RecordMetadata
from oncelog.client.errors import ClientError

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_SYSTEM = {"messaging.system": "kafka"}
Pairs = MutableSequence[tuple[str, bytes | None]]


class Tracing:
    """Makes the spans of one producer's or consumer's records. `tracer_provider` None: the one that is set for the
    process."""

    def __init__(self, tracer_provider: "TracerProvider | None" = None) -> None:
        self._tracer = trace.get_tracer("oncelog.client", tracer_provider=tracer_provider)

    def sending(self, topic: str, headers: Pairs, on_delivery: OnDelivery | None) -> OnDelivery:
        """Start the span of a record that is sent, and write its id into the headers, unless the program has done so.
        Return the callback that ends it."""
        span = self._tracer.start_span(
            f"send {topic}",
            kind=SpanKind.PRODUCER,
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "send",
                "messaging.destination.name": topic,
            },
        )
        if all(name != "traceparent" for name, _ in headers):
            found: dict[str, str] = {}
            propagate.inject(found, trace.set_span_in_context(span))
            headers.extend((name, text.encode()) for name, text in found.items())
        return _ending(span, on_delivery)

    @contextmanager
    def processing(self, record: ConsumerRecord) -> Iterator[Span]:
        """Open the span for the work of a program with a record, as a child of the span with which the record was
        sent."""
        carrier = {name: value.decode("latin-1") for name, value in record.headers if value}
        with self._tracer.start_as_current_span(
            f"process {record.topic}",
            context=propagate.extract(carrier, context=context.get_current()),
            kind=SpanKind.CONSUMER,
            attributes={
                **_SYSTEM,
                "messaging.operation.type": "process",
                "messaging.destination.name": record.topic,
                "messaging.destination.partition.id": str(record.partition),
                "messaging.kafka.offset": record.offset,
            },
        ) as span:
            yield span


def _ending(span: Span, on_delivery: OnDelivery | None) -> OnDelivery:
    def ended(metadata: RecordMetadata | None, error: ClientError | None) -> None:
        if metadata is not None:
            span.set_attribute("messaging.destination.partition.id", str(metadata.partition))
            span.set_attribute("messaging.kafka.offset", metadata.offset)
        if error is not None:
            span.record_exception(error)
            span.set_status(StatusCode.ERROR, str(error))
        span.end()
        if on_delivery is not None:
            on_delivery(metadata, error)

    return ended
