"""The event loop of the simulation: asyncio's own, except that time passes only when nothing is left to do.

    loop = SimLoop(executor_delay_s)
    loop.run_until_complete(main())

It differs from a real loop in these points only: `time` is virtual; a callback runs only while its process does;
and sockets are those of `network`. Work for a thread runs on the loop in one instant, a drawn moment after it was
given, and is answered another moment later. Tasks and futures hash by their number, so that a set of them has the
same order in every run.
"""

import asyncio
import contextvars
import heapq
import itertools
from asyncio import format_helpers
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, Final

from oncelog_robustness.simulator.process import OWNER, ProcessKilled, ProcessState

TURN_S: Final = 1e-6
"""The length of a turn of the loop, in seconds of the world."""
TURNS_WITHOUT_PAUSE_MAX: Final = 200_000
"""The most turns of the loop without a pause; more mean that some task loops for ever."""

_RESOLUTION_S: Final = 1e-9
_CANCELLED_TIMERS_KEPT: Final = 100

_SOON, _TIMER, _ARRIVAL = range(3)
_RESUME_ORDER: Final = {_ARRIVAL: 0, _TIMER: 1, _SOON: 2}


class Stuck(AssertionError):
    """The simulation cannot go on: nothing is left to happen, or time stands still."""


_RUNNING, _PAUSED = ProcessState.RUNNING, ProcessState.PAUSED
# Looked up a million times in a minute.
_new: Final = object.__new__
_copy_context: Final = contextvars.copy_context
_heappop, _heappush = heapq.heappop, heapq.heappush
_numbers: Final = itertools.count(1)


class _Handle(asyncio.Handle):
    """A callback that waits for its turn. The loop sets its fields itself, without a debug mode, because a
    million of these are made in a minute."""

    __slots__ = ()
    _source_traceback = None
    _repr = None
    _args: Any
    _callback: Any
    _cancelled: bool
    _context: contextvars.Context
    _loop: "SimLoop"
    kind = _SOON

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None

    def failed(self, error: BaseException) -> None:
        """Report that the callback raised, as asyncio does."""
        source = format_helpers._format_callback_source(self._callback, self._args)
        self._loop.call_exception_handler(
            {"message": f"Exception in callback {source}", "exception": error, "handle": self}
        )


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("kind",)
    _source_traceback = None
    _repr = None
    _args: Any
    _callback: Any
    _cancelled: bool
    _context: contextvars.Context
    _loop: "SimLoop"
    _scheduled: bool
    _when: float
    kind: int

    failed = _Handle.failed

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = self._args = None
            if self._scheduled:
                self._loop.timer_cancelled()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return hash(self._when)

    def __lt__(self, other: object) -> bool:
        # Asked when both are due at the same time: neither comes before the other.
        return False


class _Numbered:
    """A base class for objects that hash by a number of their own. So a set of them has the same order in
    every run, whatever their addresses in memory."""

    _number = 0

    def __hash__(self) -> int:
        # Few are ever in a set: the number is given when it is first asked for.
        number = self._number
        if not number:
            number = self._number = next(_numbers)
        return number


class SimTask(_Numbered, asyncio.Task):  # type: ignore[type-arg]
    pass


class SimFuture(_Numbered, asyncio.Future):  # type: ignore[type-arg]
    pass


class _WorkFuture(SimFuture):
    """The future that stands for a thread's work; it knows when it was cancelled."""

    cancelled_at = -1.0

    def cancel(self, msg: Any | None = None) -> bool:
        if not self.done():
            self.cancelled_at = self.get_loop().time()
        return super().cancel(msg)


class _Work:
    """The work that a thread was given: it runs once and is answered once."""

    __slots__ = ("args", "begins", "error", "func", "future", "is_done", "result")

    def __init__(
        self, future: _WorkFuture, func: Callable[..., Any], args: tuple[Any, ...], begins: float
    ) -> None:
        self.future = future
        self.func = func
        self.args = args
        self.begins = begins
        self.is_done = False
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Run the work, if it has not run yet. Work that was cancelled before it began never runs; cancelled
        later, it runs all the same."""
        if self.is_done:
            return
        self.is_done = True
        if self.future.cancelled() and self.future.cancelled_at < self.begins:
            return
        try:
            self.result = self.func(*self.args)
        except StopIteration as error:
            self.error = RuntimeError(f"work for a thread raised {error!r}")
        except Exception as error:
            self.error = error

    def answer(self) -> None:
        if self.future.cancelled():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of a simulated run: asyncio's own, on virtual time. `network` must be set before
    anything opens or accepts a connection."""

    def __init__(
        self,
        executor_delay_s: Callable[[Executor | None], float],
        executor_moment: Callable[[], float] = lambda: 1.0,
    ) -> None:
        """Make a loop. `executor_delay_s` draws how long a thread's work takes, and `executor_moment` (from 0
        to 1) at which part of that time it happens."""
        super().__init__()
        self._scheduled: list[Any]
        self._ready: deque[Any]
        self._timer_cancelled_count: int
        self._stopping: bool
        self.now_s = 0.0
        """The time that `time` returns, for callers that need it at each segment and each line of the trace."""
        self._clock_resolution = _RESOLUTION_S
        self._turns = 0
        self._executor_delay_s = executor_delay_s
        self._executor_moment = executor_moment
        self._executor_work: dict[tuple[int, int], deque[_Work]] = {}
        self._executor_free_at: dict[tuple[int, int], float] = {}
        self._executors: list[object] = []
        self.network: Any = None

    def time(self) -> float:
        """Return the seconds since the simulation began."""
        return self.now_s

    # Each future and task asks for it: a type without a function call is the cheapest "no" there is.
    get_debug = bool

    def _run_once(self) -> None:
        """Run turns until the loop must stop; a turn runs all callbacks that are due, as in asyncio. Where asyncio
        would sleep, time jumps to the next timer.

        One call runs all turns: most turns have one callback, and a call for each would cost a good part of the time.
        """
        ready = self._ready
        while True:
            scheduled = self._scheduled
            if (
                scheduled and scheduled[0][1]._cancelled
            ) or self._timer_cancelled_count > _CANCELLED_TIMERS_KEPT:
                scheduled = self._drop_cancelled_timers()
            now_s = self.now_s
            if ready or self._stopping or (scheduled and scheduled[0][0] <= now_s):
                # Code takes a moment, or code that waits for the rest of a nanosecond would wait for ever.
                self.now_s = now_s = now_s + TURN_S
                self._turns += 1
                if self._turns > TURNS_WITHOUT_PAUSE_MAX:
                    raise Stuck(f"at {now_s:.3f} s time stands still: somebody spins")
            elif scheduled:
                self.now_s = now_s = scheduled[0][0]
                self._turns = 0
            else:
                raise Stuck(f"at {now_s:.3f} s nothing is left that could ever happen")
            end_s = now_s + _RESOLUTION_S
            while scheduled and scheduled[0][0] < end_s:
                timer = _heappop(scheduled)[1]
                timer._scheduled = False
                ready.append(timer)
            # What these schedule in turn waits for the next turn.
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                context = handle._context
                process = context.get(OWNER)
                if process is not None and process.state is not _RUNNING:
                    if process.state is _PAUSED:
                        process.parked.append(handle)
                    continue
                try:
                    context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    handle.failed(error)
            if self._stopping:
                return

    def _drop_cancelled_timers(self) -> list[Any]:
        scheduled = self._scheduled
        while scheduled and scheduled[0][1]._cancelled:
            self._timer_cancelled_count -= 1
            _heappop(scheduled)[1]._scheduled = False
        if self._timer_cancelled_count > max(_CANCELLED_TIMERS_KEPT, len(scheduled) // 2):
            kept = []
            for entry in scheduled:
                if entry[1]._cancelled:
                    entry[1]._scheduled = False
                else:
                    kept.append(entry)
            heapq.heapify(kept)
            self._scheduled = scheduled = kept
            self._timer_cancelled_count = 0
        return scheduled

    def timer_cancelled(self) -> None:
        """Count a cancelled timer, which is dropped when its time comes, or when there are too many of them."""
        self._timer_cancelled_count += 1

    def create_future(self) -> "asyncio.Future[Any]":
        return SimFuture(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: object = None,
        context: contextvars.Context | None = None,
    ) -> SimTask:
        return SimTask(coro, loop=self, name=None if name is None else str(name), context=context)

    # ----------------------------------------------------------------------------------------------- callbacks

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._push(_TIMER, self.now_s + delay, callback, args, context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._push(_TIMER, when, callback, args, context)

    def call_on_arrival(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context,
    ) -> asyncio.TimerHandle:
        """Call back when something reaches a process from outside: a paused process handles it before its timers."""
        return self._push(_ARRIVAL, when, callback, args, context)

    def _push(
        self,
        kind: int,
        when: float,
        callback: Callable[..., object],
        args: Any,
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        timer = _new(_TimerHandle)
        timer.kind = kind
        timer._when = when
        timer._callback = callback
        timer._args = args
        timer._loop = self
        timer._context = _copy_context() if context is None else context
        timer._cancelled = False
        timer._scheduled = True
        _heappush(self._scheduled, (when, timer))
        return timer

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = _new(_Handle)
        handle._callback = callback
        handle._args = args
        handle._loop = self
        handle._context = _copy_context() if context is None else context
        handle._cancelled = False
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def requeue(self, handles: Iterable[asyncio.Handle]) -> None:
        """Queue the callbacks that a paused process missed, in the order in which a real loop would run them
        when it goes on."""
        ordered = sorted(handles, key=lambda handle: _RESUME_ORDER[handle.kind])  # type: ignore[attr-defined]
        self._ready.extend(ordered)

    # ------------------------------------------------------------------------------------------------- threads

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """Run `func` on the loop in place of a thread, after the executor's earlier work. Its effects all
        happen at one moment of the time that it takes. Its future is done at the end of that time."""
        if getattr(executor, "_shutdown", False):
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = _WorkFuture(loop=self)
        key = _executor_key(executor)
        if executor is not None and executor not in self._executors:
            # Kept, so that no other executor ever has its id.
            self._executors.append(executor)
        begins = max(self.now_s, self._executor_free_at.get(key, 0.0))
        delay_s = self._executor_delay_s(executor)
        work = _Work(future, func, args, begins)
        if executor is not None:
            self._executor_free_at[key] = begins + delay_s
            self._executor_work.setdefault(key, deque()).append(work)
        self.call_at(begins + delay_s * self._executor_moment(), work.run)
        self.call_at(begins + delay_s, self._end_work, work, key)
        return future

    def _end_work(self, work: _Work, key: tuple[int, int]) -> None:
        work.run()
        queue = self._executor_work.get(key)
        if queue and queue[0] is work:
            queue.popleft()
        work.answer()

    def finish_work(self, executor: Executor) -> None:
        """Run at once all work of the executor that is still to come, because `shutdown(wait=True)` waits for
        it."""
        for work in self._executor_work.get(_executor_key(executor), ()):
            work.run()

    def call_exception_handler(self, context: Any) -> None:
        """Report an error, except for those that come from unwinding the stack of a killed process."""
        if not isinstance(context.get("exception"), ProcessKilled):
            super().call_exception_handler(context)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return

    # ------------------------------------------------------------------------------------------------- sockets

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:
        return await self.network.create_server(*args, **kwargs)

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        return await self.network.create_connection(*args, **kwargs)

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> Any:
        return await self.network.getaddrinfo(*args, **kwargs)


def _executor_key(executor: Executor | None) -> tuple[int, int]:
    return id(executor), id(OWNER.get())
