"""A group with members changes its protocol (KIP-848). It leaves the classic protocol when a member of the consumer
protocol joins, and goes back when the last such member leaves. Kafka's `group.consumer.migration.policy` says which of
the two may happen.

```
classic ── a member of the consumer protocol joins ──▶ consumer group, with members of both protocols
   ▲                                                                      │
   └──────── the last member of the consumer protocol goes ◀──────────────┘
```

Members keep what they read on either way: the classic generation and the group's epoch are the same number, and each
member begins with the assignment that it has. Tombstones of the one group and records of the other are one batch.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.machine import CancelTimer, Decision, Reply
from oncelog.protocol.consumer_protocol import (
    PROTOCOL_TYPE,
    EmbeddedSubscription,
    Unreadable,
    read_assignment,
    read_subscription,
    version_of,
)
from oncelog_coordinator.core import group_rebalance
from oncelog_coordinator.core.consumer_change import Change, Refused, rejoin_timer, revoke_timer
from oncelog_coordinator.core.consumer_group import (
    ClassicMember,
    ConsumerGroup,
    ConsumerMember,
    Current,
    GroupEpoch,
    MemberAssigned,
    MemberState,
    MemberSubscribed,
    Slot,
    Slots,
    Subscription,
    TargetAssigned,
    TargetEpoch,
    Topics,
    tombstones,
)
from oncelog_coordinator.core.consumer_records import topics_hash
from oncelog_coordinator.core.group_events import GroupConfig, JoinAnswer, SyncAnswer
from oncelog_coordinator.core.group_records import (
    GroupChanged,
    GroupRecord,
    GroupTombstone,
    encode_group_record,
    group_bytes_estimate,
)
from oncelog_coordinator.core.group_state import Group, GroupState, Member
from oncelog_coordinator.core.named_partitions import slots_of, write_assignment

_RECORD_OVERHEAD = 64
"""The most bytes that a batch needs for a record beside its key and value."""

_NEEDS_NO_DATA: Final = frozenset({"sticky", "cooperative-sticky"})
"""The assignors whose groups may be upgraded although their assignments carry user data, which is lost then.

Their members read only the partitions of an assignment. librdkafka's members get the data of their own subscription
back, from their second generation on.
"""


def fits_one_batch(records: Iterable[GroupRecord], config: GroupConfig) -> bool:
    """True if these records fit in one batch.

    A migration that is written by half would leave a group that lacks members.
    """
    size = 0
    for record in records:
        key, value = encode_group_record(record)
        size += _RECORD_OVERHEAD + len(key) + len(value or b"")
    return size <= config.record_bytes_max


# ------------------------------------------------------------------------------------------------ upgrade


def upgrade(change: Change, classic: Group) -> None:
    """Upgrade a classic group: write its members into `change`, which begins with an empty consumer group.

    Raises `Refused` if the classic group cannot become a consumer group.
    """
    _check_upgrade(classic, change.config)
    group_id, generation = classic.group_id, classic.generation
    # A member without an answer yet may not know its id: it has nothing, and joins again as a new member.
    members = {id_: member for id_, member in classic.members.items() if not member.is_new}
    subscriptions = {id_: _subscription(classic, member) for id_, member in members.items()}
    held = _held(classic, members, subscriptions, change.shapes)
    change.records.append(GroupTombstone(group_id))
    for member_id, member in members.items():
        said = _said(member, subscriptions[member_id])
        change.write(MemberSubscribed(group_id, member_id, said))
    found = topics_hash(change.group.subscribed, change.shapes)
    change.write(GroupEpoch(group_id, generation, found))
    for member_id, slots in held.items():
        change.write(TargetAssigned(group_id, member_id, slots))
    change.write(TargetEpoch(group_id, generation))
    for member_id, slots in held.items():
        current = Current(generation, generation, MemberState.STABLE, slots)
        change.write(MemberAssigned(group_id, member_id, current))
    _end_rebalance(change, classic)


def _check_upgrade(classic: Group, config: GroupConfig) -> None:
    name = f"group {classic.group_id!r} speaks the classic protocol"
    reason = None
    if not config.migration_policy.upgrades:
        reason = f"and group.consumer.migration.policy is {config.migration_policy.value}"
    elif classic.protocol_type != PROTOCOL_TYPE:
        reason = f"and its members are of type {classic.protocol_type!r}, no consumers"
    elif len(classic.members) > config.group_members_max:
        reason = f"and has {len(classic.members)} members, more than {config.group_members_max}"
    if reason is not None:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{name}, {reason}")


def _subscription(classic: Group, member: Member) -> EmbeddedSubscription:
    """Return the topics that a classic member subscribes to.

    A group that was never stable has no chosen protocol yet, so the member's first one is read. Raises `Refused` if the
    bytes cannot be read.
    """
    data = member.metadata(classic.protocol) if classic.protocol else member.protocols[0][1]
    try:
        return read_subscription(data)
    except Unreadable as unreadable:
        message = f"classic group {classic.group_id!r} cannot become a consumer group: {unreadable}"
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message) from None


def _held(
    classic: Group,
    members: dict[str, Member],
    subscriptions: dict[str, EmbeddedSubscription],
    shapes: Topics,
) -> dict[str, Slots]:
    """Return the partitions that each member reads: its assignment, or, during a rebalance, what it named in its
    JoinGroup.

    Some assignors give a partition to several members. Here only the first of them keeps it.
    """
    held: dict[str, Slots] = {}
    taken: set[Slot] = set()
    for member in sorted(members.values(), key=lambda member: not member.assignment):
        slots = _assigned(classic, member, shapes) if member.assignment else None
        if slots is None:
            slots = slots_of(subscriptions[member.member_id].owned, shapes)
        held[member.member_id] = slots - taken
        taken |= slots
    return {member_id: held[member_id] for member_id in members}


def _assigned(classic: Group, member: Member, shapes: Topics) -> Slots:
    name = f"classic group {classic.group_id!r} cannot become a consumer group"
    try:
        assignment = read_assignment(member.assignment)
    except Unreadable as unreadable:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{name}: {unreadable}") from None
    if assignment.user_data and classic.protocol not in _NEEDS_NO_DATA:
        message = f"{name}: its assignor {classic.protocol!r} sends data of its own to members, which would be lost"
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
    return slots_of(assignment.partitions, shapes)


def _said(member: Member, subscription: EmbeddedSubscription) -> Subscription:
    return Subscription(
        member.instance_id,
        subscription.rack_id,
        member.client_id,
        member.client_host,
        tuple(sorted(set(subscription.topics))),
        member.rebalance_timeout_ms,
        classic=ClassicMember(member.session_timeout_ms, member.protocols),
    )


def _end_rebalance(change: Change, classic: Group) -> None:
    """Answer REBALANCE_IN_PROGRESS to members of the classic group that wait, so that they join the new consumer group.

    The sessions of the members are started anew, and the classic group's timers cancelled.
    """
    group_id = classic.group_id
    for member_id, member in classic.members.items():
        if member.joining is not None:
            answer = JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member_id)
            change.effects.append(Reply(member.joining, answer))
        if member.syncing is not None:
            waits = SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)
            change.effects.append(Reply(member.syncing, waits))
    for member_id in change.group.members:
        change.watch(member_id)
    for member_id in (*classic.members, *classic.pending):
        if member_id not in change.group.members:
            timer = group_rebalance.session_timer(group_id, member_id)
            change.effects.append(CancelTimer(timer))
    change.effects.append(CancelTimer(group_rebalance.join_timer(group_id)))
    change.effects.append(CancelTimer(group_rebalance.sync_timer(group_id)))


# ------------------------------------------------------------------------------------------------ downgrade


def may_downgrade(group: ConsumerGroup, config: GroupConfig) -> bool:
    """True if no member of the consumer protocol is left, and the rest can be a classic group."""
    classic = group.classic_members
    return (
        bool(classic)
        and len(classic) == len(group.members) <= config.group_members_max
        and config.migration_policy.downgrades
        and group.supports(classic[0].protocols)
    )


def downgrade(
    change: Change, label: str, *, joining: tuple[str, int] | None = None
) -> Decision[GroupRecord] | None:
    """Turn the consumer group into a classic one that starts with a rebalance; None: it does not fit into a record.

    `joining` names a member and its request that already wait for that rebalance. `label` names the decision in logs
    and metrics.
    """
    group = _classic_group(change)
    # The group has no leader, so that after a crash the next coordinator knows that it must rebalance.
    group = replace(group, state=GroupState.PREPARING_REBALANCE, leader=None)
    return _downgraded(change, group, label, joining)


def downgrade_as_it_is(change: Change, label: str) -> tuple[Decision[GroupRecord], Group] | None:
    """Turn the consumer group into a stable classic one without a rebalance. The caller has checked that every member
    reached its target assignment.

    Returns the decision and the classic group; None: the group does not fit into a record.
    """
    group = _classic_group(change)
    decision = _downgraded(change, group, label)
    return None if decision is None else (decision, group)


def _classic_group(change: Change) -> Group:
    group = change.group
    members = {member_id: _classic_member(member) for member_id, member in group.members.items()}
    leader = next(iter(members))
    state = GroupState.STABLE
    # An epoch that has no target yet is no member's: those of the newest target commit on, and are told to rejoin.
    generation = group.target_epoch
    classic = Group(
        group.group_id, state, generation, PROTOCOL_TYPE, None, leader, change.now, members
    )
    protocol = classic.selected_protocol()
    for member_id, member in members.items():
        # The member keeps what it has, not its target: during a rebalance it may still read more than that.
        current = group.members[member_id].current
        version = version_of(member.metadata(protocol))
        data = write_assignment(current.assigned | current.revoking, change.shapes, version)
        members[member_id] = replace(member, assignment=data)
    return replace(classic, protocol=protocol)


def _classic_member(member: ConsumerMember) -> Member:
    said = member.subscription
    assert said.classic is not None, member
    return Member(
        member.member_id,
        said.instance_id,
        said.client_id,
        said.client_host,
        said.classic.session_timeout_ms,
        said.rebalance_timeout_ms,
        said.classic.protocols,
    )


def _downgraded(
    change: Change, group: Group, label: str, joining: tuple[str, int] | None = None
) -> Decision[GroupRecord] | None:
    records = (*change.records, *tombstones(change.group), GroupChanged(group))
    if group_bytes_estimate(group) > change.config.record_bytes_max or not fits_one_batch(
        records, change.config
    ):
        return None
    rebalance = group_rebalance.Change(group, change.config, change.now)
    for member_id, member in group.members.items():
        rebalance.effect(CancelTimer(revoke_timer(group.group_id, member_id)))
        rebalance.effect(CancelTimer(rejoin_timer(group.group_id, member_id)))
        rebalance.watch(member_id, member.session_timeout_ms)
    if joining is not None:
        member_id, request_id = joining
        rebalance.put(replace(group.members[member_id], joining=request_id))
    if group.is_in(GroupState.PREPARING_REBALANCE):
        rebalance.prepare()
    begun = rebalance.decision(label)
    effects = (*change.effects, *begun.effects)
    return Decision(records, effects, label, (*change.unlogged, *begun.unlogged))
