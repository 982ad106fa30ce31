"""Pauses between retries that grow, with a random part, as Kafka's clients make them (docs/kafka-facts.md, 6)."""

from collections.abc import Callable
from typing import Final

_JITTER: Final = 0.2


class Backoff:
    """The pauses of one series of retries: each `next_ms()` is twice the last, from `first_ms` to `max_ms`, ±20 %.
    `draw` returns a random number from 0 to 1."""

    def __init__(self, first_ms: float, max_ms: float, draw: Callable[[], float]) -> None:
        self._first_ms, self._max_ms, self._draw = first_ms, max(first_ms, max_ms), draw
        self._attempts = 0

    def next_ms(self) -> float:
        pause_ms = backoff_ms(self._first_ms, self._max_ms, self._attempts, self._draw())
        self._attempts += 1
        return pause_ms


def backoff_ms(first_ms: float, max_ms: float, attempts: int, draw: float) -> float:
    """Return the pause in ms after `attempts` failures, counted from 0, ±20 %; `draw` is a random number from 0 to
    1."""
    middle = min(first_ms * 2.0 ** min(attempts, 32), max_ms)
    return middle * (1 - _JITTER + 2 * _JITTER * draw)
