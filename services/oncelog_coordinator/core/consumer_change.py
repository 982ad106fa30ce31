"""The changes that one request or timer makes to a group of the consumer protocol (KIP-848).

`Change` gathers the records of one event. It applies each to its own copy of the group, exactly as the state machine
will once the record is committed. The steps that requests of both group protocols share are functions over a `Change`:
subscribe, assign, and bring a member closer to its target assignment.
"""

from collections.abc import Iterable
from dataclasses import replace

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import CancelTimer, Decision, Effect, SetTimer
from oncelog_coordinator.core.consumer_assignors import preferred_assignor, target_assignment
from oncelog_coordinator.core.consumer_group import (
    JOIN_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerRecord,
    Current,
    GroupEpoch,
    MemberAssigned,
    MemberState,
    MemberSubscribed,
    PatternResolved,
    Slots,
    Subscription,
    TargetAssigned,
    TargetEpoch,
    Topics,
    applied,
)
from oncelog_coordinator.core.consumer_reconcile import next_current
from oncelog_coordinator.core.consumer_records import topics_hash
from oncelog_coordinator.core.group_events import (
    GroupConfig,
    RejoinTimeOver,
    RevokeTimeOver,
)
from oncelog_coordinator.core.group_rebalance import session_timer, watched_session
from oncelog_coordinator.core.group_records import GroupRecord, RejoinAwaited, SessionExtended


def revoke_timer(group_id: str, member_id: str) -> str:
    return f"revoke {group_id} {member_id}"


def rejoin_timer(group_id: str, member_id: str) -> str:
    return f"rejoin {group_id} {member_id}"


class Refused(Exception):
    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


def session_ms(member: ConsumerMember | None, config: GroupConfig) -> Millis:
    """Return the member's session timeout in milliseconds. A member of the classic protocol has chosen its own; for any
    other one, and for None, the group's setting holds."""
    classic = None if member is None else member.subscription.classic
    if classic is not None:
        return Millis(classic.session_timeout_ms)
    return Millis(config.consumer_session_timeout_ms)


class Change:
    """The records and effects (replies, timers) that one event produces for `group`.

    `group` already has the records applied. `shapes` are the topics of the cluster at this moment.
    """

    def __init__(
        self, group: ConsumerGroup, shapes: Topics, config: GroupConfig, now: Millis
    ) -> None:
        self.group = group
        self.shapes = shapes
        self.config = config
        self.now = now
        self.records: list[GroupRecord] = []
        self.effects: list[Effect] = []
        self.unlogged: list[GroupRecord] = []

    def write(self, record: ConsumerRecord) -> None:
        self.records.append(record)
        group = applied(self.group, record)
        assert group is not None, record
        self.group = group

    def remove(self, member_id: str) -> None:
        group_id = self.group.group_id
        self.write(MemberAssigned(group_id, member_id, None))
        self.write(TargetAssigned(group_id, member_id, None))
        self.write(MemberSubscribed(group_id, member_id, None))
        for timer in (session_timer, revoke_timer, rejoin_timer):
            self.effects.append(CancelTimer(timer(group_id, member_id)))

    def raise_epoch(self) -> None:
        """Raise the group's epoch. The next heartbeat of a remaining member then computes a new assignment."""
        group = self.group
        self.write(GroupEpoch(group.group_id, group.epoch + 1, group.topics_hash))

    def watch(self, member_id: str) -> None:
        """Start the member's session: the member is removed unless it sends a request within its session timeout."""
        self.extend_session(member_id)
        group_id = self.group.group_id
        timeout_ms = session_ms(self.group.members.get(member_id), self.config)
        self.effects.append(watched_session(group_id, member_id, timeout_ms, self.now))

    def extend_session(self, member_id: str) -> None:
        timeout_ms = session_ms(self.group.members.get(member_id), self.config)
        deadline = Millis(self.now + timeout_ms)
        self.unlogged.append(SessionExtended(self.group.group_id, member_id, deadline))

    def await_rejoin(self, member_id: str, timeout_ms: int) -> None:
        """Set the timer that removes a classic member unless it sends its next JoinGroup or SyncGroup within
        `timeout_ms`.
        """
        group_id, deadline = self.group.group_id, Millis(self.now + timeout_ms)
        over = RejoinTimeOver(group_id, member_id, deadline)
        self.unlogged.append(RejoinAwaited(group_id, member_id, deadline))
        self.effects.append(SetTimer(rejoin_timer(group_id, member_id), Millis(timeout_ms), over))

    def end_rejoin(self, member_id: str) -> None:
        group_id = self.group.group_id
        self.unlogged.append(RejoinAwaited(group_id, member_id, None))
        self.effects.append(CancelTimer(rejoin_timer(group_id, member_id)))

    def decision(self, label: str) -> Decision[GroupRecord]:
        kept = {member.subscription.pattern for member in self.group.members.values()}
        for pattern in self.group.patterns:
            if pattern not in kept:
                self.write(PatternResolved(self.group.group_id, pattern, None))
        return Decision(tuple(self.records), tuple(self.effects), label, tuple(self.unlogged))


# ------------------------------------------------------------------------------------------------ members


def check_room(
    group: ConsumerGroup, member_id: str, instance_id: str | None, config: GroupConfig
) -> None:
    members = group.members
    is_known = member_id in members or (
        instance_id is not None and group.static_member(instance_id) is not None
    )
    if not is_known and len(members) >= config.group_members_max:
        message = f"the group has {len(members)} members, which is the most it may have"
        raise Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def replace_static(change: Change, instance: ConsumerMember, member_id: str) -> ConsumerMember:
    """Return a static member that is back, under its new member id and with its old subscription and assignment.

    The old member id is removed. The group is not rebalanced.
    """
    group_id = change.group.group_id
    kept = replace(instance.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    target = change.group.targets.get(instance.member_id)
    change.remove(instance.member_id)
    change.write(MemberSubscribed(group_id, member_id, instance.subscription))
    if target is not None:
        change.write(TargetAssigned(group_id, member_id, target))
    change.write(MemberAssigned(group_id, member_id, kept))
    return change.group.members[member_id]


def subscribe(change: Change, before: ConsumerMember, said: Subscription) -> bool:
    """Write the member's new subscription; return True if the group needs a new assignment because of it."""
    group, known = change.group, before.subscription
    is_new = before.member_id not in group.members
    if not is_new and said == known:
        return False
    _check_size(said, change.config)
    assignor = preferred_assignor(group)
    change.write(MemberSubscribed(group.group_id, before.member_id, said))
    has_new_names = is_new or (said.topics, said.pattern) != (known.topics, known.pattern)
    return has_new_names or preferred_assignor(change.group) != assignor


def _check_size(said: Subscription, config: GroupConfig) -> None:
    """Raise `Refused` if the subscription is too large for one record.

    Its append would always fail, which would stop the shard for all groups.
    """
    own = (said.instance_id, said.rack_id, said.client_id, said.client_host, said.pattern)
    size = size_of((*own, *said.topics))
    if said.classic is not None:
        size += sum(16 + len(name) * 4 + len(data) for name, data in said.classic.protocols)
    if size > config.record_bytes_max:
        raise Refused(ErrorCode.INVALID_REQUEST, "the subscription is too large for a record")


def size_of(names: Iterable[str | None]) -> int:
    return sum(4 + len((name or "").encode()) for name in names)


# ------------------------------------------------------------------------------------------------ assignments


def assign(change: Change, *, has_changed: bool) -> None:
    """Raise the group's epoch if members, subscriptions or topics changed, then compute the target assignment of a new
    epoch.

    `has_changed`: a member or subscription has changed. Changed topics are found here.
    """
    group, shapes = change.group, change.shapes
    found = topics_hash(group.subscribed, shapes)
    if has_changed or found != group.topics_hash:
        is_assigned = group.epoch == group.target_epoch
        epoch = group.epoch + 1 if has_changed or is_assigned else group.epoch
        change.write(GroupEpoch(group.group_id, epoch, found))
    group = change.group
    if group.epoch == group.target_epoch:
        return
    for member_id, slots in target_assignment(group, shapes).items():
        if group.targets.get(member_id) != slots:
            change.write(TargetAssigned(group.group_id, member_id, slots))
    change.write(TargetEpoch(group.group_id, group.epoch))


def go_on(
    change: Change, before: ConsumerMember, owned: Slots | None, *, has_new_subscription: bool
) -> Current:
    """Bring the member one step closer to its target assignment, write that, and return its new current assignment.

    `owned` is what the member says that it still reads; None: it did not say. `has_new_subscription`: this request has
    changed its subscription.
    """
    group = change.group
    after = next_current(
        group,
        group.members[before.member_id],
        owned,
        change.shapes,
        has_new_subscription=has_new_subscription,
    )
    if after != before.current:
        change.write(MemberAssigned(group.group_id, before.member_id, after))
        _watch_revocation(change, before, after)
    return after


def _watch_revocation(change: Change, before: ConsumerMember, after: Current) -> None:
    """Start or cancel the timer that removes a member which does not revoke its partitions within its rebalance
    timeout."""
    group, unrevoked = change.group, MemberState.UNREVOKED_PARTITIONS
    if after.state is unrevoked:
        change.effects.append(revocation(group, group.members[before.member_id]))
    elif before.current.state is unrevoked:
        change.effects.append(CancelTimer(revoke_timer(group.group_id, before.member_id)))


def revocation(group: ConsumerGroup, member: ConsumerMember) -> SetTimer:
    over = RevokeTimeOver(group.group_id, member.member_id, member.current.epoch)
    timeout_ms = Millis(max(member.subscription.rebalance_timeout_ms, 0))
    return SetTimer(revoke_timer(group.group_id, member.member_id), timeout_ms, over)
