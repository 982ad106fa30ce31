"""Finds which producers write to a topic, by the headers of its newest batches."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from oncelog.api.v1 import types_pb2
from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import BatchHeader, iter_headers
from oncelog_gateway.core.writers import Writers, window_of, writers_of
from oncelog_gateway.resources import PartitionStatus
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions

PARTITIONS_MAX: Final = 16
BYTES_MAX: Final = 64 << 10
"""Bytes that are read of each partition. So a page reads a megabyte at most, and more only where one batch is larger.
"""
WRITERS_MAX: Final = 20


class NamedWriters(NamedTuple):
    found: Writers
    names: Mapping[int, str]
    """Transactional ids by producer id."""
    partition_count: int
    """Number of partitions that were read."""


class TopicWriters:
    def __init__(self, roles: Roles, transactions: Transactions) -> None:
        self._roles = roles
        self._transactions = transactions

    async def of(self, partitions: Sequence[PartitionStatus]) -> NamedWriters:
        """Return the producers of the newest batches, by bytes. Only the largest of these partitions are read, and only
        those whose leaders answer.
        """
        answering = [one for one in partitions if one.failure is None and one.high_watermark]
        answering.sort(key=lambda one: -(one.size_bytes or 0))
        read = answering[:PARTITIONS_MAX]
        headers = await asyncio.gather(*map(self._headers, read))
        found = writers_of((one for same in headers for one in same), WRITERS_MAX)
        ids = [one.producer_id for one in found.rows if one.producer_id >= 0]
        known, _ = await self._transactions.of_producers(ids)
        return NamedWriters(
            found, {one.producer_id: one.transactional_id for one in known}, len(read)
        )

    async def _headers(self, one: PartitionStatus) -> list[BatchHeader]:
        start, end, high = one.log_start_offset, one.log_end_offset, one.high_watermark
        assert start is not None, one
        assert end is not None, one
        assert high is not None, one
        begin = max(high - window_of(start, end, one.size_bytes or 0, BYTES_MAX), start)
        try:
            fetched = await self._roles.fetch(
                Partition(one.topic, one.partition), begin, BYTES_MAX, types_pb2.READ_UNCOMMITTED
            )
        except KafkaError:
            return []
        return [header for _, header in iter_headers(fetched.records)]
