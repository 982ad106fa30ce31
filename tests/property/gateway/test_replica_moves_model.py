"""Plans for replicas of any cluster: each part of a plan can be carried out alone, and the next plan is the rest."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds.gateway.placements import after, loads, nodes, placed, spread

from oncelog.errors import KafkaError
from oncelog_gateway.core.replica_moves import Placement, balance, evacuation


@st.composite
def clusters(draw):
    count = draw(st.integers(1, 6))
    ids = list(range(1, count + 1))
    away = draw(st.sets(st.sampled_from(ids), max_size=count - 1))
    racks = draw(st.dictionaries(st.sampled_from(ids), st.sampled_from("ab")))
    topics = []
    for name in draw(st.sets(st.sampled_from("xyz"), min_size=1)):
        factor = draw(st.integers(1, count))
        replicas = st.permutations(ids).map(lambda order, factor=factor: tuple(order[:factor]))
        topics += placed(*draw(st.lists(replicas, max_size=8)), topic=name)
    return topics, nodes(*ids, away=away, racks=racks)


def check_targets(before, moves, node_list, forbidden=frozenset()):
    allowed = {one.node_id for one in node_list if one.stays} - forbidden
    for move in moves:
        assert move.target != move.replicas
        assert len(set(move.target)) == len(move.target) == len(move.replicas)
        assert set(move.target) - set(move.replicas) <= allowed
    assert len({move.partition for move in moves}) == len(moves)


@given(clusters(), st.data())
@settings(max_examples=100, deadline=None)
def test_any_part_of_a_balance_leaves_the_rest_for_the_next_plan(cluster, data):
    before, node_list = cluster
    ids = [one.node_id for one in node_list if one.stays]
    planned = balance(before, node_list)
    check_targets(before, planned, node_list)
    wanted = sum(move.copies for move in planned)
    copied, state = 0, before
    for _ in range(100):
        moves = balance(state, node_list)
        if not moves:
            break
        part = data.draw(st.lists(st.sampled_from(moves), min_size=1, unique=True))
        copied += sum(move.copies for move in part)
        state = after(state, part)
    assert balance(state, node_list) == []
    assert copied <= wanted
    if not any(one.rack for one in node_list):
        on_staying = [
            Placement(one.partition, tuple(n for n in one.replicas if n in ids)) for one in state
        ]
        assert spread(loads(on_staying), ids) <= max(1, spread(loads(before), ids) - 1)


@given(clusters(), st.data())
@settings(max_examples=100, deadline=None)
def test_any_part_of_an_evacuation_leaves_the_rest_to_the_next(cluster, data):
    before, node_list = cluster
    leaving = frozenset(
        data.draw(st.sets(st.sampled_from([one.node_id for one in node_list]), min_size=1))
    )
    left = [one for one in node_list if one.stays and one.node_id not in leaving]
    state = before
    try:
        while moves := evacuation(state, node_list, leaving):
            check_targets(state, moves, node_list, leaving)
            state = after(state, moves[: data.draw(st.integers(1, len(moves)))])
    except KafkaError:
        assert any(len(one.replicas) > len(left) for one in before)
        return
    assert not any(leaving & set(one.replicas) for one in state)
