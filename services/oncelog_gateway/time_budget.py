"""Limits how long one page or explanation may wait for other roles: for each call, and for all calls together.

Without this, every call has the gateway's own timeout, which is longer. When a role does not respond, a page says so in
a line and still returns in time. Calls of a task and of the tasks that it starts share the limit.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, NamedTuple

CALL_S: Final = 1.0
ALL_S: Final = 1.8
LEAST_S: Final = 0.001
"""Seconds that a call waits at least. A call that comes too late still fails as one that was not answered."""


class _Limit(NamedTuple):
    ends_at: float
    call_s: float


_limit: ContextVar[_Limit | None] = ContextVar("limit", default=None)


@contextmanager
def time_budget(call_s: float = CALL_S, all_s: float = ALL_S) -> Iterator[None]:
    """Limit the calls to other roles within the block: each waits `call_s` at most, and none longer than `all_s` after
    the block's begin. Of two nested limits, the stricter one holds.
    """
    ends_at = asyncio.get_running_loop().time() + all_s
    outer = _limit.get()
    if outer is not None:
        ends_at, call_s = min(ends_at, outer.ends_at), min(call_s, outer.call_s)
    token = _limit.set(_Limit(ends_at, call_s))
    try:
        yield
    finally:
        _limit.reset(token)


def wait_s(longest_s: float) -> float:
    """Return how many seconds a call that starts now may wait: `longest_s`, or less within a `time_budget`."""
    limit = _limit.get()
    if limit is None:
        return longest_s
    left_s = limit.ends_at - asyncio.get_running_loop().time()
    return max(min(longest_s, limit.call_s, left_s), LEAST_S)
