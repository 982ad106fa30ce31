"""A cluster of our own containers as a target of chaos: the run starts it, gives it faults, and removes
it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.containers.engine import Engine
from oncelog_robustness.chaos.containers.fleet import Fleet
from oncelog_robustness.chaos.containers.injector import ContainerInjector
from oncelog_robustness.chaos.containers.plan import COUNTS, MACHINE_COUNT, Images
from oncelog_robustness.chaos.contract import OnProgress
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.plan import CONTAINER_DECKS, MACHINES, REPLICAS
from oncelog_robustness.chaos.pods.gateway import settled
from oncelog_robustness.chaos.pods.network import PROBE, PROBE_DELAY
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.fault_plan import NETWORK, FaultKind
from oncelog_robustness.observations import Observations
from oncelog_server.cluster.plan import CONTROLLER, POSTGRES, REDIS, ROLES, STORAGE

SETTLE_S: Final = 90.0
_NODES: Final = sum(COUNTS.values()) - COUNTS[CONTROLLER]
"""The number of nodes that REST counts: all processes of roles but the controllers."""


class ContainerTarget:
    client_config = ""
    decks = CONTAINER_DECKS

    def __init__(
        self,
        engine: Engine,
        images: Images,
        kinds: Sequence[FaultKind],
        settings: Mapping[str, str],
    ) -> None:
        """Make a target of containers that are not started yet. `kinds`: the only faults to give; empty: all.
        `settings` are further environment variables of every process of oncelog."""
        self.name = f"oncelog, a cluster of containers of {engine.command}"
        self.roles = tuple(CONTAINER_DECKS)
        self.limits: Sequence[str] = ()
        self._only = frozenset(kinds)
        self._kinds: frozenset[FaultKind] = frozenset()
        self._fleet = Fleet(engine, images, environment=settings)

    def start(self, on_progress: OnProgress) -> None:
        self._fleet.on_progress = on_progress
        self._fleet.start()
        dealt = frozenset(kind for deck in CONTAINER_DECKS.values() for kind in deck)
        reasons: dict[FaultKind, str] = {}
        if self._only:
            reasons = dict.fromkeys(dealt - self._only, "the run has --only")
        if reason := self._refused(PROBE):
            reasons.update(dict.fromkeys(NETWORK, reason))
        elif reason := self._refused(PROBE_DELAY):
            reasons.setdefault(FaultKind.DELAY, f"no netem: {reason}")
        self._kinds = frozenset(dealt - reasons.keys())
        limits = [f"no {kind} here: {reasons[kind]}" for kind in FaultKind if kind in reasons]
        if self._only:
            limits = [f"only {', '.join(sorted(self._only))} here, as --only says"]
        files = (
            "files of nodes are not read: what is judged is what clients saw, and what REST says"
        )
        self.limits = (*limits, files)
        can = {role: set(deck) & self._kinds for role, deck in CONTAINER_DECKS.items()}
        self.roles = tuple(role for role in self.roles if can[role])

    def _refused(self, script: str) -> str:
        try:
            self._fleet.in_network_of("gateway-1", script)
        except OncelogError as error:
            return str(error)
        return ""

    @property
    def bootstrap(self) -> str:
        return self._fleet.bootstrap

    @property
    def replicas(self) -> int:
        return min(REPLICAS, COUNTS[STORAGE])

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, Sequence[str]] = {
            role.role: [one.name for one in self._fleet.of_role(role.role)] for role in ROLES
        }
        found |= {name: [name] for name in (POSTGRES, REDIS, CLIENTS)}
        found[MACHINES] = [f"{MACHINES}-{number + 1}" for number in range(MACHINE_COUNT)]
        return {role: names for role, names in found.items() if role in self.roles}

    def injector(self, kill_client: Callable[[float], str]) -> ContainerInjector:
        return ContainerInjector(self._fleet, self._kinds, kill_client)

    def observe(self, at_ms: int) -> Observations:
        """Ask the gateway, while it runs, whether the cluster has settled, and keep the answer for `verdicts`. Return
        no observations, because files of nodes are not read here."""
        self._settled = settled(self.ask_gateway, _NODES, SETTLE_S)
        return Observations(is_healed=True)

    def ask_gateway(self, path: str) -> Any:
        """Return the REST response to a GET of `path`. Raises OncelogError when the gateway does not answer."""
        return self._fleet.ask_gateway(path)

    def verdicts(self) -> Sequence[Verdict]:
        return (self._settled,)

    def close(self) -> None:
        self._fleet.stop()
