"""Offsets of groups through the listener, committed plainly or inside a transaction: what each version carries."""

import uuid
from dataclasses import replace

import pytest
from tests.integration.listener.test_fetch_sessions import deleted, remade
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import ask, ask_in_words, each, in_words
from tests.worlds.listener.listener_world import World

from oncelog.api.v1 import coordinator_pb2, groups_pb2
from oncelog.errors import OncelogError
from oncelog.protocol.messages import schema_of
from oncelog.rpc.sessions import PeerUnavailable

COMMIT, FETCH, ADD_OFFSETS, TXN_COMMIT, OFFSET_DELETE = 8, 9, 25, 28, 47


def commit(world, version, *partitions, name="orders", topic_id=None, **fields):
    """Offset 40 of partition 0, 41 of partition 1, and so on; the first with a note."""
    words = {"group_id": "billing", "generation_id_or_member_epoch": 3, "member_id": "m-1"}
    words |= {"name": name, "topic_id": topic_id, "committed_leader_epoch": 2}
    return committed(world, COMMIT, version, 40, "note", partitions, **words, **fields)


def committed(world, api_key, version, first_offset, note, partitions, **words):
    request = in_words(api_key, version, **words)
    (wanted,) = request.topics
    rows = [
        replace(
            row,
            committed_offset=first_offset + row.partition_index,
            committed_metadata=None if row.partition_index else note,
        )
        for row in each(wanted.partitions, "partition_index", partitions)
    ]
    request = replace(request, topics=(replace(wanted, partitions=tuple(rows)),))
    answer = ask(world, api_key, version, request=request)
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
    words = {"name": "orders", "topic_id": topic_uuid("orders"), "partition_indexes": wanted}
    words |= {"group_id": group_id, "member_epoch": -1, "require_stable": True}
    if not wanted:
        words["topics"] = None
    return ask_in_words(world, FETCH, version, **words)


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
    assert {one.topic_id for one in request.offsets} == {topic_uuid("orders").bytes}
    seen = fetched(fetch(world, version, 0, 1, 2), version)
    assert seen == [(0, 40, "note", 0), (1, 41, "", 0), (2, -1, "", 0)]
    (asked,) = world.groups.received("OffsetFetch")
    assert asked.require_stable == (version >= 7)
    assert dict(asked.groups[0].topic_ids) == {"orders": topic_uuid("orders").bytes}


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


def test_offsets_are_deleted_where_the_partition_exists(world):
    request = in_words(OFFSET_DELETE, 0, group_id="billing")
    request = replace(request, topics=each(request.topics, "name", ("orders", "nowhere")))
    answer = ask(world, OFFSET_DELETE, 0, request=request)
    assert [one.partitions[0].error_code for one in answer.topics] == [0, 3]
    assert ask(world, OFFSET_DELETE, 0, request=replace(request, group_id="")).error_code == 24


def test_a_deletion_of_offsets_is_not_repeated():
    """The first copy may be held up on its way, and would delete what was committed since."""
    world = World(topic("orders", 1), repeat_max_ms=1_000)
    world.groups.canned["OffsetDelete"] = PeerUnavailable("gone")
    answer = ask_in_words(world, OFFSET_DELETE, 0, group_id="billing", name="orders")
    assert (answer.error_code, len(world.groups.received("OffsetDelete"))) == (15, 1)


# -------------------------------------------------------------------------------------------------------- transactions


def txn_commit(world, version, *partitions, **fields):
    words = {"transactional_id": "pay", "producer_id": 4000, "producer_epoch": 1, "name": "orders"}
    words |= {"group_id": "billing", "generation_id": 3, "member_id": "m-1"} | fields
    return committed(world, TXN_COMMIT, version, 9, None, partitions, **words)


@pytest.mark.parametrize("version", range(7))
def test_the_version_of_a_transactional_commit_is_its_protocol(world, version):
    assert txn_commit(world, version, 0, 1, topic_id=topic_uuid("orders")) == [0, 3]
    (request,) = world.groups.received("TxnOffsetCommit")
    assert request.client_transaction_version == (2 if version >= 5 else 0)
    expected = (3, "m-1") if version >= 3 else (-1, "")
    assert (request.generation_id, request.member_id) == expected


@pytest.mark.parametrize(
    ("version", "code", "expected"),
    [
        *[(1, 14, 15), (2, 14, 14), (3, 120, 48), (4, 120, 120), (5, 47, 47), (3, 22, 22)],
        *[(5, 69, 22), (6, 69, 69), (5, 113, 22), (6, 113, 113)],
    ],
)
def test_a_transactional_commit_is_refused_as_its_version_says(world, version, code, expected):
    refused = groups_pb2.OffsetCommitResponse()
    refused.partitions.add(topic="orders", partition=0, error_code=code)
    world.groups.canned["TxnOffsetCommit"] = refused
    assert txn_commit(world, version, 0, topic_id=topic_uuid("orders")) == [expected]


@pytest.mark.parametrize(("version", "expected"), [(8, 22), (9, 69), (10, 69)])
def test_an_unknown_group_is_told_to_those_who_know_the_code(world, version, expected):
    refused = groups_pb2.OffsetCommitResponse()
    refused.partitions.add(topic="orders", partition=0, error_code=69)
    world.groups.canned["OffsetCommit"] = refused
    assert commit(world, version, 0, topic_id=topic_uuid("orders")) == [expected]


@pytest.mark.parametrize("end", [deleted, remade])
def test_offsets_of_a_topic_that_is_gone_are_committed_nowhere(world, end):
    """Not for the topic that has its name now; in a transaction neither."""
    old = topic_uuid("orders")
    end(world)
    assert txn_commit(world, 6, 0, topic_id=old) == [100]
    assert commit(world, 10, 0, topic_id=old) == [100]
    assert world.groups.received("OffsetCommit") == world.groups.received("TxnOffsetCommit") == []


def test_a_commit_tells_to_which_coordinator_it_was_sent(world):
    """Epoch 0 is one, too."""
    assert (commit(world, 5, 0), txn_commit(world, 3, 0)) == ([0], [0])
    for (request,) in map(world.groups.received, ("OffsetCommit", "TxnOffsetCommit")):
        assert request.origin.HasField("coordinator_epoch")
        assert request.origin.request


def test_a_transactional_commit_names_group_and_transaction(world):
    assert txn_commit(world, 3, 0, group_id="") == [24]
    assert txn_commit(world, 3, 0, transactional_id="") == [42]
    assert world.groups.calls == []


@pytest.mark.parametrize(("version", "expected"), [(0, 47), (1, 47), (2, 90), (4, 90)])
def test_offsets_are_added_to_a_transaction_at_its_coordinator(world, version, expected):
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
