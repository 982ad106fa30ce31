"""Metrics for Prometheus and spans for OpenTelemetry, with the real packages, of both shells."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.integration.client.writers import new_topic

from oncelog.client import Consumer, Partition, Producer, RefusedError, SerializationError, blocking
from oncelog.client.tracing import Tracing
from oncelog.trace import read_traceparent

WAIT_S = 90


@pytest.fixture
def bootstrap(oncelog_broker):
    return oncelog_broker.bootstrap_servers


def scraped(registry):
    """(name, labels) → value, as a scrape reads them; each family has one head."""
    text = generate_latest(registry).decode()
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))
    return {
        (sample.name.removeprefix("oncelog_client_"), *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_s2_98_producers_and_consumers_share_a_registry(bootstrap):
    topic, registry = new_topic(bootstrap), CollectorRegistry()
    async with (
        Producer(bootstrap, metrics=registry, client_id="a") as one,
        Producer(bootstrap, metrics=registry, client_id="b") as two,
        Consumer(
            bootstrap, metrics=registry, client_id="c", auto_offset_reset="earliest"
        ) as consumer,
    ):
        for number in range(5):
            await one.send(topic, b"v")
            if not number:
                with pytest.raises(RefusedError):
                    await two.send(topic, b"v", partition=9)
        consumer.assign([Partition(topic, 0)])
        await consumer.poll(WAIT_S, max_records=2)
        found = scraped(registry)
    assert found["producer_records_sent_total", "a"] == 5
    assert found["producer_records_sent_total", "b"] == 0
    assert found["producer_batches_sent_total", "a"] == 5
    assert found["producer_bytes_sent_total", "a"] > 5 * 60
    assert found["producer_buffer_available_bytes", "a"] == 33_554_432
    assert found["producer_buffer_exhausted_records_total", "a"] == 0
    assert found["producer_request_seconds_count", "1", "a"] == 5
    assert found["producer_request_seconds_sum", "1", "a"] > 0
    assert found["consumer_records_total", "", "c"] == 2
    assert found["consumer_lag", "", "0", "c", topic] == 3
    assert not scraped(registry), "a closed client shows nothing"


@pytest.fixture
def exporter():
    return InMemorySpanExporter()


@pytest.fixture
def tracing(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider)


async def test_a_record_carries_the_trace_of_its_sending(bootstrap, tracing, exporter):
    topic = new_topic(bootstrap)
    async with Producer(bootstrap, tracing=tracing, value_serializer=int.to_bytes) as producer:
        with pytest.raises(SerializationError):
            producer.send(topic, "none")
        metadata = await producer.send(topic, 7, headers=[("mine", b"1")])
        with pytest.raises(RefusedError):
            await producer.send(topic, 7, partition=9)
        await producer.send(topic, 7, headers=[("traceparent", b"the program's")])
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([Partition(topic, 0)])
        record, other = await consumer.poll(WAIT_S)
        with tracing.processing(record):
            pass
    sent, refused, _, processed = exporter.get_finished_spans()
    assert other.headers == (("traceparent", b"the program's"),)
    (mine, (name, text)), trace_id, span_id = (
        record.headers,
        sent.context.trace_id,
        sent.context.span_id,
    )
    assert (mine, name) == (("mine", b"1"), "traceparent")
    found = read_traceparent(
        text.decode()
    )  # As a storage node reads it, to link the transaction's trace to it.
    assert (found.trace_id, found.span_id, found.is_kept) == (trace_id, span_id, True)
    assert (sent.name, sent.kind) == (f"send {topic}", SpanKind.PRODUCER)
    assert sent.attributes["messaging.kafka.offset"] == metadata.offset
    assert refused.status.status_code is StatusCode.ERROR
    assert (processed.name, processed.kind) == (f"process {topic}", SpanKind.CONSUMER)
    assert (processed.context.trace_id, processed.parent.span_id) == (trace_id, span_id)


def test_a_span_of_the_thread_is_the_parent_of_its_sends(bootstrap, tracing, exporter):
    topic, registry = new_topic(bootstrap), CollectorRegistry()
    tracer = tracing._tracer
    with blocking.Producer(bootstrap, tracing=tracing, metrics=registry) as producer:
        with tracer.start_as_current_span("work") as work:
            producer.send(topic, b"v").result(WAIT_S)
        assert scraped(registry)["producer_records_sent_total", "oncelog"] == 1
    sent = next(span for span in exporter.get_finished_spans() if span.name.startswith("send"))
    assert sent.parent.span_id == work.get_span_context().span_id
