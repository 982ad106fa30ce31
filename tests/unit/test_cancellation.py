"""Tasks end when they are told to, also where a library swallows the first CancelledError."""

import asyncio

from oncelog.runtime.cancellation import end, was_cancelled


async def test_a_task_that_lost_its_cancellation_is_cancelled_again():
    lost = []

    async def deaf():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.append(was_cancelled())
        await asyncio.Event().wait()

    task = asyncio.create_task(deaf())
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await end(task)
    assert task.cancelled()
    assert lost == [True]


async def test_an_end_with_an_error_is_an_end():
    async def broken():
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError

    task = asyncio.create_task(broken())
    await asyncio.sleep(0)
    await end(task)
    assert isinstance(task.exception(), ValueError)
