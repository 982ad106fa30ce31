"""Transaction markers for group shards: the coordinator of the shard appends each marker (ADR 0015).

The marker sender gets the answers that a partition leader would give. A TV1 marker may come late and meet another
transaction than its own. As at a partition's leader, the answer of the transaction's coordinator decides
(docs/kafka-facts.md, 9, Markers).
"""

import asyncio
from typing import Final

from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import (
    CONSUMER_OFFSETS_TOPIC,
    CoordinatorEpoch,
    Offset,
    ProducerEpoch,
    ProducerId,
    SeenTransaction,
)
from oncelog.rpc.transaction_starts import TransactionStarts
from oncelog.runtime import DriverStopped
from oncelog_coordinator.core.group_events import CodeAnswer, EndTransaction
from oncelog_coordinator.core.group_machine import GroupMachine
from oncelog_coordinator.core.group_records import TransactionStarted
from oncelog_coordinator.group_shards import GroupShards
from oncelog_coordinator.shard_terms import ShardUnavailable

_NOT_HERE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


class GroupMarkers:
    def __init__(self, shards: GroupShards, starts: TransactionStarts) -> None:
        self._shards = shards
        self._starts = starts

    async def write(
        self, request: storage_pb2.WriteTxnMarkersRequest
    ) -> storage_pb2.WriteTxnMarkersResponse:
        results = [storage_pb2.MarkerResult(producer_id=m.producer_id) for m in request.markers]
        entries = [
            (marker, result.partitions.add(topic=each.topic, partition=each.partition))
            for marker, result in zip(request.markers, results, strict=True)
            for each in marker.partitions
        ]
        await asyncio.gather(*(self._write(marker, answer) for marker, answer in entries))
        return storage_pb2.WriteTxnMarkersResponse(results=results)

    async def _write(self, marker: storage_pb2.TxnMarker, answer: types_pb2.PartitionError) -> None:
        if answer.topic != CONSUMER_OFFSETS_TOPIC:
            answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return
        try:
            loaded = self._shards.loaded(answer.partition)
            code = await self._end(answer.partition, marker)
            if code is ErrorCode.REQUEST_TIMED_OUT and loaded is not None:
                machine = loaded.driver.machine
                assert isinstance(machine, GroupMachine), machine
                known = machine.started(ProducerId(marker.producer_id))
                running_ms = await self._starts.start_of(
                    marker.transactional_id, marker.producer_id
                )
                # This load of the shard knows a transaction that began since: it verified it. The next load does not.
                if self._shards.loaded(answer.partition) is loaded:
                    code = await self._end(answer.partition, marker, running_ms, known)
            answer.error_code = code
        except KeyError:
            answer.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        except (ShardUnavailable, DriverStopped) as unavailable:
            error_code = unavailable.error_code
            answer.error_code = (
                ErrorCode.NOT_LEADER_OR_FOLLOWER if error_code in _NOT_HERE else error_code
            )

    async def _end(
        self,
        shard: int,
        marker: storage_pb2.TxnMarker,
        running_start_ms: int | None = None,
        known_when_requested: TransactionStarted | None = None,
    ) -> ErrorCode:
        ended: CodeAnswer = await self._shards.ask_shard(
            shard,
            lambda request_id: EndTransaction(
                request_id,
                ProducerId(marker.producer_id),
                ProducerEpoch(marker.producer_epoch),
                marker.commit,
                CoordinatorEpoch(marker.coordinator_epoch),
                marker.transaction_version,
                marker.transaction_start_ms,
                marker.transactional_id,
                running_start_ms,
                known_when_requested,
                seen_by(marker),
            ),
        )
        return ended.error_code


def seen_by(marker: storage_pb2.TxnMarker) -> SeenTransaction | None:
    """Return the transaction that an operator saw and wants to end, by the offsets of its first and last record.

    None: the marker is not an operator's, or an older gateway sent it.
    """
    if not marker.HasField("seen"):
        return None
    return SeenTransaction(Offset(marker.seen.start_offset), Offset(marker.seen.last_offset))
