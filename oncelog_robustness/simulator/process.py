"""A simulated process: what belongs to it stops with it.

Every callback of the loop runs in a context, and a context knows its process. So a killed process simply never runs
again: no `finally`, no `except`, no last write, exactly as SIGKILL does it. A paused one keeps what became due, and
finds it, in the order of a real event loop (what arrived, then timers, then tasks), when it goes on.
"""

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oncelog_robustness.simulator.contracts import Contracts

OWNER: "contextvars.ContextVar[SimProcess | None]" = contextvars.ContextVar("OWNER", default=None)


class ProcessKilled(BaseException):
    """Unwinds the stack of a process that was killed in the middle of a step; nothing it does on the way counts."""


class ProcessState(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class SimProcess:
    """One incarnation of one process. A restart is another object with the same name."""

    def __init__(self, name: str, incarnation: int, host: str) -> None:
        self.name = name
        self.incarnation = incarnation
        self.host = host
        """Its address in the network, and whose disk it uses; stays over restarts."""
        self.state = ProcessState.RUNNING
        self.clock_skew_ms = 0
        """Its wall clock minus the true one. Monotonic clocks are never wrong."""
        self.contracts: Contracts | None = None
        """Of an older version, if it is of one; set before its code runs."""
        self.parked: list[asyncio.Handle] = []
        self._on_end: list[Callable[[], None]] = []
        self._kept: list[object] = []

    def __repr__(self) -> str:
        return f"<{self.name}#{self.incarnation} {self.state.value}>"

    def on_end(self, action: Callable[[], None]) -> None:
        """Called once when the process is killed or has stopped: the kernel closing its sockets and files."""
        self._on_end.append(action)

    def context(self) -> contextvars.Context:
        context = contextvars.copy_context()
        context.run(OWNER.set, self)
        return context

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str) -> "asyncio.Task[Any]":
        """Run `coroutine` as this process."""
        loop = asyncio.get_running_loop()
        return loop.create_task(coroutine, name=f"{self.name}: {name}", context=self.context())

    def end(self) -> None:
        """SIGKILL, or the end of a process that stopped by itself. Nothing of it runs after this call."""
        if self.state is ProcessState.DEAD:
            return
        self.state = ProcessState.DEAD
        # Its suspended coroutines must never be collected: that would run their `finally`.
        self._kept = [*self.parked, *_taken_tasks()]
        self.parked.clear()
        actions, self._on_end = self._on_end, []
        for action in actions:
            action()

    def pause(self) -> None:
        """SIGSTOP. The kernel goes on: connections stay, what arrives waits."""
        if self.state is ProcessState.RUNNING:
            self.state = ProcessState.PAUSED

    def resume(self) -> None:
        """SIGCONT. What became due meanwhile runs now: arrivals, then timers, then the rest."""
        if self.state is not ProcessState.PAUSED:
            return
        self.state = ProcessState.RUNNING
        parked, self.parked = self.parked, []
        loop = asyncio.get_running_loop()
        loop.requeue(parked)  # type: ignore[attr-defined]


def owner() -> SimProcess | None:
    """Whose code is running."""
    return OWNER.get()


def _taken_tasks() -> "set[asyncio.Task[Any]]":
    """Of everybody: a task does not tell whose it is. asyncio forgets them, so that the next end need not look at what
    is kept already."""
    try:
        found = asyncio.all_tasks()
    except RuntimeError:
        # No loop runs: nothing is suspended.
        return set()
    for task in found:
        asyncio.tasks._unregister_task(task)
    return found
