"""The faults of brokers in a cluster that is not ours: a command, or signals to processes and containers.

A driver makes faults, such as a kill, in one of its targets: a process, a container, a pod. One thread begins and ends
every fault of a driver: brokers are struck one after the other, and a fault is never ended while it is still being
begun.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.containers.engine import Engine
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.plan import name_of
from oncelog_robustness.fault_plan import WHOLE_ROLE, FaultKind, PlannedFault

BROKER: Final = "broker"
COMMAND: Final = "command"
COMMAND_TIMEOUT_S: Final = 120.0
BACK_TIMEOUT_S: Final = 60.0
GRACE_S: Final = 60.0
"""The seconds that a process has to end after SIGTERM. SIGKILL follows then."""
LOOK_S: Final = 0.1


class Driver(Protocol):
    @property
    def role(self) -> str:
        """The word for the driver's targets in reports, such as `broker`."""
        ...

    @property
    def names(self) -> Sequence[str]:
        """The names of the processes, containers or pods that it can break, as the user gave them. A fault of all of
        them has the role as its name."""
        ...

    @property
    def deck(self) -> Mapping[FaultKind, int]:
        """The weight of each kind of fault. A plan draws faults as from a deck of cards, and this is the number of
        cards of each kind."""
        ...

    def begin(self, kind: FaultKind, name: str) -> str:
        """Begin a fault in the target of this name, and return what was done, in words. Raises OncelogError when it
        could not be done."""
        ...

    def end(self, kind: FaultKind, name: str) -> None:
        """End the fault, so that the target works again. Raises OncelogError when the target does not come back."""
        ...


class Shell:
    """Runs the user's commands in a shell. Their output goes into one file, so that programs which they leave running
    hold no pipe."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def run(self, command: str, more: Mapping[str, str] | None = None) -> None:
        """Run a command. Raises OncelogError for an exit code other than 0, and for a command that takes too long."""
        with self._log.open("ab") as output:
            output.write(f"$ {command}\n".encode())
            output.flush()
            process = subprocess.Popen(
                command,
                shell=True,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **(more or {})},
                # A Ctrl-C is for us: half a fault would stay.
                start_new_session=True,
            )
            try:
                code = process.wait(COMMAND_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise OncelogError(
                    f"{command!r} did not end within {COMMAND_TIMEOUT_S:.0f} s; see {self._log}"
                ) from error
        if code:
            raise OncelogError(f"{command!r} ended with {code}; see {self._log}")


class CommandDriver:
    """Makes faults by the user's commands: those of `--fault CMD` in turn, and `--heal CMD` to end each."""

    role = COMMAND
    deck: Final = {FaultKind.OPERATE: 1}

    def __init__(self, commands: Sequence[str], heal: str, shell: Shell) -> None:
        self.names = list(commands)
        self._heal = heal
        self._shell = shell

    def begin(self, kind: FaultKind, name: str) -> str:
        self._shell.run(name)
        return name

    def end(self, kind: FaultKind, name: str) -> None:
        if self._heal:
            self._shell.run(self._heal)


class ProcessDriver:
    """Makes faults in processes of this machine, each named by a file with its process id. They are frozen. Where they
    can be restarted they are also killed, and stopped and started one after the other (a rolling restart)."""

    role = BROKER

    def __init__(
        self, pid_files: Sequence[str], restart: str, shell: Shell, grace_s: float = GRACE_S
    ) -> None:
        """Read the process ids. Raises OncelogError for a file that names no running process."""
        self.names = list(pid_files)
        # A rolling restart strikes every process, so it comes less often.
        ends = {FaultKind.KILL: 6, FaultKind.ROLLING_RESTART: 1} if restart else {}
        self.deck = {FaultKind.PAUSE: 4, **ends}
        self._restart = restart
        self._shell = shell
        self._grace_s = grace_s
        self._heals = threading.Event()
        for name in self.names:
            pid_in(name)

    def heal(self) -> None:
        """Let a rolling restart strike no further process."""
        self._heals.set()

    def begin(self, kind: FaultKind, name: str) -> str:
        if kind is FaultKind.ROLLING_RESTART:
            # Once the run heals, those that still run are left alone.
            struck = (self._stop_and_start(one) for one in self.names if not self._heals.is_set())
            return ", ".join(struck)
        pid = pid_in(name)
        sent = signal.SIGKILL if kind is FaultKind.KILL else signal.SIGSTOP
        _send(pid, sent, name)
        if kind is FaultKind.KILL:
            _wait(lambda: not is_alive(pid), f"process {pid} of {name} did not end")
        return f"{sent.name} to {pid} of {name}"

    def end(self, kind: FaultKind, name: str) -> None:
        if kind is FaultKind.PAUSE:
            _send(pid_in(name), signal.SIGCONT, name)
        elif kind is FaultKind.ROLLING_RESTART:
            self._start_all()
        else:
            self._start(name)

    def _stop_and_start(self, name: str) -> str:
        pid = pid_in(name)
        said = f"SIGTERM to {pid} of {name}"
        _send(pid, signal.SIGTERM, name)
        if not _waited(lambda: not is_alive(pid), self._grace_s):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            said = f"{said} and SIGKILL {self._grace_s:g} s later"
            _wait(lambda: not is_alive(pid), f"process {pid} of {name} did not end")
        self._start(name)
        return said

    def _start_all(self) -> None:
        """Start the processes that a rolling restart has left stopped because it failed half-way."""
        failures = []
        for name in self.names:
            try:
                self._start(name)
            except OncelogError as error:
                failures.append(str(error))
        if failures:
            raise OncelogError("; ".join(failures))

    def _start(self, name: str) -> None:
        """Start the process of this name, if it does not run."""
        if _runs(name):
            return
        self._shell.run(self._restart, {"VERIFY_PID_FILE": name})
        _wait(lambda: _runs(name), f"{self._restart!r} brought no process of {name} back")


def pid_in(name: str) -> int:
    """Return the process id in this file. Raises OncelogError when there is none."""
    try:
        pid = int(Path(name).read_text().split()[0])
    except (OSError, ValueError, IndexError) as error:
        raise OncelogError(f"--pid-file {name} holds no process id: {error}") from error
    # 0 and -1 mean many processes to kill(2).
    if pid <= 1 or not is_alive(pid):
        raise OncelogError(f"--pid-file {name} names process {pid}, which does not run")
    return pid


def is_alive(pid: int) -> bool:
    """True if the process runs. A zombie is dead, also while its parent has not fetched its exit code."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _runs(name: str) -> bool:
    try:
        pid_in(name)
    except OncelogError:
        return False
    return True


def _send(pid: int, sent: signal.Signals, name: str) -> None:
    try:
        os.kill(pid, sent)
    except OSError as error:
        raise OncelogError(f"no {sent.name} to {pid} of {name}: {error.strerror}") from error


def _wait(is_so: Callable[[], bool], failure: str) -> None:
    if not _waited(is_so, BACK_TIMEOUT_S):
        raise OncelogError(f"{failure} within {BACK_TIMEOUT_S:.0f} s")


def _waited(is_so: Callable[[], bool], most_s: float) -> bool:
    """Wait until it is so, for this time at most. Return whether it is."""
    deadline = time.monotonic() + most_s
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(LOOK_S)
    return True


class ContainerDriver:
    """Makes faults in containers of docker or podman, which the user names."""

    role = BROKER
    deck: Final = {FaultKind.KILL: 3, FaultKind.PAUSE: 2, FaultKind.RESTART: 1}

    def __init__(self, engine: Engine, names: Sequence[str]) -> None:
        """Check the containers. Raises OncelogError for a container that does not exist."""
        self.names = list(names)
        self._engine = engine
        for name in self.names:
            if not engine.look([name]):
                raise OncelogError(f"--container {name}: {engine.command} knows no such container")

    def begin(self, kind: FaultKind, name: str) -> str:
        words = {FaultKind.KILL: "kill", FaultKind.PAUSE: "pause", FaultKind.RESTART: "stop"}
        self._engine.do(words[kind], name)
        return f"{self._engine.command} {words[kind]} {name}"

    def end(self, kind: FaultKind, name: str) -> None:
        """Start or unfreeze the container. A restart policy may have started it already, which is no error."""
        self._engine.do("unpause" if kind is FaultKind.PAUSE else "start", name)


class DriverInjector:
    """Makes the faults of a plan during a run of `oncelog verify`: on brokers by a driver (commands, pid files,
    containers or pods), if the user gave one, and kills of our own clients."""

    def __init__(self, driver: Driver | None, kill_client: Callable[[float], str]) -> None:
        self._driver = driver
        self._kill_client = kill_client
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="faults")
        self._under_way: dict[str, PlannedFault] = {}
        self.findings: list[str] = []
        self.facts: dict[str, str] = {}
        self.missed: set[str] = set()

    def can(self, kind: FaultKind) -> bool:
        return kind is FaultKind.CLIENT_KILL or (
            self._driver is not None and kind in self._driver.deck
        )

    async def begin(self, fault: PlannedFault) -> None:
        if fault.kind is FaultKind.CLIENT_KILL:
            killed = await asyncio.to_thread(self._kill_client, fault.strength)
            self.facts[name_of(fault)] = killed
            if not killed:
                self.missed.add(name_of(fault))
            return
        self._under_way[name_of(fault)] = fault
        await self._call(self._begin, fault)

    async def end(self, fault: PlannedFault) -> None:
        if self._under_way.pop(name_of(fault), None) is not None:
            await self._call(self._end, fault)

    async def heal(self) -> None:
        self._strike_no_more()
        for fault in list(self._under_way.values()):
            await self.end(fault)

    async def look_for_dead(self) -> None:
        """Do nothing: the cluster under test restarts its own processes."""

    def close(self) -> None:
        """Wait until each fault that was begun is ended, so that no broker stays frozen."""
        self._strike_no_more()
        self._thread.shutdown()

    def _strike_no_more(self) -> None:
        if isinstance(self._driver, ProcessDriver):
            self._driver.heal()

    async def _call(self, work: Callable[[PlannedFault], None], fault: PlannedFault) -> None:
        # One more Ctrl-C must not take an end out of the queue: a broker would stay frozen.
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, work, fault))

    def _begin(self, fault: PlannedFault) -> None:
        assert self._driver is not None
        try:
            done = self.facts[name_of(fault)] = self._driver.begin(fault.kind, self._name(fault))
            if not done:
                # The run healed before the first process was struck.
                self.missed.add(name_of(fault))
        except OncelogError as error:
            self.findings.append(f"{name_of(fault)} could not be begun: {error}")
            self.missed.add(name_of(fault))

    def _end(self, fault: PlannedFault) -> None:
        """End the fault, also if its begin failed, because half of it may have been done."""
        assert self._driver is not None
        try:
            self._driver.end(fault.kind, self._name(fault))
        except OncelogError as error:
            self.findings.append(f"{name_of(fault)} could not be ended: {error}")

    def _name(self, fault: PlannedFault) -> str:
        """Return the name of the fault's target, as the user gave it; plans number targets from 1. A fault of all
        targets has the role as its name."""
        assert self._driver is not None
        if fault.kind in WHOLE_ROLE:
            return fault.target
        return self._driver.names[int(fault.target.rpartition("-")[2]) - 1]


def members_of(driver: Driver | None) -> dict[str, Sequence[str]]:
    """Return, for each role, the names by which a plan may choose targets: the clients, and the driver's targets."""
    found: dict[str, Sequence[str]] = {CLIENTS: [CLIENTS]}
    if driver is not None:
        numbers = range(1, len(driver.names) + 1)
        found = {driver.role: [f"{driver.role}-{number}" for number in numbers], **found}
    return found
