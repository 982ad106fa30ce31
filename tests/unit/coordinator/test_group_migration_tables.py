"""A living group changes its protocol, row by row (KIP-848), and the bytes that are kept of it."""

import pytest
from tests.worlds.coordinator.consumer_world import SESSION_MS as CONSUMER_SESSION_MS
from tests.worlds.coordinator.consumer_world import TOPICS
from tests.worlds.coordinator.group_world import REBALANCE_MS, SESSION_MS
from tests.worlds.coordinator.migration_world import (
    COOPERATIVE,
    EVERY,
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
    MigrationPolicy,
)
from oncelog_coordinator.core.group_records import (
    GroupTombstone,
)
from oncelog_coordinator.core.group_state import Group, GroupState
from oncelog_coordinator.core.named_partitions import write_assignment

REBALANCE = ErrorCode.REBALANCE_IN_PROGRESS


@pytest.fixture
def world():
    return MigrationWorld()


# ------------------------------------------------------------------------------------------------ upgrade


def test_a_join_by_the_consumer_protocol_takes_members_over(world):
    first, second = world.settled(world.classic(), world.classic())
    generation = first.generation
    held = {first.member_id: first.owned, second.member_id: second.owned}
    before = len(world.log)
    new = world.client("new")
    assert new.beat() == 0
    group = world.consumers
    assert listed(world) == ("consumer", "Reconciling")
    assert group.epoch == group.target_epoch == generation + 1 == new.epoch
    for member_id, had in held.items():
        member = group.members[member_id]
        assert (member.current.epoch, member.current.assigned) == (generation, had)
        assert member.subscription.classic.session_timeout_ms == SESSION_MS
    assert isinstance(world.log[before], GroupTombstone)
    assert new.assigned == frozenset(), "everything is still in use"
    assert [first.heartbeat(), second.heartbeat()] == [REBALANCE, REBALANCE]
    world.settled(first, second, new)
    assert shared(first, second, new)
    assert listed(world) == ("consumer", "Stable")


def test_offsets_stay_with_the_group_on_either_way(world):
    (member,) = world.settled(world.classic())
    assert world.commit(7, member.generation, member.member_id) == 0
    new = world.client("new")
    world.settled(member, new)
    assert world.fetch() == 7
    assert new.leave() == 0
    assert world.fetch() == 7
    world.crash()
    assert world.fetch() == 7


def test_who_waits_in_a_classic_rebalance_is_told_of_another_one(world):
    (first,) = world.settled(world.classic())
    second = world.classic()
    assert second.step() is None, "it waits for the first"
    new = world.client("new")
    assert new.beat() == 0
    assert second.step() == REBALANCE
    world.settled(first, second, new)
    assert shared(first, second, new)


def test_who_waits_for_its_assignment_is_told_to_rebalance(world):
    first, second = world.settled(world.classic(), world.classic())
    world.classic().step()
    world.settled(first, second, rounds=2)
    assert world.group.is_in(GroupState.COMPLETING_REBALANCE)
    waiting = first if world.group.leader == second.member_id else second
    assert waiting.step() is not None
    assert waiting.waiting[0] == "sync"
    new = world.client("new")
    new.beat()
    assert waiting.step() == REBALANCE
    world.settled(*world.classics, new)
    assert shared(*world.classics, new)


def test_a_cooperative_member_keeps_what_it_reads(world):
    """Its assignment was dropped with the failed generation; that it still has it, only it can say."""
    (member,) = world.settled(world.classic(protocol=COOPERATIVE))
    joins = [world.classic(protocol=COOPERATIVE) for _ in range(2)]
    joins[0].step()
    world.settled(member, rounds=2)
    joins[1].step()
    assert member.owned == EVERY
    assert not any(one.assignment for one in world.group.members.values())
    new = world.client("new")
    new.beat()
    assert new.assigned == frozenset()
    assert world.consumers.members[member.member_id].current.assigned == EVERY


def test_a_partition_assigned_to_several_stays_with_one(world):
    joined = world.stable(protocols=(("broadcast", subscription(("orders",))),))
    second = world.join(protocols=(("broadcast", subscription(("orders",))),))
    again = world.join(joined.member_id, protocols=(("broadcast", subscription(("orders",))),))
    world.advance(0)
    answers = world.answers[again], world.answers[second]
    leader = next(one for one in answers if one.leader == one.member_id)
    everything = write_assignment(EVERY, TOPICS, 1)
    for one in answers:
        given = {each.member_id: everything for each in answers} if one is leader else {}
        world.sync(one, given)
    assert world.group.is_in(GroupState.STABLE)
    assert world.client("new").beat() == 0
    held = [slot for one in world.consumers.members.values() for slot in one.current.assigned]
    assert sorted(held) == sorted(EVERY)


MALFORMED = {"protocols": (("range", b"\0\1\0\0"),)}
NOT_CONSUMERS = {"protocol_type": "connect", "protocols": (("default", b"x"),)}


@pytest.mark.parametrize(
    ("options", "assignment", "config", "says"),
    [
        (MALFORMED, b"", {}, "a subscription of 4 bytes"),
        (NOT_CONSUMERS, b"x", {}, "of type 'connect'"),
        ({}, b"\0\1\0", {}, "an assignment of 3 bytes"),
        ({}, write_assignment(EVERY, TOPICS, 0)[:-4] + b"\0\0\0\1x", {}, "data of its own"),
        ({}, b"", {"migration_policy": MigrationPolicy.DISABLED}, "policy is disabled"),
        ({}, b"", {"migration_policy": MigrationPolicy.DOWNGRADE}, "policy is downgrade"),
        ({}, b"", {"record_bytes_max": 700}, "too large"),
    ],
)
def test_what_cannot_become_a_consumer_group_stays_as_it_is(options, assignment, config, says):
    world = MigrationWorld(**config)
    options = {"protocols": (("range", subscription(("orders",))),)} | options
    joined = world.joined(**options)
    world.sync(joined, {joined.member_id: assignment})
    before = world.group
    new = world.client("new")
    assert new.beat() == ErrorCode.GROUP_ID_NOT_FOUND
    assert says in new.message
    assert world.group is before
    assert world.heartbeat(joined.member_id, joined.generation) == 0


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_data_that_no_member_reads_is_let_go(assignor):
    """librdkafka's leader sends each member what it said in its own subscription."""
    world = MigrationWorld()
    joined = world.joined(protocols=((assignor, subscription(("orders",))),))
    assigned = write_assignment(EVERY, TOPICS, 0)[:-4] + b"\0\0\0\1x"
    world.sync(joined, {joined.member_id: assigned})
    assert world.client("new").beat() == 0
    assert listed(world)[0] == "consumer"


def test_only_a_join_upgrades(world):
    (member,) = world.settled(world.classic())
    new = world.client("new")
    new.epoch = 3
    assert new.beat() == ErrorCode.GROUP_ID_NOT_FOUND
    assert new.leave() == ErrorCode.GROUP_ID_NOT_FOUND
    assert member.heartbeat() == 0
    assert listed(world) == ("classic", "Stable")


def test_a_full_group_is_not_upgraded():
    world = MigrationWorld(group_members_max=1)
    (member,) = world.settled(world.classic())
    assert world.client("new").beat() == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert member.heartbeat() == 0
    assert listed(world) == ("classic", "Stable")


# ------------------------------------------------------------------------------------------------ downgrade


def leaves(world, new):
    assert new.leave() == 0


def falls_silent(world, new):
    for _ in range(CONSUMER_SESSION_MS // 1_000):
        world.advance(1_000)
        world.settled(*world.classics, rounds=1)


@pytest.mark.parametrize("goes", [leaves, falls_silent])
def test_with_the_last_consumer_the_group_is_classic_again(world, goes):
    first, second, new = upgraded(world, 2)
    epoch = world.consumers.epoch
    goes(world, new)
    group = world.group
    assert isinstance(group, Group)
    assert group.generation >= epoch
    world.settled(first, second)
    assert shared(first, second)
    assert listed(world) == ("classic", "Stable")
    assert not [timer for timer in world.timers if timer.startswith(("rejoin", "revoke"))]


def test_members_read_on_until_the_classic_rebalance(world):
    first, second, new = upgraded(world, 2)
    held = {one.member_id: one.owned for one in (first, second)}
    new.leave()
    group = world.group
    assert group.generation == first.generation
    for member_id, had in held.items():
        assert group.members[member_id].assignment == write_assignment(had, TOPICS, 1)
    assert [first.heartbeat(), second.heartbeat()] == [REBALANCE, REBALANCE]


def test_a_coordinator_dead_on_the_way_back_leaves_a_rebalance(world):
    first, second, new = upgraded(world, 2)
    new.leave()
    world.crash()
    assert listed(world) == ("classic", "PreparingRebalance")
    assert [first.heartbeat(), second.heartbeat()] == [REBALANCE, REBALANCE]
    world.settled(first, second)
    assert shared(first, second)
    world.crash()
    assert listed(world) == ("classic", "Stable")


def test_who_does_not_rejoin_the_classic_group_is_put_out(world):
    first, second, new = upgraded(world, 2)
    new.leave()
    world.crash()
    first.settle(2)
    for _ in range(REBALANCE_MS // 1_000):
        world.advance(1_000)
        world.heartbeat(second.member_id, second.generation)
    world.settled(first)
    assert set(world.group.members) == {first.member_id}
    assert first.owned == EVERY


@pytest.mark.parametrize("policy", [MigrationPolicy.UPGRADE, MigrationPolicy.DISABLED])
def test_by_policy_the_rest_stays_a_consumer_group(world, policy):
    old, new = upgraded(world)
    world.config = world.config.__class__(migration_policy=policy)
    world.crash()
    new.leave()
    assert isinstance(world.consumers, ConsumerGroup)
    assert world.heartbeat(old.member_id, old.generation) == REBALANCE


def test_an_empty_group_is_nobodys(world):
    old, new = upgraded(world)
    old.leave()
    new.leave()
    assert listed(world) == ("consumer", "Empty")
    world.settled(old)
    assert listed(world) == ("classic", "Stable")


# ------------------------------------------------------------------------------------------------ the log


def test_a_restart_keeps_members_of_both_protocols(world):
    old, new = upgraded(world)
    before = world.consumers
    world.crash()
    assert world.consumers == before
    assert [old.heartbeat(), new.beat()] == [0, 0]
    world.advance(SESSION_MS)
    assert old.member_id not in world.consumers.members
    assert "new" in world.consumers.members
