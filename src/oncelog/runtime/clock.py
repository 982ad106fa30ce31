"""Time as a thing that can be replaced."""

import time
from typing import Protocol

from oncelog.ids import Millis


class Clock(Protocol):
    def now(self) -> Millis:
        """Milliseconds since 1970."""


class SystemClock:
    def now(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)
