"""Responses to callers in the same process: plain objects in the place of protobuf messages, with the same fields.

Such a response is not serialised, and nobody copies its records.
"""

from dataclasses import dataclass
from typing import NamedTuple

from oncelog.errors import ErrorCode
from oncelog_storage.core.messages import FieldValue


@dataclass(slots=True)
class RecordError:
    index: int
    message: str


class RecordErrors(list[RecordError]):
    def add(self, **fields: FieldValue) -> RecordError:
        self.append(RecordError(**fields))
        return self[-1]


class PartitionProduced:
    """One partition of a Produce response within the process: a plain object with `storage_pb2.PartitionProduced`'s
    fields.
    """

    __slots__ = (
        "base_offset",
        "error_code",
        "error_message",
        "leader",
        "leader_epoch",
        "log_append_time_ms",
        "log_start_offset",
        "partition",
        "record_errors",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.error_code = 0
        self.error_message = ""
        self.base_offset = self.log_append_time_ms = self.log_start_offset = 0
        self.leader = self.leader_epoch = 0
        self.record_errors = RecordErrors()


class PartitionsProduced(list[PartitionProduced]):
    def add(self, **fields: FieldValue) -> PartitionProduced:
        self.append(PartitionProduced(**fields))
        return self[-1]


class ProduceResponse:
    """A Produce response within the process: a plain object with the fields of `storage_pb2.ProduceResponse`."""

    __slots__ = ("partitions",)

    def __init__(self) -> None:
        self.partitions = PartitionsProduced()


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class AbortedTransactions(list[AbortedTransaction]):
    def add(self, **fields: FieldValue) -> AbortedTransaction:
        self.append(AbortedTransaction(**fields))
        return self[-1]


class FetchedPartition:
    """One partition of a Fetch response within the process: a plain object with `storage_pb2.FetchedPartition`'s
    fields.
    """

    __slots__ = (
        "aborted_transactions",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "leader",
        "leader_epoch",
        "log_start_offset",
        "partition",
        "records",
        "topic",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.error_code = 0
        self.high_watermark = self.last_stable_offset = self.log_start_offset = 0
        self.leader = self.leader_epoch = 0
        self.records = b""
        self.aborted_transactions = AbortedTransactions()


class FetchedPartitions(list[FetchedPartition]):
    def add(self, **fields: FieldValue) -> FetchedPartition:
        self.append(FetchedPartition(**fields))
        return self[-1]


class FetchResponse:
    """A Fetch response within the process: a plain object with the fields of `storage_pb2.FetchResponse`."""

    __slots__ = ("partitions",)

    def __init__(self) -> None:
        self.partitions = FetchedPartitions()


class MarkerAnswer:
    """The result of one marker in one partition, for a marker sender in the same process."""

    __slots__ = ("error_code", "error_message")

    def __init__(self) -> None:
        self.error_code: int = ErrorCode.REQUEST_TIMED_OUT
        """REQUEST_TIMED_OUT until the marker is written."""
        self.error_message = ""
