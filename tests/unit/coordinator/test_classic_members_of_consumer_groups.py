"""Members of the classic protocol in a consumer group, row by row (KIP-848)."""

import pytest
from tests.worlds.coordinator.consumer_world import TOPICS
from tests.worlds.coordinator.group_world import ORDERS, REBALANCE_MS, SESSION_MS
from tests.worlds.coordinator.migration_world import (
    COOPERATIVE,
    EVERY,
    ClassicClient,
    MigrationWorld,
    listed,
    shared,
    subscription,
    upgraded,
)

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.consumer_group import (
    ConsumerGroup,
)
from oncelog_coordinator.core.group_events import (
    FetchOffsets,
    LeaveGroup,
    Leaving,
    MigrationPolicy,
    SyncGroup,
)
from oncelog_coordinator.core.named_partitions import write_assignment

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def world():
    return MigrationWorld()


# ------------------------------------------------------------------------------------------------ classic members


def test_the_generation_of_a_classic_member_is_its_epoch(world):
    old, _ = upgraded(world)
    assert old.generation == world.consumers.members[old.member_id].current.epoch
    ahead, unknown = old.generation + 1, "nobody"
    assert world.heartbeat(old.member_id, ahead) == ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(unknown, old.generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("new", old.generation) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.commit(5, old.generation, old.member_id) == 0
    assert world.commit(5, ahead, old.member_id) == ErrorCode.ILLEGAL_GENERATION
    illegal = world.commit_in_transaction(5, generation=ahead, member_id=old.member_id)
    assert illegal == ErrorCode.ILLEGAL_GENERATION
    fine = world.commit_in_transaction(5, generation=old.generation, member_id=old.member_id)
    assert fine == 0

    def fetched(epoch):
        wanted = ("g", (ORDERS,), False, old.member_id, epoch)
        return world.answer(FetchOffsets, *wanted).error_code

    assert fetched(old.generation) == 0
    assert fetched(ahead) == ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, 0),
        ({"protocol_type": "consumer", "protocol_name": "range"}, 0),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"generation": 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_id": "new"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"instance_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_what_a_sync_is_answered(world, fields, code):
    old, _ = upgraded(world)
    fields = {"generation": old.generation, "member_id": old.member_id} | fields
    answer = world.answer(SyncGroup, "g", **fields)
    assert answer.error_code == code
    if code == 0:
        assert (answer.protocol_type, answer.protocol_name) == ("consumer", "range")
        assert answer.assignment == write_assignment(old.owned, TOPICS, 1)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"requires_known_member_id": True}, ErrorCode.MEMBER_ID_REQUIRED),
        ({"member_id": "chosen-by-itself"}, ErrorCode.NONE),
        ({"member_id": "m", "instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        (
            {"protocols": (("sticky", subscription(("orders",))),)},
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ),
        ({"protocols": (("range", b"\0"),)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_what_a_join_is_answered(world, fields, code):
    upgraded(world)
    fields = {"protocols": (("range", subscription(("orders",), (), 3)),)} | fields
    answer = world.answers[world.join(**fields)]
    assert answer.error_code == code
    if code is ErrorCode.NONE:
        group = world.consumers
        found = (answer.generation, answer.protocol_name, answer.leader, answer.members)
        assert found == (group.epoch, "range", "", ())
        assert group.members[answer.member_id].subscription.rack_id == "rack"


def test_no_classic_member_joins_while_migration_is_disabled():
    world = MigrationWorld(migration_policy=MigrationPolicy.DISABLED)
    world.settled(world.client("new"))
    assert world.classic().settle(2) == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_classic_member_joins_when_what_it_waits_for_is_free(world):
    new = world.client("new")
    world.settled(new)
    old = world.classic()
    old.settle()
    assert old.owned == frozenset(), "the other still has all of it"
    assert old.heartbeat() == 0
    new.beat()
    new.settle()
    assert old.heartbeat() == 0, "it has not said that it gave it up"
    new.beat()
    assert old.heartbeat() == REBALANCE
    world.settled(old, new)
    assert shared(old, new)


def test_a_cooperative_member_gives_up_before_others_get_it(world):
    (old,) = world.settled(world.classic(protocol=COOPERATIVE))
    new = world.client("new")
    new.beat()
    assert old.heartbeat() == REBALANCE
    old.settle(2)
    assert old.heartbeat() == REBALANCE, "it has joined with all that it has"
    new.beat()
    assert new.assigned == frozenset()
    world.settled(old, new)
    assert shared(old, new)


def test_a_classic_member_joins_and_syncs_in_time_or_is_put_out(world):
    old, new = upgraded(world)

    def passes(span_ms):
        for _ in range(span_ms // 1_000):
            world.advance(1_000)
            new.beat()
            new.settle()
            world.heartbeat(old.member_id, old.generation)

    new.subscribe("orders", "bills")
    passes(REBALANCE_MS - 1_000)
    assert old.member_id in world.consumers.members
    passes(2_000)
    assert world.labels.count("classic_member_did_not_rejoin") == 1
    assert world.heartbeat(old.member_id, old.generation) == ErrorCode.UNKNOWN_MEMBER_ID
    late = world.classic()
    late.step()
    late.step()
    passes(REBALANCE_MS)
    assert late.member_id not in world.consumers.members


def test_a_silent_classic_member_is_put_out_after_its_session(world):
    old, new = upgraded(world)
    world.advance(SESSION_MS - 1)
    assert old.member_id in world.consumers.members
    world.advance(1)
    assert old.member_id not in world.consumers.members
    world.settled(new)
    assert new.owned == EVERY


def test_an_operator_removes_members_of_either_protocol(world):
    old, second, new = upgraded(world, 2)
    gone = Leaving(old.member_id), Leaving("nobody"), Leaving("", "i")
    answer = world.answer(LeaveGroup, "g", gone)
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [code for _, code in answer.members] == [0, unknown, unknown]
    assert set(world.consumers.members) == {second.member_id, new.member_id}
    assert world.leave(new.member_id) == [0]
    assert listed(world) == ("classic", "PreparingRebalance")


def test_new_partitions_reach_a_group_of_classic_members():
    world = MigrationWorld(migration_policy=MigrationPolicy.UPGRADE)
    old, new = upgraded(world)
    new.leave()
    assert isinstance(world.consumers, ConsumerGroup), "no way back by this policy"
    world.settled(old)
    assert old.owned == EVERY
    topic_id, _ = world.shapes["orders"]
    world.shapes["orders"] = type(world.shapes["orders"])(topic_id, 9)
    world.settled(old)
    assert len(old.owned) == 9


# ------------------------------------------------------------------------------------------------ static members


def test_an_instance_changes_protocol_and_keeps_its_partitions(world):
    other = world.classic()
    instance = world.classic(instance_id="i")
    world.settled(other, instance)
    had = instance.owned
    new = world.client("new", instance_id="i")
    assert new.beat() == 0
    assert new.assigned == had
    assert instance.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert other.heartbeat() == 0, "nothing changed for it"
    back = ClassicClient(world, 9, instance_id="i")
    back.settle(3)
    assert listed(world) == ("classic", "Stable")
    assert back.owned == had
    assert other.heartbeat() == 0
    new.epoch = 5
    assert new.beat() == ErrorCode.GROUP_ID_NOT_FOUND
    world.crash()
    assert [back.heartbeat(), other.heartbeat()] == [0, 0]


def test_an_instance_back_amid_a_rebalance_rebalances_the_group(world):
    other, third = world.classic(), world.classic()
    new = world.client("new", instance_id="i")
    world.settled(other, third, new)
    third.leave()
    back = ClassicClient(world, 9, instance_id="i")
    back.step()
    assert listed(world) == ("classic", "PreparingRebalance")
    assert other.heartbeat() == REBALANCE
    world.settled(other, back)
    assert shared(other, back)


def test_only_a_classic_one_takes_over_a_consumers_instance(world):
    world.settled(world.client("a", instance_id="i"), world.client("b"))
    assert world.client("c", instance_id="i").beat() == ErrorCode.UNRELEASED_INSTANCE_ID
    classic = world.classic(instance_id="i")
    assert classic.settle(3) == 0
    assert "a" not in world.consumers.members
    assert classic.owned
