"""The consumer protocol (KIP-848) through the listener: what is translated, and what is refused at the edge."""

import uuid
from datetime import timedelta

import pytest
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import ask, ask_in_words
from tests.worlds.listener.listener_world import World

from oncelog.api.v1 import groups_pb2
from oncelog.errors import ErrorCode

HEARTBEAT, DESCRIBE, CLASSIC_DESCRIBE = 68, 69, 15
ORDERS_ID = uuid.UUID(bytes=topic("orders", 1).topic_id)


def beat(world, version=1, **words):
    known = {"group_id": "g", "member_id": "m", "member_epoch": 3, "subscribed_topic_names": None}
    known["rebalance_timeout"] = timedelta(milliseconds=-1)
    if "topic_id" not in words:
        known["topic_partitions"] = None
    return ask_in_words(world, HEARTBEAT, version, **known | words)


@pytest.mark.parametrize("version", [0, 1])
def test_a_full_heartbeat_is_told_whole(world, version):
    answer = beat(
        world,
        version,
        instance_id="i",
        rebalance_timeout=timedelta(seconds=9),
        subscribed_topic_names=("orders",),
        server_assignor="range",
        topic_id=ORDERS_ID,
        partitions=(0, 1),
    )
    (request,) = world.groups.received("ConsumerGroupHeartbeat")
    assert (request.instance_id, request.server_assignor, request.member_epoch) == ("i", "range", 3)
    assert request.rebalance_timeout_ms == 9_000
    assert (request.subscription_present, list(request.subscribed_topic_names)) == (
        True,
        ["orders"],
    )
    assert [(one.topic_id, list(one.partitions)) for one in request.owned] == [
        (ORDERS_ID.bytes, [0, 1])
    ]
    assert not request.HasField("rack_id")
    assert (request.client_id, request.client_host) == ("test", "/127.0.0.1")
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "m", 3)
    assert answer.heartbeat_interval == timedelta(seconds=5)
    (assigned,) = answer.assignment.topic_partitions
    assert (assigned.topic_id, assigned.partitions) == (ORDERS_ID, (0,))


def test_what_has_not_changed_is_left_out(world):
    beat(world)
    (request,) = world.groups.received("ConsumerGroupHeartbeat")
    assert not request.subscription_present
    assert not request.owned_present
    assert request.rebalance_timeout_ms == -1


def test_only_version_0_is_given_a_member_id(world):
    assert beat(world, 0, member_id="", member_epoch=0).member_id
    beat(world, 1, member_id="", member_epoch=0)
    assert [bool(one.member_id) for one in world.groups.received("ConsumerGroupHeartbeat")] == [
        True,
        False,
    ]


def test_a_refusal_says_why(world):
    world.groups.canned["ConsumerGroupHeartbeat"] = groups_pb2.ConsumerGroupHeartbeatResponse(
        error_code=ErrorCode.FENCED_MEMBER_EPOCH, error_message="join again"
    )
    answer = beat(world)
    assert (answer.error_code, answer.error_message) == (110, "join again")
    assert answer.assignment is None
    assert beat(world, group_id="").error_code == ErrorCode.INVALID_REQUEST
    names = tuple(f"{number:0>200}" for number in range(6))
    small = World(group_payload_bytes_max=1_024)
    assert beat(small, subscribed_topic_names=names).error_code == ErrorCode.MESSAGE_TOO_LARGE


def described(world, version=1):
    fields = {"group_ids": ("g",), "include_authorized_operations": False}
    (group,) = ask(world, DESCRIBE, version, **fields).groups
    return group


@pytest.mark.parametrize("version", [0, 1])
def test_a_consumer_group_is_described_by_its_own_call_only(world, version):
    response = groups_pb2.DescribeGroupsResponse()
    group = response.groups.add(
        group_id="g",
        group_type="consumer",
        state="Stable",
        protocol_name="uniform",
        group_epoch=5,
        assignment_epoch=4,
    )
    member = group.members.add(member_id="m", member_epoch=4, subscribed_topic_names=["orders"])
    member.assigned.add(topic_id=ORDERS_ID.bytes, partitions=[0])
    member.assigned.add(topic_id=b"?" * 16, partitions=[0])
    group.members.add(member_id="classic", is_classic=True)
    world.groups.canned["DescribeGroups"] = response
    found = described(world, version)
    assert (found.error_code, found.group_state, found.assignor_name) == (0, "Stable", "uniform")
    assert (found.group_epoch, found.assignment_epoch) == (5, 4)
    shown, classic = found.members
    if version >= 1:
        assert (shown.member_type, classic.member_type) == (1, 0)
    assert (shown.member_epoch, shown.instance_id, shown.subscribed_topic_names) == (
        4,
        None,
        ("orders",),
    )
    assert [(one.topic_name, one.partitions) for one in shown.assignment.topic_partitions] == [
        ("orders", (0,))
    ]
    assert shown.target_assignment.topic_partitions == ()
    fields = {"groups": ("g",), "include_authorized_operations": False}
    (classic,) = ask(world, CLASSIC_DESCRIBE, 6, **fields).groups
    assert classic.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_group_is_no_consumer_group():
    found = described(World())
    assert (found.error_code, found.members) == (ErrorCode.GROUP_ID_NOT_FOUND, ())
