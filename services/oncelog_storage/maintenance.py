"""What a storage node does by itself: checkpoints, syncs, retention, forgetting silent producers, removing folders.

One owned task each. Disk work that may be slow runs in one worker thread, a piece at a time; the event loop takes what
is to be written before and marks it done after.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from oncelog.ids import Partition
from oncelog.runtime import Clock
from oncelog_storage import log_checkpoint, log_retention
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted import HostedPartitions
from oncelog_storage.log_directory import (
    LOG_STARTS,
    RECOVERY_POINTS,
    LogDirectory,
    write_checkpoints,
)
from oncelog_storage.partition import PartitionLeader
from oncelog_storage.settings import StorageSettings

_log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_SYNC_THREADS: Final = 4
_RETRY_S: Final = 1.0


class Maintenance:
    def __init__(
        self,
        settings: StorageSettings,
        hosted: HostedPartitions,
        log_directory: LogDirectory,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._hosted = hosted
        self._log_directory = log_directory
        self._clock = clock
        self._workers = ThreadPoolExecutor(1, thread_name_prefix="storage-disk")
        self._syncers = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="storage-sync")
        self._tasks: list[asyncio.Task[None]] = []
        self._to_checkpoint: dict[PartitionLeader, None] = {}
        self._to_flush: dict[PartitionLeader, None] = {}
        self._to_retire: list[Partition] = []
        self._to_remove: list[tuple[int, str]] = []
        self._checkpoint_wanted = asyncio.Event()
        self._flush_wanted = asyncio.Event()
        self._retirement_wanted = asyncio.Event()
        hosted.request_flush = self._request_flush
        hosted.request_checkpoint = self._request_checkpoint
        hosted.request_retirement = self._request_retirement

    def start(self) -> None:
        for leader in self._hosted:
            if leader.log.is_dirty and leader.offline is None:
                self._request_checkpoint(leader)
        self._retirement_wanted.set()
        for name, loop in (
            ("checkpoints", self._checkpoint_loop),
            ("flushes", self._flush_loop),
            ("retention", self._retention_loop),
            ("producer expiry", self._expiry_loop),
            ("deletions", self._retirement_loop),
        ):
            self._tasks.append(asyncio.create_task(loop(), name=f"storage {name}"))

    async def stop(self) -> None:
        """End the tasks, checkpoint everything, and leave the mark of a clean shutdown."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        is_clean = True
        for leader in self._hosted:
            if leader.offline is not None:
                continue
            if leader.log.segments and (leader.log.is_dirty or not self._log_directory.was_clean):
                is_clean &= await self._checkpoint(leader)
        if is_clean:
            try:
                await self._in_worker(self._log_directory.mark_clean)
            except OSError as error:
                _log.warning("cannot mark the clean shutdown: %s", error)
        self._workers.shutdown(wait=True)
        self._syncers.shutdown(wait=True)

    async def _in_worker(self, work: Callable[[], ResultT]) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._workers, work)

    # Checkpoints.

    def _request_checkpoint(self, leader: PartitionLeader) -> None:
        self._to_checkpoint[leader] = None
        self._checkpoint_wanted.set()

    async def _checkpoint_loop(self) -> None:
        interval_s = self._settings.checkpoint_interval_ms / 1000
        due = asyncio.get_running_loop().time() + interval_s
        while True:
            try:
                async with asyncio.timeout_at(due):
                    await self._checkpoint_wanted.wait()
            except TimeoutError:
                due = asyncio.get_running_loop().time() + interval_s
                for leader in self._hosted:
                    if leader.log.is_dirty:
                        self._to_checkpoint[leader] = None
            self._checkpoint_wanted.clear()
            wanted = [leader for leader in self._to_checkpoint if leader.offline is None]
            self._to_checkpoint.clear()
            for leader in wanted:
                await self._checkpoint(leader)

    async def _checkpoint(self, leader: PartitionLeader) -> bool:
        """One partition's checkpoint. A disk that refuses is told once; the next interval tries again."""
        log = leader.log
        checkpoint = log_checkpoint.prepare(log)
        try:
            await self._in_worker(lambda: log_checkpoint.write(checkpoint))
            if not self._hosted.holds(leader):
                return False
            self._log_directory.recovery_points[log.partition] = checkpoint.offset
            points = self._log_directory.encoded(RECOVERY_POINTS)
            await self._in_worker(lambda: write_checkpoints([points]))
            log_checkpoint.finish(log, checkpoint)
            await self._in_worker(
                lambda: log_checkpoint.remove_old_snapshots(log.directory, checkpoint.offset)
            )
        except FileNotFoundError:
            # The topic was deleted while its data was being written.
            return False
        except OSError as error:
            _log.warning("cannot checkpoint %s: %s; it is tried again", log.partition, error)
            return False
        return True

    # Flushes.

    def _request_flush(self, leader: PartitionLeader) -> None:
        leader.is_flushing = True
        self._to_flush[leader] = None
        self._flush_wanted.set()

    async def _flush_loop(self) -> None:
        """Sync for whoever waits. What is appended during a sync shares the next one."""
        while True:
            await self._flush_wanted.wait()
            self._flush_wanted.clear()
            group, self._to_flush = list(self._to_flush), {}
            await asyncio.gather(*(self._flush(leader) for leader in group))

    async def _flush(self, leader: PartitionLeader) -> None:
        log = leader.log
        target, paths = log.log_end_offset, log_checkpoint.unsynced_paths(log)
        log.unflushed_records = 0
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._syncers, log_checkpoint.sync_logs, paths)
        except OSError as error:
            # After a failed sync the system may have dropped the pages: nothing here can be trusted on.
            leader.take_offline(
                StorageFailed(
                    f"cannot sync {log.directory}: {error.strerror}; check the disk, then restart the node"
                )
            )
            return
        log.flushed_offset = target
        leader.is_flushing = leader in self._to_flush
        leader.advance_high_watermark(target if leader.is_flushing else log.log_end_offset)

    # Retention.

    async def _retention_loop(self) -> None:
        while True:
            await asyncio.sleep(self._settings.retention_check_interval_ms / 1000)
            await self.enforce_retention()

    async def enforce_retention(self) -> None:
        """Delete what no topic's retention covers any more, and files whose delay is over."""
        now = self._clock.now()
        has_moved = False
        for leader in self._hosted:
            if leader.offline is not None or not leader.log.segments:
                continue
            log = leader.log
            try:
                removed = log_retention.enforce_retention(log, leader.high_watermark, now)
            except (StorageFailed, OSError) as error:
                _log.warning("retention of %s: %s", leader.partition, error)
                continue
            due = now + log.config.file_delete_delay_ms
            self._to_remove += [(due, path) for path in removed]
            if removed:
                has_moved = True
                log.leader_epochs.truncate_to_start(log.log_start_offset)
                self._log_directory.log_start_offsets[log.partition] = log.log_start_offset
        due_paths = [path for due, path in self._to_remove if due <= now]
        self._to_remove = [(due, path) for due, path in self._to_remove if due > now]
        try:
            if has_moved:
                starts = self._log_directory.encoded(LOG_STARTS)
                await self._in_worker(lambda: write_checkpoints([starts]))
            await self._in_worker(lambda: _unlink_all(due_paths))
        except OSError as error:
            _log.warning("retention: %s; it is tried again", error)

    # Producers.

    async def _expiry_loop(self) -> None:
        while True:
            await asyncio.sleep(self._settings.producer_id_expiration_check_interval_ms / 1000)
            self.expire_producers()

    def expire_producers(self) -> None:
        now, expiration_ms = self._clock.now(), self._settings.producer_id_expiration_ms
        for leader in self._hosted:
            leader.log.producers.expire(now, expiration_ms)
            leader.verifications.expire(now, expiration_ms)

    # Deleted topics.

    def _request_retirement(self, partition: Partition) -> None:
        self._to_retire.append(partition)
        self._retirement_wanted.set()

    async def _retirement_loop(self) -> None:
        """Rename, then remove. The worker thread does one thing at a time, so no checkpoint writes into the folder."""
        while True:
            await self._retirement_wanted.wait()
            self._retirement_wanted.clear()
            try:
                while self._to_retire:
                    await self._retire(self._to_retire[0])
                    self._hosted.retired(self._to_retire.pop(0))
                await self._in_worker(self._log_directory.remove_retired)
            except OSError as error:
                _log.warning("cannot remove a deleted topic's folder: %s; it is tried again", error)
                await asyncio.sleep(_RETRY_S)
                self._retirement_wanted.set()

    async def _retire(self, partition: Partition) -> None:
        writes = self._log_directory.forget(partition)
        await self._in_worker(lambda: self._log_directory.retire(partition, writes))


def _unlink_all(paths: list[str]) -> None:
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)
