"""The contract between the runner of chaos, a target and its fault injector. A target is the cluster that is
struck; its injector carries out faults there."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.fault_plan import FaultKind, PlannedFault
from oncelog_robustness.observations import Observations

OnProgress = Callable[[str, str], None]
"""A callback with the name of what is starting or stopping, and the state that it is in."""


class ChaosInjector(Protocol):
    """A fault injector as the runner of chaos needs it. `findings` are failures that no fault explains, such as a
    process that did not come back. `facts` says, by the name of a fault, what it did. `missed` names the faults that
    broke nothing."""

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
    """The target's name in a report."""
    limits: Sequence[str]
    """The things that cannot be done or seen at this target, a sentence each.
    The list is complete once the target has started."""

    @property
    def roles(self) -> Sequence[str]:
        """Return the roles of the target; they are known before it starts."""
        ...

    @property
    def decks(self) -> Mapping[str, Mapping[FaultKind, int]]:
        """Return, for each role, how many cards of each kind of fault its deck has. A plan deals faults from
        the shuffled deck, so these are weights."""
        ...

    def start(self, on_progress: OnProgress) -> None: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def client_config(self) -> str:
        """Return the path of the `client.properties` with which clients log in; empty when they need no login."""
        ...

    @property
    def replicas(self) -> int: ...

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        """Return, for each role, the names of the processes that faults may strike."""
        ...

    def injector(self, kill_client: Callable[[float], str]) -> ChaosInjector: ...

    def observe(self, at_ms: int) -> Observations:
        """Return what can be seen inside the cluster after the run. If that can be read only from a stopped cluster,
        stop it. `at_ms` is the time of the run, in milliseconds, at which this is seen."""
        ...

    def verdicts(self) -> Sequence[Verdict]:
        """Return the verdicts on what is seen of the cluster from outside alone; called after `observe`."""
        ...

    def close(self) -> None: ...
