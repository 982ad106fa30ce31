"""The clock of storage and coordinator in a log with faults: a test can move it ahead of the system's clock."""

from oncelog.ids import Millis
from oncelog.runtime import SystemClock


class MovedClock:
    """A clock for the roles of a process that a test can move ahead of the system's clock, so that timeouts
    end early.
    """

    def __init__(self) -> None:
        self._system = SystemClock()
        self.ahead_ms = 0

    def now(self) -> Millis:
        return Millis(self._system.now() + self.ahead_ms)
