"""Keeps pages of records from using up the event loop that they share with other work (`core.work_budget`)."""

import asyncio
import time
from typing import Final

from oncelog_gateway.core.work_budget import WorkBudget

TURN_S: Final = 0.0005
"""Seconds of work after which other tasks have their turn."""


class Pace:
    """Limits the work of all pages of records of a gateway together. Each page reports its work and waits here."""

    def __init__(self) -> None:
        self._budget = WorkBudget(time.monotonic())

    async def spent(self, seconds: float) -> None:
        """Report so many seconds of work, and sleep until more may be done."""
        await asyncio.sleep(self._budget.spend(time.monotonic(), seconds))


class Turns:
    """Divides the work of one page into turns of half a millisecond, with a pause after each."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.begin()

    def begin(self) -> None:
        """Begin a turn now. Call it after each await, because waiting counts as no work."""
        self._began, self._cpu = time.perf_counter(), time.thread_time()

    async def next(self) -> None:
        """Let other tasks run if this turn has lasted long enough; call it after each record. A turn counts by its
        processor time, as it may stand still on a busy machine.
        """
        if time.perf_counter() - self._began >= TURN_S:
            await self._pace.spent(time.thread_time() - self._cpu)
            self.begin()
