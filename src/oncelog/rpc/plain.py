"""Requests for roles of the same process: the fields of `proto/`, and bytes that nobody copies.

A protobuf message copies its bytes when they are put in and each time they are looked at. Put into another message, it
is copied, too. Who asks a `DirectStub` whether it `takes_plain` objects may send these instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from oncelog.api.v1.storage_pb2 import VerificationMode


@dataclass(slots=True)
class PartitionRecords:
    """As `storage_pb2.PartitionRecords`."""

    topic: str
    partition: int
    records: bytes
    topic_id: bytes


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
