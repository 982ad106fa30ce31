"""SyncGroup, Heartbeat and LeaveGroup of the classic protocol: what a member sends between one JoinGroup and the next.

The leader's SyncGroup makes a generation valid: one log record has its members and their assignments. No member is told
an assignment before the log has it.
"""

from dataclasses import replace

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import Decision, Reply, answered
from oncelog_coordinator.core.group_events import (
    CodeAnswer,
    GroupConfig,
    Heartbeat,
    LeaveAnswer,
    LeaveGroup,
    Leaving,
    SyncAnswer,
    SyncGroup,
)
from oncelog_coordinator.core.group_rebalance import Change
from oncelog_coordinator.core.group_records import (
    GroupRecord,
    SessionExtended,
    group_bytes_estimate,
)
from oncelog_coordinator.core.group_state import Group, GroupState

# ------------------------------------------------------------------------------------------------ sync


def sync(
    group: Group | None, event: SyncGroup, config: GroupConfig, now: Millis
) -> Decision[GroupRecord]:
    error_code = _sync_error(group, event)
    if error_code is not ErrorCode.NONE:
        return answered(event, SyncAnswer(error_code), "sync_refused")
    assert group is not None, event
    change = Change(group, config, now)
    member = group.members[event.member_id]
    if group.is_in(GroupState.STABLE):
        change.group = group.synced(event.member_id)
        change.extend_session(event.member_id, member.session_timeout_ms)
        change.reply(event.request_id, _assigned(group, member.assignment))
        return change.decision("assignment_told_again")
    change.reply(member.syncing, SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))
    change.group = group.synced(event.member_id)
    change.put(replace(member, syncing=event.request_id))
    if group.leader != event.member_id:
        return change.decision("waits_for_assignment")
    return _assign(change, dict(event.assignments))


def _sync_error(group: Group | None, event: SyncGroup) -> ErrorCode:
    if group is None or group.is_in(GroupState.EMPTY):
        return ErrorCode.UNKNOWN_MEMBER_ID
    error_code = group.member_error(event.member_id, event.instance_id)
    if error_code is not ErrorCode.NONE:
        return error_code
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    for claimed, actual in (
        (event.protocol_type, group.protocol_type),
        (event.protocol_name, group.protocol),
    ):
        if claimed and claimed != actual:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.is_in(GroupState.PREPARING_REBALANCE):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _assigned(group: Group, assignment: bytes) -> SyncAnswer:
    return SyncAnswer(ErrorCode.NONE, group.protocol_type or "", group.protocol or "", assignment)


def _assign(change: Change, assignments: dict[str, bytes]) -> Decision[GroupRecord]:
    """Make the generation stable with the leader's assignments, and answer the members that wait in SyncGroup.

    A member that the leader left out gets an empty assignment.
    """
    waiting = change.group.members
    group = replace(
        change.group,
        state=GroupState.STABLE,
        state_timestamp=change.now,
        members={
            member_id: replace(member, assignment=assignments.get(member_id, b""), syncing=None)
            for member_id, member in waiting.items()
        },
    )
    if group_bytes_estimate(group) > change.config.record_bytes_max:
        # The record would never fit. The members that wait get an error, and the leader may do better next time.
        change.end_sync(SyncAnswer(ErrorCode.UNKNOWN_SERVER_ERROR))
        change.prepare()
        return change.decision("assignment_too_large")
    change.group = group
    for member_id, member in group.members.items():
        if waiting[member_id].syncing is not None:
            change.reply(waiting[member_id].syncing, _assigned(group, member.assignment))
            change.watch(member_id, member.session_timeout_ms)
    change.store()
    return change.decision("stable")


# ------------------------------------------------------------------------------------------------ heartbeat


def heartbeat(group: Group | None, event: Heartbeat, now: Millis) -> Decision[GroupRecord]:
    error_code = _heartbeat_error(group, event)
    if error_code not in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
        return answered(event, CodeAnswer(error_code), "heartbeat_refused")
    assert group is not None, event
    deadline = Millis(now + group.members[event.member_id].session_timeout_ms)
    return Decision(
        (),
        (Reply(event.request_id, CodeAnswer(error_code)),),
        "heartbeat",
        (SessionExtended(event.group_id, event.member_id, deadline),),
    )


def _heartbeat_error(group: Group | None, event: Heartbeat) -> ErrorCode:
    if group is None or group.is_in(GroupState.EMPTY):
        return ErrorCode.UNKNOWN_MEMBER_ID
    error_code = group.member_error(event.member_id, event.instance_id)
    if error_code is not ErrorCode.NONE:
        return error_code
    if event.generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if group.is_in(GroupState.PREPARING_REBALANCE):
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


# ------------------------------------------------------------------------------------------------ leave


def leave(
    group: Group | None, event: LeaveGroup, config: GroupConfig, now: Millis
) -> Decision[GroupRecord]:
    if group is None:
        unknown = tuple((member, ErrorCode.UNKNOWN_MEMBER_ID) for member in event.members)
        return answered(event, LeaveAnswer(ErrorCode.NONE, unknown), "leave_refused")
    change = Change(group, config, now)
    results = tuple((member, _leave_one(change, member)) for member in event.members)
    change.reply(event.request_id, LeaveAnswer(ErrorCode.NONE, results))
    if all(error_code is not ErrorCode.NONE for _, error_code in results):
        return change.decision("leave_refused")
    if not group.is_in(GroupState.EMPTY):
        change.rebalance_or_complete()
    return change.decision("left")


def _leave_one(change: Change, leaving: Leaving) -> ErrorCode:
    group = change.group
    member_id, instance_id = leaving
    if not member_id:
        known = group.static_member_id(instance_id) if instance_id is not None else None
        if known is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = known
    elif member_id not in group.pending:
        error_code = group.member_error(member_id, instance_id)
        if error_code is not ErrorCode.NONE:
            return error_code
    change.remove(member_id)
    return ErrorCode.NONE
