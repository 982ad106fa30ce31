"""Whether a task was cancelled, where an error has taken the place of its CancelledError."""

import asyncio


def was_cancelled() -> bool:
    """Somebody wants the current task to end.

    A cancellation may come together with an error, and the task then sees the error alone: the Redis client answers a
    timeout. A loop that goes on after errors must ask this, or it never ends.

    Python 3.11's task group leaves its parent marked as cancelled when a member fails. A task that goes on after that
    must not ask.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
