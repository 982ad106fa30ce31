"""Offsets of groups through the listener, committed plainly or inside a transaction: what each version carries."""

import uuid
from datetime import timedelta

import pytest
from tests.unit.listener.listener_image import topic
from tests.unit.listener.listener_requests import ask, known_fields
from tests.unit.listener.listener_world import World

from oncelog.api.v1 import coordinator_pb2, groups_pb2
from oncelog.errors import OncelogError
from oncelog.protocol.messages import schema_of
from oncelog.rpc.sessions import PeerUnavailable

COMMIT, FETCH, ADD_OFFSETS, TXN_COMMIT, OFFSET_DELETE = 8, 9, 25, 28, 47


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
    answer = ask(world, COMMIT, version, **known_fields(COMMIT, version, values))
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
    (request,) = world.groups.received("OffsetCommit")
    assert (request.generation_id, request.member_id) == (3, "m-1")
    assert [(one.partition, one.offset, one.metadata) for one in request.offsets] == [
        (0, 40, "note"),
        (1, 41, ""),
    ]
    assert {one.leader_epoch for one in request.offsets} == {2 if version >= 6 else -1}
    seen = fetched(fetch(world, version, 0, 1, 2), version)
    assert seen == [(0, 40, "note", 0), (1, 41, "", 0), (2, -1, "", 0)]
    assert world.groups.received("OffsetFetch")[0].require_stable == (version >= 7)


@pytest.mark.parametrize("version", range(2, 11))
def test_null_for_topics_reads_all_offsets_of_a_group(version):
    world = World(topic("orders", 2))
    commit(world, 8, 0, 1)
    answer = fetch(world, version)
    assert [one[:2] for one in fetched(answer, version)] == [(0, 40), (1, 41)]


def test_offsets_of_a_topic_that_is_gone_are_told_by_name_only():
    world = World(topic("orders", 2))
    world.groups.offsets["billing", "gone", 0] = groups_pb2.OffsetToCommit(offset=7)
    assert [one[:2] for one in fetched(fetch(world, 9), 9)] == [(0, 7)]
    assert fetched(fetch(world, 10), 10) == []


def test_a_commit_for_unknown_topics_reaches_no_coordinator():
    world = World(topic("orders", 2))
    assert commit(world, 9, 0, name="nowhere") == [3]
    assert commit(world, 10, 0, topic_id=uuid.uuid4()) == [100]
    assert world.groups.calls == []


def test_a_coordinators_silence_is_told_of_every_partition():
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
    found = answer.groups[0].error_code if version >= 8 else getattr(answer, "error_code", 0)
    assert found == top
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
    assert len(world.groups.received("OffsetFetch")) == 1


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


def test_a_deletion_of_offsets_is_not_repeated():
    """The first copy may be held up on its way, and would delete what was committed since."""
    world = World(topic("orders", 1), repeat_max_ms=1_000)
    world.groups.canned["OffsetDelete"] = PeerUnavailable("gone")
    types = schema_of(OFFSET_DELETE, 0).request_types
    partitions = (types.OffsetDeleteRequestPartition(partition_index=0),)
    topics = (types.OffsetDeleteRequestTopic(name="orders", partitions=partitions),)
    answer = ask(world, OFFSET_DELETE, 0, group_id="billing", topics=topics)
    assert (answer.error_code, len(world.groups.received("OffsetDelete"))) == (15, 1)


# -------------------------------------------------------------------------------------------------------- transactions


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
    answer = ask(world, TXN_COMMIT, version, **known_fields(TXN_COMMIT, version, values))
    return [one.error_code for one in answer.topics[0].partitions]


@pytest.mark.parametrize("version", range(6))
def test_the_version_of_a_transactional_commit_is_its_protocol(version):
    world = World(topic("orders", 1))
    assert txn_commit(world, version, 0, 1) == [0, 3]
    (request,) = world.groups.received("TxnOffsetCommit")
    assert request.client_transaction_version == (2 if version >= 5 else 0)
    expected = (3, "m-1") if version >= 3 else (-1, "")
    assert (request.generation_id, request.member_id) == expected


@pytest.mark.parametrize(
    ("version", "code", "expected"),
    [(1, 14, 15), (2, 14, 14), (3, 120, 48), (4, 120, 120), (5, 47, 47), (3, 22, 22)],
)
def test_a_transactional_commit_is_refused_as_its_version_says(version, code, expected):
    world = World(topic("orders", 1))
    refused = groups_pb2.OffsetCommitResponse()
    refused.partitions.add(topic="orders", partition=0, error_code=code)
    world.groups.canned["TxnOffsetCommit"] = refused
    assert txn_commit(world, version, 0) == [expected]


def test_a_commit_tells_to_which_coordinator_it_was_sent():
    """Epoch 0 is one, too."""
    world = World(topic("orders", 1))
    assert (commit(world, 5, 0), txn_commit(world, 3, 0)) == ([0], [0])
    for (request,) in map(world.groups.received, ("OffsetCommit", "TxnOffsetCommit")):
        assert request.origin.HasField("coordinator_epoch")
        assert request.origin.request


def test_a_transactional_commit_names_group_and_transaction():
    world = World(topic("orders", 1))
    assert txn_commit(world, 3, 0, group_id="") == [24]
    assert txn_commit(world, 3, 0, transactional_id="") == [42]
    assert world.groups.calls == []


@pytest.mark.parametrize(("version", "expected"), [(0, 47), (1, 47), (2, 90), (4, 90)])
def test_offsets_are_added_to_a_transaction_at_its_coordinator(version, expected):
    world = World()
    fields = {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1}
    assert ask(world, ADD_OFFSETS, version, group_id="billing", **fields).error_code == 0
    (request,) = world.coordinator.received("AddOffsetsToTxn")
    assert request.group_id == "billing"
    world.coordinator.canned["AddOffsetsToTxn"] = coordinator_pb2.AddOffsetsToTxnResponse(
        error_code=90
    )
    assert ask(world, ADD_OFFSETS, version, group_id="billing", **fields).error_code == expected
    fields["transactional_id"] = ""
    assert ask(world, ADD_OFFSETS, version, group_id="billing", **fields).error_code == 42
