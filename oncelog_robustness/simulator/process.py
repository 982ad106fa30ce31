"""A simulated process: everything that belongs to it stops when it ends.

Every callback of the loop runs in a context, and a context knows its process. So a killed process simply never runs
again: no `finally`, no `except`, no last write, exactly as with SIGKILL. A paused process keeps the callbacks that
became due. When it goes on, they run in the order of a real event loop: arrivals, then timers, then tasks.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any

from oncelog_robustness.simulator.contracts import Contracts

OWNER: "contextvars.ContextVar[SimProcess | None]" = contextvars.ContextVar("OWNER", default=None)


class ProcessKilled(BaseException):
    """Raised in a process that is killed in the middle of a step, to unwind its stack. What its code does on
    the way has no effect."""


class ProcessState(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class SimProcess:
    """One start of a simulated process, until its end. A restart is another object with the same name and the
    next number, its `incarnation`."""

    def __init__(self, name: str, incarnation: int, host: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.host = host
        """The host of the process: its address in the network, and its disk. It stays over restarts."""
        self.state = ProcessState.RUNNING
        self.clock_skew_ms = 0
        """The process's wall clock minus the true one, in milliseconds. Monotonic clocks are never wrong."""
        self.contracts: Contracts | None = None
        """The message and record schemas of the older version that the process plays; None for today's. Set
        before its code runs."""
        self.parked: list[asyncio.Handle] = []
        self._on_end: list[Callable[[], None]] = []
        self._kept: list[object] = []

    def __repr__(self) -> str:
        return f"<{self.name}#{self.incarnation} {self.state.value}>"

    def on_end(self, action: Callable[[], None]) -> None:
        """Register an action that is called once when the process is killed or has stopped, as a kernel
        closes sockets and files."""
        self._on_end.append(action)

    def context(self) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        return context

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Run `coroutine` in a task that belongs to this process and stops with it."""
        loop = asyncio.get_running_loop()
        return loop.create_task(coroutine, name=f"{self.name}: {name}", context=self.context())

    def end(self) -> None:
        """End the process by SIGKILL, or because it has stopped by itself. None of its code runs after this call."""
        if self.state is ProcessState.DEAD:
            return
        self.state = ProcessState.DEAD
        # The suspended coroutines of a dead process must never be collected: that would run their `finally`.
        self._kept = [*self.parked, *_taken_tasks()]
        self.parked.clear()
        actions, self._on_end = self._on_end, []
        for action in actions:
            action()

    def pause(self) -> None:
        """Stop the process as SIGSTOP does. The kernel goes on: connections stay, and what arrives waits."""
        if self.state is ProcessState.RUNNING:
            self.state = ProcessState.PAUSED

    def resume(self) -> None:
        """Let the process go on as SIGCONT does.
        Callbacks that became due meanwhile run now: arrivals, then timers, then the rest."""
        if self.state is not ProcessState.PAUSED:
            return
        self.state = ProcessState.RUNNING
        parked, self.parked = self.parked, []
        loop = asyncio.get_running_loop()
        loop.requeue(parked)  # type: ignore[attr-defined]


def owner() -> SimProcess | None:
    """Return the process whose code is running; None outside of all processes."""
    return OWNER.get()


def _taken_tasks() -> "set[asyncio.Task[Any]]":
    """Return all tasks of all processes, and make asyncio forget them. The caller keeps them, so that no task
    of a dead process is ever collected; a task does not tell whose it is."""
    try:
        found = asyncio.all_tasks()
    except RuntimeError:
        # No loop runs: nothing is suspended.
        return set()
    for task in found:
        asyncio.tasks._unregister_task(task)
    return found
