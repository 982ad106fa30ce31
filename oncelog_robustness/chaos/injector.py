"""Faults on real processes: signals, resource limits, a fake clock, and the network between them.

These kinds mean something else here than their names say:

- A partition is longer than TCP retransmits: when it ends, connections on which bytes waited break. CLOG is a
  partition that breaks no connection: the bytes that waited arrive, all at once.
- DISK_FULL is a limit on the size of files (RLIMIT_FSIZE of the running process). A write that would make a file
  longer than the limit is refused or cut short, with EFBIG where a full disk returns ENOSPC. It needs no root.
- CLOCK_SKEW needs libfaketime; the wall clock of one process is wrong, its monotonic clock is not.
- POWER_CUT, SLOW_DISK and BIT_FLIP are the simulator's, because a killed process leaves its writes to the system. So
  are CLOCK_JUMP, and what operators do (MOVE, OPERATE).
"""

import asyncio
import contextlib
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

import psutil

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_robustness.chaos.links import ANYBODY, CLIENTS, AfterHold, Effect, Rule, both_ways
from oncelog_robustness.chaos.network import ProxyProcess
from oncelog_robustness.chaos.plan import name_of, role_of
from oncelog_robustness.fault_plan import NETWORK, OF_MACHINES, FaultKind, PlannedFault
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import POSTGRES, REDIS

START_TIMEOUT_S: Final = 60.0
HEAL_TIMEOUT_S: Final = 120.0
DISK_LIMIT_BYTES_MAX: Final = 1024 * 1024
DELAY_MS: Final = (20, 300)
SKEW_S_MAX: Final = 600
_RETRY_S: Final = 0.5
_FAKETIME: Final = ("/usr/lib", "/usr/local/lib", "/usr/lib64")

ResultT = TypeVar("ResultT")

OF_THE_SIMULATOR: Final = frozenset(
    (
        FaultKind.POWER_CUT,
        FaultKind.SLOW_DISK,
        FaultKind.BIT_FLIP,
        FaultKind.CLOCK_JUMP,
        FaultKind.MOVE,
        FaultKind.OPERATE,
    )
)


def find_faketime() -> Path | None:
    """Return the path of libfaketime's library, or None if this machine does not have it."""
    for folder in _FAKETIME:
        for found in sorted(Path(folder).glob("**/faketime/libfaketime.so.1")):
            return found
    return None


class Clocks:
    """The false clocks of processes: for each, a file from which libfaketime reads its time."""

    def __init__(self, folder: Path, library: Path) -> None:
        self._folder = folder
        self._library = library
        folder.mkdir(parents=True, exist_ok=True)

    def environment(self, name: str) -> dict[str, str]:
        """Return the environment variables that put the process under its own clock, which is right until it is set."""
        self.set(name, 0)
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._folder / name),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DISABLE_SHM": "1",
        }

    def set(self, name: str, seconds: int) -> None:
        partial = self._folder / f".{name}"
        partial.write_text(f"{seconds:+d}\n")
        partial.replace(self._folder / name)


class ProcessInjector:
    """Begins and ends planned faults on the processes of a local cluster, whose connections all go through a
    proxy. Faults of different targets may overlap; those of one target may not."""

    def __init__(
        self,
        cluster: Cluster,
        proxy: ProxyProcess,
        clocks: Clocks | None,
        kill_client: Callable[[float], str],
    ) -> None:
        """Make an injector. `clocks` is None where no clock can be set wrong. `kill_client` kills one of the running
        clients, chosen by a number from 0 to 1, and returns its name."""
        self._cluster = cluster
        self._proxy = proxy
        self._clocks = clocks
        self._kill_client = kill_client
        self._threads = ThreadPoolExecutor(16, thread_name_prefix="injector")
        self._is_closing = False
        self._under_way: dict[str, PlannedFault] = {}
        self.findings: list[str] = []
        """Failures that no fault excuses: a process that did not come back, or that ended by itself."""
        self.facts: dict[str, str] = {}
        """Facts about what was done, by the name of the fault, where its plan does not say so."""
        self.missed: set[str] = set()
        """Names of faults that broke nothing and do not count as hits."""

    def can(self, kind: FaultKind) -> bool:
        if kind is FaultKind.CLOCK_SKEW:
            return self._clocks is not None
        if kind is FaultKind.REDIS_OUTAGE:
            return self._cluster.process(REDIS) is not None
        return kind not in OF_THE_SIMULATOR and kind not in OF_MACHINES

    async def begin(self, fault: PlannedFault) -> None:
        self._under_way[name_of(fault)] = fault
        work = self._begin_network if fault.kind in NETWORK else self._begin_process
        try:
            await self._call(work, fault)
        except OncelogError as error:
            # Most likely an earlier fault's victim has not come back; what comes next may still be seen.
            self.findings.append(f"{name_of(fault)} could not be carried out: {error}")
            self.missed.add(name_of(fault))

    async def end(self, fault: PlannedFault) -> None:
        try:
            if fault.kind in NETWORK:
                await self._call(self._proxy.lift, name_of(fault))
            else:
                await self._call(self._end_process, fault)
        finally:
            self._under_way.pop(name_of(fault), None)

    async def heal(self) -> None:
        for fault in list(self._under_way.values()):
            await self.end(fault)
        await self._call(self._revive)

    async def look_for_dead(self) -> None:
        """Report each process that ended although no fault was given to it, and start it again."""
        await self._call(self._report_dead)

    def close(self) -> None:
        """Start no process from now on, also when a run is given up in the middle of its faults."""
        self._is_closing = True
        self._threads.shutdown(cancel_futures=True)

    async def _call(self, work: Callable[..., ResultT], *arguments: object) -> ResultT:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(*arguments))

    # ------------------------------------------------------------------------------------------------- network

    def _begin_network(self, fault: PlannedFault) -> None:
        if fault.kind is FaultKind.RESET:
            broken = self._proxy.reset(fault.target)
            self.facts[name_of(fault)] = counted(broken, "connection")
            if not broken:
                self.missed.add(name_of(fault))
        else:
            self._proxy.put(name_of(fault), network_rules(fault))

    # ------------------------------------------------------------------------------------------------- processes

    def _begin_process(self, fault: PlannedFault) -> None:
        cluster, target = self._cluster, fault.target
        match fault.kind:
            case FaultKind.KILL:
                cluster.kill(target)
            case FaultKind.KILL_ALL:
                for name in self._of_role(target):
                    cluster.kill(name)
            case FaultKind.PAUSE:
                cluster.pause(target)
            case FaultKind.RESTART:
                self._terminate(target)
            case FaultKind.ROLLING_RESTART:
                for name in self._of_role(target):
                    self._terminate(name)
                    self._start(name)
            case FaultKind.DISK_FULL:
                self._limit_files(target, max(1, int(fault.strength * DISK_LIMIT_BYTES_MAX)))
            case FaultKind.CLOCK_SKEW:
                assert self._clocks is not None
                self._clocks.set(target, int((fault.strength * 2 - 1) * SKEW_S_MAX))
            case FaultKind.DATABASE_OUTAGE | FaultKind.REDIS_OUTAGE:
                (cluster.kill if fault.strength < 0.5 else cluster.pause)(target)
                self.facts[name_of(fault)] = "killed" if fault.strength < 0.5 else "paused"
            case FaultKind.CLIENT_KILL:
                self.facts[name_of(fault)] = killed = self._kill_client(fault.strength)
                if not killed:
                    self.missed.add(name_of(fault))

    def _end_process(self, fault: PlannedFault) -> None:
        target = fault.target
        match fault.kind:
            case FaultKind.KILL | FaultKind.RESTART:
                self._start(target)
            case FaultKind.KILL_ALL:
                self._start_all(self._of_role(target))
            case FaultKind.PAUSE:
                self._cluster.resume(target)
            case FaultKind.DISK_FULL:
                if self._cluster.state_of(target) == "dead":
                    # A node whose only disk refuses writes may end, as in Kafka.
                    self.facts[name_of(fault)] = "it ended"
                    self._start(target)
                else:
                    self._limit_files(target, resource.RLIM_INFINITY)
            case FaultKind.CLOCK_SKEW:
                assert self._clocks is not None
                self._clocks.set(target, 0)
            case FaultKind.DATABASE_OUTAGE | FaultKind.REDIS_OUTAGE:
                if self._cluster.state_of(target) == "paused":
                    self._cluster.resume(target)
                else:
                    self._start(target)

    def _of_role(self, role: str) -> Sequence[str]:
        return [one.name for one in self._cluster.members if one.role == role]

    def _terminate(self, name: str) -> None:
        began = time.monotonic()
        if not self._cluster.terminate(name):
            took_s = time.monotonic() - began
            self.findings.append(f"{name} did not end in {took_s:.0f} s of SIGTERM")

    def _start(self, name: str) -> None:
        """Start the process, again and again until it runs, as a supervisor does: another fault may have
        stopped a process that it needs."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._is_closing and self._cluster.state_of(name) in ("dead", "stopped"):
            try:
                self._cluster.start_one(name, max(1.0, deadline - time.monotonic()))
            except OncelogError as error:
                if time.monotonic() > deadline:
                    self.findings.append(f"{name} does not come back: {error}")
                    return
                time.sleep(_RETRY_S)

    def _start_all(self, names: Sequence[str]) -> None:
        """Start these processes at the same time, because one may wait for another."""
        with ThreadPoolExecutor(max(1, len(names))) as threads:
            for started in [threads.submit(self._start, name) for name in names]:
                started.result()

    def _limit_files(self, name: str, limit: int) -> None:
        process = self._cluster.process(name)
        if process is None:
            raise OncelogError(f"{name} does not run")
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(process.pid).rlimit(
                resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY)
            )

    def _report_dead(self) -> None:
        for name in [*(one.name for one in self._cluster.members), POSTGRES, REDIS]:
            if self._is_struck(name) or self._cluster.process(name) is None:
                continue
            # This is checked before and after, because a fault may begin while the state is read.
            if self._cluster.state_of(name) == "dead" and not self._is_struck(name):
                self.findings.append(f"{name} ended by itself; see {self._cluster.log_of(name)}")
                self._start(name)

    def _is_struck(self, name: str) -> bool:
        """True if a fault is under way on the role of this process."""
        return role_of(name) in {role_of(fault.target) for fault in list(self._under_way.values())}

    def _revive(self) -> None:
        everybody = [POSTGRES, REDIS, *(one.name for one in self._cluster.members)]
        for name in everybody:
            if self._cluster.state_of(name) == "paused":
                self._cluster.resume(name)
        self._start_all([name for name in everybody if self._cluster.state_of(name) == "dead"])
        try:
            self._cluster.start_dead(HEAL_TIMEOUT_S)
        except OncelogError as error:
            self.findings.append(f"the cluster does not heal: {error}")


def network_rules(fault: PlannedFault) -> tuple[Rule, ...]:
    target, other = fault.target, ANYBODY
    if fault.kind is FaultKind.PARTITION_PAIR:
        target, _, other = fault.target.partition("+")
    match fault.kind:
        case FaultKind.PARTITION | FaultKind.PARTITION_PAIR:
            return both_ways(target, other, Effect.HOLD, after=AfterHold.BREAK)
        case FaultKind.PARTITION_ONE_WAY:
            return (Rule(target, ANYBODY, Effect.HOLD, after=AfterHold.BREAK),)
        case FaultKind.CLOG:
            return both_ways(target, other, Effect.HOLD)
        case FaultKind.DELAY:
            shortest, longest = DELAY_MS
            delay_ms = shortest + int(fault.strength * (longest - shortest))
            return both_ways(target, other, Effect.DELAY, delay_ms=delay_ms)
        case FaultKind.GHOST:
            return (Rule(CLIENTS, target, Effect.HOLD, after=AfterHold.GHOST),)
        case _:
            raise ValueError(f"{fault.kind} has no rules")
