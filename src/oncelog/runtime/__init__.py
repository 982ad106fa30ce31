"""Runs state machines in a real process: a driver, which writes their records and releases their replies, and its
clock.
"""

from oncelog.runtime.clock import Clock, SystemClock
from oncelog.runtime.driver import Driver, DriverStopped

__all__ = ["Clock", "Driver", "DriverStopped", "SystemClock"]
