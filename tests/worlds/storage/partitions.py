"""Partitions without a disk, a node that hosts them, and what the image says of them, for tests of what is decided."""

from contextlib import contextmanager
from typing import NamedTuple

import pytest

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import BatchHeader
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Leadership

NOW = 1_000_000
HERE, OTHER, THIRD = 1, 2, 3
TRANSACTIONAL, CONTROL = 1 << 4, 1 << 5
ORDERS = Partition("orders", 0)
SHARD = Partition("__transaction_state", 7)
PAYMENTS = Partition("payments", 0)


def log_state(partition: Partition = ORDERS, **config: object) -> LogState:
    return LogState(partition, bytes(16), TopicConfig(**config))  # type: ignore[arg-type]


def partition_of(log: LogState | None = None, *, leader_epoch: int = 5) -> PartitionReplica:
    """Led by node 1, without followers."""
    partition = PartitionReplica(log or log_state())
    partition.leadership = Leadership(HERE, leader_epoch, True, 1, 1)
    return partition


def with_followers(
    log: LogState | None = None, *, isr: tuple[int, ...] = (HERE, OTHER, THIRD), now_s: float = 0.0
) -> PartitionReplica:
    """Led by node 1 in leader epoch 5, with followers 2 and 3."""
    partition = PartitionReplica(log or log_state())
    partition.leadership = Leadership(HERE, 5, True, len(isr), 3)
    partition.lead(HERE, 5, (HERE, OTHER, THIRD), isr, 0, now_s)
    return partition


def header(
    *,
    producer_id: int = 7,
    epoch: int = 0,
    sequence: int = 0,
    count: int = 1,
    attributes: int = 0,
    timestamp: int = NOW,
) -> BatchHeader:
    times = (timestamp, timestamp)
    return BatchHeader(
        0, 100, 0, 2, 0, attributes, count - 1, *times, producer_id, epoch, sequence, count
    )


def append(partition: PartitionReplica, batch: BatchHeader) -> int:
    """What the shell does with a batch that may be written."""
    log = partition.log
    base_offset = log.log_end_offset
    if batch.producer_id >= 0:
        log.producers.apply_batch(batch, base_offset)
    log.log_end_offset += batch.record_count
    partition.written(batch)
    partition.move_local_end(log.log_end_offset)
    return base_offset


class Host:
    """A node that leads these partitions; another leads the rest."""

    def __init__(self, *partitions: PartitionReplica) -> None:
        self.partitions = {each.partition: each for each in partitions}

    def led(self, topic: str, partition: int) -> PartitionReplica:
        found = self.partitions.get(Partition(topic, partition))
        if found is None:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        found.require_leader()
        return found

    def leader_of(self, partition: Partition) -> tuple[int, int]:
        return OTHER, 9


class Image(NamedTuple):
    """A partition in the image."""

    leader: int = HERE
    leader_epoch: int = 5
    partition_epoch: int = 0
    replicas: tuple[int, ...] = (HERE, OTHER, THIRD)
    isr: tuple[int, ...] = (HERE, OTHER, THIRD)
    adding_replicas: tuple[int, ...] = ()


class Topic(NamedTuple):
    partitions: tuple[Image, ...] = (Image(),)
    topic_id: bytes = bytes(16)


@contextmanager
def refused(code: ErrorCode):
    with pytest.raises(KafkaError) as found:
        yield found
    assert found.value.error_code is code
