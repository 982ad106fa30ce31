"""Node ids that the controller gives: who gets which, for how long, and what is left of a process that ended."""

import pytest
from tests.worlds.controller.metadata_cases import Bench, registration

from oncelog.errors import ErrorCode
from oncelog_controller.core import given_ids
from oncelog_controller.core.events import DrainNode, SessionsEnded
from oncelog_controller.core.given_ids import FIRST_GIVEN_ID, GIVEN_IDS
from oncelog_controller.core.records import (
    NodeFenced,
    NodeRegistered,
    NodeRemoved,
    decode_record,
    encode_record,
)


@pytest.fixture
def bench():
    """A storage node 1 and a coordinator 2."""
    bench = Bench()
    bench.join(1, "storage")
    bench.join(2, "coordinator")
    return bench


def ask_id(bench, incarnation_id, *roles, **fields):
    fields = {"rpc_address": f"{incarnation_id}:1", **fields}
    return bench.register(0, incarnation_id, roles or ("gateway",), **fields)


def given(bench, incarnation_id, *roles):
    answer = ask_id(bench, incarnation_id, *roles)
    assert answer.error_code is ErrorCode.NONE, answer
    return answer.node_id


def given_and_live(bench, incarnation_id, *roles):
    node_id = given(bench, incarnation_id, *roles)
    assert not bench.beat(node_id).fenced
    return node_id


@pytest.mark.parametrize("role", ["gateway", "marker_sender", "listener"])
def test_a_process_without_state_gets_its_own_id_above_1000(bench, role):
    first, second, third = (given(bench, name, role) for name in "abc")
    assert 1000 < first < second < third < FIRST_GIVEN_ID + GIVEN_IDS
    node = bench.image.nodes[second]
    assert (node.given, node.fenced, node.roles, node.incarnation_id) == (True, True, (role,), "b")
    assert bench.labels[-1] == "registered"


def test_an_id_that_any_node_has_is_passed_over(bench):
    first = given(bench, "a")
    bench.join(first + 3, "storage")
    bench.register(first + 4, roles=("listener",), rpc_address="named:1")
    assert given(bench, "b") == first + 5


def test_the_ring_of_ids_comes_round(bench):
    bench.image.next_node_epoch = 4 * GIVEN_IDS - 1
    assert given(bench, "a") == FIRST_GIVEN_ID + GIVEN_IDS - 1
    assert given(bench, "b") == FIRST_GIVEN_ID


def test_when_every_id_is_taken_that_is_said(bench, monkeypatch):
    monkeypatch.setattr(given_ids, "GIVEN_IDS", 3)
    assert {given(bench, name) for name in "abc"} == {1001, 1002, 1003}
    answer = ask_id(bench, "d")
    assert answer.error_code is ErrorCode.INVALID_REGISTRATION
    assert "all 3 node ids from 1001 on are taken" in answer.message


def test_nodes_with_and_without_given_ids_end_in_one_step(bench):
    node_id = given_and_live(bench, "a")
    assert bench.fence(2, node_id) == "fenced"
    assert bench.image.nodes[2].fenced
    assert node_id not in bench.image.nodes
    ends = [one for one in bench.records if isinstance(one, NodeFenced | NodeRemoved)]
    assert [type(one) for one in ends] == [NodeFenced, NodeRemoved]


def test_an_older_processs_end_does_not_forget_the_newer_one(bench):
    node_id = given_and_live(bench, "a")
    old_epoch = bench.image.nodes[node_id].node_epoch
    bench.fence(node_id)
    bench.register(node_id, "b", ("gateway",), rpc_address="b:1")
    assert bench.tell(SessionsEnded(((node_id, old_epoch),))) == "sessions_known_ended"
    assert bench.image.nodes[node_id].incarnation_id == "b"


def test_who_was_forgotten_and_lives_gets_its_id_back(bench):
    node_id = given_and_live(bench, "a")
    old_epoch = bench.image.nodes[node_id].node_epoch
    bench.fence(node_id)
    given_and_live(bench, "b")
    answer = bench.register(node_id, "a", ("gateway",), rpc_address="a:1", given=True)
    assert (answer.error_code, answer.node_id) == (ErrorCode.NONE, node_id)
    assert answer.node_epoch > old_epoch
    assert bench.image.nodes[node_id].given


@pytest.mark.parametrize("begins", [False, True])
def test_who_was_forgotten_takes_its_id_from_nobody(bench, begins):
    """Somebody set it by hand, or the ring came round."""
    node_id = given_and_live(bench, "a")
    bench.fence(node_id)
    bench.register(node_id, "b", ("gateway",), rpc_address="b:1")
    if begins:
        bench.beat(node_id)
    answer = bench.register(node_id, "a", ("gateway",), rpc_address="a:1", given=True)
    assert answer.error_code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
    assert f"node id {node_id} was given to another process" in answer.message
    assert bench.image.nodes[node_id].incarnation_id == "b"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"roles": ("storage",)}, "not for storage"),
        ({"roles": ("coordinator",)}, "not for coordinator"),
        ({"roles": ("controller",)}, "not for controller"),
        ({"roles": ("listener", "storage")}, "set one from 1 to 1000"),
        ({"rpc_address": ""}, "without rpc_address"),
        ({"roles": ()}, "names no role"),
        ({"node_id": -1}, "node id -1"),
        ({"node_id": 7, "given": True}, "node id 7 was never given"),
    ],
)
def test_who_gets_no_id_is_told_why(bench, fields, said):
    values = {"node_id": 0, "roles": ("gateway",), "rpc_address": "a:1", **fields}
    before = len(bench.records)
    answer = bench.ask(lambda rid: registration(**values, incarnation_id="a", request_id=rid))
    assert answer.error_code is ErrorCode.INVALID_REGISTRATION
    assert said in answer.message
    assert len(bench.records) == before


def test_a_listener_that_is_forgotten_takes_nothing_along(bench):
    bench.create("t", (1,))
    before = bench.image.copy()
    node_id = given_and_live(bench, "a", "listener")
    bench.ask(DrainNode, node_id)
    bench.fence(node_id)
    assert bench.image.topics == before.topics
    assert bench.image.shards == before.shards
    assert bench.image.nodes == before.nodes


def test_an_older_versions_registration_has_an_id_of_its_own():
    record = decode_record(
        "NodeRegistered",
        '{"node_id":41,"node_epoch":3,"incarnation_id":"a","roles":["listener"],"rpc_address":"a:1",'
        '"kafka_host":"a","kafka_port":9092,"rack":"","fenced":true,"configs":{}}',
    )
    assert isinstance(record, NodeRegistered)
    assert not record.given
    assert decode_record(*encode_record(record)) == record
