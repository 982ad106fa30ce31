"""Lists producers of many partitions, as the partitions' leaders remember them: where each writes, and its open
transactions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest

from oncelog.api.v1 import storage_pb2
from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog_gateway.resources import ActiveProducer, resource_of
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions


class ProducerIn(ActiveProducer):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class ProducersFound:
    rows: list[ProducerIn]
    """Producers with an open transaction first, the oldest of them first; then the newest producers."""
    total: int
    opened_count: int
    producer_count: int
    """Number of different producer ids."""
    failures: tuple[str, ...]


class Producers:
    def __init__(self, roles: Roles, transactions: Transactions) -> None:
        self._roles = roles
        self._transactions = transactions

    async def of(
        self, partitions: Sequence[Partition], rows_max: int, producer_id: int | None = None
    ) -> ProducersFound:
        """Return producers of these partitions, those with open transactions first, with the transactional ids of the
        first `rows_max`. A leader or coordinator that does not answer is named as a failure.
        """
        described = await self._roles.describe_producers(partitions)
        failures = dict.fromkeys(
            answer.message for answer in described.values() if isinstance(answer, KafkaError)
        )
        found = [
            (partition, one)
            for partition in partitions
            if not isinstance(answer := described[partition], KafkaError)
            for one in answer.producers
            if producer_id is None or one.producer_id == producer_id
        ]
        shown = nsmallest(rows_max, found, key=_open_first)
        known, silent = await self._transactions.of_producers([one.producer_id for _, one in shown])
        failures.update((one.message, None) for one in silent)
        names: dict[int, str] = {one.producer_id: one.transactional_id for one in known}
        return ProducersFound(
            [_row(partition, one, names.get(one.producer_id)) for partition, one in shown],
            len(found),
            sum(one.current_txn_start_offset >= 0 for _, one in found),
            len({one.producer_id for _, one in found}),
            tuple(failures),
        )


def _open_first(
    row: tuple[Partition, storage_pb2.ActiveProducer],
) -> tuple[bool, int, Partition, int]:
    partition, one = row
    if one.current_txn_start_offset >= 0:
        return (False, one.last_timestamp_ms, partition, one.producer_id)
    return (True, -one.last_timestamp_ms, partition, one.producer_id)


def _row(
    partition: Partition, one: storage_pb2.ActiveProducer, transactional_id: str | None
) -> ProducerIn:
    return resource_of(
        ProducerIn,
        one,
        topic=partition.topic,
        partition=partition.partition,
        transactional_id=transactional_id,
    )
