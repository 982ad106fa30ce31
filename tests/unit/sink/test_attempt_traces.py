"""The trace of an attempt at its coordinator: one root for each way to end, and the same ids after a restart
(ADR 0028)."""

from contextlib import nullcontext

import pytest
from tests.worlds.sink.sink_shell import TIMEOUT_MS, SinkShell, nonce

from oncelog.machine import Decision
from oncelog.record.records import Record, encode_batch
from oncelog.telemetry import spans
from oncelog.telemetry.recorder import TraceRecorder
from oncelog.trace import attempt_trace
from oncelog_coordinator.attempt_traces import AttemptTraces
from oncelog_coordinator.core.sink_records import decode_sink_record
from oncelog_coordinator.shard_replay import LiveRecords

NEVER_LATE_MS = 10**15


class TracedShell(SinkShell):
    """The shell of a coordinator that records spans. What is decided is durable at once."""

    def __init__(self):
        super().__init__()
        self.traces = AttemptTraces(3, 7)
        self.exported = []
        self.recorder = TraceRecorder(self.exported.append, 0.0, late_ms=NEVER_LATE_MS)

    def submit(self, event, records_kept=None):
        self.traces.about_to_decide(event, self.machine)
        decided = []
        decide = self.machine.decide
        self.machine.decide = lambda *given: decided.append(decide(*given)) or decided[0]
        try:
            is_request = hasattr(event, "request_id")
            name = type(event).__name__
            with spans.outermost(name, spans.Kind.SERVER) if is_request else nullcontext():
                answer = super().submit(event, records_kept)
                (decision,) = decided
                if records_kept is None:
                    self.traces.decided(event, decision, self.machine, self.now)
                    self.traces.committed(decision, 1)
        finally:
            del self.machine.decide
        return answer

    def restart(self, log=None):
        self.traces = AttemptTraces(3, 8)
        super().restart(log)

    def markers(self):
        """What the marker sender is sent, with traces."""
        return [
            marker
            for wanted in self.outbox.values()
            for marker in self.traces.with_trace(wanted, self.machine).markers
        ]

    def roots(self):
        return [one for one in self.exported if not one.parent_id and "batch" in one.name]

    def spans_of(self, number):
        return [
            one for one in self.exported if one.trace_id == attempt_trace(nonce(number)).trace_id
        ]


@pytest.fixture
def shell(monkeypatch):
    made = TracedShell()
    monkeypatch.setattr(spans, "recorder", made.recorder)
    return made


def test_a_committed_attempt_without_the_ratio_has_no_span(shell):
    shell.committed(1, 0)
    assert [one.trace for one in shell.markers()] == [attempt_trace(nonce(1))] * 2
    assert not any(one.is_trace_kept for one in shell.markers())
    shell.deliver()
    assert shell.spans_of(1) == []
    assert shell.recorder.spans_waiting == 0


def test_an_aborted_attempt_is_one_tree_below_its_root(shell):
    shell.open(1)
    shell.task(1, 0)
    shell.abort(1)
    assert all(one.is_trace_kept for one in shell.markers())
    shell.deliver()
    (root,) = shell.roots()
    trace = attempt_trace(nonce(1))
    assert (root.trace_id, root.span_id) == (trace.trace_id, trace.root_id)
    assert root.attributes["oncelog.outcome"] == "abort"
    found = shell.spans_of(1)
    known = {one.span_id for one in found}
    assert [one.name for one in found if one.parent_id and one.parent_id not in known] == []
    requests = {"OpenAttempt", "JoinAttempt", "SealBranch", "AbortAttempt"}
    assert requests <= {one.name for one in found}


def test_a_lost_branch_keeps_the_trace_of_a_committed_attempt(shell):
    shell.open(1)
    lost = shell.join(1, 0, 0, task_attempt_id=0).producer_id
    shell.add(lost, "orders-0")
    won = shell.task(1, 0, 0, task_attempt_id=1)
    shell.commit(0, won)
    assert [one.is_trace_kept for one in shell.markers()] == [True, True]
    shell.deliver()
    (root,) = shell.roots()
    assert (root.attributes["oncelog.outcome"], root.attributes["oncelog.branches"]) == (
        "commit",
        2,
    )


def test_the_next_coordinator_exports_the_root_it_completes(shell):
    shell.open(1)
    shell.task(1, 0)
    shell.abort(1)
    shell.restart()
    assert shell.roots() == []
    assert [one.trace for one in shell.markers()] == [attempt_trace(nonce(1))]
    shell.deliver()
    (root,) = shell.roots()
    assert root.span_id == attempt_trace(nonce(1)).root_id
    assert root.attributes["oncelog.coordinator_epoch"] == 8


@pytest.mark.parametrize("ending", ["superseded", "timed_out"])
def test_what_ends_without_a_request_of_its_own_has_its_root(shell, ending):
    shell.open(1)
    shell.task(1, 0)
    if ending == "superseded":
        shell.open(2)
    else:
        shell.advance(TIMEOUT_MS)
    shell.deliver()
    (root,) = shell.roots()
    assert root.attributes["oncelog.decision"] == ending
    names = {one.name for one in shell.spans_of(1)}
    assert f"{ending} (state append)" in names
    assert "OpenAttempt" in names


def test_an_attempt_that_nobody_joined_has_its_root_at_once(shell):
    shell.open(1)
    shell.abort(1)
    (root,) = shell.roots()
    assert root.attributes["oncelog.branches"] == 0
    assert "oncelog.batch_id" not in root.attributes


def test_a_refused_call_stays_in_the_trace_of_its_request(shell):
    shell.join(9, 0)
    assert shell.spans_of(9) == []


def test_a_coordinator_without_tracing_does_none_of_it(shell, monkeypatch):
    monkeypatch.setattr(spans, "recorder", None)
    shell.committed(1, 0)
    assert [one.trace for one in shell.markers()] == [None, None]
    assert AttemptTraces(0, 0).committed(Decision(), 0) is None
    shell.deliver()
    assert shell.exported == []


@pytest.mark.parametrize("ending", ["commit", "abort", "abort of nothing"])
def test_the_root_of_a_complete_attempt_is_in_the_log(shell, monkeypatch, ending):
    monkeypatch.setattr(spans, "recorder", TraceRecorder(shell.exported.append, 1.0, late_ms=1))
    if ending == "commit":
        shell.committed(1, 0)
    else:
        shell.open(1)
        if ending == "abort":
            shell.task(1, 0)
        shell.abort(1)
    shell.deliver()
    (root,) = shell.roots()
    restored = []
    monkeypatch.setattr(spans, "recorder", TraceRecorder(restored.append, 1.0, late_ms=1))
    live = LiveRecords(recent_ms=1_000)
    for offset, (key, value) in enumerate(shell.log):
        live.add_batches(encode_batch([Record(key, value, shell.now)], base_offset=offset), offset)
    next_one = AttemptTraces(3, 8)
    for _, key, value, before in live.recent():
        superseded = None if before is None else decode_sink_record(key, before)
        next_one.root_again(shell.now, decode_sink_record(key, value), superseded)
    (again,) = restored
    assert again == root._replace(
        end_ns=shell.now * 1_000_000,
        attributes={**root.attributes, "oncelog.coordinator_epoch": 8},
    )
