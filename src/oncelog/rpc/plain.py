"""Requests for roles of the same process: the fields of `proto/`, and bytes that nobody copies.

A protobuf message copies its bytes when they are put in and each time they are looked at. Put into another message, it
is copied, too. Who asks a `DirectStub` whether it `takes_plain` objects may send these instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oncelog.api.v1.storage_pb2 import VerificationMode
from oncelog.ids import Partition


@dataclass(slots=True)
class AppendRequest:
    """As `storage_pb2.AppendRequest`, for one that is not waited for."""

    partition: Partition
    coordinator_epoch: int
    records: bytes
    expected_base_offset: int


class TxnMarker(NamedTuple):
    """As `storage_pb2.TxnMarker`."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    transaction_start_ms: int
    transactional_id: str
    partitions: Sequence[Partition]
    shard: int = -1
    """Of the decision."""


@dataclass(slots=True)
class WriteTxnMarkersRequest:
    """As `storage_pb2.WriteTxnMarkersRequest`."""

    markers: Sequence[TxnMarker]
    about_to_write: Callable[[TxnMarker], None]
    """Told of each marker that is not left to the long way."""


@dataclass(slots=True)
class DeliverMarkersRequest:
    """As `marker_sender_pb2.DeliverMarkersRequest`, of decisions of several shards."""

    markers: Sequence[TxnMarker]
    metadata_offset: int


@dataclass(slots=True)
class PartitionRecords:
    """As `storage_pb2.PartitionRecords`."""

    topic: str
    partition: int
    records: bytes
    topic_id: bytes


@dataclass(slots=True)
class VerifyRequest:
    """As `coordinator_pb2.AddPartitionsToTxnRequest`, of one transaction of TV1 that is only verified."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]


class RequestOrigin(NamedTuple):
    """As `types_pb2.RequestOrigin`, of a client that was not refused before."""

    listener: int
    connection: int
    request: int
    client_id: str
    client_host: str


class AddPartitionsRequest(NamedTuple):
    """As `coordinator_pb2.AddPartitionsToTxnRequest`, of one transaction of TV1."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]
    origin: RequestOrigin


class EndTxnRequest(NamedTuple):
    """As `coordinator_pb2.EndTxnRequest`, of TV1."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    origin: RequestOrigin


@dataclass(slots=True)
class ProduceRequest:
    """As `storage_pb2.ProduceRequest`."""

    transactional_id: str
    acks: int
    timeout_ms: int
    verification_mode: "VerificationMode"
    partitions: Sequence[PartitionRecords]
    client_id: str
    client_host: str
