"""Counts what lies after an offset of a partition: records that a read_committed consumer gets, aborted records, and
markers. Used for the lag of groups.
"""

from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.client.core.visibility import AbortedTransaction, sight_batches
from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog_gateway.core.held_back import Behind
from oncelog_gateway.roles import Roles

BYTES_MAX: Final = 1 << 20
"""Bytes that are read of one partition. What lies behind these is not counted; `Behind.is_whole` says so."""


class RecordsBehind:
    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    async def count(
        self, partition: Partition, offset: int, end: int, bytes_max: int = BYTES_MAX
    ) -> Behind | None:
        """Count from `offset` up to `end`, or to the last stable offset if that is smaller, and read at most
        `bytes_max`. Returns None if the leader could not be read.
        """
        records = aborted = markers = 0
        position, left = offset, bytes_max
        while position < end and left > 0:
            try:
                found = await self._roles.fetch(partition, position, left, types_pb2.READ_COMMITTED)
            except KafkaError:
                return None
            if not found.records:
                # Cleaned away, or held back: there is nothing more up to the last stable offset.
                position = max(position, min(found.last_stable_offset, end))
                break
            left -= len(found.records)
            for one in sight_batches(found.records, aborted_in(found)):
                header = one.header
                position = max(position, header.next_offset)
                count = max(min(header.record_count, header.next_offset - offset), 0)
                if header.is_control:
                    markers += count
                elif one.is_visible:
                    records += count
                else:
                    aborted += count
        return Behind(records, aborted, markers, position >= end, position)


def aborted_in(found: pb.FetchedPartition) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(one.producer_id, one.first_offset) for one in found.aborted_transactions
    ]
