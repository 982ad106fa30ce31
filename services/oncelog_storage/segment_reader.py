"""The reads of requests on the event loop, none of which waits there for the disk.

A decision and its reads are one synchronous step, on what the operating system holds in memory. Where that is not
enough the step ends with `NotInMemory` and has changed nothing. A thread has the system read the missing part, and the
step is done again from its beginning, on the log as it is then. So a step begins with a check of the leadership: the
topic may be gone.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from oncelog_storage.files import NotInMemory, OpenFiles, opened

ResultT = TypeVar("ResultT")

MISSES_MAX: Final = 16
"""A step may miss bytes in memory this often. After that memory is so short that the step waits for the disk itself."""
_CHUNK_BYTES: Final = 1 << 20
_THREADS_MAX: Final = 4


class SegmentReader:
    def __init__(self, files: OpenFiles) -> None:
        self._files = files
        # The reader has threads of its own, so that a slow disk does not hold up the threads that check batches.
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "segment read")
        self._is_closed = False

    def close(self) -> None:
        """End the threads.

        A request that is still under way gets its bytes, and waits for the disk itself from now on.
        """
        self._is_closed = True
        self._threads.shutdown(wait=False)

    def at_once(self, step: Callable[[], ResultT]) -> ResultT:
        """Run a step (a synchronous function that reads segments) without a wait for the disk. Raises NotInMemory."""
        with self._files.memory_only():
            return step()

    async def read(self, step: Callable[[], ResultT]) -> ResultT:
        """Run a step (a synchronous function that reads segments) until its bytes are in memory, and return its
        result.
        """
        for _ in range(MISSES_MAX):
            try:
                return self.at_once(step)
            except NotInMemory as miss:
                await self.bring(miss)
        return step()

    async def bring(self, miss: NotInMemory) -> None:
        if self._is_closed:
            return
        await asyncio.get_running_loop().run_in_executor(self._threads, _bring, miss)


def _bring(miss: NotInMemory) -> None:
    """Have the system read the missing bytes. If the file cannot be read, the next try of the step finds that."""
    with contextlib.suppress(OSError), opened(miss.path) as descriptor:
        end = miss.position + miss.size_bytes
        for position in range(miss.position, end, _CHUNK_BYTES):
            os.pread(descriptor, min(_CHUNK_BYTES, end - position), position)
