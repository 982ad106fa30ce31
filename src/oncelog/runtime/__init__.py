"""The driver of machines in a real process: an owner task, a clock, timers, and the commit gate."""

from oncelog.runtime.clock import Clock, SystemClock
from oncelog.runtime.driver import Driver, DriverStopped

__all__ = ["Clock", "Driver", "DriverStopped", "SystemClock"]
