"""ConsumerGroupHeartbeat: joining, staying, leaving and falling silent in a group of the consumer protocol (KIP-848).

One request does it all: epoch 0 joins, -1 leaves, -2 leaves as a static member that will be back; any other says what
has changed since the last one, null for what has not. The answer tells the member's epoch and, when it changed or was
asked for, what the member may read. There is nothing to wait for: a member that must wait asks again.

`Change` gathers the records of one event, each applied to the group at hand as it will be applied to the machine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import CancelTimer, Decision, Effect, Reply, SetTimer
from oncelog_coordinator.core.consumer_assignors import (
    ASSIGNORS,
    preferred_assignor,
    target_assignment,
)
from oncelog_coordinator.core.consumer_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    ConsumerRecord,
    Current,
    GroupEpoch,
    MemberAssigned,
    MemberState,
    MemberSubscribed,
    PatternResolved,
    PatternTopics,
    Subscription,
    TargetAssigned,
    TargetEpoch,
    Topics,
    applied,
)
from oncelog_coordinator.core.consumer_reconcile import next_current
from oncelog_coordinator.core.consumer_records import topics_hash
from oncelog_coordinator.core.group_events import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    GroupConfig,
    RevokeTimeOver,
    SessionCheck,
)
from oncelog_coordinator.core.group_names import NAME_BYTES_MAX
from oncelog_coordinator.core.group_rebalance import session_going_on, session_timer
from oncelog_coordinator.core.group_records import (
    GroupRecord,
    GroupTombstone,
    Heard,
    TopicsLookedThrough,
)
from oncelog_coordinator.core.group_state import Group, GroupState
from oncelog_coordinator.core.topic_patterns import (
    InvalidPattern,
    check_pattern,
    matching_topics,
)

PATTERNS_REFRESH_MS: Final = 1_000
"""Least time between two looks at all topics for one pattern."""
MATCHES_MAX: Final = 10_000
"""Names that a heartbeat compares with patterns, more only for a pattern alone: about 30 ms."""

LookedThrough = Mapping[str, TopicsLookedThrough]
"""By pattern."""


def revoke_timer(group_id: str, member_id: str) -> str:
    return f"revoke {group_id} {member_id}"


class _Refused(Exception):
    def __init__(self, error_code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error_code = error_code
        self.message = message


class Change:
    """What one event does to `group`."""

    def __init__(self, group: ConsumerGroup, config: GroupConfig, now: Millis) -> None:
        self.group = group
        self.config = config
        self.now = now
        self.records: list[GroupRecord] = []
        self.effects: list[Effect] = []
        self.heard: list[GroupRecord] = []

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
        self.effects.append(CancelTimer(session_timer(group_id, member_id)))
        self.effects.append(CancelTimer(revoke_timer(group_id, member_id)))

    def raise_epoch(self) -> None:
        """The next heartbeat of whoever is left assigns anew."""
        group = self.group
        self.write(GroupEpoch(group.group_id, group.epoch + 1, group.topics_hash))

    def watch(self, member_id: str) -> None:
        self.hear(member_id)
        group_id, timeout_ms = self.group.group_id, Millis(self.config.consumer_session_timeout_ms)
        timer = session_timer(group_id, member_id)
        self.effects.append(SetTimer(timer, timeout_ms, SessionCheck(group_id, member_id)))

    def hear(self, member_id: str) -> None:
        deadline = Millis(self.now + self.config.consumer_session_timeout_ms)
        self.heard.append(Heard(self.group.group_id, member_id, deadline))

    def decision(self, label: str) -> Decision[GroupRecord]:
        kept = {member.subscription.pattern for member in self.group.members.values()}
        for pattern in self.group.patterns:
            if pattern not in kept:
                self.write(PatternResolved(self.group.group_id, pattern, None))
        return Decision(tuple(self.records), tuple(self.effects), label, tuple(self.heard))


# ------------------------------------------------------------------------------------------------ heartbeat


def decide(
    group: ConsumerGroup | None,
    classic: Group | None,
    event: ConsumerHeartbeat,
    looked: LookedThrough,
    config: GroupConfig,
    now: Millis,
) -> Decision[GroupRecord]:
    """`looked`: when this life of the machine last looked for the topics of each of the group's patterns."""
    change = Change(group or ConsumerGroup(event.group_id), config, now)
    try:
        _check_request(event)
        if group is None:
            _check_new_group(classic, event)
        if event.member_epoch < JOIN_EPOCH:
            return _leave(change, event)
        if classic is not None:
            change.records.append(GroupTombstone(event.group_id))
        return _heartbeat(change, event, looked)
    except _Refused as refused:
        answer = ConsumerHeartbeatAnswer(refused.error_code, refused.message)
        return Decision((), (Reply(event.request_id, answer),), "consumer_heartbeat_refused")


def _check_request(event: ConsumerHeartbeat) -> None:
    reason = None
    if not event.group_id or not event.member_id:
        reason = "a group id and a member id are needed"
    elif max(len(text.encode()) for text in _names(event)) > NAME_BYTES_MAX:
        reason = f"a name has more than {NAME_BYTES_MAX} bytes"
    elif event.instance_id == "" or event.rack_id == "":
        reason = "an instance id and a rack id are null or not empty"
    elif event.member_epoch < STATIC_LEAVE_EPOCH:
        reason = f"{event.member_epoch} is no member epoch"
    elif event.member_epoch == STATIC_LEAVE_EPOCH and event.instance_id is None:
        reason = "a static member leaves for a while under its instance id"
    elif event.member_epoch == JOIN_EPOCH:
        if event.rebalance_timeout_ms < 0:
            reason = "the first request needs a rebalance timeout"
        elif event.owned is None or event.owned:
            reason = "who joins owns no partitions"
        elif event.topics is None and event.regex is None:
            reason = "the first request needs a subscription"
    if reason is not None:
        raise _Refused(ErrorCode.INVALID_REQUEST, reason)
    if event.assignor is not None and event.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        message = f"there is no assignor {event.assignor!r}; there are {known}"
        raise _Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _names(event: ConsumerHeartbeat) -> tuple[str, ...]:
    optional = (event.instance_id or "", event.rack_id or "")
    return (event.group_id, event.member_id, event.client_id, *optional)


def _check_new_group(classic: Group | None, event: ConsumerHeartbeat) -> None:
    """Only a join makes a group; an empty one of the classic protocol may become another type, a living one not."""
    if event.member_epoch != JOIN_EPOCH:
        message = f"there is no consumer group {event.group_id!r}"
        raise _Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
    if classic is not None and not classic.is_in(GroupState.EMPTY):
        message = f"group {event.group_id!r} speaks the classic protocol"
        raise _Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _heartbeat(
    change: Change, event: ConsumerHeartbeat, looked: LookedThrough
) -> Decision[GroupRecord]:
    is_join = event.member_epoch == JOIN_EPOCH
    _check_room(change, event)
    before = _join(change, event) if is_join else _member(change.group, event)
    has_new_subscription = _subscribe(change, before, event)
    _resolve(change, event, looked)
    _assign(change, event.shapes, has_changed=has_new_subscription)
    group = change.group
    after = next_current(
        group,
        group.members[event.member_id],
        event.owned,
        event.shapes,
        has_new_subscription=has_new_subscription,
    )
    if after != before.current:
        change.write(MemberAssigned(event.group_id, event.member_id, after))
        _watch_revocation(change, before, after)
    if is_join:
        change.watch(event.member_id)
    else:
        change.hear(event.member_id)
    # Who says that it owns something else than it may missed an answer, or is on its way; once more does no harm.
    is_told = event.owned is None or event.owned == after.assigned
    is_same = after.assigned == before.current.assigned and event.member_epoch == after.epoch
    tells = is_join or event.is_full or not (is_told and is_same)
    answer = ConsumerHeartbeatAnswer(
        ErrorCode.NONE,
        "",
        event.member_id,
        after.epoch,
        change.config.consumer_heartbeat_interval_ms,
        after.assigned if tells else None,
    )
    change.effects.append(Reply(event.request_id, answer))
    return change.decision("consumer_joined" if is_join else "consumer_heartbeat")


def _check_room(change: Change, event: ConsumerHeartbeat) -> None:
    members = change.group.members
    is_known = event.member_id in members or (
        event.instance_id is not None and change.group.static_member(event.instance_id) is not None
    )
    if not is_known and len(members) >= change.config.group_members_max:
        message = f"the group has {len(members)} members, which is the most it may have"
        raise _Refused(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def _member(group: ConsumerGroup, event: ConsumerHeartbeat) -> ConsumerMember:
    member = group.members.get(event.member_id)
    if event.instance_id is not None:
        known = group.static_member(event.instance_id)
        if known is not None and known.member_id != event.member_id:
            message = f"instance {event.instance_id!r} is member {known.member_id!r} now"
            raise _Refused(ErrorCode.FENCED_INSTANCE_ID, message)
        member = known
    if member is None:
        message = f"{event.member_id!r} is no member of the group"
        raise _Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
    current = member.current
    if event.member_epoch < JOIN_EPOCH or event.member_epoch == current.epoch:
        return member
    # The answer that raised its epoch may be lost: it comes with the one before, and owns nothing it should not.
    is_behind = (
        event.member_epoch == current.previous_epoch < current.epoch
        and event.owned is not None
        and event.owned <= current.assigned
    )
    if not is_behind:
        message = f"the member's epoch is {current.epoch}; it must give up all and join again"
        raise _Refused(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return member


def _join(change: Change, event: ConsumerHeartbeat) -> ConsumerMember:
    """The member as it was before it joined; a new one that nobody knows has only its id."""
    group = change.group
    known = group.members.get(event.member_id)
    if event.instance_id is None:
        return known or ConsumerMember(event.member_id)
    instance = group.static_member(event.instance_id)
    if instance is None:
        return known or ConsumerMember(event.member_id)
    if instance.member_id == event.member_id:
        return instance
    if instance.current.epoch != STATIC_LEAVE_EPOCH:
        message = f"instance {event.instance_id!r} is in use by member {instance.member_id!r}"
        raise _Refused(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    # It is back: what was kept for it goes to its new id, and nobody else notices.
    kept = replace(instance.current, epoch=JOIN_EPOCH, previous_epoch=JOIN_EPOCH)
    target = group.targets.get(instance.member_id)
    change.remove(instance.member_id)
    change.write(MemberSubscribed(event.group_id, event.member_id, instance.subscription))
    if target is not None:
        change.write(TargetAssigned(event.group_id, event.member_id, target))
    change.write(MemberAssigned(event.group_id, event.member_id, kept))
    return change.group.members[event.member_id]


def _subscribe(change: Change, before: ConsumerMember, event: ConsumerHeartbeat) -> bool:
    """Write what the member says of itself; whether the group must be assigned anew for it."""
    said, group = before.subscription, change.group
    topics = said.topics if event.topics is None else tuple(sorted(set(event.topics)))
    timeout_ms = event.rebalance_timeout_ms
    updated = Subscription(
        said.instance_id if event.instance_id is None else event.instance_id,
        said.rack_id if event.rack_id is None else event.rack_id,
        event.client_id,
        event.client_host,
        topics,
        said.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        said.assignor if event.assignor is None else event.assignor,
        said.pattern if event.regex is None else event.regex,
    )
    is_new = before.member_id not in group.members
    if not is_new and updated == said:
        return False
    _check_size(updated, change.config)
    if updated.pattern and updated.pattern != said.pattern:
        _check_pattern(updated.pattern)
    assignor = preferred_assignor(group)
    change.write(MemberSubscribed(event.group_id, before.member_id, updated))
    names = (topics, updated.pattern)
    has_new_names = is_new or names != (said.topics, said.pattern)
    return has_new_names or preferred_assignor(change.group) != assignor


def _check_size(said: Subscription, config: GroupConfig) -> None:
    """A record that never fits would stop the shard for everybody."""
    own = (said.instance_id, said.rack_id, said.client_id, said.client_host, said.pattern)
    if _size((*own, *said.topics)) > config.record_bytes_max:
        raise _Refused(ErrorCode.INVALID_REQUEST, "the subscription is too large for a record")


def _size(names: Iterable[str | None]) -> int:
    return sum(4 + len((name or "").encode()) for name in names)


def _check_pattern(pattern: str) -> None:
    try:
        check_pattern(pattern)
    except InvalidPattern as invalid:
        message = f"{pattern[:200]!r} is no regular expression of RE2: {invalid}"
        raise _Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def _resolve(change: Change, event: ConsumerHeartbeat, looked: LookedThrough) -> None:
    """Find the topics of patterns that are new, or whose topics may have come or gone since they were looked for.

    A heartbeat looks for the member's own new pattern at once. For the rest it takes those that waited longest, as many
    as a heartbeat may cost: a burst of new topics must not stop the shard."""
    group = change.group
    own = group.members[event.member_id].subscription.pattern
    patterns = {member.subscription.pattern for member in group.members.values()} - {""}
    due = sorted(
        (-1 if each not in group.patterns else _looked_at(looked.get(each)), each)
        for each in patterns
        if each not in group.patterns or _is_due(looked.get(each), event, change.now)
    )
    if not due:
        return
    due.sort(key=lambda one: (one[1] != own or own in group.patterns, *one))
    for _, pattern in due[: max(1, MATCHES_MAX // max(len(event.shapes), 1))]:
        topics = matching_topics(pattern, event.shapes)
        version, now = event.topics_version, change.now
        change.heard.append(TopicsLookedThrough(group.group_id, pattern, version, now))
        known = group.patterns.get(pattern)
        if known is not None and known.topics == topics:
            continue
        if _size((pattern, *topics)) > change.config.record_bytes_max:
            message = f"{pattern[:200]!r} names {len(topics)} topics, too many for a record"
            raise _Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
        found = PatternTopics(topics, version, now)
        change.write(PatternResolved(group.group_id, pattern, found))


def _looked_at(looked: TopicsLookedThrough | None) -> int:
    return 0 if looked is None else looked.at


def _is_due(looked: TopicsLookedThrough | None, event: ConsumerHeartbeat, now: Millis) -> bool:
    if looked is None:
        return True
    is_recent = 0 <= now - looked.at < PATTERNS_REFRESH_MS
    return looked.topics_version != event.topics_version and not is_recent


def _assign(change: Change, shapes: Topics, *, has_changed: bool) -> None:
    """Raise the group's epoch if members, subscriptions or topics changed, and find the targets of a new epoch."""
    group = change.group
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


def _watch_revocation(change: Change, before: ConsumerMember, after: Current) -> None:
    """A member that does not give up what others wait for within its rebalance timeout is put out."""
    group, unrevoked = change.group, MemberState.UNREVOKED_PARTITIONS
    if after.state is unrevoked:
        change.effects.append(revocation(group, group.members[before.member_id]))
    elif before.current.state is unrevoked:
        change.effects.append(CancelTimer(revoke_timer(group.group_id, before.member_id)))


def revocation(group: ConsumerGroup, member: ConsumerMember) -> SetTimer:
    over = RevokeTimeOver(group.group_id, member.member_id, member.current.epoch)
    timeout_ms = Millis(max(member.subscription.rebalance_timeout_ms, 0))
    return SetTimer(revoke_timer(group.group_id, member.member_id), timeout_ms, over)


# ------------------------------------------------------------------------------------------------ leaving


def _leave(change: Change, event: ConsumerHeartbeat) -> Decision[GroupRecord]:
    """From any epoch: who leaves asks for nothing that could be out of date."""
    member = _member(change.group, event)
    answer = ConsumerHeartbeatAnswer(ErrorCode.NONE, "", event.member_id, event.member_epoch)
    change.effects.append(Reply(event.request_id, answer))
    if event.member_epoch == LEAVE_EPOCH:
        change.remove(member.member_id)
        change.raise_epoch()
        return change.decision("consumer_left")
    # Its partitions wait for it as long as its session would have lasted.
    away = Current(STATIC_LEAVE_EPOCH, member.current.epoch, MemberState.STABLE)
    away = replace(away, assigned=member.current.assigned)
    change.write(MemberAssigned(event.group_id, member.member_id, away))
    change.effects.append(CancelTimer(revoke_timer(event.group_id, member.member_id)))
    return change.decision("consumer_left_for_a_while")


def session_check(
    group: ConsumerGroup,
    event: SessionCheck,
    deadline: Millis | None,
    config: GroupConfig,
    now: Millis,
) -> Decision[GroupRecord]:
    if event.member_id not in group.members:
        return Decision((), (), "session_of_nobody")
    longest_ms = config.consumer_session_timeout_ms
    going_on = session_going_on(event, deadline, longest_ms, now, "consumer_session_goes_on")
    return going_on or _put_out(group, event.member_id, config, now, "consumer_expired")


def revoke_time_over(
    group: ConsumerGroup, event: RevokeTimeOver, config: GroupConfig, now: Millis
) -> Decision[GroupRecord]:
    member = group.members.get(event.member_id)
    is_waiting = member is not None and (
        member.current.state is MemberState.UNREVOKED_PARTITIONS
        and member.current.epoch == event.member_epoch
    )
    if not is_waiting:
        return Decision((), (), "timer_too_late")
    return _put_out(group, event.member_id, config, now, "consumer_did_not_revoke")


def _put_out(
    group: ConsumerGroup, member_id: str, config: GroupConfig, now: Millis, label: str
) -> Decision[GroupRecord]:
    change = Change(group, config, now)
    change.remove(member_id)
    change.raise_epoch()
    return change.decision(label)


def group_removed(group: ConsumerGroup) -> tuple[GroupRecord, ...]:
    """The group's tombstones; its members have gone before."""
    assert not group.members, group.group_id
    gone = tuple(TargetAssigned(group.group_id, id_, None) for id_ in group.targets)
    patterns = tuple(PatternResolved(group.group_id, one, None) for one in group.patterns)
    return (*gone, *patterns, TargetEpoch(group.group_id, None), GroupEpoch(group.group_id, None))
