"""Settings of glibc's allocator: freed memory is used again, and given back to the system after some seconds.

By itself glibc takes buffers of a megabyte from the system and gives them back with each request. The system fills each
page anew: reading a megabyte took ten times as long as its copies. So glibc is told to keep free memory. After a burst
of large answers that is as much as they were, for as long as the process lives: 60 MB in a storage node whose readers
had asked for 8 MB each. So once much has become free, glibc is told to give it back. Other C libraries cannot be told.
"""

import asyncio
import contextlib
import ctypes
import functools
from collections.abc import AsyncIterator, Callable
from typing import Final

LOOK_EVERY_S: Final = 5.0
WORTH_BYTES: Final = 16 * 2**20
"""The least free memory that is given back, in bytes. Less is not worth the page faults when it is needed again."""


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 64 * 2**20
"""Free bytes that glibc keeps at the end of the heap, until `look` gives them back."""
_LARGE_BYTES: Final = 32 * 2**20
"""The size in bytes above which glibc takes a buffer from the system directly."""


class _Mallinfo(ctypes.Structure):
    """glibc's `struct mallinfo2`, of version 2.33 and later."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


class FreeMemory:
    """Gives free memory back to the system, if there is much. The caller must call `look` now and then."""

    def __init__(self, free_bytes: Callable[[], int], give_back: Callable[[], object]) -> None:
        self._free_bytes = free_bytes
        self._give_back = give_back
        self._given_back = 0
        """The free bytes that the system has already: glibc counts them as free all the same."""

    def look(self) -> bool:
        """Give free memory back to the system, if there is much of it; return True if it did."""
        free = self._free_bytes()
        self._given_back = min(self._given_back, free)
        if free < self._given_back + WORTH_BYTES:
            return False
        self._give_back()
        self._given_back = self._free_bytes()
        return True


@functools.cache
def _of_glibc() -> FreeMemory | None:
    library = ctypes.CDLL(None)
    try:
        mallinfo, trim = library.mallinfo2, library.malloc_trim
    except AttributeError:
        return None
    library.mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
    library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
    mallinfo.restype = _Mallinfo
    trim.argtypes = [ctypes.c_size_t]
    return FreeMemory(lambda: int(mallinfo().fordblks), lambda: trim(0))


@contextlib.asynccontextmanager
async def giving_back() -> AsyncIterator[None]:
    """Give free memory back to the system every few seconds, while the block runs."""
    memory = _of_glibc()
    if memory is None:
        yield
        return
    task = asyncio.create_task(_look(memory), name="free memory")
    try:
        yield
    finally:
        task.cancel()


async def _look(memory: FreeMemory) -> None:
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        # It takes milliseconds, and leaves Python to others meanwhile.
        await asyncio.to_thread(memory.look)
