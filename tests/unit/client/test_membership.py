"""A member of a group by KIP-848: which heartbeat follows which event, and what the program must be told."""

import pytest

from oncelog.client.core.consumer_settings import ConsumerSettings
from oncelog.client.core.membership import (
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    HeartbeatAnswer,
    Membership,
    MemberState,
)
from oncelog.client.errors import AuthorizationError, ConfigError, FatalError, FencedError
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

T, U = b"t" * 16, b"u" * 16
NAMES = {T: "t", U: "u"}
T0, T1, U0 = Partition("t", 0), Partition("t", 1), Partition("u", 0)


def member(**settings):
    found = Membership(ConsumerSettings(group_id="g", **settings), "me")
    found.subscribe(("t",), None)
    return found


def answer(target=None, epoch=1, error=ErrorCode.NONE, interval_ms=3000):
    return HeartbeatAnswer(error, "", epoch, interval_ms, target)


def beat(one, now_ms=0.0):
    found, _ = one.step(now_ms)
    assert found is not None
    return found


def joined(*target, **settings):
    one = member(**settings)
    beat(one)
    one.answered(answer(frozenset(target)), 0)
    while (change := one.change(NAMES)) is not None:
        one.told(change, NAMES)
    if one.state is MemberState.ACKNOWLEDGING:
        beat(one)
        one.answered(answer(), 0)
    assert one.state is MemberState.STABLE
    return one


def test_the_first_heartbeat_says_everything():
    one = member(group_instance_id="i", client_rack="r", group_remote_assignor="uniform")
    first = beat(one)
    assert first == (0, "i", "r", 300_000, ("t",), None, "uniform", frozenset())
    assert one.step(10_000) == (None, float("inf")), "one is under way"


def test_an_assignment_is_told_then_acknowledged():
    one = member()
    beat(one)
    one.answered(answer(frozenset({(T, 0), (T, 1)})), 0)
    assert one.state is MemberState.RECONCILING
    assert one.step(0)[0] is None, "nothing is acknowledged before the program knows"
    change = one.change(NAMES)
    assert change == (frozenset(), frozenset(), {T0, T1})
    one.told(change, NAMES)
    assert one.state is MemberState.ACKNOWLEDGING
    assert beat(one).owned == {(T, 0), (T, 1)}
    one.answered(answer(), 0)
    assert one.state is MemberState.STABLE
    assert beat(one, 3000) == (1, None, None, -1, None, None, None, None)


def test_what_is_revoked_is_told_before_it_is_acknowledged():
    one = joined((T, 0), (T, 1))
    beat(one, 3000)
    one.answered(answer(frozenset({(T, 0)}), epoch=1), 3000)
    change = one.change(NAMES)
    assert change.revoked == {T1}
    assert change.assigned == frozenset()
    assert beat(one, 6000).owned is None, "while the program commits, the member stays alive"
    one.answered(answer(), 6000)
    one.told(change, NAMES)
    assert beat(one, 6000).owned == {(T, 0)}


def test_a_heartbeat_under_way_does_not_acknowledge():
    one = joined((T, 0), (T, 1))
    beat(one, 3000)
    one.answered(answer(frozenset({(T, 0)})), 3000)
    beat(one, 6000)
    one.told(one.change(NAMES), NAMES)
    one.answered(answer(), 6000)
    assert one.state is MemberState.ACKNOWLEDGING
    assert beat(one, 6000).owned == {(T, 0)}


def test_a_newer_target_comes_after_the_acknowledgement():
    one = joined((T, 0))
    beat(one, 3000)
    one.answered(answer(frozenset()), 3000)
    one.told(one.change(NAMES), NAMES)
    beat(one, 3000)
    one.answered(answer(frozenset({(U, 0)}), epoch=2), 3000)
    assert one.change(NAMES) == (frozenset(), frozenset(), {U0})


def test_the_same_target_again_is_acknowledged_without_a_word():
    one = joined((T, 0))
    beat(one, 3000)
    one.answered(answer(frozenset({(T, 0)}), epoch=2), 3000)
    assert one.change(NAMES) is None
    assert beat(one, 3000).owned == {(T, 0)}


def test_a_topic_without_a_name_is_left_for_later():
    one = member()
    beat(one)
    one.answered(answer(frozenset({(T, 0), (U, 0)})), 0)
    known = {T: "t"}
    assert one.has_unknown(known)
    one.told(one.change(known), known)
    beat(one)
    one.answered(answer(), 0)
    assert one.change(known) is None
    assert one.change(NAMES) == (frozenset(), frozenset(), {U0})


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_loses_everything_and_joins_again(error):
    one = joined((T, 0))
    beat(one, 3000)
    one.answered(answer(error=error), 3000)
    assert one.state is MemberState.FENCED
    assert one.step(9000)[0] is None, "the program must know first"
    change = one.change(NAMES)
    assert change == ({T0}, frozenset(), frozenset())
    one.told(change, NAMES)
    again = beat(one, 3000)
    assert again.member_epoch == 0
    assert again.topics == ("t",)


def test_a_member_fenced_while_it_reconciles_loses_it_all():
    one = joined((T, 0))
    beat(one, 3000)
    one.answered(answer(frozenset({(T, 0), (T, 1)})), 3000)
    change = one.change(NAMES)
    beat(one, 6000)
    one.answered(answer(error=ErrorCode.FENCED_MEMBER_EPOCH), 6000)
    one.told(change, NAMES)
    assert one.change(NAMES).lost == {T0, T1}


def test_after_a_lost_answer_everything_is_said_again():
    one = joined((T, 0))
    beat(one, 3000)
    one.lost(3000)
    assert one.step(3000)[0] is None, "it pauses"
    again = beat(one, 4000)
    assert again.member_epoch == 1
    assert again.topics == ("t",)
    assert again.owned == {(T, 0)}


def test_a_coordinator_that_moved_is_asked_again():
    one = joined((T, 0))
    beat(one, 3000)
    one.answered(answer(error=ErrorCode.NOT_COORDINATOR), 3000)
    assert one.is_joined
    assert beat(one, 4000).member_epoch == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, AuthorizationError),
        (ErrorCode.UNRELEASED_INSTANCE_ID, FencedError),
        (ErrorCode.FENCED_INSTANCE_ID, FencedError),
        (ErrorCode.UNSUPPORTED_ASSIGNOR, ConfigError),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, ConfigError),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, FatalError),
    ],
)
def test_what_no_repetition_cures_is_the_end(error, kind):
    one = member()
    beat(one)
    one.answered(answer(error=error), 0)
    assert one.state is MemberState.FATAL
    assert isinstance(one.error, kind)
    assert one.step(99_000)[0] is None


def test_a_group_of_the_other_protocol_is_named_with_the_way_out():
    one = member()
    beat(one)
    said = "group 'g' speaks the classic protocol, and group.consumer.migration.policy is disabled"
    one.answered(HeartbeatAnswer(ErrorCode.GROUP_ID_NOT_FOUND, said), 0)
    assert said in str(one.error)
    assert "stop them, or give another group.id" in str(one.error)


@pytest.mark.parametrize(("instance", "epoch"), [(None, LEAVE_EPOCH), ("i", LEAVE_STATIC_EPOCH)])
def test_who_leaves_says_whether_it_comes_back(instance, epoch):
    one = joined((T, 0), group_instance_id=instance)
    farewell = one.leave()
    assert farewell.member_epoch == epoch
    assert farewell.instance_id == instance
    assert one.leave() is None, "once"


def test_a_program_that_asks_late_leaves_and_joins_again():
    one = joined((T, 0))
    assert one.poll_is_late().member_epoch == LEAVE_EPOCH
    assert one.step(99_000)[0] is None
    one.polled()
    assert one.state is MemberState.STALE, "first it is told what it lost"
    one.told(one.change(NAMES), NAMES)
    one.polled()
    assert beat(one, 99_000).member_epoch == 0


def test_an_answer_to_a_former_member_is_no_news():
    one = joined((T, 0))
    beat(one, 3000)
    one.leave()
    one.answered(answer(frozenset({(T, 1)})), 3000)
    assert one.state is MemberState.UNSUBSCRIBED


def test_a_pattern_is_taken_back_when_topics_follow():
    one = Membership(ConsumerSettings(group_id="g"), "me")
    one.subscribe(None, "t.*")
    first = beat(one)
    assert (first.topics, first.pattern) == ((), "t.*")
    one.answered(answer(), 0)
    one.subscribe(("t",), None)
    second = beat(one)
    assert (second.topics, second.pattern) == (("t",), "")
