"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848).

Their generation is the member's epoch. JoinGroup says what the member subscribes to and which partitions it has.
SyncGroup tells what it may read. Heartbeat answers REBALANCE_IN_PROGRESS when the member should join again: its target
has a newer epoch, it must give something up, or what it waited for is free.

No member waits for another, and no member leads: the coordinator assigns. A member whose next JoinGroup or SyncGroup is
late by its rebalance timeout is removed.
"""

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import Decision, Reply, answered
from oncelog.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    EmbeddedSubscription,
    Unreadable,
    read_subscription,
    version_of,
)
from oncelog_coordinator.core import consumer_leaving
from oncelog_coordinator.core.consumer_change import (
    Change,
    Refused,
    assign,
    check_room,
    go_on,
    replace_static,
    subscribe,
)
from oncelog_coordinator.core.consumer_group import (
    ClassicMember,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    Slots,
    Subscription,
)
from oncelog_coordinator.core.consumer_records import topics_hash
from oncelog_coordinator.core.group_events import (
    CodeAnswer,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    Leaving,
    MigrationPolicy,
    SyncAnswer,
    SyncGroup,
)
from oncelog_coordinator.core.group_migration import downgrade, downgrade_as_it_is, may_downgrade
from oncelog_coordinator.core.group_records import GroupRecord
from oncelog_coordinator.core.named_partitions import slots_of, write_assignment

# ------------------------------------------------------------------------------------------------ join


def join(change: Change, event: JoinGroup) -> Decision[GroupRecord]:
    try:
        return _join(change, event)
    except Refused as refused:
        return answered(event, JoinAnswer(refused.error_code, event.member_id), "join_refused")


def _join(change: Change, event: JoinGroup) -> Decision[GroupRecord]:
    embedded = _check_join(change, event)
    if not event.member_id and event.instance_id is None and event.requires_known_member_id:
        answer = JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, event.new_member_id)
        return answered(event, answer, "member_id_given")
    member_id = event.member_id or event.new_member_id
    instance = _instance(change.group, event)
    before = change.group.members.get(member_id, ConsumerMember(member_id))
    if instance is not None and instance.member_id != member_id:
        before = replace_static(change, instance, member_id)
    said = _said(before.subscription, event, embedded)
    has_new_subscription = subscribe(change, before, said)
    owned = slots_of(embedded.owned, change.shapes)
    was_consumer = instance is not None and not instance.is_classic
    if was_consumer and may_downgrade(change.group, change.config):
        ended = _end_consumer_group(
            change, before, event, owned, has_new_subscription=has_new_subscription
        )
        if ended is not None:
            return ended
    assign(change, has_changed=has_new_subscription)
    after = go_on(change, before, owned, has_new_subscription=has_new_subscription)
    change.watch(member_id)
    change.await_rejoin(member_id, event.rebalance_timeout_ms)
    protocol = event.protocols[0][0]
    answer = JoinAnswer(ErrorCode.NONE, member_id, after.epoch, PROTOCOL_TYPE, protocol)
    change.effects.append(Reply(event.request_id, answer))
    return change.decision("classic_member_joined")


def _check_join(change: Change, event: JoinGroup) -> EmbeddedSubscription:
    group, inconsistent = change.group, ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if change.config.migration_policy is MigrationPolicy.DISABLED:
        raise Refused(inconsistent, "group.consumer.migration.policy is disabled")
    check_room(group, event.member_id or event.new_member_id, event.instance_id, change.config)
    if event.protocol_type != PROTOCOL_TYPE or not group.supports(event.protocols):
        raise Refused(inconsistent, f"{event.protocol_type!r} or its protocols are not the group's")
    try:
        return read_subscription(event.protocols[0][1])
    except Unreadable as unreadable:
        raise Refused(inconsistent, str(unreadable)) from None


def _instance(group: ConsumerGroup, event: JoinGroup) -> ConsumerMember | None:
    """Return the member that has the request's instance id now; None: no member has it, or the request names none.

    A request without a member id takes the instance over, whichever protocol its old member speaks (KIP-345). Raises
    `Refused` if the request names another member id than the instance's.
    """
    if event.instance_id is None:
        return None
    instance = group.static_member(event.instance_id)
    if event.member_id and instance is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"nobody is {event.instance_id!r}")
    if event.member_id and instance is not None and instance.member_id != event.member_id:
        raise Refused(ErrorCode.FENCED_INSTANCE_ID, f"{event.instance_id!r} is another member now")
    return instance


def _said(known: Subscription, event: JoinGroup, embedded: EmbeddedSubscription) -> Subscription:
    """Return the subscription that a classic member's JoinGroup states.

    It has no regular expression: only the consumer protocol has those.
    """
    return Subscription(
        known.instance_id if event.instance_id is None else event.instance_id,
        known.rack_id if embedded.rack_id is None else embedded.rack_id,
        event.client_id,
        event.client_host,
        tuple(sorted(set(embedded.topics))),
        event.rebalance_timeout_ms,
        known.assignor,
        classic=ClassicMember(event.session_timeout_ms, event.protocols),
    )


def _end_consumer_group(
    change: Change,
    before: ConsumerMember,
    event: JoinGroup,
    owned: Slots,
    *,
    has_new_subscription: bool,
) -> Decision[GroupRecord] | None:
    """Turn the group into a classic one: its last member of the consumer protocol came back as a classic static member.

    Returns the decision; None: the group does not fit into one record, and stays as it is. The group rebalances if the
    subscription changed or any member has not reached its target assignment. Kafka rebalances only in the first case. A
    member short of its target would then wait for partitions that it never gets. `owned` are the partitions that the
    JoinGroup names.
    """
    group, member_id = change.group, before.member_id
    others = [one for one in group.members.values() if one.member_id != member_id]
    is_settled = (
        not has_new_subscription
        and group.epoch == group.target_epoch
        and group.topics_hash == topics_hash(group.subscribed, change.shapes)
        and all(group.is_reconciled(one) for one in others)
    )
    if is_settled:
        go_on(change, before, owned, has_new_subscription=False)
    if not is_settled or not change.group.is_reconciled(change.group.members[member_id]):
        joining = (member_id, event.request_id)
        return downgrade(change, "instance_downgraded_group", joining=joining)
    ended = downgrade_as_it_is(change, "instance_keeps_assignment_in_classic_group")
    if ended is None:
        return None
    decision, classic = ended
    protocol = classic.protocol or ""
    answer = JoinAnswer(ErrorCode.NONE, member_id, classic.generation, PROTOCOL_TYPE, protocol)
    effects = (*decision.effects, Reply(event.request_id, answer))
    return Decision(decision.records, effects, decision.label, decision.unlogged)


# ------------------------------------------------------------------------------------------------ sync


def sync(change: Change, event: SyncGroup, awaited: Millis | None) -> Decision[GroupRecord]:
    group = change.group
    error_code = _sync_error(group, event)
    if error_code is not ErrorCode.NONE:
        if error_code is ErrorCode.REBALANCE_IN_PROGRESS:
            _await_join(change, event.member_id, awaited)
        change.effects.append(Reply(event.request_id, SyncAnswer(error_code)))
        return change.decision("sync_refused")
    member = group.members[event.member_id]
    classic = member.subscription.classic
    assert classic is not None, member
    change.extend_session(event.member_id)
    change.end_rejoin(event.member_id)
    version = version_of(classic.protocols[0][1])
    data = write_assignment(member.current.assigned, change.shapes, version)
    answer = SyncAnswer(ErrorCode.NONE, PROTOCOL_TYPE, classic.protocol, data)
    change.effects.append(Reply(event.request_id, answer))
    return change.decision("classic_member_synced")


def _sync_error(group: ConsumerGroup, event: SyncGroup) -> ErrorCode:
    error_code = _member_error(group, event)
    if error_code is not ErrorCode.NONE:
        return error_code
    member = group.members[event.member_id]
    classic = member.subscription.classic
    assert classic is not None, member
    for claimed, actual in (
        (event.protocol_type, PROTOCOL_TYPE),
        (event.protocol_name, classic.protocol),
    ):
        if claimed and claimed != actual:
            return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    # A member that must give something up has joined already. It goes on with what it keeps, then joins again.
    is_revoking = member.current.state is MemberState.UNREVOKED_PARTITIONS
    if group.target_epoch > member.current.epoch and not is_revoking:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _member_error(group: ConsumerGroup, event: SyncGroup | Heartbeat) -> ErrorCode:
    error_code = _identity_error(group, Leaving(event.member_id, event.instance_id))
    if error_code is not ErrorCode.NONE:
        return error_code
    member = group.members[event.member_id]
    if not member.is_classic:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if event.generation != member.current.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    return ErrorCode.NONE


def _identity_error(group: ConsumerGroup, who: Leaving) -> ErrorCode:
    if who.instance_id is not None:
        instance = group.static_member(who.instance_id)
        if instance is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if instance.member_id != who.member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    return ErrorCode.NONE if who.member_id in group.members else ErrorCode.UNKNOWN_MEMBER_ID


def _await_join(change: Change, member_id: str, awaited: Millis | None) -> None:
    """Start the wait for the member's next JoinGroup, unless one runs already. `awaited` is the deadline of that one;
    None: there is none.

    A member that is told twice to rejoin gets no more time than it had.
    """
    if awaited is None:
        timeout_ms = change.group.members[member_id].subscription.rebalance_timeout_ms
        change.await_rejoin(member_id, timeout_ms)


# ------------------------------------------------------------------------------------------------ heartbeat


def heartbeat(change: Change, event: Heartbeat, awaited: Millis | None) -> Decision[GroupRecord]:
    """Answer a classic member's heartbeat in a consumer group: REBALANCE_IN_PROGRESS if it must join again. Compute a
    new target assignment if topics or members changed.

    Kafka computes one only in the heartbeats of members of the consumer protocol. `awaited` is the deadline by which
    the member must rejoin already; None: it need not.
    """
    error_code = _member_error(change.group, event)
    if error_code is not ErrorCode.NONE:
        return answered(event, CodeAnswer(error_code), "heartbeat_refused")
    change.extend_session(event.member_id)
    assign(change, has_changed=False)
    if _should_join(change.group, change.group.members[event.member_id]):
        error_code = ErrorCode.REBALANCE_IN_PROGRESS
        _await_join(change, event.member_id, awaited)
    change.effects.append(Reply(event.request_id, CodeAnswer(error_code)))
    return change.decision("classic_member_heartbeat")


def _should_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    current = member.current
    if current.epoch < group.target_epoch or current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is MemberState.STABLE:
        return False
    wanted = group.targets.get(member.member_id, frozenset()) - current.assigned
    return not any(slot in group.owners for slot in wanted)


# ------------------------------------------------------------------------------------------------ leave


def leave(change: Change, event: LeaveGroup) -> Decision[GroupRecord]:
    """Answer LeaveGroup by removing its members from a consumer group.

    They may be of either protocol: operators remove members with LeaveGroup, too.
    """
    found = [(who, *_leaving(change.group, who)) for who in event.members]
    results = tuple((who, error_code) for who, error_code, _ in found)
    change.effects.append(Reply(event.request_id, LeaveAnswer(ErrorCode.NONE, results)))
    leaving = dict.fromkeys(member_id for _, _, member_id in found if member_id)
    if not leaving:
        return change.decision("leave_refused")
    return consumer_leaving.remove(change, leaving, "classic_members_left")


def _leaving(group: ConsumerGroup, who: Leaving) -> tuple[ErrorCode, str]:
    """Return the error code for one leaving member and its member id; with an empty id no member is removed."""
    if not who.member_id and who.instance_id is not None:
        instance = group.static_member(who.instance_id)
        if instance is None:
            return ErrorCode.UNKNOWN_MEMBER_ID, ""
        return ErrorCode.NONE, instance.member_id
    error_code = _identity_error(group, who)
    return error_code, "" if error_code is not ErrorCode.NONE else who.member_id
