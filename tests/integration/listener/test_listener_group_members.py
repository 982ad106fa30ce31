"""Groups through the listener: what is translated and refused, and which member waits for which."""

import asyncio
from datetime import timedelta

import pytest
from tests.worlds.listener.listener_requests import ask, ask_in_words, in_words
from tests.worlds.listener.listener_world import World, eventually
from tests.worlds.listener.wire_client import WireClient

from oncelog.api.v1 import groups_pb2
from oncelog.errors import ErrorCode, OncelogError
from oncelog.protocol.messages import schema_of

JOIN, BEAT, LEAVE, SYNC = 11, 12, 13, 14


def join_request(version, **words):
    known = {"group_id": "billing", "protocol_type": "consumer", "name": "range"}
    known |= {"session_timeout": timedelta(seconds=10), "rebalance_timeout": timedelta(seconds=60)}
    return in_words(JOIN, version, **known | {"metadata": b"topics"} | words)


def join(world, version, **words):
    return ask(world, JOIN, version, request=join_request(version, **words))


@pytest.mark.parametrize("version", range(10))
def test_a_join_is_told_in_every_version(world, version):
    answer = join(world, version, group_instance_id="fixed", reason="because")
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 3, "m-1")
    assert [(one.member_id, one.metadata) for one in answer.members] == [
        ("m-1", b"one"),
        ("m-2", b"two"),
    ]
    (request,) = world.groups.received("JoinGroup")
    assert request.session_timeout_ms == 10_000
    assert request.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert request.client_id == "test"
    assert request.client_host == "/127.0.0.1"
    assert not request.requires_known_member_id or 4 <= version < 5, (
        "a static member needs no round"
    )
    assert request.supports_skipping_assignment == (version >= 9)
    assert request.reason == ("because" if version >= 8 else "")
    if version >= 5:
        assert request.group_instance_id == "fixed"
        assert [one.group_instance_id for one in answer.members] == [None, "fixed"]


def test_a_dynamic_member_comes_back_with_the_id_it_is_given(world):
    world.groups.canned["JoinGroup"] = groups_pb2.JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="test-1"
    )
    answer = join(world, 5)
    assert (answer.error_code, answer.member_id, answer.generation_id) == (79, "test-1", -1)
    assert world.groups.received("JoinGroup")[0].requires_known_member_id
    assert not World().groups.received("JoinGroup")


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_refused_join_has_no_protocol_as_its_version_says_it(version, name):
    answer = join(World(), version, group_id="")
    assert (answer.error_code, answer.protocol_name) == (24, name)


def test_what_could_never_be_written_is_refused_at_once():
    world = World(group_payload_bytes_max=1024)
    assert join(world, 5, metadata=bytes(1025)).error_code == 10
    assert world.groups.calls == []


def sync(world, version, **words):
    known = {"group_id": "billing", "generation_id": 3, "member_id": "m-1", "assignment": b"mine"}
    known |= {"protocol_type": "consumer", "protocol_name": "range"}
    return ask_in_words(world, SYNC, version, **known | words)


@pytest.mark.parametrize("version", range(6))
def test_a_sync_is_told_in_every_version(world, version):
    answer = sync(world, version)
    assert (answer.error_code, answer.assignment) == (0, b"mine")
    (request,) = world.groups.received("SyncGroup")
    assert request.assignments[0].assignment == b"mine"
    assert request.protocol_name == ("range" if version >= 5 else "")
    assert not request.HasField("group_instance_id")


def test_from_version_5_a_sync_names_its_protocol(world):
    assert sync(world, 5, protocol_name=None).error_code == 23
    assert sync(world, 4).error_code == 0
    assert len(world.groups.calls) == 1


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_carries_the_coordinators_code(world, version):
    world.groups.canned["GroupHeartbeat"] = groups_pb2.GroupHeartbeatResponse(error_code=27)
    fields = {"group_id": "billing", "generation_id": 3, "member_id": "m-1"}
    assert ask(world, BEAT, version, **fields).error_code == 27
    assert ask(world, BEAT, version, **{**fields, "group_id": ""}).error_code == 24


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves_with_the_code_at_the_top(world, version):
    refused = groups_pb2.LeaveGroupResponse()
    refused.members.add(member_id="m-1", error_code=25)
    world.groups.canned["LeaveGroup"] = refused
    assert ask(world, LEAVE, version, group_id="billing", member_id="m-1").error_code == 25


@pytest.mark.parametrize("version", range(3, 6))
def test_many_members_leave_each_with_its_code(world, version):
    types = schema_of(LEAVE, version).request_types
    members = (
        types.MemberIdentity(member_id="m-1", group_instance_id=None, reason="done"),
        types.MemberIdentity(member_id="", group_instance_id="fixed", reason=None),
    )
    answer = ask(world, LEAVE, version, group_id="billing", members=members)
    assert [(one.member_id, one.group_instance_id) for one in answer.members] == [
        ("m-1", None),
        ("", "fixed"),
    ]
    (request,) = world.groups.received("LeaveGroup")
    assert [one.reason for one in request.members] == ["done" if version >= 5 else "", ""]


def test_a_group_without_a_coordinator_is_asked_for_again():
    for world in (World(shards=0), World()):
        world.groups.canned["JoinGroup"] = OncelogError("it went away")
        world.groups.canned["GroupHeartbeat"] = TimeoutError()
        assert join(world, 5).error_code == 15
        fields = {"group_id": "billing", "generation_id": 3, "member_id": "m-1"}
        assert ask(world, BEAT, 4, **fields).error_code == 15


async def test_a_waiting_join_holds_up_its_connection_and_no_other(world):
    world.groups.gate = asyncio.Event()
    async with world.listening() as role:
        waiting = await WireClient.connect(role.port)
        join_schema = waiting.send(JOIN, 5, request=join_request(5))
        beat_schema = waiting.send(BEAT, 3, group_id="billing", generation_id=3, member_id="m-1")
        await eventually(lambda: world.groups.joins_waiting)
        other = await WireClient.connect(role.port)
        fields = {"group_id": "billing", "generation_id": 3, "member_id": "m-2"}
        assert (await other.call(BEAT, 3, **fields)).error_code == 0
        assert len(world.groups.received("GroupHeartbeat")) == 1
        world.groups.gate.set()
        assert (await waiting.receive(join_schema))[1].member_id == "m-1"
        assert (await waiting.receive(beat_schema))[1].error_code == 0


async def test_a_join_goes_on_when_its_client_leaves(world):
    world.groups.gate = asyncio.Event()
    async with world.connected() as (role, client):
        client.send(JOIN, 5, request=join_request(5, metadata=bytes(5_000)))
        await eventually(lambda: world.groups.joins_waiting)
        client.close()
        await eventually(lambda: not role.counters.connections_open)
        assert world.groups.joins_waiting == 1
        assert role.queued_bytes > 5_000
        world.groups.gate.set()
        await eventually(lambda: not role.queued_bytes)
        assert world.groups.joins_waiting == 0


async def test_clients_that_leave_waiting_joins_behind_cannot_add_up():
    world = World(connections_max=2)
    world.groups.gate = asyncio.Event()
    async with world.listening() as role:
        for number in range(1, 3):
            client = await WireClient.connect(role.port)
            client.send(JOIN, 5, request=join_request(5))
            await eventually(lambda number=number: world.groups.joins_waiting == number)
            client.close()
            await eventually(lambda: not role.counters.connections_open)
        refused = await WireClient.connect(role.port)
        assert await refused.is_closed_by_peer()
        world.groups.gate.set()
        await eventually(lambda: not world.groups.joins_waiting)
        accepted = await WireClient.connect(role.port)
        fields = {"group_id": "billing", "generation_id": 3, "member_id": "m-2"}
        assert (await accepted.call(BEAT, 3, **fields)).error_code == 0


DESCRIBE, LIST, DELETE = 15, 16, 42


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(version):
    fields = {"include_authorized_operations": False} if version >= 3 else {}
    world = World()
    (group,) = ask(world, DESCRIBE, version, groups=("billing", "billing"), **fields).groups
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    assert [(one.client_id, one.member_assignment) for one in group.members] == [("app", b"mine")]


@pytest.mark.parametrize(("version", "code"), [(5, 0), (6, 69)])
@pytest.mark.parametrize("answer", [{"error_code": 69}, {"state": "Dead"}])
def test_a_group_that_does_not_exist_is_dead_or_not_found(world, version, code, answer):
    described = groups_pb2.DescribeGroupsResponse()
    described.groups.add(group_id="billing", **answer)
    world.groups.canned["DescribeGroups"] = described
    fields = {"groups": ("billing",), "include_authorized_operations": False}
    (group,) = ask(world, DESCRIBE, version, **fields).groups
    assert (group.error_code, group.group_state) == (code, "Dead")


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(world, version):
    fields = {}
    if version >= 4:
        fields["states_filter"] = ("Stable",)
    if version >= 5:
        fields["types_filter"] = ("classic",)
    (group,) = ask(world, LIST, version, **fields).groups
    assert (group.group_id, group.protocol_type) == ("billing", "consumer")
    (request,) = world.groups.received("ListGroups")
    assert list(request.state_filters) == list(fields.get("states_filter", ()))
    assert list(request.type_filters) == list(fields.get("types_filter", ()))


def test_a_list_without_every_coordinator_is_no_list(world):
    world.groups.canned["ListGroups"] = OncelogError("gone")
    assert ask(world, LIST, 2).error_code == 15
    assert ask(World(shards=0), LIST, 2).error_code == 15


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_each_with_its_code(world, version):
    refused = groups_pb2.DeleteGroupsResponse()
    refused.results.add(group_id="billing", error_code=68)
    refused.results.add(group_id="old")
    world.groups.canned["DeleteGroups"] = refused
    answer = ask(world, DELETE, version, groups_names=("billing", "old"))
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("billing", 68),
        ("old", 0),
    ]
    assert ask(World(shards=0), DELETE, version, groups_names=("old",)).results[0].error_code == 15
