"""Keeps pages of records from taking a loop for themselves (`core.work_budget`)."""

import asyncio
import time
from typing import Final

from oncelog_gateway.core.work_budget import WorkBudget

TURN_S: Final = 0.0005
"""Of work, before others have their turn."""


class Pace:
    """Of all pages of a gateway together."""

    def __init__(self) -> None:
        self._budget = WorkBudget(time.monotonic())

    async def spent(self, seconds: float) -> None:
        """Waits until there may be more."""
        await asyncio.sleep(self._budget.spend(time.monotonic(), seconds))


class Turns:
    """Of one walk through records."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.begin()

    def begin(self) -> None:
        """Behind a wait, which is no work."""
        self._began, self._cpu = time.perf_counter(), time.thread_time()

    async def next(self) -> None:
        """Others have their turn if this one was long enough. What it cost is the processor's time: on a busy machine
        a turn may stand still."""
        if time.perf_counter() - self._began >= TURN_S:
            await self._pace.spent(time.thread_time() - self._cpu)
            self.begin()
