"""The order of requests: those that touch one partition go on in the order in which they came.

Each request waits for the ones that came before it at any of its partitions. Arrival is one order for all, so no two
requests can wait for each other.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from oncelog.ids import Partition


class Arrivals:
    def __init__(self) -> None:
        self._last: dict[Partition, asyncio.Future[None]] = {}
        """The newest request at each partition; done when it has left."""

    def is_awaited(self, partitions: Iterable[Partition]) -> bool:
        """True if an earlier request at any of these partitions has not left yet, so that a new one would have
        to wait.
        """
        return any(partition in self._last for partition in partitions) if self._last else False

    @asynccontextmanager
    async def turn(self, partitions: Iterable[Partition]) -> AsyncIterator[None]:
        wanted = list(partitions)
        before = {self._last[each] for each in wanted if each in self._last}
        left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for partition in wanted:
            self._last[partition] = left
        try:
            if before:
                await asyncio.wait(before)
            yield
        finally:
            self._leave(wanted, left, before)

    def _leave(
        self,
        partitions: list[Partition],
        left: "asyncio.Future[None]",
        before: "set[asyncio.Future[None]]",
    ) -> None:
        """End the turn of a request, so that those that wait for it go on.

        A request that was cancelled while it waited leaves only after those before it.
        """
        waiting = [each for each in before if not each.done()]
        if waiting:
            waiting[0].add_done_callback(lambda _: self._leave(partitions, left, before))
            return
        left.set_result(None)
        for partition in partitions:
            if self._last.get(partition) is left:
                del self._last[partition]
