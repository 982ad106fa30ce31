"""The messages of clients, leaders, followers and coordinators, as Protocols: the fields that the core uses.

The messages of `proto/` have these fields, so the callers, which do the I/O, pass them to the core as they are. An
object for each partition between message and core would cost as much as an append. A test may pass any object with
these fields.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from oncelog.ids import Partition

FieldValue: TypeAlias = Any
"""The value of a field that is given by name. Each field has its own type, and protobuf's `add` states none."""
LedT = TypeVar("LedT", covariant=True)
MessageT = TypeVar("MessageT", covariant=True)


class LedPartitions(Protocol[LedT]):
    """The partitions that this node leads, as the handling of a request looks them up."""

    def led(self, topic: str, partition: int) -> LedT:
        """Return the partition that this node leads. Raises KafkaError if it is unknown, led elsewhere, or offline."""
        ...

    def leader_of(self, partition: Partition) -> tuple[int, int]:
        """Return (leading node, leader epoch) as the metadata have it."""
        ...


class Messages(Protocol[MessageT]):
    """A list of messages that is filled in place: `add` appends a message with these fields."""

    def add(self, **fields: FieldValue) -> MessageT: ...


class Answers(Messages[MessageT], Protocol[MessageT]):
    def __delitem__(self, index: int, /) -> None: ...

    def __len__(self) -> int: ...


class NamedPartition(Protocol):
    topic: str
    partition: int


class PartitionCode(NamedPartition, Protocol):
    error_code: int


class LeadersAnswer(PartitionCode, Protocol):
    """A partition's response by the node that should lead it. It also says which node leads, if that is another one."""

    log_start_offset: int
    leader: int
    leader_epoch: int


# Produce.


class PartitionRecords(NamedPartition, Protocol):
    records: bytes
    topic_id: bytes


class ProduceRequest(Protocol):
    transactional_id: str
    acks: int
    timeout_ms: int

    @property
    def partitions(self) -> Sequence[PartitionRecords]: ...


class PartitionProduced(LeadersAnswer, Protocol):
    error_message: str
    base_offset: int
    log_append_time_ms: int

    @property
    def record_errors(self) -> Messages[object]: ...


# Fetch.


class FetchPartition(NamedPartition, Protocol):
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    topic_id: bytes
    known_high_watermark: int
    known_log_start_offset: int


class FetchRequest(Protocol):
    max_bytes: int
    min_bytes: int
    read_to_log_end: bool
    coordinator_epoch: int
    changes_only: bool
    uncounted: bool


class FetchedPartition(LeadersAnswer, Protocol):
    high_watermark: int
    last_stable_offset: int
    records: bytes

    @property
    def aborted_transactions(self) -> Messages[object]: ...


# Markers, and the transactions that they end.


class SeenMessage(Protocol):
    """An open transaction that an operator wants to end, with the offsets that it had when the operator saw it."""

    start_offset: int
    last_offset: int


class TxnMarker(Protocol):
    """A transaction marker in a WriteTxnMarkers request of the marker sender."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    transaction_start_ms: int
    transactional_id: str

    @property
    def partitions(self) -> Sequence[NamedPartition]: ...

    @property
    def seen(self) -> SeenMessage: ...

    def HasField(self, field_name: Literal["seen"], /) -> bool: ...  # noqa: N802


class MarkerAnswer(Protocol):
    """The result of one marker in one partition."""

    error_code: int
    error_message: str


class MarkerResult(Protocol):
    """The result of one marker in all its partitions."""

    @property
    def partitions(self) -> Messages[MarkerAnswer]: ...


class TransactionResult(Protocol):
    """One transaction in a coordinator's answer: a code for each partition that a leader asked about."""

    error_code: int
    transaction_start_ms: int

    @property
    def partitions(self) -> Iterable[PartitionCode]: ...


# Replication.


class PartitionTold(NamedPartition, Protocol):
    """A partition in a follower's fetch request: the position of the follower's log."""

    fetch_offset: int
    current_leader_epoch: int
    last_fetched_leader_epoch: int
    log_start_offset: int


class ReplicaRequest(Protocol):
    """A follower's fetch request as the leader reads it. `ReplicaAsk` is the same message while the follower
    fills it.
    """

    node_id: int
    node_epoch: int
    session_id: int
    session_epoch: int

    @property
    def partitions(self) -> Sequence[PartitionTold]: ...

    @property
    def forgotten(self) -> Sequence[NamedPartition]: ...


class ReplicaAsk(Protocol):
    """A follower's fetch request while the follower fills it. `ReplicaRequest` is the same message as the leader reads
    it.
    """

    max_wait_ms: int
    session_id: int
    session_epoch: int

    @property
    def partitions(self) -> Messages[PartitionTold]: ...

    @property
    def forgotten(self) -> Messages[NamedPartition]: ...


class PartitionAnswer(LeadersAnswer, Protocol):
    """A partition in the answer to a follower."""

    high_watermark: int
    diverging: bool
    diverging_leader_epoch: int
    diverging_end_offset: int
    records: bytes


class ProposedPartition(Protocol):
    """A partition in a leader's AlterPartition request. Its answer is a `PartitionCode`."""

    leader_epoch: int
    partition_epoch: int

    @property
    def partition(self) -> NamedPartition: ...

    @property
    def isr(self) -> "Growing": ...


class Growing(Protocol):
    def extend(self, numbers: Sequence[int], /) -> None: ...


# Metadata.


class NodeFacts(Protocol):
    """The fields of a node in the metadata that a storage node reads."""

    node_epoch: int
    fenced: bool
    draining: bool


class PartitionFacts(Protocol):
    """The fields of a partition in the metadata that a storage node reads: its leader, replicas, ISR and epochs."""

    leader: int
    leader_epoch: int
    partition_epoch: int

    @property
    def replicas(self) -> Sequence[int]: ...

    @property
    def isr(self) -> Sequence[int]: ...

    @property
    def adding_replicas(self) -> Sequence[int]: ...


class TopicFacts(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[PartitionFacts]: ...
