"""The one thread of a blocking client that has an event loop, and the threads of the program that wait for its calls.

```
a thread of the program ──function──▶ I/O thread: asyncio's client
        ▲────────── result, error, or a callback to run ──────────┘
```

While a thread waits for its call, it also runs the program's callbacks of that call, such as `on_revoked` of a
consumer. So callbacks may call the client again.
"""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Final, Generic, TypeVar

from oncelog.client.errors import IllegalStateError

ResultT = TypeVar("ResultT")
Job = Callable[[], None]

_JOBS: Final[ContextVar["SimpleQueue[Job | None]"]] = ContextVar("jobs")
"""The jobs of the thread that waits for the present call."""


class _Caller(Generic[ResultT]):
    """One blocking call: the thread that made it waits here for its result, and runs callbacks meanwhile."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Job | None] = SimpleQueue()
        """Callbacks that the waiting thread is to run meanwhile; None: the call has ended."""
        self.result: ResultT
        self.error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None

    async def run(self, work: Callable[[], Awaitable[ResultT]]) -> None:
        _JOBS.set(self.jobs)
        try:
            self.result = await work()
        except asyncio.CancelledError:
            self.error = IllegalStateError("the client was closed while this call waited")
            raise
        except Exception as error:
            self.error = error
        finally:
            self.jobs.put(None)


class IoThread:
    """The thread with the event loop of one client. `start` begins it, `stop` ends it, once. `what` names the client in
    errors."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ident: int | None = None
        self._is_over = False

    # ---------------------------------------------------------------------------------------------- begin and end

    def start(self) -> None:
        import uvloop  # It is loaded with the first client, not with the module.

        self.check_process()
        with self._lock:
            if self._thread is not None:
                return
            self._loop = uvloop.new_event_loop()
            name = f"oncelog {self._what}"
            self._thread = threading.Thread(
                target=self._run, args=(self._loop,), name=name, daemon=True
            )
            self._thread.start()
            self._ident = self._thread.ident

    def stop(self) -> None:
        """Stop the thread's event loop, make waiting calls raise that the client is closed, and wait until the thread
        has ended. Any thread may call this; if the I/O thread itself does, it returns without that wait.
        """
        if not self.is_of_this_process:
            return
        with self._lock:
            loop, was_over = self._loop, self._is_over
            self._is_over = True
        if loop is not None and not was_over:
            loop.call_soon_threadsafe(loop.stop)
        self.join()

    def join(self) -> None:
        """Wait for the thread's end, which `stop` brings."""
        if self._thread is not None and not self.is_current:
            self._thread.join()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    # ---------------------------------------------------------------------------------------------- who may call

    @property
    def has_begun(self) -> bool:
        return self._thread is not None

    @property
    def is_of_this_process(self) -> bool:
        return os.getpid() == self._process

    @property
    def is_current(self) -> bool:
        """True if the caller is the I/O thread itself: a callback of the program runs there."""
        return threading.get_ident() == self._ident

    def check_process(self) -> None:
        """Raise IllegalStateError after a fork: the child has no such thread, and its sockets are the parent's."""
        if os.getpid() != self._process:
            raise IllegalStateError(
                f"this {self._what} was made in process {self._process}, and a fork takes no thread along: make one in "
                f"process {os.getpid()}"
            )

    def check_may_wait(self) -> None:
        self.check_process()
        if self.is_current:
            raise IllegalStateError(
                f"a callback of this {self._what} would wait for itself: callbacks run on its I/O thread; call this "
                "from a thread of your own"
            )

    # ---------------------------------------------------------------------------------------------- calls

    def post(self, job: Job) -> bool:
        """Queue the job for the I/O thread, in the order of the calls, and do not wait. False: the thread has ended, or
        never began."""
        with self._lock:
            if self._loop is None or self._is_over:
                return False
            self._loop.call_soon_threadsafe(job)
            return True

    def wait(self, work: Callable[[], Awaitable[ResultT]]) -> ResultT:
        """Run the work on the I/O thread, wait for its end, and return its result or raise its error.

        An interruption of this thread (Ctrl-C) cancels the work.
        """
        self.check_may_wait()
        caller: _Caller[ResultT] = _Caller()

        def begin() -> None:
            assert self._loop is not None
            caller.task = self._loop.create_task(caller.run(work))

        try:
            if not self.post(begin):
                raise IllegalStateError(
                    f"the {self._what} is closed, or was not started: use `with {self._what.title()}(…)`"
                )
            while (job := caller.jobs.get()) is not None:
                job()
        except BaseException:
            self.post(lambda: _cancel(caller))
            raise
        if caller.error is not None:
            raise caller.error
        return caller.result

    def do(self, function: Callable[[], ResultT]) -> ResultT:
        """Run a plain function on the I/O thread, wait for its end, and return its result or raise its error."""

        async def work() -> ResultT:
            return function()

        return self.wait(work)

    def finish(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Do the work, such as closing the client, and then end the I/O thread. Only the I/O thread itself calls
        this."""
        assert self._loop is not None
        task = self._loop.create_task(work())
        task.add_done_callback(lambda _: self.stop())


def _cancel(caller: _Caller[ResultT]) -> None:
    if caller.task is not None:
        caller.task.cancel()


async def in_caller(function: Job) -> None:
    """Run the program's callback in the thread that waits for the present blocking call. Raises the callback's
    error."""
    jobs = _JOBS.get()
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end(error: Exception | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def job() -> None:
        failure: Exception | None = None
        try:
            function()
        except Exception as error:
            failure = error
        loop.call_soon_threadsafe(end, failure)

    jobs.put(job)
    await ended
