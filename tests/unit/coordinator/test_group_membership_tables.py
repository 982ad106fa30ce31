"""Joining, syncing, heartbeats, leaving and silence, row by row (Kafka's classic protocol; KIP-345, KIP-394)."""

import pytest
from tests.worlds.coordinator.group_world import (
    RANGE,
    REBALANCE_MS,
    SESSION_MS,
    GroupWorld,
)

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.group_state import GroupState

NONE = ErrorCode.NONE


@pytest.fixture
def world():
    return GroupWorld()


def names(world):
    return tuple(world.group.members)


def two_stable(**fields):
    """A stable group of two: the world, and the answers to their joins, leader first."""
    world = GroupWorld(initial_rebalance_delay_ms=100)
    requests = [world.join(**fields), world.join(**fields)]
    world.advance(1_000)
    first, second = (world.answers[request] for request in requests)
    follower_sync = world.sync(second)
    world.sync(first, {first.member_id: b"left", second.member_id: b"right"})
    assert world.answers[follower_sync].assignment == b"right"
    return world, first, second


# ---------------------------------------------------------------------------------------------------- joining


def test_a_dynamic_member_is_given_an_id_before_it_counts(world):
    first = world.answers[world.join(requires_known_member_id=True)]
    assert first.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert world.group.pending == (first.member_id,)
    assert not world.group.members
    again = world.join(first.member_id, requires_known_member_id=True)
    world.advance(0)
    assert world.answers[again].error_code == NONE
    assert (world.answers[again].member_id, world.group.pending) == (first.member_id, ())


def test_a_protocol_that_a_member_names_twice_counts_once():
    """Else nobody would have it in common, and the rebalance would break and never end."""
    world = GroupWorld(initial_rebalance_delay_ms=100)
    requests = [world.join(protocols=(*RANGE, *RANGE)), world.join()]
    world.advance(1_000)
    for request in requests:
        assert world.answers[request].error_code == NONE
    assert world.group.protocol == RANGE[0][0]


def test_an_id_that_nobody_gave_out_is_unknown(world):
    assert world.answers[world.join("stranger")].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    world.stable()
    assert world.answers[world.join("stranger")].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_first_rebalance_waits_as_long_as_members_arrive():
    world = GroupWorld(initial_rebalance_delay_ms=1_000)
    first = world.join()
    world.advance(900)
    second = world.join()
    world.advance(900)
    assert first not in world.answers
    world.advance(200)
    assert {world.answers[r].generation for r in (first, second)} == {1}
    assert [len(world.answers[r].members) for r in (first, second)] == [2, 0]


def test_it_waits_no_longer_than_the_rebalance_timeout():
    world = GroupWorld(initial_rebalance_delay_ms=1_000)
    first = world.join(rebalance_timeout_ms=3_000)
    for _ in range(4):
        world.advance(900)
        world.join(rebalance_timeout_ms=3_000)
    assert first in world.answers


def test_a_new_member_makes_the_others_join_again(world):
    old = world.stable()
    new = world.join()
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.heartbeat(old.member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert new not in world.answers
    again = world.join(old.member_id)
    answers = [world.answers[again], world.answers[new]]
    assert [answer.generation for answer in answers] == [2, 2]
    assert [answer.leader for answer in answers] == [old.member_id] * 2


def test_who_does_not_join_again_in_time_is_dropped():
    patient = {"session_timeout_ms": 10 * REBALANCE_MS}
    world, first, second = two_stable(**patient)
    again = world.join(second.member_id, protocols=(("range", b"other"),), **patient)
    world.advance(REBALANCE_MS - 1)
    assert again not in world.answers
    world.advance(REBALANCE_MS)
    answer = world.answers[again]
    assert (answer.error_code, answer.leader) == (NONE, second.member_id)
    assert names(world) == (second.member_id,)
    assert world.heartbeat(first.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_join_whose_answer_was_lost_is_answered_again(world):
    joined = world.joined()
    again = world.answers[world.join(joined.member_id)]
    assert (again.generation, again.leader) == (1, joined.member_id)
    assert len(again.members) == 1


def test_a_leader_that_joins_a_stable_group_wants_a_rebalance():
    world, first, second = two_stable()
    follower = world.answers[world.join(second.member_id)]
    assert (follower.generation, world.group.state) == (1, GroupState.STABLE)
    world.join(first.member_id)
    assert world.group.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", RANGE), ("consumer", (("sticky", b""),)), ("consumer", ()), ("", RANGE)],
)
def test_a_member_that_shares_no_protocol_is_refused(world, protocol_type, protocols):
    world.stable()
    refused = world.join(protocol_type=protocol_type, protocols=protocols)
    assert world.answers[refused].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_most_votes_win_among_protocols_that_all_have():
    world = GroupWorld(initial_rebalance_delay_ms=100)
    wanted = [("a", "b"), ("b", "a", "c"), ("b", "a")]
    requests = [world.join(protocols=tuple((p, p.encode()) for p in each)) for each in wanted]
    world.advance(1_000)
    assert {world.answers[request].protocol_name for request in requests} == {"b"}
    (leader,) = (world.answers[r] for r in requests if world.answers[r].members)
    assert [member.metadata for member in leader.members] == [b"b"] * 3


def test_one_member_too_many_is_refused():
    world = GroupWorld(group_members_max=1)
    world.stable()
    assert world.answers[world.join()].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


# ---------------------------------------------------------------------------------------------------- syncing


def test_nobody_is_told_an_assignment_before_the_leader_gave_it():
    world = GroupWorld(initial_rebalance_delay_ms=100)
    requests = [world.join(), world.join()]
    world.advance(1_000)
    leader, follower = sorted(
        (world.answers[r] for r in requests), key=lambda answer: not answer.members
    )
    waiting = world.sync(follower)
    assert waiting not in world.answers
    assert world.log == []
    request = world.sync(leader, {leader.member_id: b"1", follower.member_id: b"2"})
    assert (world.answers[request].assignment, world.answers[waiting].assignment) == (b"1", b"2")
    assert len(world.log) == 1, "members and assignments are one record"


def test_a_sync_whose_answer_was_lost_is_answered_again():
    world, _, second = two_stable()
    assert world.answers[world.sync(second)].assignment == b"right"


def test_a_member_the_leader_forgot_gets_nothing(world):
    joined = world.joined()
    assert world.answers[world.sync(joined, {"somebody": b"1"})].assignment == b""


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"generation": 0}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation": 2}, ErrorCode.ILLEGAL_GENERATION),
        ({"member_id": "stranger"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_sync_of_something_else_is_refused(world, fields, code):
    joined = world.joined()
    assert world.answers[world.sync(joined, **fields)].error_code == code


def test_members_that_wait_for_an_assignment_join_again():
    world = GroupWorld(initial_rebalance_delay_ms=100)
    requests = [world.join(), world.join()]
    world.advance(1_000)
    follower = next(world.answers[r] for r in requests if not world.answers[r].members)
    waiting = world.sync(follower)
    world.join()
    assert world.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_never_sync_are_dropped():
    world = GroupWorld(initial_rebalance_delay_ms=100)
    requests = [world.join(session_timeout_ms=10 * REBALANCE_MS) for _ in range(2)]
    world.advance(1_000)
    leader = next(world.answers[r] for r in requests if world.answers[r].members)
    world.sync(leader, {leader.member_id: b"1"})
    world.advance(REBALANCE_MS)
    assert names(world) == (leader.member_id,)
    assert world.group.state is GroupState.PREPARING_REBALANCE


def test_an_assignment_that_fits_no_record_is_told_to_all():
    world = GroupWorld(record_bytes_max=1_000)
    joined = world.joined()
    request = world.sync(joined, {joined.member_id: bytes(2_000)})
    assert world.answers[request].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.group.state is GroupState.PREPARING_REBALANCE


# ------------------------------------------------------------------------------------------ being there or not


def test_heartbeats_keep_a_member(world):
    joined = world.stable()
    for _ in range(10):
        world.advance(SESSION_MS - 1)
        assert world.heartbeat(joined.member_id, 1) == NONE
    world.advance(SESSION_MS)
    assert world.heartbeat(joined.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert world.group.state is GroupState.EMPTY


@pytest.mark.parametrize("step_ms", [1_000, 3_600_000, -3_600_000])
def test_a_clock_that_steps_puts_no_living_member_out(world, step_ms):
    """Its timer ends between the step and its next heartbeat, and it was heard a moment ago."""
    joined = world.stable()
    for _ in range(4):
        world.advance(SESSION_MS // 2 + 500)
        assert world.heartbeat(joined.member_id, 1) == NONE
        world.step_clock(step_ms)
    world.advance(2 * SESSION_MS)
    assert world.heartbeat(joined.member_id, 1) == ErrorCode.UNKNOWN_MEMBER_ID, (
        "silence still counts"
    )


def test_commits_are_signs_of_life_too(world):
    joined = world.stable()
    for offset in range(5):
        world.advance(SESSION_MS - 1)
        assert world.commit(offset, 1, joined.member_id) == NONE


def test_a_silent_members_partitions_go_to_the_others():
    world, first, second = two_stable()
    world.advance(SESSION_MS // 2)
    assert world.heartbeat(second.member_id, 1) == NONE
    world.advance(SESSION_MS // 2)
    assert names(world) == (second.member_id,)
    assert world.heartbeat(second.member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert world.answers[world.join(second.member_id)].leader == second.member_id
    assert first.member_id not in names(world)


def test_waiting_for_the_others_is_no_silence():
    world, first, second = two_stable()
    world.join(first.member_id)
    for _ in range(3):
        world.advance(SESSION_MS - 1)
        world.heartbeat(second.member_id, 1)
    assert names(world) == (first.member_id, second.member_id)


def test_an_id_given_out_and_never_used_is_forgotten(world):
    world.join(requires_known_member_id=True)
    world.advance(SESSION_MS)
    assert world.group.pending == ()


@pytest.mark.parametrize(
    ("generation", "member_id", "code"),
    [
        (0, None, ErrorCode.ILLEGAL_GENERATION),
        (1, "stranger", ErrorCode.UNKNOWN_MEMBER_ID),
        (1, None, NONE),
    ],
)
def test_heartbeats_say_where_the_group_is(world, generation, member_id, code):
    joined = world.stable()
    assert world.heartbeat(member_id or joined.member_id, generation) == code


def test_many_may_leave_with_one_request():
    world, first, second = two_stable()
    left = world.leave(first.member_id, "stranger", second.member_id)
    assert left == [NONE, ErrorCode.UNKNOWN_MEMBER_ID, NONE]
    assert (world.group.state, world.group.generation) == (GroupState.EMPTY, 2)
    assert world.leave(first.member_id) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_who_waits_and_leaves_is_answered(world):
    old = world.stable()
    new = world.join(new_member_id="n")
    world.leave("n")
    assert world.answers[new].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert names(world) == (old.member_id,)


# ---------------------------------------------------------------------------------------------- static members


def stable_static(world):
    return world.stable(instance_id="i")


def test_an_instance_too_large_for_a_record_is_not_written_down():
    """The append would fail, and every group of the shard would be loaded again, each time the instance asks."""
    world = GroupWorld(record_bytes_max=1_000)
    stable_static(world)
    written = len(world.log)
    request = world.join(instance_id="i", protocols=(("range", bytes(2_000)),))
    assert len(world.log) == written
    found = world.sync(world.answers[request], {})
    assert world.answers[found].error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_an_instance_that_comes_back_keeps_its_assignment(world):
    old = stable_static(world)
    back = world.answers[world.join(instance_id="i", supports_skipping_assignment=True)]
    assert (back.error_code, back.generation, back.skip_assignment) == (NONE, 1, True)
    assert back.member_id != old.member_id
    assert (back.leader, len(back.members)) == (back.member_id, 1)
    assert world.answers[world.sync(back, instance_id="i")].assignment == b"all"
    assert world.replayed().group("g").members[back.member_id].assignment == b"all"


def test_a_client_that_cannot_skip_is_not_told_that_it_leads(world):
    old = stable_static(world)
    back = world.answers[world.join(instance_id="i")]
    assert (back.leader, back.members, back.skip_assignment) == (old.member_id, (), False)


def test_the_instance_that_was_replaced_is_fenced(world):
    old = stable_static(world)
    world.join(instance_id="i")
    fenced = ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(old.member_id, 1, instance_id="i") == fenced
    assert world.commit(1, 1, old.member_id, "i") == fenced
    assert world.answers[world.sync(old, instance_id="i")].error_code == fenced
    assert world.answers[world.join(old.member_id, instance_id="i")].error_code == fenced


def test_an_instance_that_changes_protocol_starts_a_rebalance(world):
    both = (("range", b"r"), ("sticky", b"s"))
    joined = world.joined(instance_id="i", protocols=both)
    world.sync(joined, {joined.member_id: b"all"})
    back = world.answers[world.join(instance_id="i", protocols=both[::-1])]
    assert (back.generation, back.protocol_name) == (2, "sticky")


def test_an_instance_replaced_amid_a_rebalance_begins_another():
    """The leader may assign to the id that it was told: nobody has it any more."""
    world = GroupWorld(initial_rebalance_delay_ms=100)
    requests = [world.join(), world.join(instance_id="i")]
    world.advance(1_000)
    leader, static = (world.answers[request] for request in requests)
    assert leader.members, "it leads"
    old_sync = world.sync(static, instance_id="i")
    back = world.join(instance_id="i")
    assert world.labels[-1] == "static_member_replaced_amid_rebalance"
    assert world.answers[old_sync].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert (back in world.answers, world.group.state) == (False, GroupState.PREPARING_REBALANCE)
    stale = world.sync(leader, {leader.member_id: b"1", static.member_id: b"2"})
    assert world.answers[stale].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    world.join(leader.member_id)
    assert world.answers[back].generation == leader.generation + 1


def test_an_instance_that_comes_back_last_completes_the_join():
    world = GroupWorld(initial_rebalance_delay_ms=100)
    requests = [world.join(instance_id="i"), world.join()]
    world.advance(1_000)
    static, other = (world.answers[request] for request in requests)
    third = world.join()
    again = world.join(other.member_id)
    assert not {third, again} & world.answers.keys(), "the instance is missing"
    back = world.join(instance_id="i")
    assert world.labels[-1] == "static_member_replaced"
    assert {world.answers[one].generation for one in (third, again, back)} == {
        static.generation + 1
    }


def test_an_absent_instance_keeps_its_place_for_its_session():
    world = GroupWorld(initial_rebalance_delay_ms=100)
    requests = [world.join(instance_id="i"), world.join(session_timeout_ms=10 * REBALANCE_MS)]
    world.advance(1_000)
    static, other = (world.answers[request] for request in requests)
    for joined in (other, static):
        world.sync(joined, {static.member_id: b"1", other.member_id: b"2"})
    assert world.group.state is GroupState.STABLE
    world.now += 1
    third = world.join(session_timeout_ms=10 * REBALANCE_MS)
    world.join(other.member_id, session_timeout_ms=10 * REBALANCE_MS)
    world.advance(SESSION_MS - 2)
    assert third not in world.answers
    assert static.member_id in names(world)
    world.advance(SESSION_MS)
    assert static.member_id not in names(world)
    assert world.answers[third].error_code == NONE


def test_an_absent_instance_goes_though_the_clock_was_set_back(world):
    static = stable_static(world)
    world.set_clock_back(3_600_000)
    world.advance(SESSION_MS)
    assert static.member_id in names(world)
    world.advance(SESSION_MS)
    assert static.member_id not in names(world)


def test_an_operator_removes_an_instance_by_its_name():
    from oncelog_coordinator.core.group_events import LeaveGroup, Leaving

    world = GroupWorld()
    stable_static(world)
    answer = world.answer(LeaveGroup, "g", (Leaving("", "i"), Leaving("", "nobody")))
    assert [code for _, code in answer.members] == [NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.group.state is GroupState.EMPTY


# ---------------------------------------------------------------------------------------------------- crashes


def test_the_next_coordinator_gives_known_members_a_session():
    world, first, second = two_stable()
    world.crash()
    assert world.heartbeat(first.member_id, 1) == NONE
    assert world.answers[world.sync(second)].assignment == b"right"
    world.advance(SESSION_MS - 1)
    assert world.heartbeat(first.member_id, 1) == NONE
    world.advance(1)
    assert names(world) == (first.member_id,)


def test_a_rebalance_cut_short_begins_again():
    world, first, second = two_stable()
    world.join()
    world.join(first.member_id)
    world.crash()
    assert (world.group.state, world.group.generation) == (GroupState.STABLE, 1)
    again = [world.join(first.member_id), world.join(second.member_id)]
    assert [world.answers[request].generation for request in again] == [2, 2]
