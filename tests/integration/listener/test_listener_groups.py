"""Groups through the listener: what is translated, what is refused at the edge, and who waits for whom."""

import asyncio
import uuid
from datetime import timedelta

import pytest
import uvloop
from tests.unit.listener.listener_fakes import WireClient, World, eventually, topic
from tests.unit.listener.listener_requests import ask

from oncelog.api.v1 import coordinator_pb2, groups_pb2
from oncelog.errors import ErrorCode, OncelogError
from oncelog.protocol.messages import schema_of

COMMIT, FETCH, JOIN, BEAT, LEAVE, SYNC = 8, 9, 11, 12, 13, 14
DESCRIBE, LIST, ADD_OFFSETS, TXN_COMMIT, DELETE, OFFSET_DELETE = 15, 16, 25, 28, 42, 47


def join_fields(version, group_id="billing", member_id="", metadata=b"topics", **fields):
    types = schema_of(JOIN, version).request_types
    values = {
        "group_id": group_id,
        "session_timeout": timedelta(seconds=10),
        "rebalance_timeout": timedelta(seconds=60),
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": (types.JoinGroupRequestProtocol(name="range", metadata=metadata),),
        **fields,
    }
    known = schema_of(JOIN, version).request.__dataclass_fields__
    return {name: value for name, value in values.items() if name in known}


def join(world, version, **fields):
    return ask(world, JOIN, version, **join_fields(version, **fields))


@pytest.mark.parametrize("version", range(10))
def test_a_join_is_told_in_every_version(version):
    world = World()
    answer = join(world, version, group_instance_id="fixed", reason="because")
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 3, "m-1")
    assert [(one.member_id, one.metadata) for one in answer.members] == [
        ("m-1", b"one"),
        ("m-2", b"two"),
    ]
    (asked,) = world.groups.asked("JoinGroup")
    assert asked.session_timeout_ms == 10_000
    assert asked.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)
    assert asked.client_id == "test"
    assert asked.client_host == "/127.0.0.1"
    assert not asked.requires_known_member_id or 4 <= version < 5, "a static member needs no round"
    assert asked.supports_skipping_assignment == (version >= 9)
    assert asked.reason == ("because" if version >= 8 else "")
    if version >= 5:
        assert asked.group_instance_id == "fixed"
        assert [one.group_instance_id for one in answer.members] == [None, "fixed"]


def test_a_dynamic_member_is_asked_to_come_back_with_the_id_it_is_given():
    world = World()
    world.groups.canned["JoinGroup"] = groups_pb2.JoinGroupResponse(
        error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="test-1"
    )
    answer = join(world, 5)
    assert (answer.error_code, answer.member_id, answer.generation_id) == (79, "test-1", -1)
    assert world.groups.asked("JoinGroup")[0].requires_known_member_id
    assert not World().groups.asked("JoinGroup")


@pytest.mark.parametrize(("version", "name"), [(6, ""), (7, None)])
def test_a_refused_join_has_no_protocol_in_the_form_of_its_version(version, name):
    answer = join(World(), version, group_id="")
    assert (answer.error_code, answer.protocol_name) == (24, name)


def test_what_could_never_be_written_is_refused_before_it_is_kept():
    world = World(group_payload_bytes_max=1024)
    assert join(world, 5, metadata=bytes(1025)).error_code == 10
    assert world.groups.calls == []


def sync_fields(version, **fields):
    types = schema_of(SYNC, version).request_types
    values = {
        "group_id": "billing",
        "generation_id": 3,
        "member_id": "m-1",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (types.SyncGroupRequestAssignment(member_id="m-1", assignment=b"mine"),),
        **fields,
    }
    known = schema_of(SYNC, version).request.__dataclass_fields__
    return {name: value for name, value in values.items() if name in known}


@pytest.mark.parametrize("version", range(6))
def test_a_sync_is_told_in_every_version(version):
    world = World()
    answer = ask(world, SYNC, version, **sync_fields(version))
    assert (answer.error_code, answer.assignment) == (0, b"mine")
    (asked,) = world.groups.asked("SyncGroup")
    assert asked.assignments[0].assignment == b"mine"
    assert asked.protocol_name == ("range" if version >= 5 else "")
    assert not asked.HasField("group_instance_id")


def test_from_version_5_a_sync_names_its_protocol():
    world = World()
    assert ask(world, SYNC, 5, **sync_fields(5, protocol_name=None)).error_code == 23
    assert ask(world, SYNC, 4, **sync_fields(4)).error_code == 0
    assert len(world.groups.calls) == 1


@pytest.mark.parametrize("version", range(5))
def test_a_heartbeat_carries_the_coordinators_code(version):
    world = World()
    world.groups.canned["GroupHeartbeat"] = groups_pb2.GroupHeartbeatResponse(error_code=27)
    fields = {"group_id": "billing", "generation_id": 3, "member_id": "m-1"}
    assert ask(world, BEAT, version, **fields).error_code == 27
    assert ask(world, BEAT, version, **{**fields, "group_id": ""}).error_code == 24


@pytest.mark.parametrize("version", range(3))
def test_one_member_leaves_with_the_code_at_the_top(version):
    world = World()
    refused = groups_pb2.LeaveGroupResponse()
    refused.members.add(member_id="m-1", error_code=25)
    world.groups.canned["LeaveGroup"] = refused
    assert ask(world, LEAVE, version, group_id="billing", member_id="m-1").error_code == 25


@pytest.mark.parametrize("version", range(3, 6))
def test_many_members_leave_each_with_its_code(version):
    world = World()
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
    (asked,) = world.groups.asked("LeaveGroup")
    assert [one.reason for one in asked.members] == ["done" if version >= 5 else "", ""]


def test_a_group_without_a_coordinator_is_asked_for_again():
    for world in (World(shards=0), World()):
        world.groups.canned["JoinGroup"] = OncelogError("it went away")
        world.groups.canned["GroupHeartbeat"] = TimeoutError()
        assert join(world, 5).error_code == 15
        fields = {"group_id": "billing", "generation_id": 3, "member_id": "m-1"}
        assert ask(world, BEAT, 4, **fields).error_code == 15


def test_a_waiting_join_holds_up_its_connection_and_no_other():
    async def scenario():
        world = World()
        world.groups.gate = asyncio.Event()
        async with world.listening() as role:
            waiting = await WireClient.connect(role.port)
            join_schema = waiting.send(JOIN, 5, **join_fields(5))
            beat_schema = waiting.send(
                BEAT, 3, group_id="billing", generation_id=3, member_id="m-1"
            )
            await eventually(lambda: world.groups.joins_waiting)
            other = await WireClient.connect(role.port)
            fields = {"group_id": "billing", "generation_id": 3, "member_id": "m-2"}
            assert (await other.call(BEAT, 3, **fields)).error_code == 0
            assert len(world.groups.asked("GroupHeartbeat")) == 1
            world.groups.gate.set()
            assert (await waiting.receive(join_schema))[1].member_id == "m-1"
            assert (await waiting.receive(beat_schema))[1].error_code == 0

    uvloop.run(scenario())


def test_a_join_goes_on_when_its_client_leaves_and_its_bytes_stay_counted():
    async def scenario():
        world = World()
        world.groups.gate = asyncio.Event()
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            client.send(JOIN, 5, **join_fields(5, metadata=bytes(5_000)))
            await eventually(lambda: world.groups.joins_waiting)
            client.close()
            await eventually(lambda: not role.counters.connections_open)
            assert world.groups.joins_waiting == 1
            assert role.queued_bytes > 5_000
            world.groups.gate.set()
            await eventually(lambda: not role.queued_bytes)
            assert world.groups.joins_waiting == 0

    uvloop.run(scenario())


def test_clients_that_leave_waiting_joins_behind_cannot_add_up():
    async def scenario():
        world = World(connections_max=2)
        world.groups.gate = asyncio.Event()
        async with world.listening() as role:
            for number in range(1, 3):
                client = await WireClient.connect(role.port)
                client.send(JOIN, 5, **join_fields(5))
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

    uvloop.run(scenario())


# ----------------------------------------------------------------------------------------------- offsets


def commit(world, version, *partitions, name="orders", topic_id=None, **fields):
    types = schema_of(COMMIT, version).request_types
    values = {
        "group_id": "billing",
        "generation_id_or_member_epoch": 3,
        "member_id": "m-1",
        "group_instance_id": None,
        "retention_time": timedelta(milliseconds=-1),
        "retention_time_ms": -1,
        "topics": (
            types.OffsetCommitRequestTopic(
                name=name,
                topic_id=topic_id,
                partitions=tuple(
                    types.OffsetCommitRequestPartition(
                        partition_index=one,
                        committed_offset=40 + one,
                        committed_leader_epoch=2,
                        committed_metadata=None if one else "note",
                    )
                    for one in partitions
                ),
            ),
        ),
        **fields,
    }
    known = schema_of(COMMIT, version).request.__dataclass_fields__
    answer = ask(
        world,
        COMMIT,
        version,
        **{field: value for field, value in values.items() if field in known},
    )
    return [one.error_code for one in answer.topics[0].partitions]


def fetched(answer, version):
    topics = answer.groups[0].topics if version >= 8 else answer.topics
    return [
        (one.partition_index, one.committed_offset, one.metadata, one.error_code)
        for topic in topics
        for one in topic.partitions
    ]


def fetch(world, version, *wanted, group_id="billing"):
    """Of the topic's partitions, or of everything when none is named."""
    types = schema_of(FETCH, version).request_types
    name = {"name": "orders", "topic_id": topic_uuid("orders")}
    if version >= 8:
        topics = (types.OffsetFetchRequestTopics(**name, partition_indexes=wanted),)
        group = types.OffsetFetchRequestGroup(
            group_id=group_id,
            member_id=None,
            member_epoch=-1,
            topics=topics if wanted else None,
        )
        return ask(world, FETCH, version, groups=(group,), require_stable=True)
    topics = (types.OffsetFetchRequestTopic(**name, partition_indexes=wanted),)
    stable = {"require_stable": True} if version >= 7 else {}
    return ask(
        world, FETCH, version, group_id=group_id, topics=topics if wanted else None, **stable
    )


def topic_uuid(name):
    return uuid.UUID(bytes=bytes(topic(name, 1).topic_id))


@pytest.mark.parametrize("version", range(2, 11))
def test_an_offset_is_committed_and_read_in_every_version(version):
    world = World(topic("orders", 2))
    assert commit(world, version, 0, 1, 2, topic_id=topic_uuid("orders")) == [0, 0, 3]
    (asked,) = world.groups.asked("OffsetCommit")
    assert (asked.generation_id, asked.member_id) == (3, "m-1")
    assert [(one.partition, one.offset, one.metadata) for one in asked.offsets] == [
        (0, 40, "note"),
        (1, 41, ""),
    ]
    assert {one.leader_epoch for one in asked.offsets} == {2 if version >= 6 else -1}
    seen = fetched(fetch(world, version, 0, 1, 2), version)
    assert seen == [(0, 40, "note", 0), (1, 41, "", 0), (2, -1, "", 0)]
    assert world.groups.asked("OffsetFetch")[0].require_stable == (version >= 7)


@pytest.mark.parametrize("version", range(2, 11))
def test_all_offsets_of_a_group_are_read_with_null_for_the_topics(version):
    world = World(topic("orders", 2))
    commit(world, 8, 0, 1)
    answer = fetch(world, version)
    assert [one[:2] for one in fetched(answer, version)] == [(0, 40), (1, 41)]


def test_offsets_of_a_topic_that_is_gone_are_told_by_name_only():
    world = World(topic("orders", 2))
    world.groups.offsets["billing", "gone", 0] = groups_pb2.OffsetToCommit(offset=7)
    assert [one[:2] for one in fetched(fetch(world, 9), 9)] == [(0, 7)]
    assert fetched(fetch(world, 10), 10) == []


def test_a_commit_for_topics_that_do_not_exist_reaches_no_coordinator():
    world = World(topic("orders", 2))
    assert commit(world, 9, 0, name="nowhere") == [3]
    assert commit(world, 10, 0, topic_id=uuid.uuid4()) == [100]
    assert world.groups.calls == []


def test_a_coordinators_silence_is_told_of_every_partition_it_concerns():
    world = World(topic("orders", 2))
    world.groups.canned["OffsetCommit"] = OncelogError("gone")
    assert commit(world, 9, 0, 1, 5) == [15, 15, 3]


@pytest.mark.parametrize(("version", "top", "partitions"), [(1, 0, [16]), (2, 16, []), (8, 16, [])])
def test_a_groups_error_stands_where_its_version_has_room(version, top, partitions):
    world = World(topic("orders", 2))
    refused = groups_pb2.OffsetFetchResponse()
    refused.groups.add(group_id="billing", error_code=16)
    world.groups.canned["OffsetFetch"] = refused
    answer = fetch(world, version, 0)
    told = answer.groups[0].error_code if version >= 8 else getattr(answer, "error_code", 0)
    assert told == top
    assert [one[3] for one in fetched(answer, version)] == partitions


def test_a_batch_of_groups_is_one_question_to_their_coordinator():
    world = World(topic("orders", 2))
    commit(world, 8, 0)
    types = schema_of(FETCH, 9).request_types
    groups = tuple(
        types.OffsetFetchRequestGroup(group_id=name, member_id=None, member_epoch=-1, topics=None)
        for name in ("unknown", "billing")
    )
    answer = ask(world, FETCH, 9, groups=groups, require_stable=False)
    assert [(one.group_id, len(one.topics)) for one in answer.groups] == [
        ("unknown", 0),
        ("billing", 1),
    ]
    assert len(world.groups.asked("OffsetFetch")) == 1


def test_offsets_are_deleted_where_the_partition_exists():
    world = World(topic("orders", 1))
    types = schema_of(OFFSET_DELETE, 0).request_types
    topics = tuple(
        types.OffsetDeleteRequestTopic(
            name=name, partitions=(types.OffsetDeleteRequestPartition(partition_index=0),)
        )
        for name in ("orders", "nowhere")
    )
    answer = ask(world, OFFSET_DELETE, 0, group_id="billing", topics=topics)
    assert [one.partitions[0].error_code for one in answer.topics] == [0, 3]
    assert ask(world, OFFSET_DELETE, 0, group_id="", topics=topics).error_code == 24


# ------------------------------------------------------------------------------------------ transactions


def txn_commit(world, version, *partitions, **fields):
    types = schema_of(TXN_COMMIT, version).request_types
    values = {
        "transactional_id": "pay",
        "group_id": "billing",
        "producer_id": 4000,
        "producer_epoch": 1,
        "generation_id": 3,
        "member_id": "m-1",
        "group_instance_id": None,
        "topics": (
            types.TxnOffsetCommitRequestTopic(
                name="orders",
                partitions=tuple(
                    types.TxnOffsetCommitRequestPartition(
                        partition_index=one,
                        committed_offset=9,
                        committed_leader_epoch=2,
                        committed_metadata=None,
                    )
                    for one in partitions
                ),
            ),
        ),
        **fields,
    }
    known = schema_of(TXN_COMMIT, version).request.__dataclass_fields__
    answer = ask(
        world,
        TXN_COMMIT,
        version,
        **{field: value for field, value in values.items() if field in known},
    )
    return [one.error_code for one in answer.topics[0].partitions]


@pytest.mark.parametrize("version", range(6))
def test_the_version_of_a_transactional_commit_says_which_protocol_is_spoken(version):
    world = World(topic("orders", 1))
    assert txn_commit(world, version, 0, 1) == [0, 3]
    (asked,) = world.groups.asked("TxnOffsetCommit")
    assert asked.client_transaction_version == (2 if version >= 5 else 0)
    expected = (3, "m-1") if version >= 3 else (-1, "")
    assert (asked.generation_id, asked.member_id) == expected


@pytest.mark.parametrize(
    ("version", "code", "told"),
    [(1, 14, 15), (2, 14, 14), (3, 120, 48), (4, 120, 120), (5, 47, 47), (3, 22, 22)],
)
def test_a_transactional_commit_is_refused_in_the_words_of_its_version(version, code, told):
    world = World(topic("orders", 1))
    refused = groups_pb2.OffsetCommitResponse()
    refused.partitions.add(topic="orders", partition=0, error_code=code)
    world.groups.canned["TxnOffsetCommit"] = refused
    assert txn_commit(world, version, 0) == [told]


def test_a_transactional_commit_names_its_group_and_its_transaction():
    world = World(topic("orders", 1))
    assert txn_commit(world, 3, 0, group_id="") == [24]
    assert txn_commit(world, 3, 0, transactional_id="") == [42]
    assert world.groups.calls == []


@pytest.mark.parametrize(("version", "told"), [(0, 47), (1, 47), (2, 90), (4, 90)])
def test_offsets_are_added_to_a_transaction_at_its_coordinator(version, told):
    world = World()
    fields = {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1}
    assert ask(world, ADD_OFFSETS, version, group_id="billing", **fields).error_code == 0
    (asked,) = world.coordinator.asked("AddOffsetsToTxn")
    assert asked.group_id == "billing"
    world.coordinator.canned["AddOffsetsToTxn"] = coordinator_pb2.AddOffsetsToTxnResponse(
        error_code=90
    )
    assert ask(world, ADD_OFFSETS, version, group_id="billing", **fields).error_code == told
    fields["transactional_id"] = ""
    assert ask(world, ADD_OFFSETS, version, group_id="billing", **fields).error_code == 42


# ------------------------------------------------------------------------------------------------- views


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(version):
    fields = {"include_authorized_operations": False} if version >= 3 else {}
    world = World()
    (group,) = ask(world, DESCRIBE, version, groups=("billing", "billing"), **fields).groups
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    assert [(one.client_id, one.member_assignment) for one in group.members] == [("app", b"mine")]


@pytest.mark.parametrize(("version", "code"), [(5, 0), (6, 69)])
@pytest.mark.parametrize("answer", [{"error_code": 69}, {"state": "Dead"}])
def test_a_group_that_does_not_exist_is_dead_or_not_found(version, code, answer):
    world = World()
    described = groups_pb2.DescribeGroupsResponse()
    described.groups.add(group_id="billing", **answer)
    world.groups.canned["DescribeGroups"] = described
    fields = {"groups": ("billing",), "include_authorized_operations": False}
    (group,) = ask(world, DESCRIBE, version, **fields).groups
    assert (group.error_code, group.group_state) == (code, "Dead")


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(version):
    world = World()
    fields = {}
    if version >= 4:
        fields["states_filter"] = ("Stable",)
    if version >= 5:
        fields["types_filter"] = ("classic",)
    (group,) = ask(world, LIST, version, **fields).groups
    assert (group.group_id, group.protocol_type) == ("billing", "consumer")
    (asked,) = world.groups.asked("ListGroups")
    assert list(asked.state_filters) == list(fields.get("states_filter", ()))
    assert list(asked.type_filters) == list(fields.get("types_filter", ()))


def test_a_list_without_every_coordinator_is_no_list():
    world = World()
    world.groups.canned["ListGroups"] = OncelogError("gone")
    assert ask(world, LIST, 2).error_code == 15
    assert ask(World(shards=0), LIST, 2).error_code == 15


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_each_with_its_code(version):
    world = World()
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
