"""What producers and consumers say to a leader and are answered, as the core sees it: fields by name.

As `replica_messages`: the messages of `proto/` have these fields and are handed over as they are.
"""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from oncelog.ids import Partition as PartitionName
from oncelog_storage.core.partition import Partition

MessageT = TypeVar("MessageT", covariant=True)
HeldT = TypeVar("HeldT", bound=Partition, covariant=True)


class Leaders(Protocol[HeldT]):
    """The partitions that this node leads."""

    def get(self, topic: str, partition: int) -> HeldT:
        """Raises KafkaError: unknown, led elsewhere, or offline."""
        ...

    def leader_of(self, partition: PartitionName) -> tuple[int, int]:
        """(leading node, leader epoch) as the metadata have it."""
        ...


class Filled(Protocol[MessageT]):
    """A list of messages: each is added with its fields."""

    def add(self, **fields: Any) -> MessageT: ...


# Produce.


class PartitionRecords(Protocol):
    topic: str
    partition: int
    records: bytes


class ProduceRequest(Protocol):
    transactional_id: str
    acks: int
    timeout_ms: int

    @property
    def partitions(self) -> Sequence[PartitionRecords]: ...


class PartitionProduced(Protocol):
    topic: str
    partition: int
    error_code: int
    error_message: str
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    leader: int
    leader_epoch: int

    @property
    def record_errors(self) -> Filled[object]: ...


# Fetch.


class FetchPartition(Protocol):
    topic: str
    partition: int
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int


class FetchRequest(Protocol):
    max_bytes: int
    min_bytes: int
    read_to_log_end: bool
    coordinator_epoch: int


class FetchedPartition(Protocol):
    topic: str
    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    records: bytes
    leader: int
    leader_epoch: int

    @property
    def aborted_transactions(self) -> Filled[object]: ...
