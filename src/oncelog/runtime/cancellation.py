"""Cancelling tasks that may lose a CancelledError, because they wait inside a library."""

import asyncio
from typing import Final

CANCEL_AGAIN_S: Final = 1.0


def was_cancelled() -> bool:
    """Return True if the current task was asked to end.

    A cancellation may come together with an error, and the task then sees the error alone: the Redis client answers a
    timeout. A loop that continues after errors must check this, or it never ends. Python 3.11's task group leaves its
    parent marked as cancelled when a member fails. A task that continues after that must not check it.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def end(task: "asyncio.Task[object]") -> None:
    """Cancel the task until it is done, whatever its result."""
    while not task.done():
        task.cancel()
        await asyncio.wait((task,), timeout=CANCEL_AGAIN_S)
