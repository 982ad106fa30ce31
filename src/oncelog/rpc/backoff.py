"""Pauses between attempts: doubled, bounded, and jittered so that many callers do not come back together."""

import asyncio
import random


class Backoff:
    """`await pause()` between attempts, `reset()` after a success."""

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next_s(self) -> float:
        """How long to pause now."""
        pause_ms = min(self._most_ms, self._first_ms << min(self._failures, 16))
        self._failures += 1
        return random.uniform(0.5, 1.0) * pause_ms / 1000

    async def pause(self) -> None:
        await asyncio.sleep(self.next_s())
