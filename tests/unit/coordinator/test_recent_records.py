"""What the last coordinator wrote right before it died: each record of it, and the roots that follow from it."""

import pytest

from oncelog.ids import Millis, Partition
from oncelog.record.records import Record, encode_batch
from oncelog.telemetry import spans
from oncelog.telemetry.recorder import TraceRecorder
from oncelog.trace import TransactionTrace
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState
from oncelog_coordinator.shard_replay import LiveRecords
from oncelog_coordinator.transaction_traces import TransactionTraces

START_MS = 100_000
TRACE = TransactionTrace(5 << 64 | 6, 99, START_MS * 1_000_000)
FOLLOWING = (TxnState.ONGOING, TxnState.PREPARE_COMMIT, TxnState.EMPTY)


def batch(offset, now_ms, key, value, **fields):
    return encode_batch([Record(key, value, now_ms)], base_offset=offset, **fields)


def recent_of(*batches):
    live = LiveRecords(recent_ms=1_000)
    for offset, one in enumerate(batches):
        live.add_batches(one, offset)
    return [(one.key, one.value, one.before) for one in live.recent()]


def test_a_superseded_record_is_recent_with_what_it_superseded():
    found = recent_of(
        batch(0, 5_000, b"a", b"1"), batch(1, 5_000, b"a", b"2"), batch(2, 6_000, b"a", None)
    )
    assert found == [(b"a", b"1", None), (b"a", b"2", b"1"), (b"a", None, b"2")]


def test_recent_is_counted_from_the_newest_record():
    found = recent_of(
        batch(0, 5_000, b"a", b"1"), batch(1, 6_001, b"b", b"2"), batch(2, 6_000, b"a", b"3")
    )
    assert found == [(b"b", b"2", None), (b"a", b"3", b"1")]


def test_what_a_client_covers_is_not_the_coordinators():
    assert recent_of(batch(0, 5_000, b"a", b"1", producer_id=1, is_transactional=True)) == []


def txn(state, started_ms=START_MS, trace=TRACE):
    return TxnMetadata(
        "pay", 7, 1, state, 60_000, (Partition("t", 0),), started_ms, START_MS + 20, trace=trace
    )


@pytest.fixture
def exported(monkeypatch):
    found = []
    monkeypatch.setattr(spans, "recorder", TraceRecorder(found.append, 0.0, late_ms=1_000))
    return found


def test_the_root_of_a_completion_in_the_log_has_its_ids(exported):
    for _ in range(2):
        TransactionTraces(3, Millis(8)).root_again(txn(TxnState.COMPLETE_ABORT))
    (root,) = exported
    assert (root.trace_id, root.span_id, root.parent_id) == (TRACE.trace_id, TRACE.root_id, 0)
    assert (root.name, root.start_ns) == ("transaction pay", TRACE.start_ns)
    assert root.end_ns == (START_MS + 20) * 1_000_000
    assert root.attributes["oncelog.state"] == "CompleteAbort"


@pytest.mark.parametrize("state", FOLLOWING)
def test_what_is_not_complete_has_no_root_yet(exported, state):
    TransactionTraces(3, Millis(8)).root_again(txn(state))
    assert exported == []


def test_a_trace_that_nobody_keeps_has_no_root_again(exported):
    TransactionTraces(3, Millis(8)).root_again(txn(TxnState.COMPLETE_COMMIT))
    TransactionTraces(3, Millis(8)).root_again(txn(TxnState.COMPLETE_ABORT, trace=None))
    assert exported == []
    TransactionTraces(3, Millis(8)).root_again(txn(TxnState.COMPLETE_COMMIT, START_MS - 2_000))
    assert len(exported) == 1
