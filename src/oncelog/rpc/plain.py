"""Requests for roles of the same process: the fields of `proto/`, with bytes that are not copied.

A protobuf message copies its bytes when they are put in and each time they are looked at. Put into another message, it
is copied, too. A caller whose `DirectStub` `takes_plain` objects may send these instead.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from oncelog.api.v1.storage_pb2 import VerificationMode
from oncelog.ids import Partition


@dataclass(slots=True)
class AppendRequest:
    """The fields of `storage_pb2.AppendRequest`, for an append that is not waited for."""

    partition: Partition
    coordinator_epoch: int
    records: bytes
    expected_base_offset: int


class TxnMarker(NamedTuple):
    """The fields of `storage_pb2.TxnMarker`."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int
    transaction_start_ms: int
    transactional_id: str
    partitions: Sequence[Partition]
    shard: int = -1
    """The shard that decided the transaction."""


@dataclass(slots=True)
class WriteTxnMarkersRequest:
    """The fields of `storage_pb2.WriteTxnMarkersRequest`."""

    markers: Sequence[TxnMarker]
    about_to_write: Callable[[TxnMarker], None]
    """A callback for each marker that is written the short way."""


@dataclass(slots=True)
class DeliverMarkersRequest:
    """The fields of `marker_sender_pb2.DeliverMarkersRequest`, for decisions of several shards."""

    markers: Sequence[TxnMarker]
    metadata_offset: int


@dataclass(slots=True)
class PartitionRecords:
    """The fields of `storage_pb2.PartitionRecords`."""

    topic: str
    partition: int
    records: bytes
    topic_id: bytes


@dataclass(slots=True)
class VerifyRequest:
    """The fields of `coordinator_pb2.AddPartitionsToTxnRequest`, for one transaction of TV1 that is only verified."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]


class RequestOrigin(NamedTuple):
    """The fields of `types_pb2.RequestOrigin`, for a client that was not refused before."""

    listener: int
    connection: int
    request: int
    client_id: str
    client_host: str


class AddPartitionsRequest(NamedTuple):
    """The fields of `coordinator_pb2.AddPartitionsToTxnRequest`, for one transaction of TV1."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[Partition]
    origin: RequestOrigin


class EndTxnRequest(NamedTuple):
    """The fields of `coordinator_pb2.EndTxnRequest`, for TV1."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    commit: bool
    origin: RequestOrigin


@dataclass(slots=True)
class ProduceRequest:
    """The fields of `storage_pb2.ProduceRequest`."""

    transactional_id: str
    acks: int
    timeout_ms: int
    verification_mode: "VerificationMode"
    partitions: Sequence[PartitionRecords]
    client_id: str
    client_host: str
