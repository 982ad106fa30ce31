"""Members of the consumer protocol leave a group, or are removed from it (KIP-848).

When the last member of the consumer protocol goes, members of the classic protocol may be left. They become a classic
group again, if the migration policy lets them: see `group_migration`.
"""

from collections.abc import Iterable
from dataclasses import replace

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import CancelTimer, Decision, Reply
from oncelog_coordinator.core.consumer_change import Change, revoke_timer, session_ms
from oncelog_coordinator.core.consumer_group import (
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerMember,
    Current,
    MemberAssigned,
    MemberState,
)
from oncelog_coordinator.core.group_events import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    RejoinTimeOver,
    RevokeTimeOver,
    SessionCheck,
)
from oncelog_coordinator.core.group_migration import downgrade, may_downgrade
from oncelog_coordinator.core.group_rebalance import session_going_on
from oncelog_coordinator.core.group_records import GroupRecord


def leave(
    change: Change, member: ConsumerMember, event: ConsumerHeartbeat
) -> Decision[GroupRecord]:
    """Answer a heartbeat by which a member leaves the group: for good, or for a while as a static member.

    Its epoch is not checked: a leaving member asks for nothing that could be out of date.
    """
    answer = ConsumerHeartbeatAnswer(ErrorCode.NONE, "", event.member_id, event.member_epoch)
    change.effects.append(Reply(event.request_id, answer))
    if event.member_epoch == LEAVE_EPOCH:
        return remove(change, (member.member_id,), "consumer_left")
    # Its partitions wait for it as long as its session would have lasted.
    away = Current(STATIC_LEAVE_EPOCH, member.current.epoch, MemberState.STABLE)
    away = replace(away, assigned=member.current.assigned)
    change.write(MemberAssigned(event.group_id, member.member_id, away))
    change.effects.append(CancelTimer(revoke_timer(event.group_id, member.member_id)))
    return change.decision("consumer_left_for_a_while")


def remove(change: Change, member_ids: Iterable[str], label: str) -> Decision[GroupRecord]:
    """Return the decision that removes these members. `label` names it in logs and metrics.

    The next heartbeat of a remaining member computes a new assignment. If only classic members remain, the group may
    become a classic one instead.
    """
    had_consumers = any(not member.is_classic for member in change.group.members.values())
    for member_id in member_ids:
        change.remove(member_id)
    if may_downgrade(change.group, change.config):
        ended = "consumer_group_downgraded" if had_consumers else "classic_rest_downgraded"
        decision = downgrade(change, ended)
        if decision is not None:
            return decision
    change.raise_epoch()
    return change.decision(label)


# ------------------------------------------------------------------------------------------------ time


def session_check(
    change: Change, event: SessionCheck, deadline: Millis | None
) -> Decision[GroupRecord]:
    member = change.group.members.get(event.member_id)
    if member is None:
        return Decision((), (), "session_of_nobody")
    longest_ms = session_ms(member, change.config)
    going_on = session_going_on(event, deadline, longest_ms, change.now, "consumer_session_goes_on")
    if going_on is not None:
        return going_on
    return remove(change, (event.member_id,), "consumer_expired")


def revoke_time_over(change: Change, event: RevokeTimeOver) -> Decision[GroupRecord]:
    member = change.group.members.get(event.member_id)
    is_waiting = member is not None and (
        member.current.state is MemberState.UNREVOKED_PARTITIONS
        and member.current.epoch == event.member_epoch
    )
    if not is_waiting:
        return Decision((), (), "timer_too_late")
    return remove(change, (event.member_id,), "consumer_did_not_revoke")


def rejoin_time_over(
    change: Change, event: RejoinTimeOver, awaited: Millis | None
) -> Decision[GroupRecord]:
    """Remove a classic member that did not send its next JoinGroup or SyncGroup in time.

    `awaited` is the member's deadline now. If it is another than the timer's, the timer is ignored.
    """
    if event.member_id not in change.group.members or awaited != event.deadline:
        return Decision((), (), "timer_too_late")
    return remove(change, (event.member_id,), "classic_member_did_not_rejoin")
