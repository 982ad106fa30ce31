"""The lab (a workload's surroundings) for a real target: it runs workloads in real time, on real sockets, with
clients that can be killed.

    lab = RunLab([AiokafkaClients(bootstrap)], seed=7, duration_ms=10_000)
    run(lab, [workload])
    lab.history

All clients live in this process, and yet `kill` is as sudden as SIGKILL. Each client's code runs in a context that
knows its `ClientTask`, and the loop runs no callback of a dead client any more. There is no `except`, no `finally`,
no last request, and its sockets close, as the kernel would close them.

This cannot kill a thread: librdkafka's threads go on until their handle is collected, so a confluent-kafka client
dies only as far as its Python code goes. For a client whose death must be complete, start it as a process of the
operating system.
"""

import asyncio
import contextvars
import ctypes
import heapq
import random
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from aiokafka.errors import KafkaError as ClientLibraryError

from oncelog_robustness.clients.contract import Clients
from oncelog_robustness.history import AnyOperation, History
from oncelog_robustness.workloads.contract import Workload
from oncelog_robustness.workloads.ending import EndingLab

_OWNER: "contextvars.ContextVar[ClientTask | None]" = contextvars.ContextVar("_OWNER", default=None)


def run(lab: "RunLab", workloads: Sequence[Workload]) -> None:
    """Run workloads on this lab and wait: `setup` of one after the other, `start` of all at the same time, then
    `check` of one after the other. Raises what any of them raised."""
    run_on_killing_loop(lab.run(workloads))


def run_on_killing_loop(main: Coroutine[Any, Any, None]) -> None:
    """Run `main` as `asyncio.run` does, but on an event loop on which a client of `RunLab` can be killed."""
    loop = KillingLoop()
    try:
        loop.run_until_complete(main)
    finally:
        loop.run_until_complete(_cancel_all())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def _cancel_all() -> None:
    """Cancel all tasks and wait for them. Tasks of killed clients are left out, because the loop does not run them
    any more."""
    current = asyncio.current_task()
    left = [one for one in asyncio.all_tasks() if one is not current and not _is_dead(one)]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


class ClientTask:
    """A client that runs as a task of this process's event loop, and can be killed as if it were a process: the
    `ClientProcess` of `RunLab`."""

    def __init__(self, name: str, record: Callable[[AnyOperation], None]) -> None:
        self.name = name
        self.is_running = True
        self.error: BaseException | None = None
        self._record = record
        self._last_words: dict[str, AnyOperation] = {}
        self._ended = asyncio.Event()
        self._transports: list[asyncio.BaseTransport] = []

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        context = contextvars.copy_context()
        context.run(_OWNER.set, self)
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._run(work), name=self.name, context=context)

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BaseException as error:
            self.error = error
        # This very task ends by itself; whatever else the client left running is cut off with its process.
        self._end()

    def kill(self) -> None:
        if self.is_running:
            self._end()

    def last_word(self, key: str, operation: AnyOperation) -> None:
        self._last_words[key] = operation

    def settle(self, key: str, operation: AnyOperation) -> None:
        self._last_words.pop(key, None)
        self._record(operation)

    def _end(self) -> None:
        self.is_running = False
        for operation in self._last_words.values():
            self._record(operation)
        current = asyncio.current_task()
        for task in asyncio.all_tasks():
            if isinstance(task, _OwnedTask) and task.owner is self and task is not current:
                _never_finalize(task)
        # This runs outside the client's context, because nothing inside it runs any more, not even this closing.
        contextvars.Context().run(self._close_sockets)
        self._ended.set()

    def _close_sockets(self) -> None:
        for transport in self._transports:
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        self._transports.clear()

    def has_opened(self, transport: asyncio.BaseTransport) -> None:
        self._transports = [one for one in self._transports if not one.is_closing()]
        self._transports.append(transport)

    async def ended(self) -> None:
        await self._ended.wait()


class RunLab(EndingLab):
    """A `Lab` in real time. `start` of the workloads may work for `duration_ms`; a call of `end` ends the run
    before."""

    def __init__(
        self, clients: Sequence[Clients], seed: int, duration_ms: int, replicas: int = 1
    ) -> None:
        self.clients = clients
        self.random = random.Random(f"oncelog/{seed}/workloads")
        super().__init__()
        self.replicas = replicas
        self.history = History()
        self._duration_ms = duration_ms
        self._processes: list[ClientTask] = []
        self._incarnations: dict[str, int] = {}
        self._began_s: float | None = None

    def now_ms(self) -> int:
        now_s = asyncio.get_running_loop().time()
        if self._began_s is None:
            self._began_s = now_s
        return int((now_s - self._began_s) * 1000)

    def record(self, operation: AnyOperation) -> None:
        self.history.add(operation)

    def spawn(
        self, name: str, work: Callable[[ClientTask], Coroutine[Any, Any, None]]
    ) -> ClientTask:
        self._fail_if_one_failed()
        number = self._incarnations[name] = self._incarnations.get(name, 0) + 1
        process = ClientTask(f"{name}#{number}", self.record)
        self._processes = [one for one in self._processes if one.is_running or one.error]
        self._processes.append(process)
        process.start(work(process))
        return process

    async def run(self, workloads: Sequence[Workload]) -> None:
        for workload in workloads:
            await workload.setup(self)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(self._duration_ms / 1000, self.end)
        try:
            async with asyncio.TaskGroup() as group:
                for workload in workloads:
                    group.create_task(workload.start(self))
        finally:
            timer.cancel()
            self.end()
        self._fail_if_one_failed()
        for workload in workloads:
            await workload.check(self)
        self._fail_if_one_failed()

    def _fail_if_one_failed(self) -> None:
        for process in self._processes:
            if process.error is not None:
                raise process.error


# ------------------------------------------------------------------------------------------------------- the loop


class _OwnedTask(asyncio.Task):  # type: ignore[type-arg]
    def __init__(self, *args: Any, context: contextvars.Context | None, **kwargs: Any) -> None:
        owner = _OWNER.get() if context is None else context.get(_OWNER)
        self.owner: ClientTask | None = owner
        super().__init__(*args, context=context, **kwargs)


class _Handle(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        if _runs(self):
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ()

    def _run(self) -> None:
        if _runs(self):
            super()._run()


def _runs(handle: Any) -> bool:
    owner: ClientTask | None = handle._context.get(_OWNER)
    return owner is None or owner.is_running


def _is_dead(task: "asyncio.Task[Any]") -> bool:
    return isinstance(task, _OwnedTask) and task.owner is not None and not task.owner.is_running


def _never_finalize(task: "asyncio.Task[Any]") -> None:
    """Keep a dead client's task in memory for ever. If Python collected its suspended coroutine, the `finally`
    blocks would run, which do not run in a killed process."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(task))


class KillingLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, changed so that it does not run the callbacks of clients that were killed."""

    def __init__(self) -> None:
        super().__init__()
        self.set_task_factory(_make_task)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _call_soon(
        self, callback: Callable[..., object], args: Any, context: contextvars.Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_exception_handler(self, context: Any) -> None:
        """Handle an error that nobody awaited, as asyncio does, but ignore errors of aiokafka: for a fenced
        producer aiokafka sets the error also on futures that nobody awaits."""
        is_left = context.get("message") == "Future exception was never retrieved"
        if not (is_left and isinstance(context.get("exception"), ClientLibraryError)):
            super().call_exception_handler(context)

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:
        transport, protocol = await super().create_connection(*args, **kwargs)
        owner = _OWNER.get()
        if owner is not None:
            owner.has_opened(transport)
        return transport, protocol


def _make_task(loop: Any, coroutine: Any, *, context: Any = None) -> _OwnedTask:
    return _OwnedTask(coroutine, loop=loop, context=context)
