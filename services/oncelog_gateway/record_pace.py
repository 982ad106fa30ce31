"""Keeps pages of records from using up an event loop (`core.work_budget`)."""

import asyncio
import time
from typing import Final

from oncelog_gateway.core.work_budget import WorkBudget

TURN_S: Final = 0.0005
"""Seconds of work after which other tasks have their turn."""


class Pace:
    """Limits the work of all pages of a gateway together."""

    def __init__(self) -> None:
        self._budget = WorkBudget(time.monotonic())

    async def spent(self, seconds: float) -> None:
        """Note work of this many seconds, and wait until more may be done."""
        await asyncio.sleep(self._budget.spend(time.monotonic(), seconds))


class Turns:
    """Divides one walk through records into turns."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.begin()

    def begin(self) -> None:
        """Begin a turn. It is called after a wait, which counts as no work."""
        self._began, self._cpu = time.perf_counter(), time.thread_time()

    async def next(self) -> None:
        """Let other tasks run if this turn was long enough. A turn costs its processor time: on a busy machine a turn
        may stand still.
        """
        if time.perf_counter() - self._began >= TURN_S:
            await self._pace.spent(time.thread_time() - self._cpu)
            self.begin()
