"""One consumer group of the classic protocol, as a value: every change makes a new one.

```
Empty ── first member ──▶ PreparingRebalance ── all have joined, or time is up ──▶ CompletingRebalance
  ▲                          ▲    │ nobody is left                                     │ the leader's SyncGroup
  └──────────────────────────┼────┘                                                    ▼
                             └───────── a member joins anew, leaves or falls silent ── Stable
```

Kafka's Dead is a group that is not there. A group is written to the log when it becomes Stable or Empty. Only the state
machine's memory has which members wait for an answer, which have joined a running rebalance, and when each last sent a
request. A new coordinator learns these from the members' next requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final

from oncelog.errors import ErrorCode
from oncelog.ids import NO_TIMESTAMP, Millis
from oncelog.protocol.consumer_protocol import Unreadable, read_topics

CONSUMER_PROTOCOL: Final = "consumer"
CLASSIC: Final = "classic"


class GroupState(Enum):
    """The state of a classic group, with Kafka's names as ListGroups spells them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


Protocols = tuple[tuple[str, bytes], ...]
"""The names of a member's protocols in its order of preference, each with the member's data for the assignor."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a classic group. `joining` and `syncing` are the ids of its requests that wait for an answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: int | None = None
    syncing: int | None = None
    is_new: bool = False
    """True until the member's first JoinGroup is answered. Until then the member does not know its id, so it cannot
    send heartbeats."""

    def metadata(self, protocol: str | None) -> bytes:
        return next((data for name, data in self.protocols if name == protocol), b"")


@dataclass(frozen=True, slots=True)
class Group:
    group_id: str
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    state_timestamp: Millis = NO_TIMESTAMP
    members: Mapping[str, Member] = field(default_factory=dict)
    pending: tuple[str, ...] = ()
    """Member ids that were given out with MEMBER_ID_REQUIRED and have not joined yet."""
    unsynced: tuple[str, ...] = ()
    """Ids of the members of this generation that have not sent SyncGroup."""
    rebalance: int = 0
    """The number of rebalances since the machine was loaded, by which a timer of an earlier one is recognised."""
    is_initial: bool = False
    """True if the running rebalance began with an empty group: more members are likely on their way."""
    has_new_member: bool = False

    # ------------------------------------------------------------------------------------------- questions

    def is_in(self, *states: GroupState) -> bool:
        return self.state in states

    def static_member_id(self, instance_id: str) -> str | None:
        return next(
            (m.member_id for m in self.members.values() if m.instance_id == instance_id), None
        )

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return UNKNOWN_MEMBER_ID if no member has this member id, or this instance id. Return FENCED_INSTANCE_ID if
        the instance id belongs to another member (KIP-345); otherwise NONE."""
        if instance_id is not None:
            known = self.static_member_id(instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def joining_count(self) -> int:
        return sum(1 for member in self.members.values() if member.joining is not None)

    @property
    def have_all_joined(self) -> bool:
        return not self.pending and self.joining_count == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """True if a member with these protocols may join: one of them is supported by all present members."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if self.protocol_type != protocol_type:
            return False
        common = self._common_protocols()
        return any(name in common for name, _ in protocols)

    def selected_protocol(self) -> str:
        """Return the protocol with the most votes.

        Each member votes for the first of its protocols that all members support. A tie goes to the vote of the older
        member.
        """
        common = self._common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _common_protocols(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for member in self.members.values():
            for name in dict(member.protocols):
                counts[name] = counts.get(name, 0) + 1
        return {name: count for name, count in counts.items() if count == len(self.members)}

    def is_subscribed_to(self, topic: str) -> bool:
        """True if a member reads this topic. Its offsets must then not be removed.

        A subscription that cannot be read counts as one to every topic.
        """
        if self.protocol_type != CONSUMER_PROTOCOL or self.state is GroupState.EMPTY:
            return False
        return any(
            topics is None or topic in topics
            for topics in (subscribed_topics(m, self.protocol) for m in self.members.values())
        )

    # ------------------------------------------------------------------------------------------- changes

    def with_member(self, member: Member) -> "Group":
        return replace(self, members={**self.members, member.member_id: member})

    def without(self, member_id: str) -> "Group":
        """Return the group without this member, pending or joined. If it was the leader, another member leads."""
        members = {id_: m for id_, m in self.members.items() if id_ != member_id}
        leader = self.leader
        if leader == member_id:
            leader = next(iter(members), None)
        return replace(
            self,
            members=members,
            leader=leader,
            pending=_without(self.pending, member_id),
            unsynced=_without(self.unsynced, member_id),
        )

    def with_pending(self, member_id: str) -> "Group":
        return replace(self, pending=(*self.pending, member_id))

    def synced(self, member_id: str) -> "Group":
        return replace(self, unsynced=_without(self.unsynced, member_id))


def _without(ids: tuple[str, ...], gone: str) -> tuple[str, ...]:
    return tuple(id_ for id_ in ids if id_ != gone) if gone in ids else ids


def subscribed_topics(member: Member, protocol: str | None) -> frozenset[str] | None:
    """Return the topics in a consumer's subscription, of any version; None if the bytes cannot be read. `protocol`
    None: the subscription is that for the member's first protocol."""
    data = member.metadata(protocol) if protocol else next((d for _, d in member.protocols), b"")
    try:
        return read_topics(data)
    except Unreadable:
        return None
