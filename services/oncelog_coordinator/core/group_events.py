"""The events that a group shard's state machine decides, and its answers: requests of clients, markers, and timers.

All times are milliseconds. `request_id` is given by the driver, which takes a request and runs the machine. It tells
the driver whom to answer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from oncelog.errors import ErrorCode
from oncelog.ids import (
    CoordinatorEpoch,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
    SeenTransaction,
)
from oncelog_coordinator.core.consumer_group import ConsumerGroup, Slots, Topics
from oncelog_coordinator.core.group_records import TransactionStarted
from oncelog_coordinator.core.group_state import Group, Protocols

NO_OFFSET = -1


# ------------------------------------------------------------------------------------------------ membership


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """A JoinGroup request. `new_member_id` is the id that a member without one gets."""

    request_id: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    new_member_id: str
    requires_known_member_id: bool = False
    supports_skipping_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """A SyncGroup request. Empty protocol names are not checked: old clients do not send them."""

    request_id: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None
    protocol_type: str = ""
    protocol_name: str = ""
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Heartbeat:
    request_id: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None = None


class Leaving(NamedTuple):
    """A member that a LeaveGroup request names.

    An empty member id with an instance id: an operator removes the member that has this instance id now.
    """

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    request_id: int
    group_id: str
    members: tuple[Leaving, ...]


class JoinedMember(NamedTuple):
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The answer to JoinGroup. Only the leader's has `members`, because the leader assigns."""

    error_code: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str = ""
    protocol_name: str = ""
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    error_code: ErrorCode
    protocol_type: str = ""
    protocol_name: str = ""
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    error_code: ErrorCode


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    error_code: ErrorCode
    members: tuple[tuple[Leaving, ErrorCode], ...] = ()


# ------------------------------------------------------------------------------------------------ the consumer protocol


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request (KIP-848). A field that is None, and a timeout of -1, mean: unchanged.

    `shapes` are the topics of the cluster at this moment. `topics_version` is the metadata offset at which a topic
    last came or went.
    """

    request_id: int
    group_id: str
    member_id: str
    member_epoch: int
    shapes: Topics
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Slots | None = None
    topics_version: int = 0

    @property
    def is_full(self) -> bool:
        """True if the member states everything again, because the answer before may have been lost."""
        has_subscription = self.topics is not None or self.regex is not None
        return self.rebalance_timeout_ms >= 0 and has_subscription and self.owned is not None


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatAnswer:
    """The answer to ConsumerGroupHeartbeat (KIP-848). `assigned` None: the member's assignment has not changed."""

    error_code: ErrorCode
    message: str = ""
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assigned: Slots | None = None


# ------------------------------------------------------------------------------------------------ offsets


class OffsetToCommit(NamedTuple):
    partition: Partition
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: bytes = b""
    """The id of the topic that the offset belongs to; empty: any topic of this name."""


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """An OffsetCommit request. Generation -1 without a member id: a consumer that assigns its partitions itself, or
    an operator."""

    request_id: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]


@dataclass(frozen=True, slots=True)
class CommitTxnOffsets:
    """A TxnOffsetCommit request, after its transaction was verified at the transaction coordinator.

    `verified_at` is the offset of the producer's last marker when the coordinator was asked
    (`GroupMachine.verification`). A marker that came since makes the commit fail.
    """

    request_id: int
    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    offsets: tuple[OffsetToCommit, ...]
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    verified_at: int
    transaction_start_ms: int = 0
    """The transaction's start in milliseconds, as its coordinator answers; 0: it was not asked, or does not know."""
    supports_epoch_bump: bool = False
    """True if the producer speaks TV2: every marker of its own bumps its epoch."""


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """The answer to a commit of offsets: one error code for each partition.

    `partitions` is empty if `error_code` refuses the whole request.
    """

    error_code: ErrorCode
    partitions: tuple[tuple[Partition, ErrorCode], ...] = ()


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """An OffsetFetch request. `partitions` None: all offsets that the group has.

    `member_id` and `member_epoch` are set only for a member of a consumer group (KIP-848).
    """

    request_id: int
    group_id: str
    partitions: tuple[Partition, ...] | None
    require_stable: bool
    member_id: str = ""
    member_epoch: int = -1
    with_pending: bool = False
    """True if the answer also has offsets that only open transactions commit, and the producer ids of those
    transactions."""
    topic_ids: Mapping[str, bytes] = field(default_factory=dict)
    """The topic ids that the request names, by topic name. A name without one means the topic that exists."""


class FetchedOffset(NamedTuple):
    partition: Partition
    offset: int = NO_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error_code: ErrorCode = ErrorCode.NONE
    pending: tuple[ProducerId, ...] = ()
    """The producers whose open transactions commit this offset; empty unless the request asked for it."""


@dataclass(frozen=True, slots=True)
class FetchOffsetsAnswer:
    offsets: tuple[FetchedOffset, ...]
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class DeleteOffsets:
    request_id: int
    group_id: str
    partitions: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """A transaction marker that commits or drops the pending offsets in this shard's partition of `__consumer_offsets`
    (ADR 0015).
    """

    request_id: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: CoordinatorEpoch
    transaction_version: int
    transaction_start_ms: int = 0
    """The start of the transaction that the marker ends, in milliseconds; 0: unknown."""
    transactional_id: str = ""
    """The transactional.id of a TV1 transaction; only our own marker sender states it."""
    running_start_ms: int | None = None
    """The start of the transaction that runs now, as its coordinator answers, in milliseconds. 0: none runs; None:
    it was not asked."""
    known_when_requested: TransactionStarted | None = None
    """The transaction that the machine knew of this producer before its coordinator was asked
    (`GroupMachine.started`)."""
    seen: SeenTransaction | None = None
    """The open transaction that an operator wants to end. None: the marker ends any that is open."""


@dataclass(frozen=True, slots=True)
class TopicsDeleted:
    """Topics were deleted, so their offsets must go.

    An offset without a topic id would otherwise count for a new topic of the same name.
    """

    topics: Mapping[str, bytes]
    """The ids of the deleted topics, by topic name."""


# ------------------------------------------------------------------------------------------------ views


@dataclass(frozen=True, slots=True)
class DescribeGroup:
    request_id: int
    group_id: str


@dataclass(frozen=True, slots=True)
class DescribeAnswer:
    """The answer to DescribeGroup. `group` None: there is no such group."""

    group: Group | ConsumerGroup | None
    error_code: ErrorCode = ErrorCode.NONE


@dataclass(frozen=True, slots=True)
class ListGroups:
    """A ListGroups request. The filters are in lower case; an empty one lets everything pass."""

    request_id: int
    states: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


class GroupRow(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@dataclass(frozen=True, slots=True)
class ListAnswer:
    groups: tuple[GroupRow, ...]


@dataclass(frozen=True, slots=True)
class DeleteGroup:
    request_id: int
    group_id: str


# ------------------------------------------------------------------------------------------------ timers


@dataclass(frozen=True, slots=True)
class SessionCheck:
    """A timer's event: this member's session is over, unless a request extended it."""

    group_id: str
    member_id: str
    due: Millis
    """The wall-clock time at which the timer ends, unless the clock is set meanwhile."""


@dataclass(frozen=True, slots=True)
class InitialDelayOver:
    """A timer's event: a new group's first rebalance has waited `delay_ms` for more members.

    It may wait `remaining_ms` longer, which it does if a member has joined meanwhile. `rebalance` is the number of that
    rebalance: if another one runs by now, the timer is ignored.
    """

    group_id: str
    rebalance: int
    delay_ms: int
    remaining_ms: int


@dataclass(frozen=True, slots=True)
class JoinTimeOver:
    group_id: str
    rebalance: int


@dataclass(frozen=True, slots=True)
class SyncTimeOver:
    group_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class RevokeTimeOver:
    """A timer's event: the time is over in which a member had to give up partitions that other members wait for.

    It is removed, unless its state or epoch has changed.
    """

    group_id: str
    member_id: str
    member_epoch: int


@dataclass(frozen=True, slots=True)
class RejoinTimeOver:
    """A timer's event: the time is over in which a classic member of a consumer group had to send its next JoinGroup or
    SyncGroup.

    `deadline` tells which wait this was. The member is removed if it is still awaited by this deadline.
    """

    group_id: str
    member_id: str
    deadline: Millis


@dataclass(frozen=True, slots=True)
class CleanUp:
    """A timer's event: remove expired offsets, groups without members and offsets, and producers that have not
    committed for long.
    """


GroupEvent = (
    JoinGroup
    | SyncGroup
    | Heartbeat
    | LeaveGroup
    | ConsumerHeartbeat
    | CommitOffsets
    | CommitTxnOffsets
    | FetchOffsets
    | DeleteOffsets
    | EndTransaction
    | TopicsDeleted
    | DescribeGroup
    | ListGroups
    | DeleteGroup
    | SessionCheck
    | InitialDelayOver
    | JoinTimeOver
    | SyncTimeOver
    | RevokeTimeOver
    | RejoinTimeOver
    | CleanUp
)


class MigrationPolicy(Enum):
    """The changes of group protocol that a group with members may make (Kafka's group.consumer.migration.policy)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """The settings that the group machine needs, with Kafka's defaults where Kafka has the same setting
    (docs/kafka-facts.md, 10).
    """

    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    group_members_max: int = 1_000
    pending_members_max: int = 1_000
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: Millis = Millis(7 * 86_400_000)
    clean_up_interval_ms: Millis = Millis(600_000)
    producer_expiration_ms: Millis = Millis(86_400_000)
    record_bytes_max: int = 900_000
    consumer_session_timeout_ms: int = 45_000
    consumer_heartbeat_interval_ms: int = 5_000
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
