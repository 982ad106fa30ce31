"""Counts the offsets that open transactions hold back from read_committed readers, by what the leaders of their
partitions answer.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from oncelog.api.v1 import coordinator_pb2, storage_pb2
from oncelog.errors import KafkaError
from oncelog_gateway.resources import TransactionPartition
from oncelog_gateway.role_answers import opened_in, partitions_of
from oncelog_gateway.roles import Roles


class Held(NamedTuple):
    """The partitions of one open transaction, and how many offsets it holds back from read_committed
    readers in each.
    """

    partitions: list[TransactionPartition]
    failures: list[KafkaError]
    """Failures of leaders that did not answer."""

    @property
    def held_back(self) -> int | None:
        """The number of offsets that the transaction holds back from read_committed readers, in all its partitions
        together. None: a leader did not say.
        """
        known = [one.held_back for one in self.partitions if one.held_back is not None]
        return sum(known) if len(known) == len(self.partitions) else None


async def held_by(
    roles: Roles, transactions: Sequence[coordinator_pb2.TransactionDescription]
) -> list[Held]:
    """Return for each transaction, in this order, its partitions and how many offsets it holds back there. Their
    leaders are asked.
    """
    wanted = sorted({one for row in transactions for one in partitions_of(row)})
    described, producers = await asyncio.gather(
        roles.describe_partitions(wanted), roles.describe_producers(wanted)
    )
    started = {
        (one.partition, int(one.producer_id)): one.start_offset for one in opened_in(producers)
    }
    found: list[Held] = []
    for row in transactions:
        answers = {partition: described[partition] for partition in partitions_of(row)}
        found.append(
            Held(
                [
                    TransactionPartition(
                        topic=partition.topic,
                        partition=partition.partition,
                        start_offset=started.get((partition, row.producer_id)),
                        held_back=_held_back(answer, row.producer_id),
                    )
                    for partition, answer in answers.items()
                ],
                [answer for answer in answers.values() if isinstance(answer, KafkaError)],
            )
        )
    return found


def _held_back(
    answer: storage_pb2.PartitionDescription | KafkaError, producer_id: int
) -> int | None:
    if isinstance(answer, KafkaError):
        return None
    is_held = answer.HasField("lso_holder") and answer.lso_holder.producer_id == producer_id
    return max(answer.high_watermark - answer.last_stable_offset, 0) if is_held else 0
