"""Memory that is free is used again, and goes back to the system after some seconds.

By itself glibc takes buffers of a megabyte from the system and gives them back with each request. The system fills each
page anew: reading a megabyte took ten times as long as its copies. So it is told to keep what is free. After a burst of
large answers that is as much as they were, for as long as the process lives: 60 MB in a storage node whose readers had
asked for 8 MB each. So where much has become free, it is told to let go. Other C libraries cannot be told.
"""

import asyncio
import contextlib
import ctypes
import functools
from collections.abc import AsyncIterator, Callable
from typing import Final

LOOK_EVERY_S: Final = 5.0
WORTH_BYTES: Final = 16 * 2**20
"""Less is not worth the page faults of those who need it again."""


_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
KEPT_BYTES: Final = 64 * 2**20
"""Free memory at the end of the heap, until `look` gives it back."""
_LARGE_BYTES: Final = 32 * 2**20
"""A larger buffer is the system's own, as glibc's limit has it."""


class _Mallinfo(ctypes.Structure):
    """`struct mallinfo2` of glibc 2.33 and later."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


class FreeMemory:
    """`look` now and then."""

    def __init__(self, free_bytes: Callable[[], int], give_back: Callable[[], object]) -> None:
        self._free_bytes = free_bytes
        self._give_back = give_back
        self._given_back = 0
        """So much of what is free is with the system already: glibc counts it all the same."""

    def look(self) -> bool:
        """Gives back what has become free, if it is much."""
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
    """While the block runs, what becomes free is given back within seconds."""
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
