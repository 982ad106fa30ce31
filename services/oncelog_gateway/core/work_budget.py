"""How much of a process's time the pages of records may take: a share of it, after what was saved up.

In `oncelog up` a page is read on the loop of the coordinators and leaders, and a commit crosses that loop many times.
Where they are processes of their own, the same share keeps the gateway's other pages quick.
"""

from typing import Final

SHARE: Final = 0.25
BURST_S: Final = 0.05
"""A page that somebody waits for takes less, so that it has only its rests."""
REST: Final = 2.0
"""Behind each turn, as a part of it: a commit that is under way crosses the loop several times meanwhile."""
WAIT_MAX_S: Final = 0.25
"""Many pages at once share what there is, and each goes on."""


class WorkBudget:
    """Its clock is in seconds, and never goes back."""

    def __init__(self, now: float) -> None:
        self._saved = BURST_S
        self._at = now

    def spend(self, now: float, seconds: float) -> float:
        """Returns how long to wait before more work. What was worked without waiting is owed."""
        self._saved = min(self._saved + (now - self._at) * SHARE, BURST_S) - seconds
        self._at = now
        return max(min(-self._saved / SHARE, WAIT_MAX_S), seconds * REST)
