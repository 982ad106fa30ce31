"""The driver of pods in any Kubernetes, chosen by a label: they are deleted at once, or with their own grace."""

import time
from collections.abc import Callable
from typing import Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.pods.api import Kubernetes
from oncelog_robustness.chaos.pods.state import Pod
from oncelog_robustness.fault_plan import FaultKind
from oncelog_robustness.verify.faults import BROKER

READY_TIMEOUT_S: Final = 180.0
LOOK_S: Final = 1.0


class PodDriver:
    """Makes faults in pods: it deletes them. It looks for the pods anew at each fault, because a deleted pod comes
    back, perhaps with another name."""

    role = BROKER
    deck: Final = {FaultKind.KILL: 3, FaultKind.RESTART: 1}

    def __init__(
        self, pods: Callable[[], list[Pod]], delete: Callable[[Pod, int | None], None]
    ) -> None:
        self._pods = pods
        self._delete = delete
        found = pods()
        if not found:
            raise OncelogError("--pods: no pod has this label; give --namespace, or another label")
        self._count = sum(one.is_ready for one in found)
        if not self._count:
            raise OncelogError(f"--pods: none of {len(found)} pods is ready")
        self.names = [str(number) for number in range(len(found))]

    @classmethod
    def of_label(cls, label: str, namespace: str, context: str) -> "PodDriver":
        """Return a driver of the pods with this label. Raises OncelogError when there is no Kubernetes."""
        kubernetes = Kubernetes(namespace, "", context)
        return cls(lambda: kubernetes.pods(label), kubernetes.delete)

    def begin(self, kind: FaultKind, name: str) -> str:
        alive = sorted(
            (one for one in self._pods() if not one.is_leaving), key=lambda one: one.name
        )
        if not alive:
            raise OncelogError("no pod is there")
        chosen = alive[int(name) % len(alive)]
        self._delete(chosen, 0 if kind is FaultKind.KILL else None)
        return f"deleted {chosen.name}{' at once' if kind is FaultKind.KILL else ''}"

    def end(self, kind: FaultKind, name: str) -> None:
        """Wait until as many pods are ready as at the beginning of the run. Raises OncelogError when that takes too
        long."""
        deadline = time.monotonic() + READY_TIMEOUT_S
        while sum(one.is_ready and not one.is_leaving for one in self._pods()) < self._count:
            if time.monotonic() > deadline:
                raise OncelogError(
                    f"{self._count} pods were ready, and are not again after {READY_TIMEOUT_S:.0f} s"
                )
            time.sleep(LOOK_S)
