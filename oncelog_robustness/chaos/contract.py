"""What the runner asks of a target and of its injector. A target is where chaos happens; its fault injector carries
faults out there.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.fault_plan import FaultKind, PlannedFault
from oncelog_robustness.observations import Observations

OnProgress = Callable[[str, str], None]
"""What is starting or stopping, and in which state it is."""


class ChaosInjector(Protocol):
    """What the runner needs of an injector, beyond `FaultInjector`."""

    findings: list[str]
    facts: dict[str, str]
    missed: set[str]

    def can(self, kind: FaultKind) -> bool: ...
    async def begin(self, fault: PlannedFault) -> None: ...
    async def end(self, fault: PlannedFault) -> None: ...
    async def heal(self) -> None: ...
    async def look_for_dead(self) -> None: ...
    def close(self) -> None: ...


class Target(Protocol):
    name: str
    """For a report."""
    limits: Sequence[str]
    """What cannot be done or seen here, a sentence each. Known when it has started."""

    @property
    def roles(self) -> Sequence[str]:
        """Known before it starts."""
        ...

    @property
    def decks(self) -> Mapping[str, Mapping[FaultKind, int]]:
        """How many cards of each kind of fault a role's deck has."""
        ...

    def start(self, on_progress: OnProgress) -> None: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def client_config(self) -> str:
        """Path of the `client.properties` with which clients log in; empty: they are plain."""
        ...

    @property
    def replicas(self) -> int: ...

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        """Whom faults may strike, by role."""
        ...

    def injector(self, kill_client: Callable[[float], str]) -> ChaosInjector: ...

    def observe(self, at_ms: int) -> Observations:
        """What can be seen inside after all is done; whatever has to end for it ends."""
        ...

    def verdicts(self) -> Sequence[Verdict]:
        """Of what is seen from outside alone, after `observe`."""
        ...

    def close(self) -> None: ...
