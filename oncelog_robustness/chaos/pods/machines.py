"""Takes machines of a Kubernetes cluster away, through its API: one is drained, or lost with all its pods."""

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_robustness.chaos.plan import name_of
from oncelog_robustness.chaos.pods.state import Pod
from oncelog_robustness.fault_plan import FaultKind, PlannedFault

if TYPE_CHECKING:
    from oncelog_robustness.chaos.pods.api import Kubernetes

EVICT_S: Final = 120.0
RETRY_S: Final = 0.5


class Machines:
    """The machines on which the release had pods when the run began, which faults drain or empty. A plan
    calls them `machines-1`, `machines-2`, in the order of their names."""

    def __init__(
        self, kubernetes: "Kubernetes", names: Sequence[str], roles: Sequence[str]
    ) -> None:
        self._kubernetes = kubernetes
        self._names = list(names)
        self._roles = frozenset(roles)
        self._away: dict[str, str] = {}
        self._lock = threading.Lock()

    def strike(self, fault: PlannedFault) -> str:
        """Cordon the fault's machine, then drain it or delete its pods at once. Return what was done, for the
        report."""
        machine = self._names[int(fault.target.rpartition("-")[2]) - 1]
        if self._kubernetes.is_cordoned(machine):
            raise OncelogError(f"{machine} is cordoned already, by somebody else")
        with self._lock:
            self._away[name_of(fault)] = machine
        self._kubernetes.cordon(machine, is_on=True)
        pods = self._on(machine)
        if fault.kind is FaultKind.MACHINE_LOST:
            for pod in pods:
                self._kubernetes.delete(pod, 0)
            return f"{machine} with {counted(len(pods), 'pod')}"
        began = time.monotonic()
        for pod in pods:
            self._evict(pod)
        return f"{machine}, {counted(len(pods), 'pod')} evicted in {time.monotonic() - began:.1f} s"

    def _on(self, machine: str) -> list[Pod]:
        """Return the pods on the machine that belong to the release's roles; those of Jobs and tests do not."""
        return [
            one
            for one in self._kubernetes.pods()
            if one.machine == machine and one.role in self._roles and not one.is_leaving
        ]

    def _evict(self, pod: Pod) -> None:
        """Evict the pod. Its PodDisruptionBudget may forbid that until the pod that was evicted before is
        back, so try again for two minutes. Raises OncelogError after that."""
        deadline = time.monotonic() + EVICT_S
        while not self._kubernetes.evict(pod):
            if time.monotonic() > deadline:
                raise OncelogError(
                    f"{pod.name} could not be evicted within {EVICT_S:.0f} s: its PodDisruptionBudget holds it"
                )
            time.sleep(RETRY_S)

    def take_back(self, fault: PlannedFault) -> None:
        with self._lock:
            machine = self._away.pop(name_of(fault), "")
        if machine:
            self._kubernetes.cordon(machine, is_on=False)

    def take_back_all(self) -> None:
        """Make all machines schedulable again, also when a run is given up in the middle."""
        with self._lock:
            away, self._away = list(self._away.values()), {}
        for machine in away:
            self._kubernetes.cordon(machine, is_on=False)
