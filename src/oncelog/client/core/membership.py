"""A member of a group, by KIP-848: what its next heartbeat says, and what it must give up or take.

```
 UNSUBSCRIBED ──subscribe──▶ JOINING ──answered──▶ STABLE ◀──acknowledged── ACKNOWLEDGING
                                ▲                    │ ▲                          ▲
                                │ (told: lost)       ▼ └──nothing new──┐          │ reconciled
                              FENCED ◀──fenced── RECONCILING ──────────┴──────────┘
```

The coordinator says which partitions the member may have: its target. Where that differs from what it has, the member
reconciles. It commits, tells the program what is revoked, tells it what is assigned, and acknowledges with a heartbeat.
Only then does the coordinator give the revoked partitions to others. A member that was fenced has lost everything
already. It tells the program, and joins anew with epoch 0. A STALE one has left, until the program asks for records
again.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from oncelog.client.core.consumer_settings import ConsumerSettings
from oncelog.client.core.partition_state import NEVER
from oncelog.client.core.transaction_calls import GroupMember
from oncelog.client.errors import (
    AuthorizationError,
    ClientError,
    ConfigError,
    FatalError,
    FencedError,
    UnsupportedError,
)
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

JOIN_EPOCH, LEAVE_EPOCH, LEAVE_STATIC_EPOCH = 0, -1, -2
_FENCED: Final = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

Target = frozenset[tuple[bytes, int]]
"""Partitions as (topic id, partition). The metadata knows the topics' names."""


class MemberState(Enum):
    UNSUBSCRIBED = "unsubscribed"
    JOINING = "joining"
    RECONCILING = "reconciling"
    ACKNOWLEDGING = "acknowledging"
    STABLE = "stable"
    FENCED = "fenced"
    STALE = "stale"
    FATAL = "fatal"


class Heartbeat(NamedTuple):
    """The fields of a ConsumerGroupHeartbeat. None means that a field has not changed since the last one."""

    member_epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    assignor: str | None = None
    owned: Target | None = None


class HeartbeatAnswer(NamedTuple):
    error: ErrorCode
    message: str = ""
    member_epoch: int = -1
    interval_ms: int = 0
    target: Target | None = None
    """The member's target; None: it is as before."""


class Change(NamedTuple):
    """The partitions that were lost, revoked and assigned. The program is told of them in this order, before the member
    acknowledges to the coordinator."""

    lost: frozenset[Partition]
    revoked: frozenset[Partition]
    assigned: frozenset[Partition]


class Membership:
    """The state of one group member. It gets answers and calls of the program; `step` returns the heartbeat that is
    due, `change` what to tell the program."""

    def __init__(self, settings: ConsumerSettings, member_id: str) -> None:
        self.settings = settings
        self.member_id = member_id
        self.state = MemberState.UNSUBSCRIBED
        self.epoch = JOIN_EPOCH
        self.owned: frozenset[Partition] = frozenset()
        self.error: ClientError | None = None
        """The error that ended the membership for good."""
        self._topics: tuple[str, ...] | None = None
        self._pattern: str | None = None
        self._had_pattern = False
        """True if the coordinator must hear that there is no pattern any more."""
        self._target: Target = frozenset()
        self._owned_ids: Target = frozenset()
        self._acknowledged: Target | None = None
        """The partitions in the last answered heartbeat that named any."""
        self._saying: Target | None = None
        self._is_full = True
        """True if the next heartbeat contains every field."""
        self._is_asked = False
        self._next_ms = 0.0
        self._interval_ms = 0.0
        self._attempts = 0

    @property
    def member(self) -> GroupMember:
        """The member's ids and epoch, as `send_offsets_to_transaction` and offset commits carry them."""
        group = self.settings.group_id or ""
        if self.state is MemberState.UNSUBSCRIBED:
            return GroupMember(group)
        return GroupMember(group, self.epoch, self.member_id, self.settings.group_instance_id)

    @property
    def is_joined(self) -> bool:
        return self.epoch > 0 and self.state in (
            MemberState.RECONCILING,
            MemberState.ACKNOWLEDGING,
            MemberState.STABLE,
        )

    # ---------------------------------------------------------------------------------------------- the program

    def subscribe(self, topics: tuple[str, ...] | None, pattern: str | None) -> None:
        """Subscribe to topics, or to topics whose whole names match the pattern (RE2; the coordinator matches it). The
        next heartbeat says so."""
        self._had_pattern = self._pattern is not None
        self._topics, self._pattern = topics, pattern
        self._is_full, self._next_ms = True, 0.0
        if self.state in (MemberState.UNSUBSCRIBED, MemberState.STALE):
            self._join()

    def polled(self) -> None:
        """Record that the program asked for records. If it did not for too long and the member has left therefore, it
        joins again."""
        if self.state is MemberState.STALE and not self.owned:
            self._join()

    def _join(self) -> None:
        self.state, self.epoch = MemberState.JOINING, JOIN_EPOCH
        self._is_full, self._next_ms, self._attempts = True, 0.0, 0
        self._target, self._acknowledged = frozenset(), None

    def leave(self) -> Heartbeat | None:
        """Leave the group, and return the heartbeat that says so; None: the member is not in it."""
        was_member = self.state not in (
            MemberState.UNSUBSCRIBED,
            MemberState.FATAL,
            MemberState.STALE,
            MemberState.FENCED,
        )
        self.state, self.epoch = MemberState.UNSUBSCRIBED, JOIN_EPOCH
        return self._farewell() if was_member else None

    def poll_is_late(self) -> Heartbeat | None:
        """Leave the group, because the program asked for no record within `max.poll.interval.ms`, so other members read
        its partitions. Return the heartbeat that says so; None: the member is not in the group."""
        if not self.is_joined and self.state is not MemberState.JOINING:
            return None
        self.state = MemberState.STALE
        return self._farewell()

    def _farewell(self) -> Heartbeat:
        instance_id = self.settings.group_instance_id
        return Heartbeat(
            LEAVE_EPOCH if instance_id is None else LEAVE_STATIC_EPOCH, instance_id=instance_id
        )

    # ---------------------------------------------------------------------------------------------- heartbeats

    def step(self, now_ms: float) -> tuple[Heartbeat | None, float]:
        """Return the heartbeat that is due (None: none is), and when to call again, in ms."""
        if self._is_asked or self.state not in (
            MemberState.JOINING,
            MemberState.RECONCILING,
            MemberState.ACKNOWLEDGING,
            MemberState.STABLE,
        ):
            return None, NEVER
        if now_ms < self._next_ms:
            return None, self._next_ms
        self._is_asked = True
        return self._heartbeat(), NEVER

    def _heartbeat(self) -> Heartbeat:
        settings = self.settings
        self._saying = self._acknowledging
        if not self._is_full:
            return Heartbeat(self.epoch, settings.group_instance_id, owned=self._saying)
        if self.epoch == JOIN_EPOCH:
            self._saying = frozenset()
        elif self._saying is None:
            self._saying = self._acknowledged or frozenset()
        return Heartbeat(
            self.epoch,
            settings.group_instance_id,
            settings.client_rack or None,
            settings.max_poll_interval_ms,
            self._topics or (),
            self._pattern or ("" if self._had_pattern else None),
            settings.group_remote_assignor,
            self._saying,
        )

    @property
    def _acknowledging(self) -> Target | None:
        return self._owned_ids if self.state is MemberState.ACKNOWLEDGING else None

    def answered(self, answer: HeartbeatAnswer, now_ms: float) -> None:
        self._is_asked = False
        if self.state in (MemberState.UNSUBSCRIBED, MemberState.STALE, MemberState.FENCED):
            return
        if answer.error is not ErrorCode.NONE:
            self._refused(answer, now_ms)
            return
        self._is_full, self._attempts = False, 0
        self.epoch = answer.member_epoch
        self._interval_ms = answer.interval_ms
        self._next_ms = now_ms + answer.interval_ms
        if self._saying is not None:
            self._acknowledged = self._saying
        is_said = self.state is MemberState.ACKNOWLEDGING and self._saying == self._owned_ids
        if is_said or self.state is MemberState.JOINING:
            self.state = MemberState.STABLE
        if answer.target is not None:
            self._target = answer.target
        if self.state is MemberState.ACKNOWLEDGING:
            self._next_ms = now_ms
        elif answer.target is not None or self._target != self._owned_ids:
            self.state = MemberState.RECONCILING

    def ended(self, error: ClientError) -> None:
        """End the membership of the group for good. The error is raised to the program at its next call."""
        self._is_asked = False
        self.state, self.error = MemberState.FATAL, error

    def lost(self, now_ms: float) -> None:
        """Prepare to send again: the last heartbeat got no answer. The coordinator may not have it, so the next one
        contains every field."""
        self._is_asked, self._is_full = False, True
        self._pause(now_ms)

    def _refused(self, answer: HeartbeatAnswer, now_ms: float) -> None:
        if answer.error in _FENCED:
            self.state, self.epoch = MemberState.FENCED, JOIN_EPOCH
        elif answer.error.is_retriable or answer.error in _MOVED:
            self._is_full = True
            self._pause(now_ms)
        elif answer.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            self._is_full = True  # An ACL may come; until then the member stays without the topic.
            self._pause(now_ms)
        else:
            self.state = MemberState.FATAL
            self.error = _fatal(answer, self.settings)

    def _pause(self, now_ms: float) -> None:
        settings = self.settings
        pause = settings.retry_backoff_ms * 2.0 ** min(self._attempts, 10)
        self._next_ms = now_ms + min(pause, settings.retry_backoff_max_ms)
        self._attempts += 1

    # ---------------------------------------------------------------------------------------------- assignments

    def change(self, names: Mapping[bytes, str]) -> Change | None:
        """Return what the program must be told now about its partitions; None: nothing. `names`: known topic ids →
        names.

        A topic whose name is not known yet is left for later: `has_unknown`.
        """
        if self.state in (MemberState.FENCED, MemberState.STALE, MemberState.FATAL):
            if self.owned:
                return Change(self.owned, frozenset(), frozenset())
            if self.state is MemberState.FENCED:
                self._join()
            return None
        if self.state is not MemberState.RECONCILING:
            return None
        wanted = self._named(names)
        if wanted == self.owned:
            # The coordinator named the same partitions again. It waits for a heartbeat all the same.
            if not self.has_unknown(names):
                self.state, self._next_ms = MemberState.ACKNOWLEDGING, 0.0
            return None
        return Change(frozenset(), self.owned - wanted, wanted - self.owned)

    def has_unknown(self, names: Mapping[bytes, str]) -> bool:
        """True if the coordinator assigned a topic (by its id) whose name the metadata does not have yet."""
        return any(topic_id not in names for topic_id, _ in self._target)

    def _named(self, names: Mapping[bytes, str]) -> frozenset[Partition]:
        return frozenset(
            Partition(names[topic_id], number)
            for topic_id, number in self._target
            if topic_id in names
        )

    def told(self, change: Change, names: Mapping[bytes, str]) -> None:
        """Take over a change of which the program has now been told. If the member was fenced meanwhile, its partitions
        are lost, and a further change says so."""
        self.owned = (self.owned - change.lost - change.revoked) | change.assigned
        ids = {name: topic_id for topic_id, name in names.items()}
        self._owned_ids = frozenset(
            (ids[one.topic], one.partition) for one in self.owned if one.topic in ids
        )
        if self.state is MemberState.FENCED and not self.owned:
            self._join()
        elif self.state is MemberState.RECONCILING:
            self.state, self._next_ms = MemberState.ACKNOWLEDGING, 0.0


def _fatal(answer: HeartbeatAnswer, settings: ConsumerSettings) -> ClientError:
    error, group = answer.error, settings.group_id
    said = f": {answer.message}" if answer.message else ""
    match error:
        case ErrorCode.GROUP_AUTHORIZATION_FAILED:
            return AuthorizationError(f"the user may not READ the group {group!r}{said}", error)
        case ErrorCode.FENCED_INSTANCE_ID | ErrorCode.UNRELEASED_INSTANCE_ID:
            return FencedError(
                f"another member of the group {group!r} has group.instance.id {settings.group_instance_id!r}{said}; "
                "give each consumer its own",
                error,
            )
        case ErrorCode.UNSUPPORTED_ASSIGNOR | ErrorCode.INVALID_REGULAR_EXPRESSION:
            return ConfigError(f"the group {group!r} refuses it{said or ': ' + error.name}", error)
        case ErrorCode.GROUP_ID_NOT_FOUND:
            return FatalError(
                f"the group {group!r} has members of the classic protocol and takes none of KIP-848{said}; stop them, "
                "or give another group.id",
                error,
            )
        case ErrorCode.UNSUPPORTED_VERSION:
            return UnsupportedError(
                f"the coordinator of the group {group!r} does not speak KIP-848{said}", error
            )
        case _:
            return FatalError(f"the group {group!r} refuses the member: {error.name}{said}", error)
