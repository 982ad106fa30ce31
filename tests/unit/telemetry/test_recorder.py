"""What is kept, what waits for a verdict, and what is dropped."""

import pytest

from oncelog.api.v1.peer_pb2 import SessionCall, SessionReply
from oncelog.rpc.trace_context import serving_span, take_answered, trace_message, write_caller
from oncelog.telemetry import spans
from oncelog.telemetry.recorder import TraceRecorder
from oncelog.trace import Traceparent, TransactionTrace

TRACE = TransactionTrace(7 << 64 | 0xFFFF_FFFF_FFFF_FFFF, 99, 1_000)
"""In no ratio but 1."""
EARLY = TransactionTrace(7 << 64 | 1, 99, 1_000)
"""In every ratio but 0."""


class World:
    def __init__(self, ratio=0.1, **more):
        self.kept = []
        self.now_s = 0.0
        self.recorder = TraceRecorder(
            self.kept.append, ratio, late_ms=1000, monotonic_s=lambda: self.now_s, **more
        )

    @property
    def names(self):
        return [one.name for one in self.kept]


@pytest.fixture
def world(monkeypatch):
    made = World()
    monkeypatch.setattr(spans, "recorder", made.recorder)
    return made


def request(name="request", trace=None, caller=None):
    return spans.outermost(name, spans.Kind.SERVER, trace=trace, caller=caller)


def test_a_request_moves_into_the_trace_that_an_answer_names(world):
    with request("outer") as outer, spans.span("inner") as inner:
        spans.current().home.move(EARLY)
    assert world.names == ["inner", "outer"]
    assert {one.trace_id for one in world.kept} == {EARLY.trace_id}
    assert [one.parent_id for one in world.kept] == [outer.span_id, EARLY.root_id]
    assert inner.parent is outer


def test_a_caller_elsewhere_is_a_link_below_the_root(world):
    with request(trace=EARLY, caller=Traceparent(5, 6, False)):
        pass
    (one,) = world.kept
    assert one.parent_id == EARLY.root_id
    assert one.links == (Traceparent(EARLY.trace_id, 6, False),)


def test_without_a_transaction_the_caller_is_the_parent(world):
    with request(caller=Traceparent(5, 6, True)):
        pass
    (one,) = world.kept
    assert (one.trace_id, one.parent_id) == (5, 6)


def test_a_request_of_no_transaction_is_dropped_at_once(world):
    with request(caller=Traceparent(TRACE.trace_id, 6, False)):
        pass
    assert world.kept == []
    assert world.recorder.spans_waiting == 0
    assert world.recorder.spans_dropped == 1


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_verdict_ends_the_wait_of_earlier_and_later_spans(world, is_kept):
    with request("early", trace=TRACE):
        pass
    assert world.recorder.spans_waiting == 1
    world.recorder.verdict(TRACE.trace_id, is_kept=is_kept)
    with request("late", trace=TRACE):
        pass
    assert world.names == (["early", "late"] if is_kept else [])
    assert world.recorder.spans_waiting == 0
    assert world.recorder.spans_dropped == (0 if is_kept else 2)


def test_kept_once_is_kept_for_good(world):
    world.recorder.verdict(TRACE.trace_id, is_kept=True)
    world.recorder.verdict(TRACE.trace_id, is_kept=False)
    with request("late", trace=TRACE):
        pass
    assert world.names == ["late"]


def test_a_span_that_says_it_is_kept_lets_the_others_out(world):
    with request("early", trace=TRACE):
        pass
    with request("aborted") as span:
        span.home.move(TRACE, is_kept=True)
    assert world.names == ["early", "aborted"]


def test_the_head_ratio_needs_no_verdict(world):
    with request("sampled", trace=EARLY):
        pass
    world.recorder.verdict(EARLY.trace_id, is_kept=False)
    with request("after", trace=EARLY):
        pass
    assert world.names == ["sampled", "after"]


def test_what_ends_behind_its_home_is_handed_on(world):
    with request("outer", trace=EARLY), spans.span("background") as background:
        spans._current.set(None)
    assert "outer" in world.names
    spans.Span("later", background.home, background, spans.Kind.INTERNAL, {}).end()
    assert world.names[-1] == "later"


def test_the_root_begins_with_the_first_request(world):
    world.recorder.root(TRACE, "transaction pay", 5_000, {}, is_kept=True)
    (root,) = world.kept
    assert (root.span_id, root.parent_id) == (TRACE.root_id, 0)
    assert (root.start_ns, root.end_ns) == (1_000, 5_000)


def test_what_waits_is_bounded_in_spans_and_in_time(monkeypatch):
    world = World(spans_waiting_max=3, waiting_s_max=60.0)
    monkeypatch.setattr(spans, "recorder", world.recorder)
    for number in range(5):
        with request(trace=TRACE._replace(trace_id=TRACE.trace_id + (number << 64))):
            pass
    assert world.recorder.spans_waiting == 3
    world.now_s = 61.0
    with request(trace=TRACE._replace(trace_id=TRACE.trace_id + (9 << 64))):
        pass
    assert world.recorder.spans_waiting == 1
    assert world.recorder.spans_dropped == 5


def test_an_error_is_told_and_passed_on(world):
    with pytest.raises(ValueError, match="broken"), request("broken", trace=EARLY):
        raise ValueError("broken")
    assert world.kept[0].error == "ValueError: broken"


def test_without_a_recorder_nothing_is_made():
    assert spans.recorder is None
    assert spans.outermost("a", spans.Kind.SERVER) is spans.NOTHING
    assert spans.span("a") is spans.NOTHING
    with spans.span("a") as nothing:
        nothing.set(a=1)


def test_a_detached_context_is_of_nobodys_request(world):
    with request(trace=EARLY):
        assert spans.current() is not None
        assert spans.detached_context().run(spans.current) is None


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.5, 1.0])
def test_the_ratio_is_that_of_opentelemetry(monkeypatch, ratio):
    from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased

    theirs = TraceIdRatioBased(ratio)
    for trace_id in (1, 2**63, 2**64 - 1, 2**64, 2**64 + 2**60, 2**127 + 2**62):
        decision = theirs.should_sample(None, trace_id, "").decision
        world = World(ratio)
        monkeypatch.setattr(spans, "recorder", world.recorder)
        with request(trace=TransactionTrace(trace_id, 99, 1_000)):
            pass
        assert bool(world.kept) == (decision is Decision.RECORD_AND_SAMPLE)


def test_a_client_that_calls_keeps_its_own_trace(world):
    client = Traceparent(5, 6, False)
    with spans.outermost("REST", spans.Kind.SERVER, caller=client, is_caller_ours=False):
        spans.current().home.move(EARLY)
    (one,) = world.kept
    assert (one.parent_id, one.links) == (EARLY.root_id, (client,))


def test_a_histogram_is_told_the_trace_of_what_runs(world, monkeypatch):
    assert spans.exemplar() == 0, "nothing runs"
    with request("committed"):
        spans.current().home.move(TRACE)
        assert spans.exemplar() == 0, "in no ratio, and nothing is known of it"
        world.recorder.verdict(TRACE.trace_id, is_kept=True)
        assert spans.exemplar() == TRACE.trace_id
    with request("of the ratio"), spans.span("append"):
        spans.current().home.move(EARLY)
        assert spans.exemplar() == EARLY.trace_id
        monkeypatch.setattr(spans, "recorder", None)
        assert spans.exemplar() == 0, "tracing is off"


def test_a_root_leaves_once_by_a_way_of_its_own():
    roots = []
    world = World(root_sink=roots.append)
    for end_ns in (2_000, 3_000):
        world.recorder.root(EARLY, "transaction pay", end_ns, {}, is_kept=False)
    (root,) = roots
    assert (root.span_id, root.parent_id, root.end_ns) == (EARLY.root_id, 0, 2_000)
    assert not world.kept


def asked(path="/s.Coordinator/EndTxn"):
    call = SessionCall()
    write_caller(call, spans.current())
    with serving_span(path, call) as served:
        served.set(refused=True)
    return served


def test_who_was_refused_has_a_root_where_it_was_called(monkeypatch):
    world = World(ratio=1.0)
    monkeypatch.setattr(spans, "recorder", world.recorder)
    with request("client EndTxn") as outer, spans.span("try") as tried:
        refused = asked()
        home = outer.home
        first_id = home.trace_id
        write_caller(SessionCall(), tried)
        reply = SessionReply()
        reply.trace.CopyFrom(trace_message(EARLY, is_kept=False))
        take_answered(reply, tried)
    by_trace = {}
    for one in world.kept:
        by_trace.setdefault(one.trace_id, {})[one.name] = one
    first, moved = by_trace[first_id], by_trace[EARLY.trace_id]
    assert set(first) == {"client EndTxn", "try", "Coordinator/EndTxn"}
    assert first["Coordinator/EndTxn"].parent_id == tried.span_id == first["try"].span_id
    assert first["Coordinator/EndTxn"].span_id == refused.span_id
    assert (first["try"].parent_id, first["client EndTxn"].parent_id) == (outer.span_id, 0)
    assert first["client EndTxn"].links == (Traceparent(EARLY.trace_id, outer.span_id, True),)
    assert set(moved) == {"client EndTxn", "try"}


def test_a_request_that_nobody_refused_is_in_one_trace(monkeypatch):
    world = World(ratio=1.0)
    monkeypatch.setattr(spans, "recorder", world.recorder)
    with request("client EndTxn") as outer:
        write_caller(SessionCall(), outer)
        reply = SessionReply()
        reply.trace.CopyFrom(trace_message(EARLY, is_kept=False))
        take_answered(reply, outer)
    assert [one.trace_id for one in world.kept] == [EARLY.trace_id]
