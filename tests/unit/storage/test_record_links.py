"""The spans that a batch's headers name: each once, bounded, and nothing for what is no header."""

import pytest

from oncelog.api.v1 import storage_pb2
from oncelog.ids import Partition
from oncelog.record.batch import Codec
from oncelog.record.records import Record, encode_batch
from oncelog.telemetry import spans
from oncelog.telemetry.recorder import TraceRecorder
from oncelog.trace import Traceparent, TransactionTrace, write_traceparent
from oncelog_storage.core.record_links import LINKS_MAX, RECORDS_MAX, linked_spans
from oncelog_storage.traces import OpenTraces


def named(number):
    return Traceparent(number, number, True)


def record(number=None, value=b"v", header="traceparent"):
    headers = ()
    if number is not None:
        headers = ((header, write_traceparent(number, number, is_kept=True).encode()),)
    return Record(b"k", value, 1_000, headers=headers)


def linked(records, codec=Codec.NONE, links_max=LINKS_MAX):
    return linked_spans(bytes(encode_batch(records, codec=codec)), links_max)


@pytest.mark.parametrize("codec", list(Codec))
def test_each_span_is_named_once_and_in_order(codec):
    assert linked([record(7), record(), record(5), record(7)], codec) == [named(7), named(5)]


def test_links_and_records_that_are_looked_at_are_bounded():
    assert len(linked([record(n + 1) for n in range(100)])) == LINKS_MAX
    assert linked([record(n + 1) for n in range(100)], links_max=2) == [named(1), named(2)]
    assert linked([record(1)], links_max=0) == []
    assert linked([record()] * RECORDS_MAX + [record(1)]) == []


@pytest.mark.parametrize(
    "value",
    [b"", None, b"\xff\xfe", b"00-1-2-01", b"00-" + b"0" * 32 + b"-" + b"1" * 16 + b"-01"],
)
def test_a_malformed_header_names_nothing(value):
    bad = Record(b"k", b"v", 1_000, headers=(("traceparent", value),))
    assert linked([bad, record(3)]) == [named(3)]


def test_only_a_header_of_that_name_counts():
    """A record whose value is a whole batch with such a header, as a mirror may keep it."""
    inside = bytes(encode_batch([record(3)]))
    assert linked([record(value=inside), record(4, header="x-traceparent")]) == []


def test_a_transactions_partitions_are_looked_at_once(monkeypatch):
    monkeypatch.setattr(spans, "recorder", TraceRecorder(print, 0.0, late_ms=1_000))
    traces = OpenTraces()
    orders, refunds = Partition("orders", 0), Partition("refunds", 0)
    with spans.outermost("Produce", spans.Kind.SERVER, trace=TransactionTrace(1, 2, 3)) as span:
        known = traces.belongs(span, 9, 0)
        assert [known.is_first_in(one) for one in (orders, orders, refunds)] == [True, False, True]
        assert traces.belongs(span, 9, 0) is known
    traces.ended(storage_pb2.TxnMarker(producer_id=9, producer_epoch=0, transaction_version=1))
    with spans.outermost("Produce", spans.Kind.SERVER) as span:
        assert traces.belongs(span, 9, 0) is None
    with spans.outermost("Produce", spans.Kind.SERVER, trace=TransactionTrace(4, 5, 6)) as span:
        assert traces.belongs(span, 9, 0).is_first_in(orders)


MARKERS = [
    ("TV2: the next epoch", {"producer_epoch": 4, "transaction_version": 2}, True),
    ("TV2: of the transaction before", {"producer_epoch": 3, "transaction_version": 2}, False),
    ("TV1: its epoch, no start", {"producer_epoch": 3, "transaction_version": 1}, True),
    ("TV1: its start", {"producer_epoch": 3, "transaction_start_ms": 60}, True),
    ("TV1: of the transaction before", {"producer_epoch": 3, "transaction_start_ms": 40}, False),
    ("TV1: of an older producer", {"producer_epoch": 2, "transaction_start_ms": 60}, False),
]


@pytest.mark.parametrize(
    ("marker", "ends"), [row[1:] for row in MARKERS], ids=[r[0] for r in MARKERS]
)
def test_a_marker_without_a_trace_drops_its_own_spans(monkeypatch, marker, ends):
    recorder = TraceRecorder(print, 0.0, late_ms=1_000)
    monkeypatch.setattr(spans, "recorder", recorder)
    traces = OpenTraces()
    trace = TransactionTrace(1 << 63, 2, 59_000_000)
    with spans.outermost("Produce", spans.Kind.SERVER, trace=trace) as span:
        traces.belongs(span, 9, 3)
    assert recorder.spans_waiting == 1
    traces.ended(storage_pb2.TxnMarker(producer_id=9, **marker))
    assert recorder.spans_waiting == (0 if ends else 1)
