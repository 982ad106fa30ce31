"""Pauses between attempts: doubled, bounded, and jittered so that many callers do not come back together."""

import asyncio
import random
from typing import Final

from oncelog.rpc.metadata import MetadataFollower, MetadataImage

NEWS_JITTER_S: Final = 0.005


class Backoff:
    """The growing pauses of one caller that retries: `await pause()` after a failure, `reset()` after a success."""

    def __init__(self, first_ms: int, most_ms: int) -> None:
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._failures = 0

    def reset(self) -> None:
        self._failures = 0

    def next_s(self) -> float:
        """Return the seconds to pause now. The next call returns about twice as many, up to the bound."""
        pause_ms = min(self._most_ms, self._first_ms << min(self._failures, 16))
        self._failures += 1
        return random.uniform(0.5, 1.0) * pause_ms / 1000

    async def pause(self) -> None:
        await asyncio.sleep(self.next_s())

    async def pause_or_news(self, metadata: MetadataFollower, image: MetadataImage) -> None:
        """Pause, but end early when the metadata is newer than `image`, which the failed call used.

        The newer metadata may name another node to call.
        """
        if await metadata.newer_than(image, self.next_s()):
            # Many callers see the same news: they do not go in one instant.
            await asyncio.sleep(random.uniform(0, NEWS_JITTER_S))
