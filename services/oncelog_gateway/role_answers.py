"""Converts what coordinators and partition leaders answer about transactions into the types of `core`."""

from typing import Final

from oncelog.api.v1 import coordinator_pb2, storage_pb2
from oncelog.errors import KafkaError
from oncelog.ids import (
    CoordinatorEpoch,
    Millis,
    Offset,
    Partition,
    ProducerEpoch,
    ProducerId,
)
from oncelog_gateway.core.hanging import CoordinatedTransaction, OpenTransaction

TWO_PHASE_TIMEOUT_MS: Final = 2**31 - 1
"""The timeout that a coordinator gives a producer that asks for none (KIP-939)."""


def coordinated(description: coordinator_pb2.TransactionDescription) -> CoordinatedTransaction:
    """Return a coordinator's description of a transaction as the core's type."""
    return CoordinatedTransaction(
        transactional_id=description.transactional_id,
        state=description.state,
        producer_id=ProducerId(description.producer_id),
        producer_epoch=ProducerEpoch(description.producer_epoch),
        start_time_ms=Millis(description.transaction_start_time_ms),
        partitions=frozenset(partitions_of(description)),
        is_two_phase=is_two_phase(description),
    )


def is_two_phase(one: coordinator_pb2.TransactionDescription) -> bool:
    """True if the transaction is two-phase (KIP-939). A prepared one that a new producer took over counts too, whatever
    timeout that producer asked for.
    """
    return one.transaction_timeout_ms == TWO_PHASE_TIMEOUT_MS or one.HasField("owner_producer_id")


def opened_in(
    producers: dict[Partition, storage_pb2.PartitionProducers | KafkaError],
) -> list[OpenTransaction]:
    """Return every transaction that is open in these partitions."""
    return [
        opened_of(partition, one)
        for partition, answer in producers.items()
        if not isinstance(answer, KafkaError)
        for one in answer.producers
        if one.current_txn_start_offset >= 0
    ]


def opened_of(partition: Partition, producer: storage_pb2.ActiveProducer) -> OpenTransaction:
    return OpenTransaction(
        partition=partition,
        producer_id=ProducerId(producer.producer_id),
        producer_epoch=ProducerEpoch(producer.producer_epoch),
        start_offset=Offset(producer.current_txn_start_offset),
        coordinator_epoch=CoordinatorEpoch(producer.coordinator_epoch),
        last_timestamp_ms=Millis(producer.last_timestamp_ms),
        last_offset=Offset(producer.last_offset) if producer.HasField("last_offset") else None,
    )


def partitions_of(description: coordinator_pb2.TransactionDescription) -> list[Partition]:
    return sorted(Partition(one.topic, one.partition) for one in description.partitions)
