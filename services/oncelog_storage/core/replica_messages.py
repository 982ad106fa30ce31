"""What followers and leaders say to each other, as the core sees it: fields by name.

The messages of `proto/` have these fields, so a shell hands them over as they are: an object for each partition between
message and core would cost as much as an append. A test hands over whatever has them too.
"""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class PartitionTold(Protocol):
    """Of a follower's request: where its log stands."""

    topic: str
    partition: int
    fetch_offset: int
    current_leader_epoch: int
    last_fetched_leader_epoch: int
    log_start_offset: int


class NamedPartition(Protocol):
    topic: str
    partition: int


class ReplicaRequest(Protocol):
    """As its leader reads it."""

    node_id: int
    node_epoch: int
    session_id: int
    session_epoch: int

    @property
    def partitions(self) -> Sequence[PartitionTold]: ...

    @property
    def forgotten(self) -> Sequence[NamedPartition]: ...


class PartitionAnswer(Protocol):
    """Of a leader's answer."""

    topic: str
    partition: int
    error_code: int
    leader: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    diverging: bool
    diverging_leader_epoch: int
    diverging_end_offset: int
    records: bytes


MessageT = TypeVar("MessageT", covariant=True)


class Messages(Protocol[MessageT]):
    """A list of messages, filled in place: one that is added later is copied."""

    def add(self) -> MessageT: ...


class Answers(Messages[MessageT], Protocol[MessageT]):
    def __delitem__(self, index: int, /) -> None: ...

    def __len__(self) -> int: ...


class ReplicaAsk(Protocol):
    """A follower's request, as it fills it."""

    max_wait_ms: int
    session_id: int
    session_epoch: int

    @property
    def partitions(self) -> Messages[PartitionTold]: ...

    @property
    def forgotten(self) -> Messages[NamedPartition]: ...


class NodeFacts(Protocol):
    """What the metadata say of a node."""

    node_epoch: int
    fenced: bool
    draining: bool


class PartitionFacts(Protocol):
    """What the metadata say of a partition."""

    leader: int
    leader_epoch: int
    partition_epoch: int

    @property
    def replicas(self) -> Sequence[int]: ...

    @property
    def isr(self) -> Sequence[int]: ...


class ProposedPartition(Protocol):
    """Of a leader's request for other in-sync replicas."""

    leader_epoch: int
    partition_epoch: int

    @property
    def partition(self) -> NamedPartition: ...

    @property
    def isr(self) -> "Growing": ...


class Growing(Protocol):
    def extend(self, numbers: Sequence[int], /) -> None: ...


class ProposalAnswer(Protocol):
    topic: str
    partition: int
    error_code: int
