"""Rates as Kafka's brokers measure them for quotas, and the time for which a client above its quota must wait.

Values are summed in windows of a second. The rate is the sum of the last eleven windows over the time that they cover,
of which at least ten seconds are assumed: so a client that was silent may burst ten seconds' worth.
(`quota.window.num` is 11 and `quota.window.size.seconds` 1 by default, and here always.)
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from oncelog.ids import Millis

WINDOW_MS: Final = 1_000
WINDOWS: Final = 11
FULL_WINDOWS: Final = WINDOWS - 1


@dataclass(slots=True)
class _Window:
    began: Millis
    last: Millis
    total: float = 0.0


class Rate:
    """The rate of one entity with a quota, over the last windows. `now` must never go back from call to call."""

    def __init__(self) -> None:
        # One more than is counted: a window that is partly too old still counts while its last value does not.
        self._windows: deque[_Window] = deque(maxlen=WINDOWS + 1)

    def record(self, value: float, now: Millis) -> None:
        if not self._windows or now - self._windows[-1].began >= WINDOW_MS:
            self._windows.append(_Window(now, now))
        window = self._windows[-1]
        window.total += value
        window.last = now

    def is_silent(self, now: Millis) -> bool:
        """True if no value is recent enough to count, so the object can be dropped."""
        self._forget(now)
        return not self._windows

    def per_second(self, now: Millis) -> float:
        self._forget(now)
        return sum(one.total for one in self._windows) * 1000 / self._span_ms(now)

    def wait_ms(self, quota: float, now: Millis) -> int:
        """Return for how many milliseconds nothing may be added until the rate is down at the quota; 0: it is not
        above."""
        rate = self.per_second(now)
        if rate <= quota:
            return 0
        return round((rate - quota) / quota * self._span_ms(now))

    def _span_ms(self, now: Millis) -> int:
        elapsed_ms = now - self._windows[0].began if self._windows else 0
        missing = max(0, FULL_WINDOWS - elapsed_ms // WINDOW_MS)
        return elapsed_ms + missing * WINDOW_MS

    def _forget(self, now: Millis) -> None:
        while self._windows and now - self._windows[0].last >= WINDOWS * WINDOW_MS:
            self._windows.popleft()


class TokenBucket:
    """The token bucket of one entity for topic changes, which come in bursts (KIP-599). It holds the tokens of eleven
    seconds.

    A change that has begun is done whole: the number of tokens may fall below 0.
    """

    def __init__(self) -> None:
        self._tokens: float | None = None
        self._filled_at = Millis(0)

    def take_tokens(self, count: int, quota: float, now: Millis) -> None:
        self._tokens = self._filled(quota, now) - count

    def wait_ms(self, quota: float, now: Millis) -> int:
        """Return for how many milliseconds the number of tokens stays below 0; 0: it is not below."""
        self._tokens = self._filled(quota, now)
        return max(0, round(-self._tokens / quota * 1000))

    def _filled(self, quota: float, now: Millis) -> float:
        most = quota * WINDOWS * WINDOW_MS / 1000
        tokens = most if self._tokens is None else self._tokens
        grown = tokens + quota * (now - self._filled_at) / 1000
        self._filled_at = now
        return min(most, grown)
