"""The limits on the bytes of requests that all connections together hold, and on the bytes of answers.

Over the limit, connections stop reading until an answered request gives memory back. That would wait forever if all
that is held were halves of frames, which no response ever frees. Then a connection that needs more is closed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol


class UnsentAnswers:
    """The bytes of answers that clients have not taken, of all connections together. Answers that are being fetched
    count too.

    A client that asks and does not read costs one answer, here and for a moment in a storage node. The largest are
    those of Fetch. So the first answer of a connection is small. A later one may have four times the bytes of the one
    before: that one was taken. Nobody gets more than a part of what is left, and nobody less than FETCH_BYTES_MIN:
    readers that do read go on. A connection that takes nothing of its answer is closed when memory is short.
    """

    FETCH_BYTES_MIN: Final = 65_536
    """The bytes that a Fetch may always answer with, and the first one of a connection does. They are not counted in
    advance."""
    _GROWTH: Final = 4
    _PART: Final = 8
    """The share of what is left, one in so many, that one Fetch gets: the next one finds something too."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.held_bytes = 0

    @property
    def is_short(self) -> bool:
        return self.held_bytes > self._bytes_max // 2

    @contextmanager
    def room(self, wanted_bytes: int, wanted_min_bytes: int, taken_bytes: int) -> Iterator[int]:
        """Yield the bytes that a Fetch may answer with, at most `wanted_bytes`. They are held until the block ends.

        `wanted_min_bytes` is what the client waits for, `taken_bytes` what the connection's last Fetch answered with.
        """
        left_part = (self._bytes_max - self.held_bytes) // self._PART
        grown = max(self._GROWTH * taken_bytes, wanted_min_bytes)
        granted = min(wanted_bytes, max(min(grown, left_part), self.FETCH_BYTES_MIN))
        counted = max(0, granted - self.FETCH_BYTES_MIN)
        self.held_bytes += counted
        try:
            yield granted
        finally:
            self.held_bytes -= counted


class Waiter(Protocol):
    def resume(self) -> None:
        """Look again for free memory, because some was given back."""


class MemoryBudget:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: dict[Waiter, None] = {}
        self.held_bytes = 0
        self.complete_bytes = 0
        """The part of `held_bytes` that belongs to whole requests: their answers will free it."""

    @property
    def is_exhausted(self) -> bool:
        return self.held_bytes > self._bytes_max

    def change(self, held_delta: int, complete_delta: int) -> None:
        """Count what a connection holds more (or less) than before, in bytes."""
        self.held_bytes += held_delta
        self.complete_bytes += complete_delta
        assert 0 <= self.complete_bytes <= self.held_bytes, (self.complete_bytes, self.held_bytes)
        if held_delta < 0 and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for waiter in waiting:
                waiter.resume()

    def wait(self, waiter: Waiter) -> bool:
        """Resume this waiter when memory is given back; False if none ever may be."""
        if self.complete_bytes == 0:
            return False
        self._waiting[waiter] = None
        return True

    def forget(self, waiter: Waiter) -> None:
        self._waiting.pop(waiter, None)
