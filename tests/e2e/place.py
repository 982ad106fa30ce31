"""The cluster under test, and faults for it: the injector of chaos, one fault at a time."""

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any, Protocol

from oncelog_robustness.chaos.__main__ import Place as Pods
from oncelog_robustness.chaos.containers.engine import find_engine
from oncelog_robustness.chaos.containers.plan import Images
from oncelog_robustness.chaos.containers.target import ContainerTarget
from oncelog_robustness.chaos.contract import ChaosInjector, Target
from oncelog_robustness.fault_plan import FaultKind, PlannedFault

IS_CURRENT = os.environ.get("CLUSTER", "") == "current"
NAMESPACE = os.environ.get("ONCELOG_E2E_NAMESPACE", "")
RELEASE = os.environ.get("ONCELOG_E2E_RELEASE") or "oncelog"
BOOTSTRAP = os.environ.get("ONCELOG_E2E_BOOTSTRAP", "")
TOOLS_IMAGE = os.environ.get("ONCELOG_E2E_TOOLS_IMAGE", "")


class AskedTarget(Target, Protocol):
    def ask_gateway(self, path: str) -> Any: ...


class Place:
    def __init__(self, target: AskedTarget, injector: ChaosInjector, started_s: float) -> None:
        self.started_s = started_s
        self.name = target.name
        self.members = target.members
        self.bootstrap = target.bootstrap
        self.replicas = target.replicas
        self._target = target
        self._injector = injector

    def can(self, kind: FaultKind) -> bool:
        return self._injector.can(kind)

    @contextlib.contextmanager
    def fault(self, kind: FaultKind, victim: str) -> Iterator[None]:
        """It begins, the block runs, and it ends: what was struck is back."""
        # Below one half, an outage of Postgres or Redis is a kill.
        planned = PlannedFault(at_ms=0, lasts_ms=0, kind=kind, target=victim, strength=0.1)
        asyncio.run(self._injector.begin(planned))
        try:
            yield
        finally:
            asyncio.run(self._injector.end(planned))

    def findings(self) -> list[str]:
        """Since it was last asked: who did not come back, or did not drain."""
        found = list(self._injector.findings)
        self._injector.findings.clear()
        return found

    def ask(self, path: str) -> Any:
        """What REST answers."""
        return self._target.ask_gateway(path)

    def unsettled(self) -> tuple[str, ...]:
        """What REST says is not as it is to be; asked until all is well."""
        self._target.observe(0)
        return tuple(line for one in self._target.verdicts() for line in one.proof)


def target() -> AskedTarget:
    """Raises OncelogError when there is no engine, or no Kubernetes."""
    if not IS_CURRENT:
        return ContainerTarget(find_engine(), Images.of_environment(), (), {})
    return Pods(NAMESPACE, RELEASE, "", BOOTSTRAP, TOOLS_IMAGE, on_machines=False).target()


def chaos_arguments() -> list[str]:
    """The same place for `python -m oncelog_robustness.chaos`."""
    if not IS_CURRENT:
        return ["--containers", "--only", FaultKind.KILL.value]
    given = {
        "--namespace": NAMESPACE,
        "--release": RELEASE,
        "--bootstrap": BOOTSTRAP,
        "--tools-image": TOOLS_IMAGE,
    }
    return ["--kubernetes", *(part for pair in given.items() if pair[1] for part in pair)]


@contextlib.contextmanager
def open_place() -> Iterator[Place]:
    chosen = target()
    began = time.monotonic()
    try:
        chosen.start(lambda *_: None)
        injector = chosen.injector(lambda _: "")
        try:
            yield Place(chosen, injector, time.monotonic() - began)
        finally:
            injector.close()
    finally:
        chosen.close()
