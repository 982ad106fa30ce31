"""Pauses between repetitions of a call that is safe to repeat: doubling, bounded, half of each random."""

import asyncio
import random
from typing import Final

from oncelog.rpc.metadata import MetadataFollower, MetadataImage

NEWS_JITTER_S: Final = 0.005


class Backoff:
    """One run of repetitions; a success ends it, so a new run starts from the first pause."""

    def __init__(self, first_ms: int, max_ms: int) -> None:
        self._next_ms = first_ms
        self._max_ms = max_ms

    async def pause(self) -> None:
        await asyncio.sleep(self._next_s())

    async def pause_or_news(self, metadata: MetadataFollower, image: MetadataImage) -> None:
        """Ends early when the metadata is newer than `image`, by which the failed call was made: it may name another
        node, and then there is nothing to wait for."""
        if await metadata.newer_than(image, self._next_s()):
            # Many callers see the same news: they do not go in one instant.
            await asyncio.sleep(random.uniform(0, NEWS_JITTER_S))

    def _next_s(self) -> float:
        pause_ms = min(self._next_ms, self._max_ms)
        self._next_ms = min(self._next_ms * 2, self._max_ms)
        return pause_ms / 1000 * random.uniform(0.5, 1.0)
