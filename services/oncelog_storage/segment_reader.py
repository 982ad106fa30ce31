"""The one seam between readers' requests and the disk: nobody on the event loop waits for it.

A decision and its reads are one synchronous step, on what the system holds in memory. Where that is not enough the step
ends with `NotInMemory` and has changed nothing. A thread has the system read the missing part, and the step is done
again from its beginning, on the log as it is then. So a step begins with the look at who leads: the topic may be gone.
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
"""Of one step. Where memory is so short that what was read is gone again, the step waits for the disk after all."""
_CHUNK_BYTES: Final = 1 << 20
_THREADS_MAX: Final = 4


class SegmentReader:
    def __init__(self, files: OpenFiles) -> None:
        self._files = files
        # Of its own: readers of a slow disk do not hold up the threads that check batches.
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "segment read")
        self._is_closed = False

    def close(self) -> None:
        """A request that is still under way gets its bytes, and waits for the disk itself from now on."""
        self._is_closed = True
        self._threads.shutdown(wait=False)

    def at_once(self, step: Callable[[], ResultT]) -> ResultT:
        """Raises NotInMemory."""
        with self._files.memory_only():
            return step()

    async def read(self, step: Callable[[], ResultT]) -> ResultT:
        """The result of this step, however often it must be done again."""
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
    """A file that cannot be read is the next try's to find."""
    with contextlib.suppress(OSError), opened(miss.path) as descriptor:
        end = miss.position + miss.size_bytes
        for position in range(miss.position, end, _CHUNK_BYTES):
            os.pread(descriptor, min(_CHUNK_BYTES, end - position), position)
