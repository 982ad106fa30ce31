"""Plans for replicas: a node is emptied, nodes are evened out, and nothing moves that need not."""

from collections import Counter

import pytest
from tests.worlds.gateway.placements import after, leads, loads, nodes, placed, spread

from oncelog.errors import ErrorCode, KafkaError
from oncelog_gateway.core.replica_moves import balance, evacuation


def test_an_evacuated_node_has_nothing_left():
    before = placed((1, 2, 3), (2, 3, 4), (3, 4, 1), (4, 1, 2), (1, 2, 4))
    moves = evacuation(before, nodes(1, 2, 3, 4, 5), frozenset({4}))
    now = after(before, moves)
    assert [move.partition.partition for move in moves] == [1, 2, 3, 4]
    assert loads(now)[4] == 0
    assert spread(loads(now), (1, 2, 3, 5)) <= 1
    assert all(move.copies == 1 for move in moves)


def test_two_nodes_are_evacuated_at_once():
    before = placed((4, 5, 1), (5, 4, 2), (4, 5, 3))
    now = after(before, evacuation(before, nodes(1, 2, 3, 4, 5), frozenset({4, 5})))
    assert all(sorted(one.replicas) == [1, 2, 3] for one in now)
    assert leads(now) == {1: 1, 2: 1, 3: 1}


def test_a_preferred_leader_stays_unless_it_leaves():
    before = placed((1, 4, 2), (4, 1, 2))
    first, second = after(before, evacuation(before, nodes(1, 2, 3, 4), frozenset({4})))
    assert first.replicas == (1, 3, 2)
    assert second.replicas[0] in (2, 3)


def test_an_evacuation_with_nobody_left_for_a_replica_is_refused():
    before = placed((1, 2, 3))
    with pytest.raises(KafkaError) as refused:
        evacuation(before, nodes(1, 2, 3, 4, away=(4,)), frozenset({3}))
    assert refused.value.error_code is ErrorCode.POLICY_VIOLATION
    assert refused.value.message == (
        "t-0 has 3 replicas, and without 3 too few storage nodes live and are not draining (1, 2); "
        "start more of them first, or leave one of these"
    )


def test_an_evacuation_of_all_nodes_is_refused():
    with pytest.raises(KafkaError, match=r"are not draining \(none\)"):
        evacuation(placed((1,)), nodes(1), frozenset({1}))


def test_an_empty_node_needs_no_move():
    assert evacuation(placed((1, 2)), nodes(1, 2, 3), frozenset({3})) == []


def test_an_evacuation_keeps_the_number_of_racks_where_it_can():
    racks = {1: "a", 2: "b", 3: "a", 4: "b"}
    before = placed((1, 2), (1, 2), (3, 2))
    now = after(before, evacuation(before, nodes(1, 2, 3, 4, racks=racks), frozenset({2})))
    assert [one.replicas[1] for one in now] == [4, 4, 4]


def test_a_joining_node_gets_its_share_with_few_moves():
    before = placed(
        (1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 2, 3), (2, 3, 1)
    )
    moves = balance(before, nodes(1, 2, 3, 4))
    now = after(before, moves)
    assert sum(move.copies for move in moves) == 6, "a quarter of 24 replicas"
    assert spread(loads(now), (1, 2, 3, 4)) == 0
    assert spread(leads(now), (1, 2, 3, 4)) <= 1
    assert balance(now, nodes(1, 2, 3, 4)) == []


def test_the_topics_of_a_joining_node_are_mixed():
    before = [
        *placed((1,), (2,), (1,), (2,), topic="a"),
        *placed((1,), (2,), (1,), (2,), topic="b"),
    ]
    moves = balance(before, nodes(1, 2, 3))
    assert Counter(move.partition.topic for move in moves) == {"a": 1, "b": 1}


def test_leaders_are_evened_out_without_copying():
    before = placed((1, 2), (1, 3), (1, 2), (2, 3), (2, 3), (3, 1))
    moves = balance(before, nodes(1, 2, 3))
    assert [move.copies for move in moves] == [0]
    assert leads(after(before, moves)) == {1: 2, 2: 2, 3: 2}


def test_leaders_are_evened_out_over_a_node_in_between():
    # 1 and 3 share no partition.
    before = placed((1, 2), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3), (3, 2))
    now = after(before, balance(before, nodes(1, 2, 3)))
    assert spread(leads(now), (1, 2, 3)) <= 1


@pytest.mark.parametrize("away", [(3,), (2, 3)])
def test_nothing_goes_to_or_comes_from_a_node_that_is_away(away):
    before = placed((1, 2, 3), (1, 2, 3), (1, 2), (1, 2))
    moves = balance(before, nodes(1, 2, 3, away=away))
    assert loads(after(before, moves)) == loads(before)


def test_what_is_under_way_is_left_alone():
    before = placed((1,), (1,), is_under_way=True)
    assert balance(before, nodes(1, 2)) == []
    assert evacuation(before, nodes(1, 2), frozenset({1})) != [], "but not on a node that leaves"


def test_balancing_does_not_take_a_partition_off_its_racks():
    racks = {1: "a", 2: "b", 3: "a"}
    before = placed((1, 2), (1, 2), (1, 2))
    now = after(before, balance(before, nodes(1, 2, 3, racks=racks)))
    for one in now:
        assert {racks[node_id] for node_id in one.replicas} == {"a", "b"}
    assert loads(now)[3] in (1, 2)
