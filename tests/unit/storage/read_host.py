"""A host of partitions whose reads are answered by the test."""

from tests.worlds.storage.partitions import (
    ORDERS,
    OTHER,
    append,
    header,
    log_state,
    partition_of,
)
from tests.worlds.storage.segments import batch

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.fetching import Fetching, FindAborted, LogSlice, ReadBatches
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.walks import run_walk

ABORTED = AbortedTransactionEntry(7, 0, 2, 0)


class Host:
    """A node that leads one partition, whose batches are these."""

    def __init__(self, partition: PartitionReplica, *batches: LogSlice) -> None:
        self.partition = partition
        self.batches = list(batches)
        self.needs: list[object] = []

    def led(self, topic: str, partition: int) -> PartitionReplica:
        if (topic, partition) != self.partition.partition:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.partition

    def leader_of(self, partition: Partition) -> tuple[int, int]:
        return OTHER, 9

    def found(self, need):
        self.needs.append(need)
        match need:
            case ReadBatches():
                return self.batches.pop(0) if self.batches else LogSlice(b"", -1)
            case FindAborted():
                return [ABORTED]
            case _:
                return None

    def fetching(self, *, is_committed_only: bool = False, **fields) -> Fetching[PartitionReplica]:
        request = pb.FetchRequest(**fields)
        return Fetching(request, self, 1 << 20, is_committed_only=is_committed_only)

    def read(self, reading, offset=0, *, name=ORDERS, fails=False, **fields):
        part = pb.FetchPartition(
            topic=name.topic, partition=name.partition, fetch_offset=offset, **fields
        )
        part.current_leader_epoch = fields.get("current_leader_epoch", -1)
        answer = pb.FetchedPartition(topic=name.topic, partition=name.partition)
        run_walk(reading.read(part, answer), failed if fails else self.found, (KafkaError,))
        return answer


def failed(need):
    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)


def grown(count: int, **fields) -> PartitionReplica:
    partition = partition_of(log_state(**fields))
    append(partition, header(count=count))
    return partition


def slice_of(offset: int, count: int = 1) -> LogSlice:
    return LogSlice(batch(offset, count), offset + count)
