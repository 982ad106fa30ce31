"""Starts a streaming query again where it ended because it was fenced.

A batch is fenced when a newer try of it took over, or when this one timed out. Nothing of it is visible then, and the
same query runs it anew. Spark ends the query all the same: it does not know that another try is safe. Every other
failure is the query's own, and a second start would fail alike.

Two drivers with one `transactionalId` fence each other for ever. So a query that is fenced too often within a time is
given up, and the other driver goes on.
"""

import random
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.errors import StreamingQueryException

from oncelog.errors import OncelogError
from oncelog.spark.source import tell

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

RESTARTS_MAX: Final = 5
WITHIN_S: Final = 600.0
PAUSE_MIN_S: Final = 1.0
PAUSE_MAX_S: Final = 30.0
_FENCED: Final = "FENCED: sink "


def supervise(
    start_query: Callable[[], "StreamingQuery"],
    *,
    restarts_max: int = RESTARTS_MAX,
    within_s: float = WITHIN_S,
) -> None:
    """Start the query and wait for it. Each time that it ends because a newer try fenced it (error FENCED), start it
    again after a pause.

    `start_query` makes the query anew and returns what `start()` returns; it keeps the checkpoint and the
    `transactionalId`. Returns when the query has ended without an error, by `stop()` or by
    `trigger(availableNow=True)`.

    Raises StreamingQueryException for any other error of the query, and for FENCED after `restarts_max` starts within
    `within_s` seconds. Raises OncelogError for a negative number.
    """
    if restarts_max < 0 or within_s < 0:
        raise OncelogError(
            f"restarts_max is {restarts_max} and within_s is {within_s}: give numbers from 0 on"
        )
    restarts: deque[float] = deque()
    while True:
        try:
            start_query().awaitTermination()
        except StreamingQueryException as error:
            if _FENCED not in str(error) or not _may_restart(restarts, restarts_max, within_s):
                raise
        else:
            return
        pause_s = min(PAUSE_MIN_S * 2 ** (len(restarts) - 1), PAUSE_MAX_S)
        tell(f"the query was fenced; it starts again, {len(restarts)} of {restarts_max}")
        # Two drivers that pause alike would meet again.
        time.sleep(pause_s * random.uniform(0.5, 1.5))


def _may_restart(restarts: deque[float], restarts_max: int, within_s: float) -> bool:
    now = time.monotonic()
    while restarts and now - restarts[0] > within_s:
        restarts.popleft()
    if len(restarts) >= restarts_max:
        return False
    restarts.append(now)
    return True
