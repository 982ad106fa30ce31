"""Notices that this process stood still: stopped by a signal, or its machine frozen.

Both event loops handle what can be read, then timers that are due, and only then the tasks that this wakes. So when a
frozen process goes on, the timer here fires after the waiting bytes were taken from the sockets, and before any request
among them is begun.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

_TICKS: Final = 5
_FRESH_S: Final = 1.0


class Standstill:
    """Calls `stood_still(seconds)` when the event loop has not run for `longest_s`."""

    def __init__(self, longest_s: float, stood_still: Callable[[float], None]) -> None:
        self._longest_s = longest_s
        self._stood_still = stood_still
        self._ticked_at = time.monotonic()
        self._fresh_until = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_fresh(self) -> bool:
        """It stood still until a moment ago, or stands so still that nothing has been noticed yet."""
        now = time.monotonic()
        return now < self._fresh_until or now - self._ticked_at > self._longest_s

    def start(self) -> None:
        self._ticked_at = time.monotonic()
        self._again()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _again(self) -> None:
        delay_s = self._longest_s / _TICKS
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        span_s, self._ticked_at = now - self._ticked_at, now
        if span_s > self._longest_s:
            self._fresh_until = now + _FRESH_S
            self._stood_still(span_s)
        self._again()
