"""The end of a run, for a lab (a workload's surroundings) whose clients live in its own process."""

import asyncio
from collections.abc import Mapping


class EndingLab:
    """The part of a `Lab` that knows whether the run is over, and wakes its sleepers when it becomes so."""

    topic_config: Mapping[str, str] = {}

    def __init__(self) -> None:
        self._over = asyncio.Event()

    @property
    def is_over(self) -> bool:
        return self._over.is_set()

    def end(self) -> None:
        self._over.set()

    async def sleep(self, ms: int) -> None:
        if self.is_over:
            await asyncio.sleep(ms / 1000)
            return
        try:
            async with asyncio.timeout(ms / 1000):
                await self._over.wait()
        except TimeoutError:
            return
