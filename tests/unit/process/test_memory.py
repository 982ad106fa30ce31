"""Free memory goes back to the system when it is much, and once."""

import asyncio

import psutil
import pytest

from oncelog.process import memory
from oncelog.process.memory import WORTH_BYTES, FreeMemory

BLOCKS, BLOCK_BYTES = 600, 100_000


def test_what_is_with_the_system_already_is_not_given_again():
    free = {"bytes": 0}
    given = []
    found = FreeMemory(lambda: free["bytes"], lambda: given.append(free["bytes"]))
    for is_given, now in (
        (False, WORTH_BYTES - 1),
        (True, WORTH_BYTES),
        (False, 2 * WORTH_BYTES - 1),
        (True, 2 * WORTH_BYTES),
        # It was taken again, and has become free again.
        (False, 0),
        (True, WORTH_BYTES),
    ):
        free["bytes"] = now
        assert found.look() is is_given
    assert given == [WORTH_BYTES, 2 * WORTH_BYTES, WORTH_BYTES]


async def test_a_burst_is_given_back():
    if memory._of_glibc() is None:
        pytest.skip("the C library is not glibc 2.33 or later")
    process = psutil.Process()
    burst = [bytes(BLOCK_BYTES) for _ in range(BLOCKS)]
    held = bytes(BLOCK_BYTES)
    most = process.memory_info().rss
    del burst
    async with memory.giving_back(), asyncio.timeout(30):
        while process.memory_info().rss > most - BLOCKS * BLOCK_BYTES // 2:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert held
