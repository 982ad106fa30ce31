"""How many bytes of requests all connections together may hold, and how many of answers.

Over the limit, connections stop reading until an answered request gives memory back. That would wait forever if all
that is held were halves of frames, which no response ever frees. Then a connection that needs more is closed.
"""

from typing import Final, Protocol


class UnsentAnswers:
    """Bytes of answers that clients do not take, all connections together.

    A client that asks and does not read costs one answer, and the largest are those of Fetch. It is asked for less when
    much is unsent, so that many such clients do not add up to all memory there is.
    """

    FETCH_BYTES_MIN: Final = 65_536
    """What a Fetch may always answer with: readers that do read go on."""

    def __init__(self) -> None:
        self.held_bytes = 0

    def fetch_bytes_max(self, unsent_bytes_max: int) -> int:
        return max(unsent_bytes_max - self.held_bytes, self.FETCH_BYTES_MIN)


class Waiter(Protocol):
    def resume(self) -> None:
        """Memory was given back; look again."""


class MemoryBudget:
    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: dict[Waiter, None] = {}
        self.held_bytes = 0
        self.complete_bytes = 0
        """The part of `held_bytes` that are whole requests: their answers will free it."""

    @property
    def is_exhausted(self) -> bool:
        return self.held_bytes > self._bytes_max

    def change(self, held_delta: int, complete_delta: int) -> None:
        """A connection holds this much more (or less) than before."""
        self.held_bytes += held_delta
        self.complete_bytes += complete_delta
        assert 0 <= self.complete_bytes <= self.held_bytes, (self.complete_bytes, self.held_bytes)
        if held_delta < 0 and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for waiter in waiting:
                waiter.resume()

    def wait(self, waiter: Waiter) -> bool:
        """Resume this one when memory comes back; False when none ever may."""
        if self.complete_bytes == 0:
            return False
        self._waiting[waiter] = None
        return True

    def forget(self, waiter: Waiter) -> None:
        self._waiting.pop(waiter, None)
