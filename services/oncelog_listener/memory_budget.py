"""The limits on memory: for the bytes of requests that all connections hold, and for the bytes of answers not yet sent.

Over the limit, connections stop reading until an answered request gives memory back. That would wait forever if only
incomplete frames are held, because no response ever frees those. Then a connection that needs more is closed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol


class UnsentAnswers:
    """The bytes of answers that clients have not read yet, of all connections together. Answers being fetched count
    too.

    It bounds what clients cost that ask and do not read. Only Fetch answers are large, so a connection's first one is
    small. A later one may have four times the bytes of the one before, since the client has read that. Each gets at
    most a part of what is left, and at least FETCH_BYTES_MIN. A connection that reads nothing of its answer is closed
    when memory is short.
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
        """Reserve bytes for the answer to a Fetch while the block runs, and yield how many, at most `wanted_bytes`.

        `wanted_min_bytes` is the request's `min_bytes`; `taken_bytes` is the size of the connection's last Fetch
        answer.
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
        """Continue reading requests. The memory budget calls this when memory was given back; there may still be too
        little.
        """


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
        """Add to the bytes that connections hold, and to those of whole requests; negative numbers give memory back,
        and wake the waiters."""
        self.held_bytes += held_delta
        self.complete_bytes += complete_delta
        assert 0 <= self.complete_bytes <= self.held_bytes, (self.complete_bytes, self.held_bytes)
        if held_delta < 0 and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for waiter in waiting:
                waiter.resume()

    def wait(self, waiter: Waiter) -> bool:
        """Register the waiter, which is resumed when memory is given back. False: no whole request is held, so none may
        ever be."""
        if self.complete_bytes == 0:
            return False
        self._waiting[waiter] = None
        return True

    def forget(self, waiter: Waiter) -> None:
        self._waiting.pop(waiter, None)
