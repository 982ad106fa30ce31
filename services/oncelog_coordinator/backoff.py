"""Pauses between repetitions of a call that is safe to repeat: doubling, bounded, half of each random."""

import asyncio
import random


class Backoff:
    """One run of repetitions; a success ends it, so a new run starts from the first pause."""

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._next_ms = first_ms
        self._max_ms = max_ms

    async def pause(self) -> None:
        pause_ms = min(self._next_ms, self._max_ms)
        self._next_ms = min(self._next_ms * 2, self._max_ms)
        await asyncio.sleep(pause_ms / 1000 * random.uniform(0.5, 1.0))
