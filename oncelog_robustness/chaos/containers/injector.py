"""Faults given to containers. These kinds mean something else here than their names say:

- KILL is SIGKILL to the container's first process; the container is started again, as a restart policy would, with its
  volume and its address. RESTART is `stop`: SIGTERM and a drain; then a start.
- ROLLING_RESTART puts another container in the place of each one of a role, as an upgrade does: SIGTERM, a drain, and
  a new container with the address and the data of the old one.
- PAUSE freezes the container (the cgroup's freezer), and its network answers nobody but the kernel.
- A partition drops packets in the container's network, by iptables beside it. Connections survive when TCP retransmits
  for longer. RESET answers every packet of a second with a TCP reset.
- MACHINE_LOST kills every container of a machine at once. A partition of a machine leaves its containers each other.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_robustness.chaos.containers.fleet import Fleet
from oncelog_robustness.chaos.containers.plan import Container
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.plan import MACHINES, name_of, role_of
from oncelog_robustness.chaos.pods.network import cut_script, heal_script
from oncelog_robustness.fault_plan import NETWORK, FaultKind, PlannedFault

COME_BACK_S: Final = 90.0
RETRY_S: Final = 0.5
LOOK_S: Final = 0.25
RESET_S: Final = 1.0
PAUSED: Final = "paused"
RUNNING: Final = "running"
_OUTAGES: Final = (FaultKind.DATABASE_OUTAGE, FaultKind.REDIS_OUTAGE)

ResultT = TypeVar("ResultT")


class ContainerInjector:
    """Begins and ends planned faults on the containers of one cluster: it kills, freezes, replaces them, and
    cuts them off."""

    def __init__(
        self, fleet: Fleet, kinds: frozenset[FaultKind], kill_client: Callable[[float], str]
    ) -> None:
        """Make an injector that carries out only faults of these `kinds`. `kill_client` kills one of the running
        clients, chosen by a number from 0 to 1, and returns its name."""
        self._fleet = fleet
        self._kinds = kinds
        self._kill_client = kill_client
        self._threads = ThreadPoolExecutor(24, thread_name_prefix="injector")
        self._is_closing = threading.Event()
        self._under_way: dict[str, PlannedFault] = {}
        self.findings: list[str] = []
        self.facts: dict[str, str] = {}
        self.missed: set[str] = set()

    def can(self, kind: FaultKind) -> bool:
        return kind in self._kinds

    async def begin(self, fault: PlannedFault) -> None:
        self._under_way[name_of(fault)] = fault
        try:
            await self._call(self._begin, fault)
        except OncelogError as error:
            self.findings.append(f"{name_of(fault)} could not be carried out: {error}")
            self.missed.add(name_of(fault))

    async def end(self, fault: PlannedFault) -> None:
        try:
            await self._call(self._end, fault)
        except OncelogError as error:
            self.findings.append(f"{name_of(fault)} could not be ended: {error}")
        finally:
            self._under_way.pop(name_of(fault), None)

    async def heal(self) -> None:
        for fault in list(self._under_way.values()):
            await self.end(fault)
        await self._call(self._bring_back, self._fleet.containers, "the end of all faults")

    async def look_for_dead(self) -> None:
        """Report each container that ended although no fault was given to it, and start it again."""
        try:
            await self._call(self._look)
        except OncelogError:
            # The engine may be busy for a moment; the next look sees as much.
            return

    def close(self) -> None:
        self._is_closing.set()
        self._threads.shutdown(cancel_futures=True)

    async def _call(self, work: Callable[..., ResultT], *arguments: object) -> ResultT:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(*arguments))

    # -------------------------------------------------------------------------------------------------- their begin

    def _begin(self, fault: PlannedFault) -> None:
        name, fleet = name_of(fault), self._fleet
        match fault.kind:
            case FaultKind.CLIENT_KILL:
                self.facts[name] = killed = self._kill_client(fault.strength)
                if not killed:
                    self.missed.add(name)
            case FaultKind.KILL | FaultKind.KILL_ALL | FaultKind.MACHINE_LOST:
                self._kill(fault)
            case FaultKind.DATABASE_OUTAGE | FaultKind.REDIS_OUTAGE if fault.strength < 0.5:
                self._kill(fault)
            case FaultKind.DATABASE_OUTAGE | FaultKind.REDIS_OUTAGE | FaultKind.PAUSE:
                fleet.pause(self._one(fault).name)
                self.facts[name] = PAUSED
            case FaultKind.RESTART:
                self._terminate(self._one(fault), self._fleet.terminate)
            case FaultKind.ROLLING_RESTART:
                for one in self._struck(fault):
                    self._terminate(one, self._fleet.replace)
                    self._bring_back([one], name)
            case _:
                self._cut(fault)

    def _struck(self, fault: PlannedFault) -> Sequence[Container]:
        if role_of(fault.target) == MACHINES:
            return self._fleet.on_machine(int(fault.target.rpartition("-")[2]))
        if fault.kind in (FaultKind.KILL_ALL, FaultKind.ROLLING_RESTART, *_OUTAGES):
            return self._fleet.of_role(fault.target)
        if fault.kind is FaultKind.CLIENT_KILL:
            return []
        return [self._one(fault)]

    def _one(self, fault: PlannedFault) -> Container:
        """Return the container that the fault targets; a role of one container is named by its role alone in a plan."""
        first = fault.target.partition("+")[0]
        return next(one for one in self._fleet.containers if first in (one.name, one.role))

    def _kill(self, fault: PlannedFault) -> None:
        """Kill the containers of the fault that run; those that another fault has killed or
        frozen are left to that fault."""
        states = self._fleet.states()
        struck = [one.name for one in self._struck(fault) if states.get(one.name) == RUNNING]
        if not struck:
            self.missed.add(name_of(fault))
        with ThreadPoolExecutor(max(1, len(struck))) as threads:
            for killed in [threads.submit(self._fleet.kill, one) for one in struck]:
                killed.result()
        if len(struck) > 1:
            self.facts[name_of(fault)] = counted(len(struck), "container")

    def _terminate(self, one: Container, terminate: Callable[[str], int]) -> None:
        began = time.monotonic()
        code = terminate(one.name)
        if code:
            took_s = time.monotonic() - began
            self.findings.append(f"{one.name} ended with {code} after {took_s:.0f} s of SIGTERM")

    def _cut(self, fault: PlannedFault) -> None:
        struck = self._struck(fault)
        peers = self._fleet.others(struck) if role_of(fault.target) == MACHINES else []
        second = fault.target.partition("+")[2]
        # Clients come from anywhere, so a container cut off from them is cut off from everybody.
        if second and second != CLIENTS:
            peers = [self._fleet.container(second).address]
        self._in_networks(struck, f"{heal_script()}; {cut_script(fault, peers)}")
        if fault.kind is FaultKind.RESET:
            time.sleep(RESET_S)
            self._in_networks(struck, heal_script())

    def _in_networks(self, containers: Sequence[Container], script: str) -> None:
        """Run the script in each container's network; a container that does not run has none, and gets
        a new one when it starts."""
        states = self._fleet.states()
        alive = [one for one in containers if states.get(one.name) in (RUNNING, PAUSED)]
        with ThreadPoolExecutor(max(1, len(alive))) as threads:
            calls = [threads.submit(self._fleet.in_network_of, one.name, script) for one in alive]
            for done in calls:
                done.result()

    # -------------------------------------------------------------------------------------------------- their end

    def _end(self, fault: PlannedFault) -> None:
        began, name = time.monotonic(), name_of(fault)
        struck = self._struck(fault)
        states = self._fleet.states()
        for one in struck:
            if self.facts.get(name) == PAUSED and states.get(one.name) == PAUSED:
                self._fleet.resume(one.name)
        if fault.kind in NETWORK:
            self._in_networks(struck, heal_script())
        self._bring_back(struck, name)
        if fault.kind in (FaultKind.KILL, FaultKind.RESTART, FaultKind.MACHINE_LOST):
            took = f"ready {time.monotonic() - began:.1f} s after its time"
            self.facts[name] = "; ".join(part for part in (self.facts.get(name), took) if part)

    def _bring_back(self, containers: Sequence[Container], after: str) -> None:
        """Start these containers, all at the same time, because one may wait for another. `after` names the
        fault that ends, for findings."""
        if not containers:
            return
        with ThreadPoolExecutor(len(containers)) as threads:
            for done in [threads.submit(self._start, one, after) for one in containers]:
                done.result()

    def _start(self, one: Container, after: str) -> None:
        """Start the container, again and again until it is ready, as a restart policy does: another fault may
        have stopped a container that it needs. `after` names the fault that ends."""
        deadline = time.monotonic() + COME_BACK_S
        while not self._is_closing.is_set():
            try:
                if self._state(one) not in (RUNNING, PAUSED):
                    self._fleet.start_one(one.name)
                if self._is_struck_meanwhile(one, after) or self._fleet.is_ready(one):
                    return
            except OncelogError as error:
                if time.monotonic() > deadline:
                    raise OncelogError(f"{one.name} does not start: {error}") from error
                time.sleep(RETRY_S)
            if time.monotonic() > deadline:
                words = self._fleet.last_words(one.name)
                self.findings.append(
                    f"{one.name} is not ready {COME_BACK_S:.0f} s after {after}; its last words:\n{words}"
                )
                return
            time.sleep(LOOK_S)

    def _state(self, one: Container) -> str:
        return self._fleet.states().get(one.name, "gone")

    def _is_struck_meanwhile(self, one: Container, after: str) -> bool:
        """True if a fault other than `after` goes on now and strikes this container too. The end of that fault will
        start it again."""
        return any(
            name != after and one.name in {other.name for other in self._struck(fault)}
            for name, fault in list(self._under_way.items())
        )

    def _look(self) -> None:
        # Struck roles are read before and after, because a fault may begin while the engine answers.
        struck = self._roles_struck()
        states = self._fleet.states()
        struck |= self._roles_struck()
        for one in self._fleet.containers:
            state = states.get(one.name, "gone")
            if state in (RUNNING, PAUSED) or one.role in struck:
                continue
            words = self._fleet.last_words(one.name)
            self.findings.append(f"{one.name} ended by itself ({state}); its last words:\n{words}")
            self._fleet.start_one(one.name)

    def _roles_struck(self) -> set[str]:
        found = {role_of(fault.target) for fault in list(self._under_way.values())}
        for fault in list(self._under_way.values()):
            found |= {one.role for one in self._struck(fault)}
        return found
