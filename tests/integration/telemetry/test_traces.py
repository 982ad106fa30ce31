"""`oncelog up` and a real receiver of OTLP: every fate of a transaction is one connected tree (ADR 0028)."""

import asyncio
import contextlib
import re
import subprocess
import sys
import time
import urllib.request

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from tests.integration.telemetry.trace_receiver import names, receiving

import oncelog
from oncelog.errors import OncelogError

pytestmark = pytest.mark.timeout(120)

WITH_EXEMPLARS = {
    "oncelog_coordinator_append_seconds",
    "oncelog_coordinator_markers_seconds",
    "oncelog_coordinator_transaction_seconds",
    "oncelog_storage_produce_seconds",
    "oncelog_storage_replication_seconds",
}
IN_EVERY_ONE = ("client AddPartitionsToTxn", "state append", "markers", "marker orders-0")


def producer(log, name, **config):
    made = confluent_kafka.Producer(
        {"bootstrap.servers": log.bootstrap_servers, "transactional.id": name, **config}
    )
    made.init_transactions(20)
    return made


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    with receiving(tmp_path_factory.mktemp("traces")) as found:
        yield found


@pytest.fixture(scope="module")
def log(receiver):
    with oncelog.running(environment=receiver.environment()) as running:
        yield running


def state_of(trace):
    return trace.roots[0].attributes["oncelog.state"]


def test_a_commit_and_an_abort_of_librdkafka(log, receiver):
    made = producer(log, "rd")
    made.begin_transaction()
    made.produce("orders", b"1")
    made.commit_transaction(20)
    committed = receiver.transaction("rd", (*IN_EVERY_ONE, "client EndTxn"))
    made.begin_transaction()
    made.produce("orders", b"2")
    made.flush()
    made.abort_transaction(20)
    aborted = receiver.transaction("rd", (*IN_EVERY_ONE, "client EndTxn"), count=2)
    assert committed.trace_id != aborted.trace_id
    assert [state_of(committed), state_of(aborted)] == ["CompleteCommit", "CompleteAbort"]
    for trace in (committed, aborted):
        assert trace.is_connected, (trace.roots, trace.orphans)
        root = trace.roots[0]
        assert all(root.start_ns <= one.start_ns <= one.end_ns for one in trace.spans)
        assert not [name for name in names(trace) if "/" in name]  # One process calls no other.
        assert "replication wait" not in names(trace)  # There is one replica.
        assert {one.instance for one in trace.spans} == {"1"}


def test_histograms_name_the_trace_for_openmetrics_only(log, receiver):
    made = producer(log, "exemplar")
    made.begin_transaction()
    made.produce("orders", b"1")
    made.commit_transaction(20)
    trace = receiver.transaction("exemplar", IN_EVERY_ONE)
    for accept in ("application/openmetrics-text;version=1.0.0", "text/plain"):
        request = urllib.request.Request(f"{log.rest_url}/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=90) as answer:
            assert answer.headers["content-type"].startswith(accept.partition(";")[0])
            text = answer.read().decode()
        found = re.findall(r'^(oncelog_\w+)_bucket\{.*# \{trace_id="(\w+)"\}', text, re.M)
        of_it = {name for name, trace_id in found if trace_id == trace.trace_id}
        assert of_it >= WITH_EXEMPLARS if "openmetrics" in accept else not found


def test_offsets_sent_with_a_transaction_are_in_its_trace(log, receiver):
    made = producer(log, "offsets")
    made.begin_transaction()
    made.produce("orders", b"1")
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": log.bootstrap_servers, "group.id": "readers"}
    )
    made.send_offsets_to_transaction(
        [confluent_kafka.TopicPartition("orders", 0, 1)], consumer.consumer_group_metadata(), 20
    )
    made.commit_transaction(20)
    consumer.close()
    trace = receiver.transaction("offsets", ("client TxnOffsetCommit", "client AddOffsetsToTxn"))
    assert trace.is_connected, (trace.roots, trace.orphans)


def test_aiokafka_over_two_transactions(log, receiver):
    async def write():
        made = AIOKafkaProducer(bootstrap_servers=log.bootstrap_servers, transactional_id="aio")
        await made.start()
        for _ in range(2):
            async with made.transaction():
                await made.send_and_wait("orders", b"1")
        await made.stop()

    asyncio.run(write())
    trace = receiver.transaction("aio", IN_EVERY_ONE, count=2)
    assert trace.is_connected, (trace.roots, trace.orphans)


def test_a_timeout_ends_in_the_trace_that_the_producer_began(log, receiver):
    made = producer(log, "slow", **{"transaction.timeout.ms": 1000})
    made.begin_transaction()
    made.produce("orders", b"1")
    made.flush()
    trace = receiver.transaction("slow", (*IN_EVERY_ONE, "timed_out (state append)"))
    assert trace.is_connected, (trace.roots, trace.orphans)
    assert state_of(trace) == "CompleteAbort"
    with contextlib.suppress(confluent_kafka.KafkaException):
        made.abort_transaction(20)


def test_who_takes_over_is_in_the_trace_of_what_it_ends(log, receiver):
    first = producer(log, "taken")
    first.begin_transaction()
    first.produce("orders", b"1")
    first.flush()
    second = producer(log, "taken", **{"client.id": "the second one"})
    trace = receiver.transaction("taken", (*IN_EVERY_ONE, "client InitProducerId"))
    assert trace.is_connected, (trace.roots, trace.orphans)
    (taking,) = [one for one in trace.spans if one.name == "client InitProducerId"]
    assert taking.attributes["messaging.client.id"] == "the second one"
    assert taking.attributes["oncelog.decision"] == "init_aborts_ongoing, initialised"
    with pytest.raises(confluent_kafka.KafkaException):
        first.commit_transaction(20)
    del second


def test_an_operator_who_ends_a_transaction_is_in_its_trace(log, receiver):
    made = producer(log, "stuck")
    made.begin_transaction()
    made.produce("orders", b"1")
    made.flush()
    request = urllib.request.Request(
        f"{log.rest_url}/v1/transactions/stuck/terminate",
        method="POST",
        data=b'{"dry_run": false}',
        headers={
            "Content-Type": "application/json",
            "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        },
    )
    with urllib.request.urlopen(request, timeout=90) as answer:
        assert answer.status < 300
    trace = receiver.transaction("stuck", (*IN_EVERY_ONE, "client Produce"))
    assert trace.is_connected, (trace.roots, trace.orphans)
    assert state_of(trace) == "CompleteAbort"
    (ending,) = [one for one in trace.spans if one.name.startswith("REST POST /v1/transactions/")]
    assert ending.links == ["00f067aa0ba902b7"]
    assert ending.linked_traces == ["4bf92f3577b34da6a3ce929d0e0e4736"], "the client's own"
    with urllib.request.urlopen(f"{log.rest_url}/metrics", timeout=90) as answer:
        counted = answer.read().decode()
    assert float(re.search(r'oncelog_trace_spans_total{what="kept"} (\S+)', counted)[1]) >= 15
    assert ending.attributes["oncelog.decision"].endswith("force_terminated")


@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_the_spans_that_records_name_are_linked(log, receiver, compression):
    name = f"headers {compression}"
    first, second, third = (f"00-{n:032x}-{n:016x}-01" for n in (0xA1, 0xB2, 0xC3))
    made = producer(log, name, **{"compression.type": compression, "linger.ms": 100})
    made.begin_transaction()
    for header in (first, second, first, "not a traceparent", None):
        made.produce("orders", b"1" * 5_000, headers=[("other", b"x"), ("traceparent", header)])
    made.flush()
    # Only the first batch in a partition is looked at.
    made.produce("orders", b"2", headers=[("traceparent", third)])
    made.commit_transaction(20)
    trace = receiver.transaction(name, (*IN_EVERY_ONE, "client EndTxn"))
    assert trace.is_connected, (trace.roots, trace.orphans)
    appends = [one for one in trace.spans if one.name == "client Produce"]
    assert len(appends) == 2
    linked = [list(zip(one.linked_traces, one.links, strict=True)) for one in appends]
    assert linked == [[(f"{0xA1:032x}", f"{0xA1:016x}"), (f"{0xB2:032x}", f"{0xB2:016x}")], []]


def test_without_an_endpoint_nothing_of_opentelemetry_is_loaded():
    program = (
        "import os, sys\n"
        "from oncelog.telemetry import spans\n"
        "from oncelog.telemetry.tracing import traced\n"
        "import oncelog_server.up, oncelog.process.role_program\n"
        "with traced('oncelog', 1, {}) as tracing:\n"
        "    assert tracing is None and spans.recorder is None\n"
        "    assert spans.span('a') is spans.NOTHING\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("OTEL_TRACES_SAMPLER", "sometimes", "write one of always_on"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "oncelog exports traces by otlp"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon", "oncelog speaks grpc"),
    ],
)
def test_a_value_that_cannot_be_meant_ends_the_start(receiver, variable, value, message):
    environment = receiver.environment(**{variable: value})
    with pytest.raises(OncelogError, match=message), oncelog.running(environment=environment):
        pass


def test_the_sampler_drops_what_ends_well_and_keeps_the_rest(receiver):
    environment = receiver.environment(OTEL_TRACES_SAMPLER="always_off")
    with oncelog.running(environment=environment) as log:
        made = producer(log, "sampled")
        for ends_well in (True, False):
            made.begin_transaction()
            made.produce("orders", b"1")
            made.flush()
            if ends_well:
                made.commit_transaction(20)
            else:
                made.abort_transaction(20)
        trace = receiver.transaction("sampled", (*IN_EVERY_ONE, "client EndTxn", "client Produce"))
        time.sleep(0.5)
    assert state_of(trace) == "CompleteAbort"
    assert trace.is_connected, (trace.roots, trace.orphans)
    ours = [
        one
        for one in receiver.spans
        if one.attributes.get("messaging.kafka.transactional_id") == "sampled"
    ]
    assert {one.trace_id for one in ours} == {trace.trace_id}
