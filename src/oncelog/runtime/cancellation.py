"""Whether a task was cancelled, where an error has taken the place of its CancelledError."""

import asyncio


def was_cancelled() -> bool:
    """Somebody wants the current task to end.

    A cancellation may come together with an error, and the task then sees the error alone: a task group forgets the
    cancellation when a member fails, and the Redis client answers a timeout. A loop that goes on after errors must ask
    this, or it never ends.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
