"""What comes after an offset: records that a read_committed consumer gets, aborted ones, and markers; and the offsets
that an open transaction commits."""

import struct
from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.client.core.visibility import AbortedTransaction, sight_batches
from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import iter_headers
from oncelog.record.records import decode_batch
from oncelog_gateway.core.explain_group import Behind
from oncelog_gateway.roles import Roles, raise_for

BYTES_MAX: Final = 1 << 20
"""Read of one partition; a group further behind has records to read in any case."""


_OFFSET_KEY_TYPES: Final = (0, 1)


class RecordsBehind:
    def __init__(self, roles: Roles) -> None:
        self._roles = roles

    async def count(self, partition: Partition, offset: int, end: int) -> Behind | None:
        """From `offset` to the high watermark `end`. None: the leader could not be read."""
        records = aborted = markers = 0
        position, left = offset, BYTES_MAX
        while position < end and left > 0:
            try:
                found = await self._fetch(partition, position, left)
            except KafkaError:
                return None
            if not found.records:
                break
            left -= len(found.records)
            for one in sight_batches(found.records, _aborted(found)):
                header = one.header
                position = max(position, header.next_offset)
                count = max(min(header.record_count, header.next_offset - offset), 0)
                if header.is_control:
                    markers += count
                elif one.is_visible:
                    records += count
                else:
                    aborted += count
        return Behind(records, aborted, markers, position >= end)

    async def pending_offsets(
        self, partition: Partition, offset: int, group_id: str, producer_id: int
    ) -> list[Partition]:
        """What the transaction of this producer, open since `offset` of the group's shard, commits for the group."""
        try:
            found = await self._fetch(partition, offset, BYTES_MAX, is_committed=False)
        except KafkaError:
            return []
        pending: dict[Partition, None] = {}
        for position, header in iter_headers(found.records):
            if header.producer_id != producer_id or header.is_control:
                continue
            for record in decode_batch(found.records, position):
                key = _offset_key(record.key or b"")
                if key is not None and key[0] == group_id:
                    pending[key[1]] = None
        return list(pending)

    async def _fetch(
        self, partition: Partition, offset: int, max_bytes: int, *, is_committed: bool = True
    ) -> pb.FetchedPartition:
        """What is there now from `offset` on, aborted transactions named; with `is_committed` below the last stable
        offset. Raises KafkaError."""
        request = pb.FetchRequest(
            max_bytes=max_bytes,
            isolation_level=types_pb2.READ_COMMITTED
            if is_committed
            else types_pb2.READ_UNCOMMITTED,
            partitions=[
                pb.FetchPartition(
                    topic=partition.topic,
                    partition=partition.partition,
                    fetch_offset=offset,
                    max_bytes=max_bytes,
                    current_leader_epoch=-1,
                )
            ],
        )
        answer = await self._roles.ask_leader(partition, "Fetch", request)
        (found,) = answer.partitions
        raise_for(found.error_code, str(partition))
        return found  # type: ignore[no-any-return]


def _offset_key(key: bytes) -> tuple[str, Partition] | None:
    """Group and partition of an offset's key (facts 5.2); None for a key of another type."""
    try:
        (kind,) = struct.unpack_from(">h", key)
        if kind not in _OFFSET_KEY_TYPES:
            return None
        group_id, at = _string(key, 2)
        topic, at = _string(key, at)
        (number,) = struct.unpack_from(">i", key, at)
    except (struct.error, UnicodeDecodeError):
        return None
    return group_id, Partition(topic, number)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    end = at + 2 + length
    return data[at + 2 : end].decode(), end


def _aborted(found: pb.FetchedPartition) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(one.producer_id, one.first_offset) for one in found.aborted_transactions
    ]
