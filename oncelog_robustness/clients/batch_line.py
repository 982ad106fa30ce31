"""A producer has up to five batches on their way to a partition at once, numbered in the order of the sends.

The rules are those of the Java client with idempotence (max.in.flight.requests.per.connection = 5):

    for the first time   in order, behind at most four that are not answered, and never behind one that waits to be
                         sent again
    again                when all that were sent before it are answered

So the leader, which knows a producer's last five batches, knows each of these again. A batch behind one that was given
up would leave a gap: it is given up as well.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from oncelog.ids import next_sequence
from oncelog_robustness.clients.wire import IN_FLIGHT_MAX


class GivenUp(Exception):
    """An earlier batch was given up, so this one cannot be sent any more."""


class Place:
    """The place that one batch has in the line."""

    def __init__(self, line: "BatchLine", sequence: int) -> None:
        self.sequence = sequence
        self.is_under_way = False
        self.went_first = False
        """It was the oldest one in the line when it was sent last."""
        self._line = line
        self._is_new = True

    async def turn(self) -> None:
        """Returns when it may be sent, for the first time or again. Raises GivenUp."""
        self.is_under_way = False
        await self._line.wait_for(self)
        self._is_new = False
        self.is_under_way = True
        self.went_first = self._line.waiting[0] is self
        self._line.wake()

    def may_go(self) -> bool:
        older = self._line.waiting[: self._line.waiting.index(self)]
        if not older or not self._is_new:
            return not older
        return len(older) < IN_FLIGHT_MAX and all(one.is_under_way for one in older)


class BatchLine:
    """The batches to one partition, under one identity of the producer."""

    def __init__(self) -> None:
        self.waiting: list[Place] = []
        """These batches wait for their answers or for their turn; the oldest is first."""
        self._next_sequence = 0
        self._is_broken = False
        self._moved = asyncio.Event()

    @contextmanager
    def place(self) -> Iterator[Place]:
        """Takes the last place. A batch that leaves by an exception was given up, and so are those behind it."""
        place = Place(self, self._next_sequence)
        self._next_sequence = next_sequence(self._next_sequence, 1)
        self.waiting.append(place)
        try:
            yield place
        except BaseException:
            self._is_broken = True
            raise
        finally:
            self.waiting.remove(place)
            self.wake()

    async def wait_for(self, place: Place) -> None:
        while True:
            if self._is_broken:
                raise GivenUp
            if place.may_go():
                return
            await self._moved.wait()

    def wake(self) -> None:
        """Lets each batch look whether it is its turn."""
        self._moved.set()
        self._moved = asyncio.Event()
