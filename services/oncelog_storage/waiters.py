"""The requests of one partition that wait for an offset: for its commit, or until this node has written and synced
it.
"""

import asyncio

from oncelog.errors import ErrorCode


class OffsetWaiters:
    def __init__(self) -> None:
        self._waiting: list[tuple[int, asyncio.Future[ErrorCode]]] = []

    async def wait(self, last_offset: int, timeout_s: float) -> ErrorCode:
        """Wait until an offset above `last_offset` is reached, and return NONE.

        Otherwise return REQUEST_TIMED_OUT after `timeout_s`, or the code given to `refuse`.
        """
        future: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        waiter = (last_offset, future)
        self._waiting.append(waiter)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    @property
    def is_empty(self) -> bool:
        return not self._waiting

    def reached(self, offset: int) -> None:
        if not self._waiting:
            return
        still = []
        for waiter in self._waiting:
            if offset > waiter[0]:
                _resolve(waiter[1], ErrorCode.NONE)
            else:
                still.append(waiter)
        self._waiting = still

    def refuse(self, code: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, []
        for _, future in waiting:
            _resolve(future, code)


def _resolve(future: "asyncio.Future[ErrorCode]", code: ErrorCode) -> None:
    if not future.done():
        future.set_result(code)
