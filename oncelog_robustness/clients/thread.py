"""A thread for one client of a library that blocks. It runs one call at a time, in the order in which they were
requested.

It is a daemon thread. A call that never returns (librdkafka has such) delays neither its client's close nor the end
of the process.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from oncelog_robustness.clients.contract import Unanswered

ResultT = TypeVar("ResultT")


class CallThread:
    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._is_stuck = False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)

    async def call(self, timeout_s: float, function: Callable[[], ResultT]) -> ResultT:
        """Run the function in the thread, and return or raise what it does. Raises Unanswered if that takes longer
        than `timeout_s`; every later call then raises Unanswered at once."""
        if self._is_stuck:
            raise Unanswered("an earlier call has not come back")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[ResultT] = loop.create_future()

        def run() -> None:
            result: Any = None
            failure: BaseException | None = None
            try:
                result = function()
            except BaseException as error:  # it is raised again where the caller waits
                failure = error
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, future, result, failure)

        if self._thread.ident is None:
            # Not before it is needed: a process that is forked later should have few threads.
            self._thread.start()
        self._calls.put(run)
        try:
            async with asyncio.timeout(timeout_s):
                return await future
        except TimeoutError as error:
            self._is_stuck = True
            raise Unanswered(f"no end in {timeout_s} s") from error

    def end(self) -> None:
        """End the thread once it has run the calls that were already requested."""
        self._calls.put(None)

    def _work(self) -> None:
        while (run := self._calls.get()) is not None:
            run()


def _settle(future: "asyncio.Future[Any]", result: object, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(result)
