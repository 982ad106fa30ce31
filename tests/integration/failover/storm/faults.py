"""A seeded plan of faults against every role of a cluster, and the one who carries it out."""

import contextlib
import random
import time
from typing import NamedTuple

from tests.integration.failover.storm.ledger import Ledger

from oncelog.errors import OncelogError
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import POSTGRES, REDIS

KILL, FREEZE, RESTART = "kill", "freeze", "restart"
EVERYTHING = "every process"
KILLED_S_MAX, BETWEEN_S_MAX = 4.0, 2.0
HEAL_TIMEOUT_S = 90.0


class Fault(NamedTuple):
    kind: str
    name: str
    lasts_s: float


class Storm:
    """Step after step: what happens together, then its end."""

    def __init__(self, cluster: Cluster, ledger: Ledger, seed: int, frozen_s_max: float) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._random = random.Random(f"storm {seed}")
        self._frozen_s_max = frozen_s_max
        self._names = [one.name for one in cluster.members if one.role != "gateway"]
        self.log: list[str] = []
        self.recoveries: list[tuple[str, float, float]] = []
        """The step, when it began, when it was undone."""
        self.findings: list[str] = []

    def step(self) -> list[Fault]:
        dice = self._random.random()
        if dice < 0.06:
            return [Fault(KILL, POSTGRES, self._random.uniform(0.5, 8.0))]
        if dice < 0.09 and self._cluster.process(REDIS) is not None:
            return [Fault(KILL, REDIS, self._random.uniform(0.5, 3.0))]
        if dice < 0.13:
            # A SIGKILL leaves to the system what was written, so even this may lose nothing.
            return [Fault(KILL, EVERYTHING, 0.5)]
        count = self._random.choice([1, 1, 2, 2, 3])
        chosen = self._random.sample(self._names, count)
        storage = [name for name in chosen if name.startswith("storage")]
        return [self._one(name) for name in chosen if name not in storage[1:]]

    def _one(self, name: str) -> Fault:
        kind = self._random.choice([KILL, KILL, FREEZE, FREEZE, RESTART])
        longest = self._frozen_s_max if kind == FREEZE else KILLED_S_MAX
        return Fault(kind, name, self._random.uniform(0.3 if kind == KILL else 1.0, longest))

    def run(self, until: float) -> None:
        while time.monotonic() < until:
            self._carry_out(self.step())
            time.sleep(self._random.uniform(0.2, BETWEEN_S_MAX))

    def _carry_out(self, faults: list[Fault]) -> None:
        self._look_for_dead()
        began = time.monotonic()
        self.log.append(" + ".join(f"{one.kind} {one.name} {one.lasts_s:.1f}s" for one in faults))
        idle = self._ledger.idle_s()
        print(time.strftime("%H:%M:%S"), self.log[-1], "idle:", idle, flush=True)
        for one in faults:
            if one.name == EVERYTHING:
                self._cluster.kill_all()
            elif one.kind == KILL:
                self._cluster.kill(one.name)
            elif one.kind == FREEZE:
                self._cluster.pause(one.name)
        for one in sorted(faults, key=lambda fault: fault.lasts_s):
            if one.kind != RESTART:
                time.sleep(max(0.0, began + one.lasts_s - time.monotonic()))
            self._undo(one)
        self.recoveries.append((self.log[-1], began, time.monotonic()))

    def _undo(self, fault: Fault) -> None:
        if fault.kind == FREEZE:
            self._cluster.resume(fault.name)
            return
        try:
            if fault.name == EVERYTHING:
                self._cluster.start_dead(HEAL_TIMEOUT_S)
                return
            if fault.kind == RESTART:
                began = time.monotonic()
                if not self._cluster.terminate(fault.name):
                    took = time.monotonic() - began
                    self.findings.append(f"{fault.name} did not end in {took:.0f} s of SIGTERM")
            self._cluster.start_one(fault.name, HEAL_TIMEOUT_S)
        except OncelogError as error:
            self.findings.append(f"{fault}: {error}")

    def _look_for_dead(self) -> None:
        """Report each process that ended although no fault killed it."""
        for name in [*self._names, POSTGRES]:
            if self._cluster.state_of(name) in ("dead", "stopped"):
                log = self._cluster.log_of(name)
                self.findings.append(f"{name} ended by itself: {log}")
                with contextlib.suppress(OncelogError):
                    self._cluster.start_one(name)

    def heal(self) -> None:
        for name in [*self._names, POSTGRES]:
            if self._cluster.state_of(name) == "paused":
                self._cluster.resume(name)
        self._look_for_dead()
        self._cluster.start_dead(HEAL_TIMEOUT_S)

    def told(self) -> list[str]:
        """For each step how long it took from its first fault until a transaction begun after it was committed."""
        lines = []
        for step, began, undone in self.recoveries:
            first = self._ledger.first_commit_begun_after(began)
            if first is not None:
                lines.append(
                    f"{first.ended_at - began:5.2f} s to the next commit, {undone - began:5.1f} s away: {step}"
                )
        return lines
