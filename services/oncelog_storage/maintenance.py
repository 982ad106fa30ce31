"""The background tasks of a storage node: checkpoints, syncs, retention, expiry of silent producers, removal of
folders.

Disk work that may be slow runs in one worker thread, a piece at a time. The event loop copies the content before the
write, and updates the state in memory after it.
"""

import asyncio
import contextlib
import functools
import logging
import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from oncelog.ids import Partition
from oncelog.runtime import Clock
from oncelog_storage import log_checkpoint, log_recovery, log_retention
from oncelog_storage.changed_settings import ChangedSettings
from oncelog_storage.cleaner import Cleaner
from oncelog_storage.core.retention import removable_below
from oncelog_storage.core.upkeep import (
    Removals,
    Sync,
    Taken,
    moved_points,
    not_yet_safe,
    to_checkpoint,
)
from oncelog_storage.files import (
    PassingShortage,
    StorageFailed,
    is_passing_shortage,
    sync_directory,
    way_out,
)
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log_directory import LogDirectory
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.settings import StorageSettings
from oncelog_storage.wants import Wants

_log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

_SYNC_THREADS: Final = 4
_RETRY_S: Final = 1.0


class Maintenance:
    def __init__(
        self,
        settings: StorageSettings,
        replica_manager: ReplicaManager,
        log_directory: LogDirectory,
        clock: Clock,
        sync: Callable[[list[str]], None],
        changed: ChangedSettings,
        wants: Wants,
    ) -> None:
        self._settings = settings
        self._changed = changed
        self._sync = sync
        self._replica_manager = replica_manager
        self._log_directory = log_directory
        self._clock = clock
        self._syncers = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="storage-sync")
        self._tasks: list[asyncio.Task[None]] = []
        self._wants = wants
        self._in_worker = wants.in_worker
        self._removals = Removals()
        # Folders in which a sync failed. Worker threads add to it and look.
        self._unsyncable: set[str] = set()
        self.cleaner = Cleaner(
            settings,
            replica_manager,
            log_directory,
            clock,
            changed,
            checkpoint=self._checkpoint,
            in_worker=self._in_worker,
            remove_later=self._remove_later,
        )

    def start(self) -> None:
        for hosted in to_checkpoint(self._replica_manager):
            self._wants.checkpoint(hosted)
        self._wants.retirement_wanted.set()
        for name, loop in (
            ("checkpoints", self._checkpoint_loop),
            ("flushes", self._flush_loop),
            ("retention", self._retention_loop),
            ("cleaner", self.cleaner.run),
            ("producer expiry", self._expiry_loop),
            ("deletions", self._retirement_loop),
            ("notes", self._note_loop),
        ):
            self._tasks.append(asyncio.create_task(loop(), name=f"storage {name}"))

    async def stop(self) -> None:
        """End the tasks, checkpoint everything, and leave the mark of a clean shutdown.

        On a slow disk the checkpoints end after `stop_timeout_ms`, before somebody kills the process. There is no mark
        then. The next start reads what was not checkpointed, as after a crash.
        """
        self._log_directory.is_stopping = True
        await self._end_tasks()
        timeout_s = self._settings.stop_timeout_ms / 1000
        if await self._checkpoint(to_checkpoint(self._replica_manager), timeout_s):
            try:
                await self._replica_manager.keep(self._log_directory.topic_ids)
                await self._in_worker(self._log_directory.mark_clean)
            except OSError as error:
                _log.warning("cannot mark the clean shutdown: %s", error)
        self._end_threads()

    async def kill(self) -> None:
        """End the tasks and threads without a checkpoint, as a crash would."""
        await self._end_tasks()
        self._end_threads()

    async def _end_tasks(self) -> None:
        self.cleaner.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    def _end_threads(self) -> None:
        self._wants.close()
        self._syncers.shutdown(wait=True)

    # Checkpoints.

    async def _checkpoint_loop(self) -> None:
        interval_s = self._settings.checkpoint_interval_ms / 1000
        due = asyncio.get_running_loop().time() + interval_s
        while True:
            try:
                async with asyncio.timeout_at(due):
                    await self._wants.checkpoint_wanted.wait()
            except TimeoutError:
                due = asyncio.get_running_loop().time() + interval_s
                for hosted in self._replica_manager:
                    if hosted.log.is_dirty:
                        self._wants.to_checkpoint[hosted] = None
            self._wants.checkpoint_wanted.clear()
            wanted = [hosted for hosted in self._wants.to_checkpoint if hosted.offline is None]
            self._wants.to_checkpoint.clear()
            await self._checkpoint(wanted)

    async def checkpoint_all(self) -> None:
        """Checkpoint now what has changed, without waiting for the next interval."""
        await self._checkpoint(to_checkpoint(self._replica_manager))

    async def _checkpoint(self, wanted: list[HostedPartition], timeout_s: float = math.inf) -> bool:
        """Checkpoint these partitions, then move their recovery points in one write. Return True if all went well.

        Each error of the disk is logged in one line, and the next interval tries again.
        """
        done: list[Taken[HostedPartition, log_checkpoint.Checkpoint]] = []
        is_complete = True
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        for count_before, hosted in enumerate(wanted):
            if loop.time() >= deadline:
                _log.warning(
                    "%d of %d partitions are not checkpointed after %.1f s; the next start reads them from where"
                    " they last were",
                    len(wanted) - count_before,
                    len(wanted),
                    timeout_s,
                )
                is_complete = False
                break
            async with hosted.log.folder_lock:
                if hosted.is_truncating or not hosted.log.exists_on_disk:
                    continue
                count = hosted.log.truncation_count
                checkpoint = log_checkpoint.prepare(hosted.log)
                taken = Taken(hosted, checkpoint, checkpoint.offset, count)
                is_written = await self._write_checkpoint(hosted, checkpoint)
            if not is_written:
                is_complete = False
            elif not taken.is_true:
                # The checkpoint has records that are gone, and the next start must not believe it.
                await self._in_worker(functools.partial(log_checkpoint.discard, checkpoint))
            else:
                done.append(taken)
        done = [
            taken
            for taken in done
            if self._replica_manager.still_hosts(taken.hosted)
            and taken.counts
            # A flush that failed in another thread may not have been told here yet.
            and str(taken.hosted.log.directory) not in self._unsyncable
        ]
        moved_points(self._log_directory.recovery_points, done)
        try:
            if done:
                await self._replica_manager.keep(self._log_directory.recovery_points)
            for hosted, checkpoint, _, count in done:
                if hosted.log.truncation_count != count:
                    continue
                log_checkpoint.finish(hosted.log, checkpoint)
                committed = self._log_directory.high_watermarks.get(hosted.partition, 0)
                await self._in_worker(
                    functools.partial(log_checkpoint.remove_old_snapshots, checkpoint, committed)
                )
        except OSError as error:
            _log.warning("cannot move the recovery points: %s; it is tried again", error)
            return False
        return is_complete

    async def _write_checkpoint(
        self, hosted: HostedPartition, checkpoint: log_checkpoint.Checkpoint
    ) -> bool:
        write = functools.partial(log_checkpoint.write, checkpoint, self._sync_or_fail)
        try:
            await self._in_worker(write)
        except StorageFailed as failure:
            hosted.take_offline(failure)
            return False
        except FileNotFoundError:
            # The topic was deleted while its data was being written.
            return False
        except OSError as error:
            _log.warning("cannot checkpoint %s: %s; it is tried again", hosted.partition, error)
            return False
        return True

    # Flushes.

    async def _flush_loop(self) -> None:
        """Sync each partition that has requested it. What is appended during a sync shares the next one."""
        while True:
            await self._wants.flush_wanted.wait()
            self._wants.flush_wanted.clear()
            group, self._wants.to_flush = list(self._wants.to_flush), {}
            await asyncio.gather(*(self._flush(hosted) for hosted in group))

    async def _flush(self, hosted: HostedPartition) -> None:
        log = hosted.log
        paths, sync = log_checkpoint.unsynced_paths(log), Sync.begin(log)
        folders = [log.directory, log.directory.parent] if sync.has_new_names else []
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._syncers, self._sync_or_fail, paths, folders)
        except StorageFailed as failure:
            hosted.take_offline(failure)
            if hosted.offline is None:
                loop.call_later(_RETRY_S, self._wants.flush, hosted)
            return
        reached = sync.ended(hosted, is_wanted_again=hosted in self._wants.to_flush)
        if reached is None:
            # The log was cut during the sync. Requests that wait for what it did not cover need another sync.
            self._wants.flush(hosted)
        else:
            hosted.local_end_moved(reached)

    def _sync_or_fail(self, paths: list[str], folders: Sequence[Path] = ()) -> None:
        """Sync these files, then the names in these folders. A worker thread calls this. Raises StorageFailed.

        After a failed sync the system may have dropped the pages, and the next sync would succeed without them. So
        these files can no longer be trusted, and a checkpoint whose sync comes next must not count. Only a shortage of
        descriptors, met before anything was synced, is no such failure.
        """
        place = os.path.dirname(paths[0]) if paths else str(self._log_directory.path)
        if place in self._unsyncable:
            raise StorageFailed(f"an earlier sync of {place} failed; restart the node")
        try:
            self._sync(paths)
            for folder in folders:
                # The folder of a topic that was deleted meanwhile needs no sync.
                with contextlib.suppress(FileNotFoundError):
                    sync_directory(folder)
        except OSError as error:
            if is_passing_shortage(error):
                raise PassingShortage(
                    f"cannot sync {place}: {error.strerror}; {way_out(error)}"
                ) from error
            self._unsyncable.add(place)
            raise StorageFailed(
                f"cannot sync {place}: {error.strerror}; check the disk, then restart the node"
            ) from error

    # Retention.

    async def _retention_loop(self) -> None:
        while True:
            await asyncio.sleep(self._settings.retention_check_interval_ms / 1000)
            await self.enforce_retention()

    async def enforce_retention(self) -> None:
        """Delete records that no topic's retention covers any more, and files whose delay is over."""
        now = self._clock.now()
        moved = [
            hosted
            for hosted in self._replica_manager
            if hosted.offline is None and log_retention.advance_by_retention(hosted, now)
        ]
        await self._checkpoint(not_yet_safe(moved))
        # A topic may have been deleted meanwhile: what is written down of it would make the next one look lost.
        moved = [hosted for hosted in moved if self._replica_manager.still_hosts(hosted)]
        starts = [(hosted, hosted.log.log_start_offset) for hosted in moved]
        try:
            if moved:
                await self._keep_log_starts(moved)
            for hosted, start in starts:
                if (
                    self._replica_manager.still_hosts(hosted)
                    and not hosted.log.folder_lock.locked()
                ):
                    await self._drop_segments(hosted, start, now)
            await self._remove_due(now)
        except OSError as error:
            _log.warning("retention: %s; it is tried again", error)

    async def _drop_segments(self, hosted: HostedPartition, start: int, now: int) -> None:
        """Drop the segments before `start` that no start of the node needs. Raises OSError.

        Before that, `segments-checkpoint` is written and says that they may be missing, for the log start may get lost
        too.
        """
        log, before = hosted.log, self._removable_below(hosted, start)
        if not log.droppable(before):
            return
        async with log.folder_lock:
            taken = log.checks_file.prepare_write(log.checks(kept_from=before))
            await self._in_worker(functools.partial(log.checks_file.write, taken, sync=True))
            if self._replica_manager.still_hosts(hosted):
                due = now + hosted.config.file_delete_delay_ms
                self._removals.add(log.drop_segments_before(before), due)

    async def _remove_due(self, now: int) -> None:
        """Remove the files whose delay is over. Raises OSError."""
        paths = self._removals.pop_due(now)
        try:
            await self._in_worker(lambda: _unlink_all(paths))
        except OSError:
            self._removals.add(paths, now)
            raise

    def _removable_below(self, hosted: HostedPartition, log_start: int) -> int:
        return removable_below(
            log_start,
            hosted.log.recovery_point,
            hosted.leadership.replica_count,
            log_recovery.snapshot_offsets(hosted.log.directory),
            self._log_directory.high_watermarks.get(hosted.partition, 0),
        )

    def _remove_later(self, hosted: HostedPartition, paths: list[str]) -> None:
        self._removals.add(paths, self._clock.now() + hosted.config.file_delete_delay_ms)

    async def _keep_log_starts(self, moved: list[HostedPartition]) -> None:
        starts = self._log_directory.log_start_offsets
        for hosted in moved:
            hosted.log.leader_epochs.truncate_to_start(hosted.log.log_start_offset)
            starts[hosted.partition] = hosted.log.log_start_offset
        await self._replica_manager.keep(starts)

    # Producers.

    async def _expiry_loop(self) -> None:
        while True:
            await asyncio.sleep(self._settings.producer_id_expiration_check_interval_ms / 1000)
            self.expire_producers()

    def expire_producers(self) -> None:
        now, expiration_ms = self._clock.now(), self._changed.producer_id_expiration_ms
        for hosted in self._replica_manager:
            hosted.log.producers.expire(now, expiration_ms)
            hosted.verifications.expire(now, expiration_ms)

    # New partitions.

    async def _note_loop(self) -> None:
        """Write down which partitions have a folder (`topic-id-checkpoint` and log starts), soon after they are
        made.
        """
        starts = self._log_directory.log_start_offsets
        while True:
            await self._wants.note_wanted.wait()
            self._wants.note_wanted.clear()
            try:
                await self._replica_manager.keep(self._log_directory.topic_ids, sync=False)
                await self._replica_manager.keep(starts)
            except OSError as error:
                _log.warning("cannot write %s: %s; it is tried again", starts.path, error)
                await asyncio.sleep(_RETRY_S)
                self._wants.note_wanted.set()

    # Deleted topics.

    async def _retirement_loop(self) -> None:
        """Rename the folders of deleted topics, then remove them.

        The worker thread does one thing at a time, so no checkpoint writes into such a folder.
        """
        while True:
            await self._wants.retirement_wanted.wait()
            self._wants.retirement_wanted.clear()
            try:
                while self._wants.to_retire:
                    await self._retire(self._wants.to_retire[0])
                    self._replica_manager.retired(self._wants.to_retire.pop(0))
                await self._in_worker(self._log_directory.remove_retired)
            except OSError as error:
                _log.warning("cannot remove a deleted topic's folder: %s; it is tried again", error)
                await asyncio.sleep(_RETRY_S)
                self._wants.retirement_wanted.set()

    async def _retire(self, partition: Partition) -> None:
        writes = self._log_directory.forget(partition)
        await self._in_worker(lambda: self._log_directory.retire(partition, writes))


def _unlink_all(paths: list[str]) -> None:
    for path in paths:
        if os.path.exists(path):
            os.unlink(path)
