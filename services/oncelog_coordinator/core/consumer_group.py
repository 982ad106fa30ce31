"""One group of the consumer protocol (KIP-848), as a value: every change makes a new one.

The coordinator assigns. A change of members, subscriptions or topics raises the group's epoch. The next heartbeat
computes the target assignment of that epoch. Each member then moves towards its target at its own pace:

```
STABLE ── target takes partitions away ──▶ UNREVOKED ── the member has given them up ──┐
  ▲                                                                                    ▼
  └── all of its target is free ◀── UNRELEASED ◀── others have not given up all of it yet
```

A partition is added to a member only when no other member has it, assigned or still to revoke: that alone keeps two
members from owning it. Every change is one of the six records below. The running state machine and a replay change a
group only through `applied`, so they cannot differ.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, IntEnum
from functools import cached_property
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode
from oncelog.ids import Millis

CONSUMER: Final = "consumer"
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2

Slot = tuple[bytes, int]
"""A partition, as its topic id and partition number."""
Slots = frozenset[Slot]
NO_SLOTS: Final[Slots] = frozenset()


class TopicShape(NamedTuple):
    """The id and the number of partitions of a topic, which is all that an assignment needs."""

    topic_id: bytes
    partitions: int


Topics = Mapping[str, TopicShape]


class MemberState(IntEnum):
    """The state of a member on its way to its target assignment (KIP-848), with the numbers that Kafka writes to the
    log.
    """

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """The data that only a member of the classic protocol has in a consumer group: its session timeout and protocols,
    from JoinGroup.
    """

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """The names of the member's protocols in its order of preference, each with its subscription in bytes. Never
    empty."""

    @property
    def protocol(self) -> str:
        """The member's first protocol name. The answer to its JoinGroup names it as the group's protocol."""
        return self.protocols[0][0]


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics a member subscribes to, and what else it said of itself: ids, rack, client, timeout, assignor."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    pattern: str = ""
    """A regular expression that subscribes to more topics; empty: none."""
    classic: ClassicMember | None = None
    """The member's data from the classic protocol; None: the member speaks the consumer protocol."""


class PatternTopics(NamedTuple):
    """The topics that a regular expression matched when it was last compared with all topics."""

    topics: tuple[str, ...]
    """The names of the topics, sorted."""
    version: int
    """The version of the metadata in which the topics were found."""
    timestamp: Millis


@dataclass(frozen=True, slots=True)
class Current:
    """A member's current assignment: `assigned` is what it may use, `revoking` what it must give up first."""

    epoch: int = JOIN_EPOCH
    previous_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Slots = NO_SLOTS
    revoking: Slots = NO_SLOTS

    def moved(
        self, member_epoch: int, state: MemberState, assigned: Slots, revoking: Slots = NO_SLOTS
    ) -> "Current":
        return Current(member_epoch, self.epoch, state, assigned, revoking)


@dataclass(frozen=True, slots=True)
class ConsumerMember:
    member_id: str
    subscription: Subscription = Subscription()
    current: Current = Current()

    @property
    def is_classic(self) -> bool:
        return self.subscription.classic is not None


# ------------------------------------------------------------------------------------------------ records


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """A log record of the group's epoch; epoch None: the group is deleted.

    `topics_hash` is a hash over the subscribed topics. It differs after one of them came, went or grew.
    """

    group_id: str
    epoch: int | None
    topics_hash: int = 0


@dataclass(frozen=True, slots=True)
class MemberSubscribed:
    """A log record of a member's subscription; subscription None: the member has left."""

    group_id: str
    member_id: str
    subscription: Subscription | None


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    """A log record of the group epoch that the members' target assignments belong to (KIP-848).

    It is written after the records of the assignments, as in Kafka. Epoch None: the group is deleted.
    """

    group_id: str
    epoch: int | None


@dataclass(frozen=True, slots=True)
class TargetAssigned:
    group_id: str
    member_id: str
    slots: Slots | None


@dataclass(frozen=True, slots=True)
class MemberAssigned:
    group_id: str
    member_id: str
    current: Current | None


@dataclass(frozen=True, slots=True)
class PatternResolved:
    """A log record of the topics that a regular expression matches; resolved None: no member subscribes by it any
    more.
    """

    group_id: str
    pattern: str
    resolved: PatternTopics | None


ConsumerRecord = (
    GroupEpoch | MemberSubscribed | TargetEpoch | TargetAssigned | MemberAssigned | PatternResolved
)


# ------------------------------------------------------------------------------------------------ the group


class ConsumerGroupState(Enum):
    """The state of a consumer group, with Kafka's names as ListGroups spells them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


@dataclass(frozen=True)
class ConsumerGroup:
    group_id: str
    epoch: int = 0
    topics_hash: int = 0
    target_epoch: int = 0
    targets: Mapping[str, Slots] = field(default_factory=dict)
    members: Mapping[str, ConsumerMember] = field(default_factory=dict)
    patterns: Mapping[str, PatternTopics] = field(default_factory=dict)

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(self.is_reconciled(member) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def is_reconciled(self, member: ConsumerMember) -> bool:
        current = member.current
        return current.state is MemberState.STABLE and current.epoch == self.target_epoch

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        return next(
            (m for m in self.members.values() if m.subscription.instance_id == instance_id), None
        )

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed

    @property
    def classic_members(self) -> tuple[ClassicMember, ...]:
        found = (member.subscription.classic for member in self.members.values())
        return tuple(classic for classic in found if classic is not None)

    def supports(self, protocols: tuple[tuple[str, bytes], ...]) -> bool:
        """True if every member that uses the classic protocol (JoinGroup) supports at least one common assignor among
        these. A classic member that joins must bring such a one.
        """
        spoken = [frozenset(name for name, _ in one.protocols) for one in self.classic_members]
        return any(all(name in names for names in spoken) for name, _ in protocols)

    @cached_property
    def owners(self) -> Mapping[Slot, str]:
        """The id of the member that has each partition, to read or still to give up."""
        return {
            slot: member.member_id
            for member in self.members.values()
            for slots in (member.current.assigned, member.current.revoking)
            for slot in slots
        }

    @cached_property
    def subscribed(self) -> frozenset[str]:
        return frozenset(
            topic for member in self.members.values() for topic in self.topics_of(member)
        )

    def topics_of(self, member: ConsumerMember) -> tuple[str, ...]:
        """Return the topics that the member named and those that its regular expression matches, each once."""
        said = member.subscription
        resolved = self.patterns.get(said.pattern)
        if resolved is None:
            return said.topics
        return tuple(dict.fromkeys((*said.topics, *resolved.topics)))


def applied(group: ConsumerGroup, record: ConsumerRecord) -> ConsumerGroup | None:
    """Return the group as it is after this log record; None: the record deletes the group.

    A compacted log has only each key's newest record. So a record of a member's assignment may come before the record
    of its subscription. A tombstone may be for a member that is not in the group.
    """
    match record:
        case GroupEpoch():
            if record.epoch is None:
                return None
            return replace(group, epoch=record.epoch, topics_hash=record.topics_hash)
        case TargetEpoch():
            return replace(group, target_epoch=record.epoch or 0)
        case TargetAssigned():
            targets = {id_: s for id_, s in group.targets.items() if id_ != record.member_id}
            if record.slots is not None:
                targets[record.member_id] = record.slots
            return replace(group, targets=targets)
        case MemberSubscribed():
            if record.subscription is None:
                members = {id_: m for id_, m in group.members.items() if id_ != record.member_id}
                return replace(group, members=members)
            member = group.members.get(record.member_id, ConsumerMember(record.member_id))
            return _with(group, replace(member, subscription=record.subscription))
        case PatternResolved():
            patterns = {each: of for each, of in group.patterns.items() if each != record.pattern}
            if record.resolved is not None:
                patterns[record.pattern] = record.resolved
            return replace(group, patterns=patterns)
        case MemberAssigned():
            known = group.members.get(record.member_id)
            if record.current is None:
                return group if known is None else _with(group, replace(known, current=Current()))
            member = known or ConsumerMember(record.member_id)
            return _with(group, replace(member, current=record.current))


def tombstones(group: ConsumerGroup) -> tuple[ConsumerRecord, ...]:
    """Return the tombstones that delete the group from the log.

    The group's own tombstone is the last. If the log is cut short before it, the group can be deleted again.
    """
    group_id = group.group_id
    return (
        *(MemberAssigned(group_id, member_id, None) for member_id in group.members),
        *(TargetAssigned(group_id, member_id, None) for member_id in group.targets),
        *(MemberSubscribed(group_id, member_id, None) for member_id in group.members),
        *(PatternResolved(group_id, pattern, None) for pattern in group.patterns),
        TargetEpoch(group_id, None),
        GroupEpoch(group_id, None),
    )


def _with(group: ConsumerGroup, member: ConsumerMember) -> ConsumerGroup:
    return replace(group, members={**group.members, member.member_id: member})


# ------------------------------------------------------------------------------------------------ offsets


def commit_error(
    group: ConsumerGroup,
    member_epoch: int,
    member_id: str,
    instance_id: str | None,
    *,
    is_transactional: bool,
) -> ErrorCode:
    """Return the error that refuses offset commits of this member at this epoch; NONE: it may commit."""
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE
    if is_transactional and member_epoch < 0 and not member_id and instance_id is None:
        return ErrorCode.NONE
    return epoch_error(group, member_epoch, member_id)


def epoch_error(group: ConsumerGroup, member_epoch: int, member_id: str) -> ErrorCode:
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member_epoch == member.current.epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.is_classic else ErrorCode.STALE_MEMBER_EPOCH
