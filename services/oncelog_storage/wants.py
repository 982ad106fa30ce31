"""The requests of partitions to the node's background tasks: syncs, checkpoints, notes of new folders, removals of old
ones.

`ReplicaManager` and its partitions ask here; the tasks of `Maintenance` do it. The one worker thread is here too.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from oncelog.ids import Partition
from oncelog_storage.hosted_partition import HostedPartition

ResultT = TypeVar("ResultT")


class Wants:
    def __init__(self) -> None:
        self.to_checkpoint: dict[HostedPartition, None] = {}
        self.to_flush: dict[HostedPartition, None] = {}
        self.to_retire: list[Partition] = []
        """The partitions of deleted topics, whose folders are to be removed."""
        self.checkpoint_wanted = asyncio.Event()
        self.flush_wanted = asyncio.Event()
        self.retirement_wanted = asyncio.Event()
        self.note_wanted = asyncio.Event()
        """An event that is set while the log starts of new partitions are to be written down."""
        # Partitions that were found at start may have no note yet.
        self.note_wanted.set()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="storage-disk")

    def flush(self, hosted: HostedPartition) -> None:
        hosted.is_flushing = True
        self.to_flush[hosted] = None
        self.flush_wanted.set()

    def checkpoint(self, hosted: HostedPartition) -> None:
        self.to_checkpoint[hosted] = None
        self.checkpoint_wanted.set()

    def retirement(self, partition: Partition) -> None:
        self.to_retire.append(partition)
        self.retirement_wanted.set()

    async def in_worker(self, work: Callable[[], ResultT]) -> ResultT:
        """Run `work` in the one worker thread, which does one piece at a time. Return or raise what it does."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    def close(self) -> None:
        """Wait for the piece of work that runs, and end the worker thread."""
        self._worker.shutdown(wait=True)
