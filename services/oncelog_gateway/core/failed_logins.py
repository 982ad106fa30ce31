"""Limits how often an address may show a wrong token before it must wait."""

from collections import deque
from typing import Final

from oncelog.ids import Millis

WINDOW_MS: Final = 60_000
ADDRESSES_MAX: Final = 10_000


class FailedLogins:
    """Remembers the times of failed logins in the last minute, by address. Beyond a limit it forgets the address that
    failed longest ago.
    """

    def __init__(self, failures_max: int) -> None:
        self._max = failures_max
        self._times: dict[str, deque[Millis]] = {}

    def wait_ms(self, address: str, now: Millis) -> int:
        """Return how long the address must wait until its next try; 0: it may come now."""
        times = self._times.get(address)
        if times is None or len(times) < self._max:
            return 0
        return max(0, times[0] + WINDOW_MS - now)

    def failed(self, address: str, now: Millis) -> None:
        times = self._times.pop(address, None) or deque(maxlen=self._max)
        times.append(now)
        self._times[address] = times
        if len(self._times) > ADDRESSES_MAX:
            del self._times[next(iter(self._times))]
