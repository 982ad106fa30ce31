"""JoinGroup of the classic protocol: which members a group accepts, and whether a rebalance starts (KIP-345 for static
members, KIP-394 for members that must know their id).
"""

from dataclasses import replace

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import Decision
from oncelog_coordinator.core.group_events import GroupConfig, JoinAnswer, JoinGroup, SyncAnswer
from oncelog_coordinator.core.group_rebalance import Change, join_answer
from oncelog_coordinator.core.group_records import GroupRecord, group_bytes_estimate
from oncelog_coordinator.core.group_state import Group, GroupState, Member


def decide(
    group: Group | None, event: JoinGroup, config: GroupConfig, now: Millis
) -> Decision[GroupRecord]:
    if group is None:
        if event.member_id:
            change = Change(Group(event.group_id), config, now)
            return _refused(change, event, ErrorCode.UNKNOWN_MEMBER_ID)
        group = Group(event.group_id, state_timestamp=now)
    change = Change(group, config, now)
    if not _has_room(group, event.member_id, config):
        if event.member_id in group.members:
            change.remove(event.member_id)
            change.complete_if_all_joined()
        change.reply(event.request_id, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return change.decision("group_full")
    if not group.supports(event.protocol_type, event.protocols):
        return _refused(change, event, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not event.member_id:
        return _new_member(change, event)
    if event.member_id in group.pending:
        if event.instance_id is not None:
            return _refused(change, event, ErrorCode.UNKNOWN_MEMBER_ID)
        return _add(change, event, event.member_id)
    return _known_member(change, event)


def _has_room(group: Group, member_id: str, config: GroupConfig) -> bool:
    """True if the group has room for this member.

    During a rebalance only members that have joined again count, so the last to come are refused.
    """
    member = group.members.get(member_id)
    if group.is_in(GroupState.EMPTY):
        return True
    if group.is_in(GroupState.PREPARING_REBALANCE):
        is_waiting = member is not None and member.joining is not None
        return is_waiting or group.joining_count < config.group_members_max
    return member is not None or len(group.members) < config.group_members_max


def _refused(change: Change, event: JoinGroup, error_code: ErrorCode) -> Decision[GroupRecord]:
    change.reply(event.request_id, JoinAnswer(error_code, event.member_id))
    return change.decision("join_refused")


# ------------------------------------------------------------------------------------------------ without an id


def _new_member(change: Change, event: JoinGroup) -> Decision[GroupRecord]:
    if event.instance_id is not None:
        known = change.group.static_member_id(event.instance_id)
        if known is not None:
            return _replace_static(change, event, known)
    elif event.requires_known_member_id:
        return _give_id(change, event)
    return _add(change, event, event.new_member_id)


def _give_id(change: Change, event: JoinGroup) -> Decision[GroupRecord]:
    """Answer MEMBER_ID_REQUIRED with a new member id (KIP-394).

    Only a member that comes back with its id joins the group. One that loses this answer asks again and gets another
    id.
    """
    if len(change.group.pending) >= change.config.pending_members_max:
        change.reply(event.request_id, JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED))
        return change.decision("group_full")
    member_id = event.new_member_id
    change.group = change.group.with_pending(member_id)
    change.watch(member_id, event.session_timeout_ms)
    change.reply(event.request_id, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    return change.decision("member_id_given")


def _add(change: Change, event: JoinGroup, member_id: str) -> Decision[GroupRecord]:
    group = change.group
    if group.is_initial:
        group = replace(group, has_new_member=True)
    if not group.members:
        group = replace(group, protocol_type=event.protocol_type)
    group = replace(
        group,
        leader=group.leader or member_id,
        pending=tuple(id_ for id_ in group.pending if id_ != member_id),
    )
    member = Member(
        member_id,
        event.instance_id,
        event.client_id,
        event.client_host,
        event.session_timeout_ms,
        event.rebalance_timeout_ms,
        event.protocols,
        joining=event.request_id,
        is_new=True,
    )
    change.group = group.with_member(member)
    change.watch(member_id, change.config.new_member_join_timeout_ms)
    change.rebalance_or_complete()
    return change.decision("member_added")


def _replace_static(change: Change, event: JoinGroup, old_id: str) -> Decision[GroupRecord]:
    """Put a static member that came back under a new member id in the old one's place, and fence the old member id.

    A stable group keeps its generation if its protocol stays the same; else it rebalances.
    """
    group, new_id = change.group, event.new_member_id
    old = group.members[old_id]
    change.reply(old.joining, JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_id))
    change.reply(old.syncing, SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))
    was_leader = group.leader
    member = replace(_updated(old, event), member_id=new_id, syncing=None, is_new=False)
    change.group = replace(
        group,
        leader=new_id if group.leader == old_id else group.leader,
        # The new id takes the old one's place, so the order of members stays, and with it who breaks a tie.
        members={
            (new_id if id_ == old_id else id_): (member if id_ == old_id else m)
            for id_, m in group.members.items()
        },
        unsynced=tuple(id_ for id_ in group.unsynced if id_ != old_id),
    )
    change.watch(new_id, event.session_timeout_ms)
    if group.is_in(GroupState.STABLE):
        # A group that fits in no record must not be written: a failed append drops every group of the shard.
        fits = group_bytes_estimate(change.group) <= change.config.record_bytes_max
        if fits and change.group.selected_protocol() == group.protocol:
            return _keep_generation(change, event, was_leader or "")
        change.prepare()
        return change.decision("static_member_changes_protocol")
    if group.is_in(GroupState.COMPLETING_REBALANCE):
        # The old id may be with the leader already: an assignment made for it would reach nobody.
        change.prepare()
        return change.decision("static_member_replaced_amid_rebalance")
    change.complete_if_all_joined()
    return change.decision("static_member_replaced")


def _keep_generation(change: Change, event: JoinGroup, was_leader: str) -> Decision[GroupRecord]:
    """Let the static member keep its assignment without a rebalance. The answer waits until the log has its new member
    id.

    A leader that does not know `skip_assignment` is not told that it leads: it would assign anew.
    """
    member_id = event.new_member_id
    answer = join_answer(
        change.group, member_id, skip_assignment=event.supports_skipping_assignment
    )
    if not event.supports_skipping_assignment:
        answer = replace(answer, leader=was_leader, members=())
    change.put(replace(change.group.members[member_id], joining=None))
    change.reply(event.request_id, answer)
    change.store()
    return change.decision("static_member_keeps_assignment")


# ------------------------------------------------------------------------------------------------ with an id


def _known_member(change: Change, event: JoinGroup) -> Decision[GroupRecord]:
    group = change.group
    error_code = group.member_error(event.member_id, event.instance_id)
    if error_code is not ErrorCode.NONE:
        return _refused(change, event, error_code)
    member = group.members[event.member_id]
    is_same = member.protocols == event.protocols
    # A leader that joins a stable group anew wants a rebalance: only it can say that the assignment is out of date.
    is_settled = is_same and (
        group.is_in(GroupState.COMPLETING_REBALANCE)
        or (group.is_in(GroupState.STABLE) and group.leader != event.member_id)
    )
    if is_settled:
        # Its answer to the join of this generation was lost.
        change.extend_session(event.member_id, member.session_timeout_ms)
        change.reply(event.request_id, join_answer(group, event.member_id))
        return change.decision("joined_already")
    change.reply(member.joining, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, event.member_id))
    change.put(_updated(member, event))
    change.rebalance_or_complete()
    return change.decision("member_rejoined")


def _updated(member: Member, event: JoinGroup) -> Member:
    return replace(
        member,
        client_id=event.client_id,
        client_host=event.client_host,
        session_timeout_ms=event.session_timeout_ms,
        rebalance_timeout_ms=event.rebalance_timeout_ms,
        protocols=event.protocols,
        joining=event.request_id,
    )
