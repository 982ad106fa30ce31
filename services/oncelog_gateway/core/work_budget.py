"""Limits how much of a process's time the pages of records may take. It is a fixed share, and a little more after a
pause in which the share was not used.

In `oncelog up` a page is read on the loop of the coordinators and leaders, and a commit crosses that loop many times.
Where they are processes of their own, the same share keeps the gateway's other pages quick.
"""

from typing import Final

SHARE: Final = 0.25
BURST_S: Final = 0.05
"""The most seconds of work that can be saved up. A page that somebody waits for needs less, so it waits only for the
`REST` after each of its turns.
"""
REST: Final = 2.0
"""The rest after each turn, as a multiple of the turn. A commit that is under way crosses the loop several times
meanwhile.
"""
WAIT_MAX_S: Final = 0.25
"""The longest wait in seconds. So each page goes on, even where many share the budget."""


class WorkBudget:
    """Says how long a page must wait before it works on. Times are in seconds, by a clock that never goes back."""

    def __init__(self, now: float) -> None:
        self._saved = BURST_S
        self._at = now

    def spend(self, now: float, seconds: float) -> float:
        """Subtract `seconds` of work that was done, and return how many seconds to wait before more. Work beyond the
        share is a debt, which later waits pay.
        """
        self._saved = min(self._saved + (now - self._at) * SHARE, BURST_S) - seconds
        self._at = now
        return max(min(-self._saved / SHARE, WAIT_MAX_S), seconds * REST)
