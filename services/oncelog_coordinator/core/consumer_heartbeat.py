"""ConsumerGroupHeartbeat: joining, staying in and leaving a group of the consumer protocol (KIP-848).

One request does it all. Epoch 0 joins, -1 leaves, -2 leaves as a static member that will be back. Any other epoch says
what has changed since the last heartbeat, with null for what has not. The answer has the member's epoch and, when it
changed or was asked for, what the member may read. No request waits at the coordinator: a member that must wait asks
again.

The first member that joins a classic group of consumers makes it a consumer group: see `group_migration`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import Millis
from oncelog.machine import CancelTimer, Decision, Reply, answered
from oncelog_coordinator.core import consumer_leaving
from oncelog_coordinator.core.consumer_assignors import ASSIGNORS
from oncelog_coordinator.core.consumer_change import (
    Change,
    Refused,
    assign,
    check_room,
    go_on,
    rejoin_timer,
    replace_static,
    size_of,
    subscribe,
)
from oncelog_coordinator.core.consumer_group import (
    JOIN_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroup,
    ConsumerMember,
    PatternResolved,
    PatternTopics,
    Subscription,
)
from oncelog_coordinator.core.group_events import (
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    GroupConfig,
)
from oncelog_coordinator.core.group_migration import fits_one_batch, upgrade
from oncelog_coordinator.core.group_names import NAME_BYTES_MAX
from oncelog_coordinator.core.group_records import (
    GroupRecord,
    GroupTombstone,
    TopicsLookedThrough,
)
from oncelog_coordinator.core.group_state import Group, GroupState
from oncelog_coordinator.core.topic_patterns import (
    InvalidPattern,
    check_pattern,
    matching_topics,
)

PATTERNS_REFRESH_MS: Final = 1_000
"""The least time between two comparisons of one regular expression with all topics."""
MATCHES_MAX: Final = 10_000
"""The most names that a heartbeat compares with regular expressions, about 30 ms. One expression alone may take
more."""

LookedThrough = Mapping[str, TopicsLookedThrough]
"""The last comparison with all topics, by regular expression."""


# ------------------------------------------------------------------------------------------------ heartbeat


def decide(
    group: ConsumerGroup | None,
    classic: Group | None,
    event: ConsumerHeartbeat,
    looked: LookedThrough,
    config: GroupConfig,
    now: Millis,
) -> Decision[GroupRecord]:
    """Return the decision on a ConsumerGroupHeartbeat: the group's new records, the reply and timers, or an error.

    At most one of `group` and `classic` (a classic group of the same name) exists. `looked` says when this state
    machine last compared each regular expression of the group with the topics.
    """
    change = Change(group or ConsumerGroup(event.group_id), event.shapes, config, now)
    try:
        _check_request(event)
        if group is None:
            _check_new_group(event)
        if event.member_epoch < JOIN_EPOCH:
            return consumer_leaving.leave(change, _member(change.group, event), event)
        if classic is None:
            return _heartbeat(change, event, looked)
        return _join_classic(change, classic, event, looked)
    except Refused as refused:
        answer = ConsumerHeartbeatAnswer(refused.error_code, refused.message)
        return answered(event, answer, "consumer_heartbeat_refused")


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
        raise Refused(ErrorCode.INVALID_REQUEST, reason)
    if event.assignor is not None and event.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        message = f"there is no assignor {event.assignor!r}; there are {known}"
        raise Refused(ErrorCode.UNSUPPORTED_ASSIGNOR, message)


def _names(event: ConsumerHeartbeat) -> tuple[str, ...]:
    optional = (event.instance_id or "", event.rack_id or "")
    return (event.group_id, event.member_id, event.client_id, *optional)


def _check_new_group(event: ConsumerHeartbeat) -> None:
    """Raise `Refused` with GROUP_ID_NOT_FOUND if a heartbeat for an unknown group does not join it.

    Only a join creates a group or upgrades a classic one.
    """
    if event.member_epoch != JOIN_EPOCH:
        message = f"there is no consumer group {event.group_id!r}"
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _join_classic(
    change: Change, classic: Group, event: ConsumerHeartbeat, looked: LookedThrough
) -> Decision[GroupRecord]:
    """Let a member of the consumer protocol join a classic group.

    An empty classic group is deleted first. One with members is upgraded to a consumer group and keeps them. Raises
    `Refused` if the upgraded group is too large for one batch.
    """
    if classic.is_in(GroupState.EMPTY):
        change.records.append(GroupTombstone(event.group_id))
        return _heartbeat(change, event, looked)
    upgrade(change, classic)
    decision = _heartbeat(change, event, looked)
    if not fits_one_batch(decision.records, change.config):
        message = f"classic group {event.group_id!r} is too large to become a consumer group"
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, message)
    return replace(decision, label="classic_group_upgraded")


def _heartbeat(
    change: Change, event: ConsumerHeartbeat, looked: LookedThrough
) -> Decision[GroupRecord]:
    is_join = event.member_epoch == JOIN_EPOCH
    check_room(change.group, event.member_id, event.instance_id, change.config)
    before = _join(change, event) if is_join else _member(change.group, event)
    if before.is_classic:
        change.effects.append(CancelTimer(rejoin_timer(event.group_id, event.member_id)))
    has_new_subscription = _subscribe(change, before, event)
    _resolve(change, event, looked)
    assign(change, has_changed=has_new_subscription)
    after = go_on(change, before, event.owned, has_new_subscription=has_new_subscription)
    if is_join:
        change.watch(event.member_id)
    else:
        change.extend_session(event.member_id)
    # A member that owns something else than it may has missed an answer, or is still changing. It is told again.
    has_assignment = event.owned is None or event.owned == after.assigned
    is_same = after.assigned == before.current.assigned and event.member_epoch == after.epoch
    sends_assignment = is_join or event.is_full or not (has_assignment and is_same)
    answer = ConsumerHeartbeatAnswer(
        ErrorCode.NONE,
        "",
        event.member_id,
        after.epoch,
        change.config.consumer_heartbeat_interval_ms,
        after.assigned if sends_assignment else None,
    )
    change.effects.append(Reply(event.request_id, answer))
    return change.decision("consumer_joined" if is_join else "consumer_heartbeat")


def _member(group: ConsumerGroup, event: ConsumerHeartbeat) -> ConsumerMember:
    member = group.members.get(event.member_id)
    if event.instance_id is not None:
        known = group.static_member(event.instance_id)
        if known is not None and known.member_id != event.member_id:
            message = f"instance {event.instance_id!r} is member {known.member_id!r} now"
            raise Refused(ErrorCode.FENCED_INSTANCE_ID, message)
        member = known
    if member is None:
        message = f"{event.member_id!r} is no member of the group"
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, message)
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
        raise Refused(ErrorCode.FENCED_MEMBER_EPOCH, message)
    return member


def _join(change: Change, event: ConsumerHeartbeat) -> ConsumerMember:
    """Return the joining member as the group knows it so far. An unknown member has only its id.

    A static member that is back gets its new member id. Raises `Refused` if another member uses the instance id.
    """
    group = change.group
    known = group.members.get(event.member_id)
    if event.instance_id is None:
        return known or ConsumerMember(event.member_id)
    instance = group.static_member(event.instance_id)
    if instance is None:
        return known or ConsumerMember(event.member_id)
    if instance.member_id == event.member_id:
        return instance
    if not instance.is_classic and instance.current.epoch != STATIC_LEAVE_EPOCH:
        message = f"instance {event.instance_id!r} is in use by member {instance.member_id!r}"
        raise Refused(ErrorCode.UNRELEASED_INSTANCE_ID, message)
    return replace_static(change, instance, event.member_id)


def _subscribe(change: Change, before: ConsumerMember, event: ConsumerHeartbeat) -> bool:
    """Write the member's subscription from its heartbeat; return True if the group needs a new assignment because of
    it.
    """
    said = before.subscription
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
    if updated.pattern and updated.pattern != said.pattern:
        _check_pattern(updated.pattern)
    return subscribe(change, before, updated)


def _check_pattern(pattern: str) -> None:
    try:
        check_pattern(pattern)
    except InvalidPattern as invalid:
        message = f"{pattern[:200]!r} is no regular expression of RE2: {invalid}"
        raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def _resolve(change: Change, event: ConsumerHeartbeat, looked: LookedThrough) -> None:
    """Find the topics of each regular expression that is new, or whose topics may have changed since the last
    comparison.

    A member's own new expression is compared at once. Then come those of other members, those first that waited
    longest. One heartbeat compares at most `MATCHES_MAX` names, so that a burst of new topics does not stop the shard.
    """
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
        if size_of((pattern, *topics)) > change.config.record_bytes_max:
            if pattern != own:
                # The topics found before stay, and the pattern stays due. A member that sends it gets the error.
                continue
            message = f"{pattern[:200]!r} names {len(topics)} topics, too many for a record"
            raise Refused(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
        change.unlogged.append(TopicsLookedThrough(group.group_id, pattern, version, now))
        known = group.patterns.get(pattern)
        if known is not None and known.topics == topics:
            continue
        found = PatternTopics(topics, version, now)
        change.write(PatternResolved(group.group_id, pattern, found))


def _looked_at(looked: TopicsLookedThrough | None) -> int:
    return 0 if looked is None else looked.at


def _is_due(looked: TopicsLookedThrough | None, event: ConsumerHeartbeat, now: Millis) -> bool:
    if looked is None:
        return True
    is_recent = 0 <= now - looked.at < PATTERNS_REFRESH_MS
    return looked.topics_version != event.topics_version and not is_recent
