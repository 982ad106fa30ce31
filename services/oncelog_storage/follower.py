"""One followed partition: the I/O around `core.follower.FollowedLog`, which applies its leader's answers to the log.

Everything but a truncation is one synchronous step. A truncation first stores a lower recovery point. Before it cuts,
it checks again that it still follows that leader.
"""

import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.runtime import Clock
from oncelog_storage import log_replication
from oncelog_storage.core.follower import (
    CutEpochs,
    FollowedLog,
    StartOver,
    Truncate,
    cut_epochs,
)
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log_replication import UnusableCopy
from oncelog_storage.replica_manager import ReplicaManager

_log = logging.getLogger(__name__)

_COMMIT_TIMEOUT_S = 10.0


class FollowerReplica(FollowedLog):
    """A partition that this node follows in one leader epoch, with the writes to its log."""

    def __init__(
        self, hosted: HostedPartition, replica_manager: ReplicaManager, clock: Clock
    ) -> None:
        super().__init__(hosted)
        self._hosted = hosted
        self._replica_manager = replica_manager
        self._clock = clock

    @property
    def _is_current(self) -> bool:
        return self.has_same_leader and self._replica_manager.still_hosts(self._hosted)

    def apply_fetched(self, part: pb.ReplicaFetchedPartition) -> Awaitable[None] | None:
        """Apply the leader's answer to the log: append, truncate, or start over. None: nothing is left to do.

        Otherwise the caller must await what is returned before the next request. Raises KafkaError.
        """
        if not self._is_current or self.is_failed:
            return None
        log = self._hosted.log
        match self.step(part):
            case StartOver(offset):
                return self._start_over(offset)
            case Truncate(offset):
                return self._truncate(offset)
            case CutEpochs(offset):
                cut_epochs(log, offset)
                if log.exists_on_disk:
                    log.write_leader_epochs(sync=False)
                return None
            case None:
                return None
        # Each look at the field would copy it.
        if records := part.records:
            self._append(records)
        is_start_moved = self.appended(part)
        if is_start_moved or not self.is_durable:
            return self._make_durable(log.log_end_offset, is_start_moved=is_start_moved)
        return None

    def _append(self, records: bytes) -> None:
        hosted = self._hosted
        try:
            log_replication.append_copied(hosted.log, records, self._clock.now())
        except UnusableCopy as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        except StorageFailed as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if not hosted.keep_up():
            hosted.local_end_moved(hosted.log.log_end_offset)

    async def _make_durable(self, log_end_offset: int, *, is_start_moved: bool) -> None:
        """Make durable what the next request tells the leader: write a new log start, and wait for a sync of the log's
        end that was requested.

        If the sync takes longer than `_COMMIT_TIMEOUT_S`, other partitions go on, and this one waits (`is_durable`).
        """
        if is_start_moved:
            await self._replica_manager.keep_log_starts([self._hosted])
        await self._hosted.wait_written(log_end_offset - 1, _COMMIT_TIMEOUT_S)

    @asynccontextmanager
    async def _cutting(self) -> AsyncIterator[None]:
        """Hold the log for a cut in this block: meanwhile no checkpoint is written and no segment is exchanged.

        Raises KafkaError.
        """
        hosted = self._hosted
        async with hosted.log.folder_lock:
            hosted.is_truncating = True
            try:
                yield
            except StorageFailed as failure:
                raise hosted.take_offline(failure) from failure
            except OSError as error:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
            finally:
                hosted.is_truncating = False

    async def _truncate(self, offset: int) -> None:
        hosted, log = self._hosted, self._hosted.log
        async with self._cutting():
            await self._replica_manager.lower_recovery_point(hosted, offset)
            if not self._is_current:
                return
            if offset < hosted.high_watermark:
                _log.warning(
                    "%s: committed records from %d on are dropped: node %d was elected without them",
                    log.partition,
                    offset,
                    self._leadership.leader,
                )
            log.committed_at_load = min(hosted.high_watermark, offset)
            log_replication.truncate(log, offset, self._clock.now())
            hosted.truncated(has_started_over=not log.segments)

    async def restore(self) -> None:
        """Drop a damaged copy, to be fetched again from its beginning. Raises KafkaError."""
        hosted = self._hosted
        await self._start_over(hosted.log.log_start_offset)
        hosted.offline = None

    async def _start_over(self, offset: int) -> None:
        """Drop this replica's whole log, and begin an empty one at `offset`, the start of the leader's log.

        Called when the leader's log does not have the offset where this one ends, or when no part of the two agrees. A
        damaged copy is fetched anew in this way, too.
        """
        hosted, log = self._hosted, self._hosted.log
        async with self._cutting():
            await self._replica_manager.lower_recovery_point(hosted, 0)
            await self._replica_manager.keep_log_start(hosted, offset)
            if not self._is_current:
                await self._replica_manager.keep_log_start(hosted, log.log_start_offset)
                return
            log_replication.start_over(log, offset)
            hosted.truncated(has_started_over=not log.segments)
