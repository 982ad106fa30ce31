"""The event loop of the simulation: asyncio's own, except that time passes only when nothing is left to do.

    loop = SimLoop(executor_delay_s)
    loop.run_until_complete(main())

What differs from a real loop, and only that: `time` is virtual; a callback runs only while its process does; work for
a thread runs on the loop, a drawn moment later; tasks and futures hash by their number, so that a set of them has the
same order in every run; and sockets are those of `network`.
"""

import asyncio
import contextvars
import heapq
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any, Final

from robustness.simulator.process import OWNER, ProcessState, SimProcess

TURNS_WITHOUT_TIME_MAX: Final = 200_000
"""More turns of the loop in one instant mean that somebody spins."""

_SOON, _TIMER, _ARRIVAL = range(3)
_RESUME_ORDER: Final = {_ARRIVAL: 0, _TIMER: 1, _SOON: 2}


class Stuck(AssertionError):
    """Nothing will ever happen again, or time stands still."""


class _Handle(asyncio.Handle):
    __slots__ = ("kind",)
    kind: int

    def _run(self) -> None:
        if _may_run(self):
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ("kind",)
    kind: int

    def _run(self) -> None:
        if _may_run(self):
            super()._run()


def _may_run(handle: Any) -> bool:
    process: SimProcess | None = handle._context.get(OWNER)
    if process is None or process.state is ProcessState.RUNNING:
        return True
    if process.state is ProcessState.PAUSED:
        process.parked.append(handle)
    return False


class _Numbered:
    """Hashes by a number of its own: sets of it have one order, whatever the addresses in memory."""

    _count = 0

    @classmethod
    def next_number(cls) -> int:
        _Numbered._count += 1
        return _Numbered._count


class SimTask(asyncio.Task):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number = _Numbered.next_number()
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class SimFuture(asyncio.Future):  # type: ignore[type-arg]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.number = _Numbered.next_number()
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self.number


class _NoSelector:
    """Where a real loop would sleep, time jumps to the next timer."""

    def __init__(self, loop: "SimLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        self._loop.pass_time(timeout)
        return []


class SimLoop(asyncio.BaseEventLoop):
    """`network` must be set before anything opens or accepts a connection."""

    def __init__(self, executor_delay_s: Callable[[Executor | None], float]) -> None:
        super().__init__()
        self._now_s = 0.0
        self._clock_resolution = 1e-9
        self._selector = _NoSelector(self)
        self._turns = 0
        self._executor_delay_s = executor_delay_s
        self._executor_free_at: dict[tuple[int, int], float] = {}
        self._executors: list[object] = []
        self.network: Any = None
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Seconds since the simulation began."""
        return self._now_s

    def pass_time(self, timeout_s: float | None) -> None:
        """Called by the loop in each turn: `timeout_s` is how long a real one could sleep, None for ever."""
        if timeout_s is None:
            raise Stuck(f"at {self._now_s:.3f} s nothing is left that could ever happen")
        if timeout_s > 0:
            self._now_s = max(self._now_s, self._scheduled[0]._when)  # type: ignore[attr-defined]
            self._turns = 0
            return
        self._turns += 1
        if self._turns > TURNS_WITHOUT_TIME_MAX:
            raise Stuck(f"at {self._now_s:.3f} s time stands still: somebody spins")

    def create_future(self) -> "asyncio.Future[Any]":
        return SimFuture(loop=self)

    # ----------------------------------------------------------------------------------------------- callbacks

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
        """Something reaches a process from outside: a paused one handles it before its timers."""
        return self._push(_ARRIVAL, when, callback, args, context)

    def _push(
        self,
        kind: int,
        when: float,
        callback: Callable[..., object],
        args: Any,
        context: contextvars.Context | None,
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        timer.kind = kind
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        handle.kind = _SOON
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def requeue(self, handles: Iterable[asyncio.Handle]) -> None:
        """What a paused process missed, in the order in which a real loop would take it up."""
        ordered = sorted(handles, key=lambda handle: _RESUME_ORDER[handle.kind])  # type: ignore[attr-defined]
        self._ready.extend(ordered)  # type: ignore[attr-defined]

    def _process_events(self, event_list: object) -> None:
        return

    def _write_to_self(self) -> None:
        return

    # ------------------------------------------------------------------------------------------------- threads

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """`func` runs in one instant, `executor_delay_s` from now, and after what this executor was given before."""
        future = self.create_future()
        process = OWNER.get()
        key = (id(executor), id(process))
        if executor is not None and executor not in self._executors:
            # Kept, so that no other executor ever has its id.
            self._executors.append(executor)
        begins = max(self._now_s, self._executor_free_at.get(key, 0.0))
        ends = begins + self._executor_delay_s(executor)
        if executor is not None:
            self._executor_free_at[key] = ends
        self.call_at(ends, _work, future, func, args)
        return future

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        return

    # ------------------------------------------------------------------------------------------------- sockets

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:
        return await self.network.create_server(*args, **kwargs)

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        return await self.network.create_connection(*args, **kwargs)

    async def getaddrinfo(self, *args: Any, **kwargs: Any) -> Any:
        return await self.network.getaddrinfo(*args, **kwargs)


def _make_task(loop: Any, coroutine: Any, *, context: Any = None) -> SimTask:
    return SimTask(coroutine, loop=loop, context=context)


def _work(future: "asyncio.Future[Any]", func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        # A thread that has begun goes on; nobody waits for its result.
        func(*args)
        return
    try:
        result = func(*args)
    except StopIteration as error:
        future.set_exception(RuntimeError(f"work for a thread raised {error!r}"))
    except Exception as error:
        future.set_exception(error)
    else:
        future.set_result(result)
