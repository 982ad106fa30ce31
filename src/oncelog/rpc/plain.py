"""Plain Python objects for calls between roles of one process: the fields of `proto/`, with bytes that are not copied.

A protobuf message copies its bytes when they are put in and each time they are looked at. Put into another message, it
is copied, too. If `takes_plain` is true of a stub's method, a caller may send these objects instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oncelog.api.v1.storage_pb2 import VerificationMode
from oncelog.ids import Partition


@dataclass(slots=True)
class AppendRequest:
    """`storage_pb2.AppendRequest` for a call within the process: a coordinator's append to its shard, without a
    wait.
    """

    partition: Partition
    coordinator_epoch: int
    records: bytes
    expected_base_offset: int


class TxnMarker(NamedTuple):
    """`storage_pb2.TxnMarker` for calls within the process: a transaction marker and the partitions it is for."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    transaction_start_ms: int
    transactional_id: str
    partitions: Sequence[Partition]
    shard: int = -1
    """The shard that decided the transaction, a partition of `__transaction_state`; -1: not stated."""


@dataclass(slots=True)
class WriteTxnMarkersRequest:
    """`storage_pb2.WriteTxnMarkersRequest` for a call within the process, from the marker sender to a leader."""

    markers: Sequence[TxnMarker]
    about_to_write: Callable[[TxnMarker], None]
    """A function that the leader calls for each marker that it writes at once, right before."""


@dataclass(slots=True)
class DeliverMarkersRequest:
    """`marker_sender_pb2.DeliverMarkersRequest` for a call within the process: markers for transactions of several
    shards. `metadata_offset` is that of the coordinator's metadata: an older image may lack a partition."""

    markers: Sequence[TxnMarker]
    metadata_offset: int


@dataclass(slots=True)
class PartitionRecords:
    """`storage_pb2.PartitionRecords` for calls within the process: the batches to produce to one partition."""

    topic: str
    partition: int
    records: bytes
    topic_id: bytes


@dataclass(slots=True)
class VerifyRequest:
    """`coordinator_pb2.AddPartitionsToTxnRequest` for a call within the process that only verifies one TV1
    transaction.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]


class RequestOrigin(NamedTuple):
    """`types_pb2.RequestOrigin` for calls within the process: the connection, number and client of a request.

    A request of a client that was refused before is sent as the protobuf message, which also names the refusal.
    """

    listener: int
    connection: int
    request: int
    client_id: str
    client_host: str


class AddPartitionsRequest(NamedTuple):
    """The protobuf `AddPartitionsToTxnRequest` of one transaction of TV1, as a plain object. A listener and a
    coordinator of one process hand it over as it is, which saves the encoding."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]
    origin: RequestOrigin


class EndTxnRequest(NamedTuple):
    """`coordinator_pb2.EndTxnRequest` for a call within the process that ends a transaction of TV1."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    origin: RequestOrigin


@dataclass(slots=True)
class ProduceRequest:
    """`storage_pb2.ProduceRequest` for a call within the process, from a listener to a storage node."""

    transactional_id: str
    acks: int
    timeout_ms: int
    verification_mode: "VerificationMode"
    partitions: Sequence[PartitionRecords]
    client_id: str
    client_host: str
