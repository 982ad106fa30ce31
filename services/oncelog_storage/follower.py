"""One followed partition: what it does with an answer of its leader.

Everything but a truncation is one synchronous step. A truncation first makes durable that less is safe, and looks again
whether it still follows that leader before it cuts.
"""

import logging
from collections.abc import Awaitable

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.runtime import Clock
from oncelog_storage import log_replication
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted import HostedPartitions
from oncelog_storage.log_replication import UnusableCopy
from oncelog_storage.partition import PartitionLeader

_log = logging.getLogger(__name__)

_COMMIT_TIMEOUT_S = 10.0


Position = tuple[int, int, int]
"""Log end offset, its leader epoch, log start offset."""


class FollowedLog:
    """A partition in one leader epoch."""

    def __init__(self, leader: PartitionLeader, hosted: HostedPartitions, clock: Clock) -> None:
        self._leader = leader
        self._hosted = hosted
        self._clock = clock
        self._leadership = leader.leadership

    @property
    def position(self) -> Position:
        """What the next request says of it."""
        log = self._leader.log
        return log.log_end_offset, log.leader_epochs.latest, log.log_start_offset

    @property
    def is_failed(self) -> bool:
        return self._leader.offline is not None

    @property
    def is_durable(self) -> bool:
        """A sync can take longer than anybody waits for it, and leaders can change during it. Until it is done the
        position is told to nobody: the leader would count it for the high watermark."""
        return self._leader.local_end >= self._leader.log.log_end_offset

    def fill(self, part: pb.ReplicaFetchPartition) -> None:
        log = self._leader.log
        part.topic, part.partition = log.partition
        part.fetch_offset = log.log_end_offset
        part.current_leader_epoch = self._leadership.leader_epoch
        part.last_fetched_leader_epoch = log.leader_epochs.latest
        part.log_start_offset = log.log_start_offset

    @property
    def _is_current(self) -> bool:
        return self._leader.leadership[:3] == self._leadership[:3] and self._hosted.holds(
            self._leader
        )

    def take(self, part: pb.ReplicaFetchedPartition) -> Awaitable[None] | None:
        """Apply an answer; what is returned must be awaited before the next request. Raises KafkaError."""
        if not self._is_current or self.is_failed:
            return None
        if part.error_code:
            return self._start_over(part.log_start_offset)
        if part.leader_epoch != self._leadership.leader_epoch:
            return None
        if part.diverging:
            return self._truncate(part.diverging_leader_epoch, part.diverging_end_offset)
        leader, log = self._leader, self._leader.log
        if part.log_start_offset > log.log_end_offset:
            return self._start_over(part.log_start_offset)
        # Each look at the field would copy it.
        if records := part.records:
            self._append(records)
        is_start_moved = self._take_log_start(part.log_start_offset)
        leader.follow_high_watermark(min(part.high_watermark, log.log_end_offset))
        if is_start_moved or leader.local_end < log.log_end_offset:
            return self._make_durable(log.log_end_offset, is_start_moved=is_start_moved)
        return None

    def _append(self, records: bytes) -> None:
        leader = self._leader
        try:
            log_replication.append_copied(leader.log, records, self._clock.now())
        except UnusableCopy as error:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(error)) from error
        except StorageFailed as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if not leader.keep_up():
            leader.local_end_moved(leader.log.log_end_offset)

    async def _make_durable(self, log_end_offset: int, *, is_start_moved: bool) -> None:
        """What the next request says must outlast a crash: a log start always, the end with flush_policy=always.

        When the sync takes longer than this the other partitions go on, and this one waits (`is_durable`)."""
        if is_start_moved:
            await self._hosted.keep_log_starts([self._leader])
        await self._leader.wait_written(log_end_offset - 1, _COMMIT_TIMEOUT_S)

    def _take_log_start(self, log_start_offset: int) -> bool:
        """Retention and DeleteRecords are the leader's to decide; the files go with the next look at retention."""
        log = self._leader.log
        if log_start_offset <= log.log_start_offset:
            return False
        log.advance_log_start(log_start_offset)
        log.leader_epochs.truncate_to_start(log_start_offset)
        return True

    async def _truncate(self, leader_epoch: int, leader_end: int) -> None:
        """Back to where the two histories were one, as far as this answer tells (KIP-101, KIP-595)."""
        log = self._leader.log
        own_epoch, own_end = log.leader_epochs.end_offset_for(leader_epoch, log.log_end_offset)
        if own_epoch < 0:
            offset = leader_end
        elif own_epoch == leader_epoch:
            offset = min(own_end, leader_end)
        else:
            offset = own_end
        if offset < log.log_start_offset:
            await self._start_over(leader_end)
            return
        if offset >= log.log_end_offset:
            # An epoch in which this node led and wrote nothing stands in the way, not a record.
            if not log.leader_epochs.truncate_from(log.log_end_offset):
                raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"nothing to cut at {offset}")
            if log.exists_on_disk:
                log.write_leader_epochs(sync=False)
            return
        leader = self._leader
        # No checkpoint is being written and no cleaned segment is changing places.
        await log.folder_lock.acquire()
        leader.is_truncating = True
        try:
            await self._hosted.lower_recovery_point(leader, offset)
            if not self._is_current:
                return
            if offset < leader.high_watermark:
                _log.warning(
                    "%s: committed records from %d on are dropped: node %d was elected without them",
                    log.partition,
                    offset,
                    self._leadership.leader,
                )
            log.committed_at_load = min(leader.high_watermark, offset)
            log_replication.truncate(log, offset, self._clock.now())
            leader.truncated()
        except StorageFailed as failure:
            raise leader.take_offline(failure) from failure
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        finally:
            leader.is_truncating = False
            log.folder_lock.release()

    async def restore(self) -> None:
        """Drop a damaged copy, to be fetched again from its beginning. Raises KafkaError."""
        leader = self._leader
        await self._start_over(leader.log.log_start_offset)
        leader.offline = None

    async def _start_over(self, offset: int) -> None:
        """The leader's log begins behind this one's end, or knows nothing of it: begin empty where it begins."""
        leader, log = self._leader, self._leader.log
        # No checkpoint is being written and no cleaned segment is changing places.
        await log.folder_lock.acquire()
        leader.is_truncating = True
        try:
            await self._hosted.lower_recovery_point(leader, 0)
            await self._hosted.keep_log_start(leader, offset)
            if not self._is_current:
                await self._hosted.keep_log_start(leader, log.log_start_offset)
                return
            log_replication.start_over(log, offset)
            leader.truncated()
        except StorageFailed as failure:
            raise leader.take_offline(failure) from failure
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        finally:
            leader.is_truncating = False
            log.folder_lock.release()
