"""Clocks: the time by which a state machine decides. A test can replace it."""

import time
from typing import Protocol

from oncelog.ids import Millis


class Clock(Protocol):
    def now(self) -> Millis:
        """Return the time in milliseconds since 1970."""


class SystemClock:
    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)
