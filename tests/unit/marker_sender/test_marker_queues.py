"""The marker queues: what each answer means, and where an entry goes (facts 8.11)."""

import pytest

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_marker_sender.core.queues import HOLDING, Limits, MarkerQueues, Outcome, Refused

A0, A1, B0 = Partition("a", 0), Partition("a", 1), Partition("b", 0)
LIMITS = Limits(retry_backoff_ms=100, retry_backoff_max_ms=400)


class Leaders(dict):
    """A partition's leader; a partition that is not named does not exist."""

    def __call__(self, partition):
        return self.get(partition)


class Bench:
    def __init__(self, limits=LIMITS):
        self.queues = MarkerQueues(limits)
        self.leaders = Leaders({A0: 1, A1: 1, B0: 2})

    def add(self, *markers, shard=7, coordinator_epoch=3, now_ms=0):
        return self.queues.add(shard, coordinator_epoch, markers, self.leaders, now_ms)

    def answer(self, request, code=ErrorCode.NONE, now_ms=0, jitter=1.0, **by_partition):
        codes = {
            (entry.delivery_id, marker, entry.partition): by_partition.get(
                str(entry.partition).replace("-", ""), code
            )
            for entry in request.entries
            for marker in entry.markers
        }
        return self.queues.settle_request(request, codes, self.leaders, now_ms, jitter)


def test_a_delivery_ends_when_every_partition_has_its_marker():
    bench = Bench()
    delivery_id, ended = bench.add([A0, A1, B0])
    assert ended == ()
    assert bench.queues.nodes_of(delivery_id) == [1, 2]
    first = bench.queues.request_for_node(1, 0)
    assert [entry.partition for entry in first.entries] == [A0, A1]
    assert bench.answer(first).ended == ()
    (over,) = bench.answer(bench.queues.request_for_node(2, 0)).ended
    assert (over.delivery_id, over.outcome, over.dropped) == (delivery_id, Outcome.DELIVERED, ())
    assert bench.queues.marker_count == 0


def test_a_delivery_without_partitions_ends_at_once():
    for markers in ((), ([],)):
        delivery_id, (over,) = Bench().add(*markers)
        assert (over.delivery_id, over.outcome) == (delivery_id, Outcome.DELIVERED)


def test_one_request_per_node_carries_everything_queued():
    bench = Bench()
    bench.add([A0])
    first = bench.queues.request_for_node(1, 0)
    bench.add([A0])
    bench.add([A1, B0])
    assert bench.queues.request_for_node(1, 0) is None
    assert bench.queues.next_ready_ms(1) is None
    assert bench.queues.request_for_node(2, 0) is not None
    bench.answer(first)
    second = bench.queues.request_for_node(1, 0)
    assert [(entry.delivery_id, entry.partition) for entry in second.entries] == [(1, A0), (2, A1)]


def test_markers_of_one_decision_travel_together_in_order():
    bench = Bench()
    bench.add([A0, B0], [A0], [A1], [A0, A1])
    entries = bench.queues.request_for_node(1, 0).entries
    assert [(entry.partition, entry.markers) for entry in entries] == [
        (A0, (0, 1, 3)),
        (A1, (2, 3)),
    ]


def test_a_request_is_bounded_but_never_splits_an_entry():
    bench = Bench(Limits(request_markers_max=3))
    bench.add([A0], [A0])
    bench.add([A1], [A1])
    first = bench.queues.request_for_node(1, 0)
    assert [entry.partition for entry in first.entries] == [A0]
    bench.answer(first)
    assert [entry.partition for entry in bench.queues.request_for_node(1, 0).entries] == [A1]
    alone = Bench(Limits(request_markers_max=1))
    alone.add([A0], [A0])
    assert len(alone.queues.request_for_node(1, 0).entries) == 1


RETRIED = (3, 6, 19, 20, 7, 56)
FENCED = (47, 52)
DROPPED = (43, 35)
BUGS = (2, 10, 18, 21, 1, 5, 48, 49, -1)


@pytest.mark.parametrize("code", RETRIED)
def test_retriable_codes_go_again_to_whoever_leads_then(code):
    bench = Bench()
    bench.add([A0, A1])
    request = bench.queues.request_for_node(1, 0)
    bench.leaders[A0] = 2
    answered = bench.answer(request, ErrorCode(code))
    assert (answered.ended, answered.bugs) == ((), ())
    moved = bench.queues.request_for_node(
        2, 0
    )  # the new leader has refused nothing, so it is asked at once
    assert [entry.partition for entry in moved.entries] == [A0]
    assert bench.queues.request_for_node(1, 0) is None
    assert bench.queues.next_ready_ms(1) == 100
    assert [entry.partition for entry in bench.queues.request_for_node(1, 100).entries] == [A1]


@pytest.mark.parametrize("code", FENCED)
def test_a_fenced_marker_does_not_hold_up_the_others(code):
    bench = Bench()
    delivery_id, _ = bench.add([A0, A1, B0])
    request = bench.queues.request_for_node(1, 0)
    assert bench.answer(request, a0=ErrorCode(code)).ended == ()
    assert list(bench.queues.missing(delivery_id)) == [(0, B0), (0, A0)]
    assert bench.queues.request_for_node(1, 100_000) is None, (
        "neither the refused one nor the written one"
    )
    (over,) = bench.answer(bench.queues.request_for_node(2, 0)).ended
    assert (over.delivery_id, over.outcome) == (delivery_id, Outcome.FENCED)
    assert over.refused == (Refused(0, A0, ErrorCode(code)),)
    assert bench.queues.marker_count == 0


def test_of_a_fenced_entry_what_is_retriable_goes_again():
    bench = Bench()
    bench.add([A0], [A0], [A0])
    request = bench.queues.request_for_node(1, 0)
    given = (ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.NOT_ENOUGH_REPLICAS)
    codes = {(0, at, A0): code for at, code in enumerate(given)}
    assert bench.queues.settle_request(request, codes, bench.leaders, 0, 1.0).ended == ()
    assert bench.queues.marker_count == 1
    again = bench.queues.request_for_node(1, 100)
    assert again.entries[0].markers == (2,)
    (over,) = bench.answer(again).ended
    assert (over.outcome, over.refused) == (Outcome.FENCED, (Refused(1, A0, given[1]),))


def test_an_answer_for_an_ended_delivery_changes_nothing():
    bench = Bench()
    delivery_id, _ = bench.add([A0, B0])
    first, second = bench.queues.request_for_node(1, 0), bench.queues.request_for_node(2, 0)
    assert bench.answer(first, ErrorCode.INVALID_PRODUCER_EPOCH).ended == ()
    assert len(bench.queues.cancel(delivery_id)) == 1
    assert bench.answer(second).ended == ()
    assert bench.queues.marker_count == 0


@pytest.mark.parametrize("code", DROPPED)
def test_partitions_that_cannot_take_markers_are_dropped(code):
    bench = Bench()
    bench.add([A0, A1])
    (over,) = bench.answer(bench.queues.request_for_node(1, 0), a0=ErrorCode(code)).ended
    assert (over.outcome, over.dropped) == (Outcome.DELIVERED, (A0,))


@pytest.mark.parametrize("code", BUGS)
def test_any_other_code_is_a_bug_and_the_marker_goes_again(code):
    bench = Bench()
    bench.add([A0])
    answered = bench.answer(bench.queues.request_for_node(1, 0), ErrorCode(code))
    assert answered.ended == ()
    (bug,) = answered.bugs
    assert ErrorCode(code).name in bug
    assert "a-0" in bug
    (over,) = bench.answer(bench.queues.request_for_node(1, 100)).ended
    assert over.outcome is Outcome.DELIVERED


def test_a_missing_result_is_a_bug_and_the_marker_goes_again():
    bench = Bench()
    bench.add([A0])
    answered = bench.queues.settle_request(
        bench.queues.request_for_node(1, 0), {}, bench.leaders, 0, 1.0
    )
    assert "nothing" in answered.bugs[0]
    assert bench.queues.request_for_node(1, 100) is not None


def test_every_code_has_one_meaning():
    for code in ErrorCode:
        bench = Bench()
        bench.add([A0])
        answered = bench.answer(bench.queues.request_for_node(1, 0), code)
        expected = code == 0 or code in (*FENCED, *DROPPED)
        assert bool(answered.ended) is expected
        assert bool(answered.bugs) is (not expected and code not in RETRIED)


def test_what_is_written_of_an_entry_does_not_go_again():
    bench = Bench()
    bench.add([A0], [A0])
    request = bench.queues.request_for_node(1, 0)
    codes = {(0, 0, A0): ErrorCode.NONE, (0, 1, A0): ErrorCode.NOT_ENOUGH_REPLICAS}
    assert bench.queues.settle_request(request, codes, bench.leaders, 0, 1.0).ended == ()
    assert bench.queues.request_for_node(1, 100).entries[0].markers == (1,)


def test_partitions_that_do_not_exist_are_dropped_at_once():
    bench = Bench()
    del bench.leaders[A1]
    _, ended = bench.add([A0, A1])
    assert ended == ()
    (over,) = bench.answer(bench.queues.request_for_node(1, 0)).ended
    assert over.dropped == (A1,)
    bench.leaders.clear()
    _, (gone,) = bench.add([A0, B0])
    assert (gone.outcome, gone.dropped) == (Outcome.DELIVERED, (A0, B0))


def test_partitions_without_a_leader_are_held_until_one_is_known():
    bench = Bench()
    bench.leaders[A0] = HOLDING
    delivery_id, ended = bench.add([A0])
    assert ended == ()
    assert bench.queues.nodes_of(delivery_id) == []
    assert bench.queues.nodes() == []
    assert bench.queues.request_for_node(HOLDING, 0) is None
    bench.leaders[A0] = 5
    assert bench.queues.reroute(bench.leaders) == ()
    assert bench.queues.nodes() == [5]
    assert bench.answer(bench.queues.request_for_node(5, 0)).ended


def test_new_metadata_moves_entries_and_drops_the_deleted():
    bench = Bench()
    bench.add([A0, A1])
    bench.leaders[A0] = 2
    del bench.leaders[A1]
    assert bench.queues.reroute(bench.leaders) == ()
    assert bench.queues.request_for_node(1, 0) is None
    (over,) = bench.answer(bench.queues.request_for_node(2, 0)).ended
    assert over.dropped == (A1,)
    bench.add([B0])
    del bench.leaders[B0]
    (gone,) = bench.queues.reroute(bench.leaders)
    assert gone.dropped == (B0,)


def test_new_metadata_ends_every_backoff():
    bench = Bench()
    bench.add([A0])
    bench.add([B0])
    bench.answer(bench.queues.request_for_node(1, 0), ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.queues.unanswered(bench.queues.request_for_node(2, 0), bench.leaders, 0, 1.0)
    assert bench.queues.request_for_node(1, 0) is None
    assert bench.queues.request_for_node(2, 0) is None
    bench.queues.reroute(bench.leaders)
    assert bench.queues.request_for_node(1, 0)
    assert bench.queues.request_for_node(2, 0)


def test_an_unanswered_request_goes_again_ever_more_slowly():
    bench = Bench()
    bench.add([A0])
    now_ms = 0
    for backoff_ms in (100, 200, 400, 400):
        assert (
            bench.queues.unanswered(
                bench.queues.request_for_node(1, now_ms), bench.leaders, now_ms, 1.0
            )
            == ()
        )
        bench.add([A1])  # a new delivery does not hammer a node that is away
        assert bench.queues.request_for_node(1, now_ms + backoff_ms - 1) is None
        assert bench.queues.next_ready_ms(1) == now_ms + backoff_ms
        now_ms += backoff_ms
    request = bench.queues.request_for_node(1, now_ms)
    assert len(request.entries) == 5
    bench.answer(request)
    bench.add([A0])
    assert bench.queues.request_for_node(1, now_ms)


def test_a_request_given_up_goes_again_at_once():
    bench = Bench()
    bench.add([A0])
    assert bench.queues.given_up(bench.queues.request_for_node(1, 0), bench.leaders) == ()
    assert bench.queues.request_for_node(1, 0)


def test_jitter_takes_up_to_half_of_a_backoff():
    assert [LIMITS.backoff_ms(1, jitter) for jitter in (0.0, 0.5, 1.0)] == [50, 75, 100]
    assert LIMITS.backoff_ms(10_000, 1.0) == 400


def test_a_refused_marker_does_not_hold_up_its_neighbours():
    bench = Bench()
    bench.add([A0])
    bench.answer(bench.queues.request_for_node(1, 0), ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.add([A1])
    assert [entry.partition for entry in bench.queues.request_for_node(1, 0).entries] == [A1]


def test_cancelling_a_shard_spares_others_and_newer_ones():
    bench = Bench()
    bench.add([A0], shard=1, coordinator_epoch=3)
    bench.add([A0], shard=1, coordinator_epoch=4)
    bench.add([A0], shard=2, coordinator_epoch=3)
    cancelled = bench.queues.cancel_shard(1, 3)
    assert [(over.delivery_id, over.outcome) for over in cancelled] == [(0, Outcome.CANCELLED)]
    assert bench.queues.cancel_shard(1, 3) == ()
    assert [entry.delivery_id for entry in bench.queues.request_for_node(1, 0).entries] == [1, 2]
    assert len(bench.queues.cancel_shard(1, 4)) == 1  # in flight: its answer finds nothing


def test_cancelling_a_delivery_twice_tells_once():
    bench = Bench()
    delivery_id, _ = bench.add([A0])
    assert len(bench.queues.cancel(delivery_id)) == 1
    assert bench.queues.cancel(delivery_id) == ()
    assert bench.queues.request_for_node(1, 0) is None


def test_full_queues_refuse_and_a_giant_is_let_in_alone():
    bench = Bench(Limits(queued_markers_max=3))
    assert bench.add([A0, A1, B0], [A0]) is not None
    assert bench.add([A0]) is None
    bench.queues.cancel(0)
    assert bench.add([A0, A1]) is not None
    assert bench.add([A0, B0]) is None
    assert bench.add([B0]) is not None
    assert bench.queues.marker_count == 3


def test_a_giant_does_not_wait_for_those_without_a_leader():
    bench = Bench(Limits(queued_markers_max=4))
    bench.leaders[B0] = HOLDING
    for _ in range(2):
        assert bench.add([B0]) is not None
    giant = [[A0, A1], [A0, A1], [A0]]
    assert bench.add(*giant) is not None
    assert bench.queues.marker_count == 7
    assert bench.add([A0]) is None
    bench.queues.cancel(2)
    assert bench.add([B0]) is not None
    assert bench.add(*giant) is None, "less than half of the room is free"


def test_a_partition_named_twice_counts_once():
    bench = Bench()
    bench.add([A0, A0])
    assert bench.queues.marker_count == 1
    assert bench.queues.request_for_node(1, 0).entries[0].markers == (0,)


def test_depths_tell_what_waits_where_and_how_long():
    bench = Bench()
    bench.leaders[B0] = HOLDING
    bench.add([A0, A1], [A0], now_ms=10)
    bench.queues.request_for_node(1, 10)
    bench.add([A1, B0], now_ms=30)
    found = [(d.node_id, d.depth, d.oldest_age_ms) for d in bench.queues.depths(50)]
    assert found == [(HOLDING, 1, 20), (1, 4, 40)]
    bench.queues.cancel(0)
    bench.queues.cancel(1)
    assert bench.queues.depths(50) == ()
