"""The wait of a starting controller for a database that is not there yet.

A controller and its database are often started together, and a database that begins on a busy machine takes seconds to
answer. Without a wait, the operator would have to start the controller again. So it waits, and logs what for.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from oncelog.errors import OncelogError
from oncelog_controller.metadata_store import DatabaseAway

_log = logging.getLogger(__name__)

PAUSE_MIN_S: Final = 0.1
PAUSE_MAX_S: Final = 2.0


class DatabaseRetries:
    """Retries the steps of a controller's start while the database is away.

    All steps share one timeout, which begins with the first failure.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._since: float | None = None

    async def with_database(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat `step`, which must be safe to repeat, while it raises DatabaseAway.

        Raises OncelogError after the timeout.
        """
        pause_s, last_logged = PAUSE_MIN_S, ""
        while True:
            try:
                return await step()
            except DatabaseAway as error:
                now = time.monotonic()
                self._since = now if self._since is None else self._since
                left_s = self._since + self._timeout_s - now
                if left_s <= 0:
                    waited = f"given up after {now - self._since:.0f} s of tries"
                    raise OncelogError(f"{error}; {waited}") from error
                if str(error) != last_logged:
                    _log.warning("%s; it is tried again for up to %.0f s", error, left_s)
                    last_logged = str(error)
            # Controllers that were started together do not come back together.
            await asyncio.sleep(min(left_s, pause_s * random.uniform(0.5, 1.0)))
            pause_s = min(PAUSE_MAX_S, pause_s * 2)
