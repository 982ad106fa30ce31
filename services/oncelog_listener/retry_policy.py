"""The policy by which the listener repeats one request: when, and for how long.

It repeats the request as soon as it has newer metadata, or after a short pause. All repetitions together take at most
`repeat_max_ms`.
"""

import asyncio
import random
from typing import Final, Protocol

from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.rpc.sessions import PeerUnavailable
from oncelog_listener.settings import ListenerSettings

PAUSE_S: Final = 0.02
PAUSE_MAX_S: Final = 0.25
NEWS_JITTER_S: Final = 0.005
"""The most seconds by which a repetition after news is delayed at random. All waiting requests see the same news."""


class Repeating(Protocol):
    """The parts of a `Cluster` that `RetryPolicy` reads: settings, metadata, and whether the listener stops."""

    @property
    def settings(self) -> ListenerSettings: ...

    @property
    def metadata(self) -> MetadataFollower: ...

    @property
    def ending(self) -> asyncio.Event: ...


class RetryPolicy:
    """Decides when one request is sent again, and until when. It costs nothing until the first failure."""

    __slots__ = ("_cluster", "_deadline", "_pause_s")

    def __init__(self, cluster: Repeating) -> None:
        self._cluster = cluster
        self._deadline: float | None = None
        self._pause_s = PAUSE_S

    async def pause(self, image: MetadataImage) -> bool:
        """Wait before the next try: for metadata newer than `image`, or for a moment. False: the time is over, and the
        caller answers with the last error."""
        cluster = self._cluster
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + cluster.settings.repeat_max_ms / 1000
        left_s = self._deadline - now
        if left_s <= 0 or cluster.ending.is_set():
            return False
        pause_s = min(self._pause_s * random.uniform(0.5, 1.0), left_s)
        self._pause_s = min(self._pause_s * 2, PAUSE_MAX_S)
        if await cluster.metadata.newer_than(image, pause_s):
            await asyncio.sleep(random.uniform(0, NEWS_JITTER_S))
        return True


def was_sent(error: BaseException) -> bool:
    """True unless the error says that the call surely never reached its peer."""
    return not isinstance(error, PeerUnavailable) or error.was_sent
