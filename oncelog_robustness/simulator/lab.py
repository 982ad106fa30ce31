"""The lab of the simulator, in which workloads run their clients: every client is a simulated process on a
host of its own."""

import asyncio
import random
import traceback
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from oncelog_robustness.clients.contract import Clients
from oncelog_robustness.fault_plan import PlannedFault
from oncelog_robustness.history import AnyOperation, Fault, History
from oncelog_robustness.simulator.process import ProcessState, SimProcess
from oncelog_robustness.simulator.world import World
from oncelog_robustness.workloads.ending import EndingLab
from oncelog_robustness.workloads.prepared import Hands

CONDUCTOR = "conductor"
"""The process of the workloads themselves. It starts clients and is never harmed, but it can be cut off."""


class SimClient:
    """A workload's client as a simulated process, which can be killed and frozen at any moment."""

    def __init__(self, name: str, process: SimProcess, lab: "SimLab") -> None:
        self.name = name
        self._process = process
        self._lab = lab
        self._last_words: dict[str, AnyOperation] = {}
        self._ended = asyncio.Event()

    @property
    def is_running(self) -> bool:
        return self._process.state is not ProcessState.DEAD

    def kill(self) -> None:
        if not self.is_running:
            return
        self._lab.world.trace("client-end", self.name)
        self._process.end()
        for operation in self._last_words.values():
            self._lab.record(operation)
        self._last_words.clear()
        self._ended.set()

    def freeze(self) -> None:
        """Stop the client as SIGSTOP does."""
        self._lab.world.trace("client-freeze", self.name)
        self._process.pause()

    def thaw(self) -> None:
        self._lab.world.trace("client-thaw", self.name)
        self._process.resume()

    def last_word(self, key: str, operation: AnyOperation) -> None:
        self._last_words[key] = operation

    def settle(self, key: str, operation: AnyOperation) -> None:
        self._last_words.pop(key, None)
        self._lab.record(operation)

    async def ended(self) -> None:
        await self._ended.wait()


class SimLab(EndingLab):
    """The surroundings that workloads have in the simulator: client libraries, virtual time, chance, client
    processes, and the history of what they did. `clients` is set before the workloads begin."""

    def __init__(self, world: World, history: History, replicas: int) -> None:
        super().__init__()
        self.world = world
        self.history = history
        self.replicas = replicas
        self.clients: Sequence[Clients] = ()
        self.hands: Hands | None = None
        self.random: random.Random = world.streams.stream("workloads")
        self.failures: list[str] = []
        """Unexpected errors of workloads and clients, which are bugs of theirs."""
        self._begun_at_s = world.loop.time()
        self._clients: dict[str, SimClient] = {}

    def now_ms(self) -> int:
        return int((self.world.loop.time() - self._begun_at_s) * 1000)

    def record(self, operation: AnyOperation) -> None:
        self.world.trace("operation", repr(operation))
        self.history.add(operation)

    def note_fault(self, fault: PlannedFault) -> None:
        now_ms = self.now_ms()
        self.history.add(
            Fault(
                client="fault-plan",
                invoked_ms=now_ms,
                completed_ms=now_ms + fault.lasts_ms,
                kind=fault.kind.value,
                target=fault.target,
            )
        )

    def spawn(self, name: str, work: Callable[[SimClient], Coroutine[Any, Any, None]]) -> SimClient:
        before = self._clients.get(name)
        if before is not None and before.is_running:
            before.kill()
        process = self.world.new_process(f"client-{name}")
        client = SimClient(f"{name}#{process.incarnation}", process, self)
        self._clients[name] = client
        process.spawn(self._run(client, work), "work")
        return client

    def living(self) -> list[SimClient]:
        return [client for client in self._clients.values() if client.is_running]

    def hosts(self) -> list[str]:
        """Return the hosts of the workloads and of every client so far. A partition of a process cuts it off
        from these as well as from the rest of the cluster."""
        return [CONDUCTOR, *(f"client-{name}" for name in self._clients)]

    async def _run(
        self, client: SimClient, work: Callable[[SimClient], Coroutine[Any, Any, None]]
    ) -> None:
        try:
            await work(client)
        except Exception as error:  # Whatever it is, it fails the run, with its trace.
            self.failures.append(failure_text(client.name, error))
        # It exits: nothing of it runs any more, this task included.
        self.world.loop.call_soon(client.kill, context=self.world.own_context)


def failure_text(who: str, error: BaseException) -> str:
    """Return the error and where it was raised as a text for a report; `who` raised it."""
    lines = traceback.format_exception(error)
    return f"{who}: {type(error).__name__}: {error}\n{''.join(lines)}"
