"""DeleteRecords: the leader moves its log start, makes it durable, and answers when the in-sync replicas have it too.

Followers learn of the new start with their next fetch and tell theirs with the one after. A replica that is not in sync
is not waited for: it can only lead again after it has caught up, and then it knows.
"""

import asyncio
from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog_storage.core.offset_queries import delete_records, low_watermark
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.replica_sessions import ReplicaSessions
from oncelog_storage.waiters import OffsetWaiters

_TIMEOUT_MS: Final = 30_000


class RecordDeletion:
    def __init__(self, replica_manager: ReplicaManager, sessions: ReplicaSessions) -> None:
        self._replica_manager = replica_manager
        self._waiters: dict[HostedPartition, OffsetWaiters] = {}
        sessions.on_log_start = self._log_start_moved

    async def delete(self, request: pb.DeleteRecordsRequest) -> pb.DeleteRecordsResponse:
        response = pb.DeleteRecordsResponse()
        moved: list[tuple[HostedPartition, pb.DeleteRecordsResponse.Partition]] = []
        for part in request.partitions:
            answer = response.partitions.add(
                topic=part.topic, partition=part.partition, low_watermark=-1
            )
            try:
                led = self._replica_manager.led(part.topic, part.partition)
                answer.low_watermark = delete_records(led, part.before_offset)
                moved.append((led, answer))
            except KafkaError as error:
                answer.error_code = error.error_code
        if not moved:
            return response
        try:
            await self._replica_manager.keep_log_starts([led for led, _ in moved])
        except KafkaError as error:
            for _, answer in moved:
                answer.error_code, answer.low_watermark = error.error_code, -1
            return response
        timeout_s = (request.timeout_ms or _TIMEOUT_MS) / 1000
        await asyncio.gather(*(self._settle(*each, timeout_s) for each in moved))
        return response

    async def _settle(
        self,
        led: HostedPartition,
        answer: pb.DeleteRecordsResponse.Partition,
        timeout_s: float,
    ) -> None:
        wanted = answer.low_watermark
        code = ErrorCode.NONE
        if low_watermark(led) < wanted:
            waiters = self._waiters.setdefault(led, OffsetWaiters())
            led.notify_replicas()
            code = await waiters.wait(wanted - 1, timeout_s)
            if waiters.is_empty:
                self._waiters.pop(led, None)
        if code is ErrorCode.NONE and not led.leadership.is_here:
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        answer.error_code = code
        answer.low_watermark = -1 if code else low_watermark(led)

    def _log_start_moved(self, led: HostedPartition) -> None:
        waiters = self._waiters.get(led)
        if waiters is not None:
            waiters.reached(low_watermark(led))
