"""The simulated cluster: the very programs that `python -m oncelog_*` runs, each as a simulated process.

The cluster does what an operating system and an orchestrator do for a real process. It starts a process with its
settings, restarts one that gives up, kills, stops and continues it, and tells it to end in order.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic_settings import BaseSettings

from oncelog.errors import OncelogError
from oncelog.process.run import Program, Settings
from oncelog_controller.__main__ import PROGRAM as CONTROLLER
from oncelog_coordinator.__main__ import PROGRAM as COORDINATOR
from oncelog_listener.__main__ import PROGRAM as LISTENER
from oncelog_marker_sender.__main__ import PROGRAM as MARKER_SENDER
from oncelog_robustness.scenario import Shape
from oncelog_robustness.simulator.contracts import Contracts
from oncelog_robustness.simulator.effects import Effect
from oncelog_robustness.simulator.process import ProcessState, SimProcess
from oncelog_robustness.simulator.world import World
from oncelog_storage.__main__ import PROGRAM as STORAGE

_PROGRAMS: Final[Mapping[str, Program]] = {
    "controller": CONTROLLER,
    "storage": STORAGE.program,
    "coordinator": COORDINATOR.program,
    "marker-sender": MARKER_SENDER.program,
    "listener": LISTENER.program,
}
_FIRST_NODE_ID: Final = {
    "controller": 1,
    "storage": 11,
    "coordinator": 21,
    "marker-sender": 31,
    "listener": 41,
}
RPC_PORT: Final = 9090
KAFKA_PORT: Final = 9092
DRAIN_TIMEOUT_S: Final = 20.0
START_AGAIN_S: Final = 1.0
"""Seconds that an orchestrator waits before it starts a process again that ended by itself."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process of the cluster with what stays the same over its restarts. Its name is also the name of its
    host."""

    name: str
    role: str
    node_id: int


@dataclass(slots=True)
class _Launch:
    """One start of a process of the cluster, from the launch to its end: the simulated process and the events
    of its life."""

    process: SimProcess
    running: Any = None
    is_ready: asyncio.Event = field(default_factory=asyncio.Event)
    stop_requested: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class SimCluster:
    """The processes of a simulated cluster: it starts, kills, pauses and stops them. `settings_of(member)`
    returns a process's environment variables and is called at each start."""

    def __init__(
        self,
        world: World,
        shape: Shape,
        settings_of: Callable[[Member], Mapping[str, str]],
        address_of: Callable[[str], str],
    ) -> None:
        self._world = world
        self._settings_of = settings_of
        self._address_of = address_of
        self.members = {name: _member(name) for name in shape.names()}
        self._launches: dict[str, _Launch] = {}
        self._wanted: dict[str, bool] = {}
        """Flags by name: whether the orchestrator starts the process again when it ends by itself."""
        self.restarts_by_itself = 0
        self.contracts: dict[str, Contracts] = {}
        """The message and record schemas of each process that plays an older version, by the process's name.
        Each start reads them anew."""

    @property
    def bootstrap(self) -> list[str]:
        """Return the addresses of all listeners, at which clients connect."""
        return [
            f"{self._address_of(member.name)}:{KAFKA_PORT}"
            for member in self.members.values()
            if member.role == "listener"
        ]

    def names(self, role: str) -> list[str]:
        return [member.name for member in self.members.values() if member.role == role]

    def running(self, role: str) -> list[tuple[SimProcess, Any]]:
        """Return every process of a role that is ready and not dead, each with the object that runs the role
        in it, such as `StorageRole`."""
        found = []
        for name in self.names(role):
            launch = self._launches.get(name)
            if (
                launch is not None
                and launch.running is not None
                and launch.process.state is not ProcessState.DEAD
            ):
                found.append((launch.process, launch.running.role))
        return found

    def process(self, name: str) -> SimProcess:
        """Return the process of this name as it was started last. Raises KeyError if it never was."""
        return self._launches[name].process

    async def start(self) -> None:
        """Start every process at once, as an orchestrator would, and return when all are ready."""
        for name in self.members:
            self.launch(name)
        for name in self.members:
            await self._launches[name].is_ready.wait()

    def launch(self, name: str) -> None:
        """Start the process, unless it is alive. One that is just stopping is started again when it has
        ended."""
        # One that is just stopping is started again when it has ended.
        self._wanted[name] = True
        launch = self._launches.get(name)
        if launch is not None and launch.process.state is not ProcessState.DEAD:
            return
        process = self._world.new_process(name)
        process.contracts = self.contracts.get(name)
        launch = self._launches[name] = _Launch(process)
        self._world.trace("launch", name, process.incarnation)
        process.spawn(self._run(self.members[name], launch), "main")

    async def wait_ready(self, name: str) -> None:
        """Wait until the process is ready. If it ends before, or is started once more, wait for the next
        start to be ready."""
        while True:
            launch = self._launches[name]
            await _first(launch.is_ready, launch.ended)
            if self._launches[name] is launch and launch.is_ready.is_set():
                return
            if self._launches[name] is launch:
                await asyncio.sleep(START_AGAIN_S / 10)

    def kill(self, name: str) -> None:
        """Kill the process as SIGKILL does; `launch` starts it again."""
        launch = self._launches[name]
        self._wanted[name] = False
        if launch.process.state is not ProcessState.DEAD:
            self._world.trace("kill", name, launch.process.incarnation)
            self._world.effects[Effect.KILLED] += 1
            launch.process.end()
            self._world.keep_for_ever(launch)
            launch.ended.set()

    def pause(self, name: str) -> None:
        self._world.trace("pause", name)
        process = self._launches[name].process
        if process.state is ProcessState.RUNNING:
            self._world.effects[Effect.PAUSED] += 1
        process.pause()

    def resume(self, name: str) -> None:
        self._world.trace("resume", name)
        self._launches[name].process.resume()

    async def terminate(self, name: str, timeout_s: float = 2 * DRAIN_TIMEOUT_S) -> None:
        """Stop the process as SIGTERM does: it drains and ends, and is killed if that takes longer than `timeout_s`."""
        launch = self._launches[name]
        self._wanted[name] = False
        self._world.trace("terminate", name)
        launch.stop_requested.set()
        try:
            async with asyncio.timeout(timeout_s):
                await launch.ended.wait()
            self._world.effects[Effect.DRAINED] += 1
        except TimeoutError:
            if self._launches[name] is launch:
                self.kill(name)

    async def _run(self, member: Member, launch: _Launch) -> None:
        program = _PROGRAMS[member.role]
        settings = Settings(_read(program, self._environment(member)))
        try:
            async with program.open(settings) as running:
                launch.running = running
                launch.is_ready.set()
                self._world.trace("ready", member.name, launch.process.incarnation)
                failed = asyncio.create_task(running.failure())
                stopped = asyncio.create_task(launch.stop_requested.wait())
                try:
                    await asyncio.wait((stopped, failed), return_when=asyncio.FIRST_COMPLETED)
                    if failed.done() and not stopped.done():
                        raise failed.result()
                finally:
                    stopped.cancel()
                    failed.cancel()
                await running.drain(DRAIN_TIMEOUT_S)
        except OncelogError as error:
            self._world.trace("gave-up", member.name, str(error))
        self._ended(member, launch)

    def _ended(self, member: Member, launch: _Launch) -> None:
        """Close what the process left open, as the kernel does when its main returns."""
        self._world.trace("ended", member.name, launch.process.incarnation)
        # What follows is done by the world: this very task belongs to the process that ends.
        self._world.loop.call_soon(self._bury, member, launch, context=self._world.own_context)

    def _bury(self, member: Member, launch: _Launch) -> None:
        if launch.process.state is ProcessState.DEAD:
            return
        launch.process.end()
        self._world.keep_for_ever(launch)
        launch.ended.set()
        if self._wanted[member.name] and self._launches[member.name] is launch:
            self.restarts_by_itself += 1
            self._world.loop.call_later(START_AGAIN_S, self._start_again, member.name, launch)

    def _start_again(self, name: str, launch: _Launch) -> None:
        if self._wanted[name] and self._launches[name] is launch:
            self.launch(name)

    def _environment(self, member: Member) -> dict[str, str]:
        address = self._address_of(member.name)
        controllers = ",".join(
            f"{self._address_of(one)}:{RPC_PORT}" for one in self.names("controller")
        )
        environment = {
            "ONCELOG_NODE_NODE_ID": str(member.node_id),
            "ONCELOG_NODE_HOST": address,
            "ONCELOG_NODE_PORT": str(RPC_PORT),
            "ONCELOG_NODE_CONTROLLERS": controllers,
        }
        if member.role == "listener":
            environment |= {
                "ONCELOG_LISTENER_HOST": address,
                "ONCELOG_LISTENER_PORT": str(KAFKA_PORT),
            }
        return environment | dict(self._settings_of(member))


def _member(name: str) -> Member:
    role, _, number = name.rpartition("-")
    return Member(name, role, _FIRST_NODE_ID[role] + int(number) - 1)


def _read(
    program: Program, environment: Mapping[str, str]
) -> dict[type[BaseSettings], BaseSettings]:
    """Return the settings that the process would read from this environment."""
    found: dict[type[BaseSettings], BaseSettings] = {}
    for kind in program.settings:
        prefix = str(kind.model_config.get("env_prefix", ""))
        values = {
            name: environment[prefix + name.upper()]
            for name in kind.model_fields
            if prefix + name.upper() in environment
        }
        found[kind] = kind(**values)  # type: ignore[arg-type]
    return found


async def _first(*events: asyncio.Event) -> None:
    tasks = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
