"""ACLs of groups and transactional ids: what is refused without each operation, in every version, and what is not told.

Each row of `NEEDS` names an API and one thing that its client must be allowed. A client that has everything else gets
the code; no coordinator receives what was refused, and a resource that does not exist is refused alike.
"""

import uuid
from dataclasses import replace
from typing import NamedTuple

import pytest
from tests.integration.listener.requests_by_vocabulary import request_of
from tests.worlds.listener.authorized_world import (
    CLIENT,
    allow,
    codes_of,
    everything,
    give,
    world_with,
)
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import ask

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1 import coordinator_pb2, groups_pb2
from oncelog.ids import branch_transactional_id, job_sink_name
from oncelog.protocol.private_api import PRIVATE_CALLS
from oncelog.protocol.versions import APIS
from oncelog.security.acl import Operation, Permission, ResourceType
from oncelog_listener.call import Session
from oncelog_listener.cluster import Address
from oncelog_listener.handlers.private import OPERATIONS, private_call

TOPIC, GROUP, TXN = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID
READ, WRITE, DELETE = Operation.READ, Operation.WRITE, Operation.DELETE
DESCRIBE, IDEMPOTENT_WRITE = Operation.DESCRIBE, Operation.IDEMPOTENT_WRITE
NAMES = {TOPIC: "orders", GROUP: "billing", TXN: "pay"}
ORDERS = topic("orders", 2)
API_KEYS = {api.name: key for key, api in APIS.items()}


class Need(NamedTuple):
    api: str
    operation: Operation
    resource_type: ResourceType
    code: int


NEEDS = [
    Need("OffsetCommit", READ, GROUP, 30),
    Need("OffsetCommit", READ, TOPIC, 29),
    Need("OffsetFetch", DESCRIBE, GROUP, 30),
    Need("OffsetFetch", DESCRIBE, TOPIC, 29),
    Need("OffsetDelete", DELETE, GROUP, 30),
    Need("OffsetDelete", READ, TOPIC, 29),
    Need("AddOffsetsToTxn", WRITE, TXN, 53),
    Need("AddOffsetsToTxn", READ, GROUP, 30),
    Need("TxnOffsetCommit", WRITE, TXN, 53),
    Need("TxnOffsetCommit", READ, GROUP, 30),
    Need("TxnOffsetCommit", READ, TOPIC, 29),
    Need("JoinGroup", READ, GROUP, 30),
    Need("SyncGroup", READ, GROUP, 30),
    Need("Heartbeat", READ, GROUP, 30),
    Need("LeaveGroup", READ, GROUP, 30),
    Need("DescribeGroups", DESCRIBE, GROUP, 30),
    Need("DeleteGroups", DELETE, GROUP, 30),
    Need("ConsumerGroupHeartbeat", READ, GROUP, 30),
    Need("ConsumerGroupHeartbeat", DESCRIBE, TOPIC, 29),
    Need("ConsumerGroupDescribe", DESCRIBE, GROUP, 30),
    Need("InitProducerId", WRITE, TXN, 53),
    Need("AddPartitionsToTxn", WRITE, TXN, 53),
    Need("AddPartitionsToTxn", WRITE, TOPIC, 29),
    Need("EndTxn", WRITE, TXN, 53),
    Need("DescribeTransactions", DESCRIBE, TXN, 53),
]

WORDS = {
    "group_id": "billing",
    "groups": ("billing",),
    "group_ids": ("billing",),
    "groups_names": ("billing",),
    "member_id": "m-1",
    "members": (),
    "protocol_type": "consumer",
    "protocol_name": "range",
    "name": "orders",
    "topic_id": ORDERS.topic_id,
    "partitions": (0,),
    "partition_indexes": (0,),
    "subscribed_topic_names": ("orders",),
    "topic_partitions": (),
    "transactional_id": "pay",
    "v3_and_below_transactional_id": "pay",
    "transactional_ids": ("pay",),
    "producer_id": -1,
    "producer_epoch": -1,
}


def guarded(*acls):
    """A listener's world in which the client may do this and nothing else."""
    world = world_with(acls)
    response = groups_pb2.DescribeGroupsResponse()
    response.groups.add(group_id="billing", state="Stable", group_type="consumer")
    world.consumer_group = response
    return world


def needs_of(api):
    return [need for need in NEEDS if need.api == api]


def acls_for(needs):
    return [allow(need.operation, need.resource_type, NAMES[need.resource_type]) for need in needs]


def call(world, api, version, **words):
    if api == "ConsumerGroupDescribe":
        world.groups.canned["DescribeGroups"] = world.consumer_group
    request = request_of(APIS[API_KEYS[api]], version, with_uuid(WORDS | words))
    return ask(world, API_KEYS[api], version, request=request)


def with_uuid(words):
    """kio takes ids as UUIDs."""
    return words | {"topic_id": uuid.UUID(bytes=words["topic_id"])}


def received(world):
    """All that coordinators were asked."""
    return str(world.groups.calls) + str(world.coordinator.calls)


def versions(api):
    served = APIS[API_KEYS[api]]
    return range(served.served_min, served.max_version + 1)


REFUSED = [(need, version) for need in NEEDS for version in versions(need.api)]
IDS = [
    f"{need.api} v{version} {need.operation.name} {need.resource_type.name}"
    for need, version in REFUSED
]


@pytest.mark.parametrize(("need", "version"), REFUSED, ids=IDS)
def test_each_operation_is_needed(need, version):
    """All else is allowed, but what includes it: a client that may read a group may not delete it."""
    world = guarded(*everything(but=[(need.resource_type, need.operation)]))
    answer = call(world, need.api, version)
    assert codes_of(answer) == {need.code}
    assert NAMES[need.resource_type] not in received(world)


@pytest.mark.parametrize("api", dict.fromkeys(need.api for need in NEEDS))
def test_no_more_than_the_table_is_needed(api):
    for version in versions(api):
        world = guarded(*acls_for(needs_of(api)))
        assert codes_of(call(world, api, version)) == set()
        assert received(world) != "[][]"


OF_A_TOPIC = [
    need for need in NEEDS if need.resource_type == TOPIC and need.api != "ConsumerGroupHeartbeat"
]


@pytest.mark.parametrize("need", OF_A_TOPIC, ids=[need.api for need in OF_A_TOPIC])
def test_a_topic_that_is_not_there_is_refused_alike(need):
    others = [one for one in needs_of(need.api) if one != need]
    version = min(versions(need.api).stop - 1, 9)
    there = call(guarded(*acls_for(others)), need.api, version, partitions=(0, 7))
    gone = call(guarded(*acls_for(others)), need.api, version, partitions=(0, 7), name="nowhere")
    assert str(there) == str(gone).replace("nowhere", "orders")


def test_a_refused_group_hides_which_topic_ids_are_known():
    for api in ("OffsetCommit", "OffsetFetch"):
        world = guarded()
        answer = call(world, api, 10, topic_id=b"x" * 16)
        assert codes_of(answer) == {30}


def test_a_refused_topic_leaves_the_others():
    world = guarded(allow(READ, GROUP, "billing"), allow(READ, TOPIC, "open"))
    world.metadata.apply_update(
        pb.MetadataUpdate(metadata_offset=9, delta=pb.MetadataDelta(topics=[topic("open", 1)]))
    )
    request = request_of(APIS[API_KEYS["OffsetCommit"]], 8, with_uuid(WORDS))
    (secret,) = request.topics
    request = replace(request, topics=(secret, replace(secret, name="open")))
    answer = ask(world, API_KEYS["OffsetCommit"], 8, request=request)
    assert [one.partitions[0].error_code for one in answer.topics] == [29, 0]
    assert list(world.groups.offsets) == [("billing", "open", 0)]


# ------------------------------------------------------------------------------------------- views


@pytest.mark.parametrize("version", [2, 7, 8, 10])
def test_all_topics_are_those_that_may_be_described(version):
    world = guarded(allow(READ, GROUP, "billing"), allow(READ, TOPIC, "orders"))
    call(world, "OffsetCommit", 8)
    one = groups_pb2.OffsetToCommit(topic="secret", partition=0, offset=4)
    world.groups.offsets["billing", "secret", 0] = one
    request = request_of(APIS[API_KEYS["OffsetFetch"]], version, with_uuid(WORDS))
    if version >= 8:
        request = replace(request, groups=(replace(request.groups[0], topics=None),))
    else:
        request = replace(request, topics=None)
    answer = ask(world, API_KEYS["OffsetFetch"], version, request=request)
    assert world.groups.received("OffsetFetch")[0].groups[0].all_topics
    (found,) = answer.groups[0].topics if version >= 8 else answer.topics
    assert [(one.partition_index, one.error_code) for one in found.partitions] == [(0, 0)]
    assert "secret" not in str(answer)


@pytest.mark.parametrize(
    ("acls", "listed"),
    [
        ([], []),
        ([allow(DESCRIBE, ResourceType.CLUSTER)], ["billing"]),
        ([allow(READ, GROUP, "billing")], ["billing"]),
        ([allow(DESCRIBE, GROUP, "another")], []),
    ],
)
def test_groups_are_listed_that_may_be_described(acls, listed):
    answer = call(guarded(*acls), "ListGroups", 5)
    assert answer.error_code == 0
    assert [one.group_id for one in answer.groups] == listed


def test_what_a_client_may_do_with_a_group_is_told():
    for api in ("DescribeGroups", "ConsumerGroupDescribe"):
        world = guarded(allow(READ, GROUP, "billing"), allow(DELETE, GROUP, "billing"))
        version = versions(api).stop - 1
        (group,) = call(world, api, version, include_authorized_operations=True).groups
        bits = group.authorized_operations
        assert bits == 1 << READ | 1 << DELETE | 1 << DESCRIBE
        refused = call(guarded(), api, version, include_authorized_operations=True).groups[0]
        assert refused.authorized_operations == -(2**31)


@pytest.mark.parametrize(("version", "expected"), [(5, 1 << READ | 1 << DESCRIBE), (6, -(2**31))])
def test_operations_are_told_of_a_dead_group(version, expected):
    world = guarded(allow(READ, GROUP, "billing"))
    world.groups.canned["DescribeGroups"] = groups_pb2.DescribeGroupsResponse(
        groups=[{"group_id": "billing", "error_code": 69}]
    )
    (group,) = call(world, "DescribeGroups", version, include_authorized_operations=True).groups
    assert group.authorized_operations == expected


@pytest.mark.parametrize("kind", ["assigned", "target"])
def test_a_member_with_a_hidden_topic_hides_the_group(kind):
    world = guarded(allow(DESCRIBE, GROUP, "billing"))
    member = world.consumer_group.groups[0].members.add(member_id="m-1")
    getattr(member, kind).add(topic_id=ORDERS.topic_id, partitions=[0])
    (group,) = call(world, "ConsumerGroupDescribe", 1).groups
    assert (group.error_code, group.members, group.group_state) == (29, (), "")
    give(world, allow(DESCRIBE, TOPIC, "orders"))
    (group,) = call(world, "ConsumerGroupDescribe", 1).groups
    assert (group.error_code, len(group.members)) == (0, 1)


def test_a_regex_brings_no_topic_that_may_not_be_described():
    world = guarded(allow(READ, GROUP, "billing"))
    fields_ = {"subscribed_topic_names": None, "subscribed_topic_regex": "ord.*"}
    answer = call(world, "ConsumerGroupHeartbeat", 1, **fields_)
    assert (answer.error_code, answer.assignment.topic_partitions) == (0, ())
    give(world, allow(DESCRIBE, TOPIC, "orders"))
    answer = call(world, "ConsumerGroupHeartbeat", 1, **fields_)
    assert len(answer.assignment.topic_partitions) == 1


def test_a_refused_member_gets_no_id_back():
    assert call(guarded(), "JoinGroup", 9).member_id == ""


def test_a_transaction_shows_topics_that_may_be_described():
    world = guarded(allow(DESCRIBE, TXN, "pay"))
    (found,) = call(world, "DescribeTransactions", 0).transaction_states
    assert (found.error_code, found.producer_id, found.topics) == (0, 4000, ())
    give(world, allow(WRITE, TOPIC, "orders"))
    (found,) = call(world, "DescribeTransactions", 0).transaction_states
    assert [one.topic for one in found.topics] == ["orders"]
    (refused,) = call(guarded(), "DescribeTransactions", 0).transaction_states
    assert (refused.error_code, refused.transaction_state, refused.producer_id) == (53, "", 0)


def test_transactions_are_listed_that_may_be_described():
    for acls, listed in (([], []), ([allow(DESCRIBE, TXN, "pay")], ["pay"])):
        answer = call(guarded(*acls), "ListTransactions", 2)
        assert answer.error_code == 0
        assert [one.transactional_id for one in answer.transaction_states] == listed


# -------------------------------------------------------------------------------------- transactions


@pytest.mark.parametrize(
    ("acls", "code"),
    [
        ([], 31),
        ([allow(IDEMPOTENT_WRITE, ResourceType.CLUSTER)], 0),
        ([allow(WRITE, TOPIC, "any-topic")], 0),
        ([allow(READ, TOPIC, "any-topic")], 31),
        (
            [
                allow(WRITE, TOPIC, "x"),
                allow(WRITE, TOPIC, "*")._replace(permission=Permission.DENY),
            ],
            31,
        ),
    ],
)
def test_a_producer_without_an_id_writes_somewhere(acls, code):
    world = guarded(*acls)
    answer = call(world, "InitProducerId", 4, transactional_id=None)
    assert (answer.error_code, answer.producer_id) == (code, -1 if code else 4000)
    assert len(world.coordinator.received("InitProducerId")) == (0 if code else 1)


def test_one_refused_topic_stops_the_whole_addition():
    world = guarded(allow(WRITE, TXN, "pay"), allow(WRITE, TOPIC, "orders"))
    request = request_of(APIS[24], 3, with_uuid(WORDS))
    (one,) = request.v3_and_below_topics
    topics = (one, replace(one, name="secret"))
    answer = ask(world, 24, 3, request=replace(request, v3_and_below_topics=topics))
    result = {
        one.name: one.results_by_partition[0].partition_error_code
        for one in answer.results_by_topic_v3_and_below
    }
    assert result == {"orders": 55, "secret": 29}
    assert not world.coordinator.calls


def test_a_branch_is_named_by_its_sink():
    branch = branch_transactional_id("pay", 7, 0)
    job = job_sink_name("pay", "job-1")
    for name in (branch, job, branch_transactional_id(job, 7, 0)):
        world = guarded(allow(DESCRIBE, TXN, "pay"))
        (found,) = call(
            world, "DescribeTransactions", 0, transactional_ids=(name,)
        ).transaction_states
        assert found.error_code == 0
        (found,) = call(
            guarded(), "DescribeTransactions", 0, transactional_ids=(name,)
        ).transaction_states
        assert found.error_code == 53


# -------------------------------------------------------------------------------------- Spark's calls

SESSION = Session(peer="127.0.0.1:1", local=Address("127.0.0.1", 9092), host="127.0.0.1")


async def private(world, one, **values):
    async def answer(request, context):
        world.coordinator.take(one.method, request)
        return one.response()

    setattr(world.coordinator, one.method, answer)
    request = one.request(sink="pay", **values).SerializeToString()
    encoded = await private_call(world.cluster, one, request, 0, SESSION, None)
    return one.response.FromString(encoded)


def test_each_call_of_sparks_has_its_operation():
    assert OPERATIONS.keys() == {one.method for one in PRIVATE_CALLS.values()}


@pytest.mark.parametrize("one", PRIVATE_CALLS.values(), ids=lambda one: one.method)
async def test_sparks_calls_need_the_sinks_transactional_id(one):
    needed = OPERATIONS[one.method]
    world = guarded(allow(READ, TXN, "pay"), allow(WRITE, TXN, "another"))
    if needed is WRITE:
        give(world, allow(DESCRIBE, TXN, "pay"))
    else:
        world = guarded(allow(WRITE, TXN, "another"))
    answer = await private(world, one)
    assert answer.error_code == 53
    if hasattr(answer, "error_message"):
        assert answer.error_message == f"{CLIENT} needs {needed.name} on the transactional id 'pay'"
    assert not world.coordinator.calls
    give(world, allow(WRITE, TXN, "pay"))
    assert (await private(world, one)).error_code == 0
    assert len(world.coordinator.received(one.method)) == 1


async def test_a_branch_is_sealed_over_topics_it_may_write():
    seal = PRIVATE_CALLS[20002]
    last = coordinator_pb2.PartitionSequence(topic="orders", partition=0, last_sequence=3)
    world = guarded(allow(WRITE, TXN, "pay"))
    answer = await private(world, seal, last_sequences=[last])
    assert (answer.error_code, answer.error_message) == (
        29,
        f"{CLIENT} needs WRITE on the topic 'orders'",
    )
    assert not world.coordinator.calls
    give(world, allow(WRITE, TOPIC, "orders"))
    assert (await private(world, seal, last_sequences=[last])).error_code == 0
