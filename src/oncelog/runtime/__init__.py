"""Runs state machines in a real process: a driver gives them events, writes their records and releases their
replies.
"""

from oncelog.runtime.clock import Clock, SystemClock
from oncelog.runtime.driver import Driver, DriverStopped

__all__ = ["Clock", "Driver", "DriverStopped", "SystemClock"]
