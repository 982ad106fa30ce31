"""A cluster of our own processes, in a folder, as a target of chaos."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from oncelog_robustness.chaos.contract import OnProgress
from oncelog_robustness.chaos.evidence import Evidence
from oncelog_robustness.chaos.injector import Clocks, ProcessInjector, find_faketime
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.network import PROXY_LOG, ClusterNetwork, ProxyProcess
from oncelog_robustness.chaos.plan import DECKS, REPLICAS
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.observations import Observations
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import POSTGRES, REDIS, ROLES, ClusterShape
from oncelog_server.cluster.state_file import ClusterState

SETTLE_TIMEOUT_S: Final = 60.0


class ClusterTarget:
    """A target of chaos that is a cluster of local processes. Every connection of theirs goes through our
    proxy."""

    decks = DECKS
    limits: Sequence[str] = ()

    def __init__(
        self,
        folder: Path,
        shape: ClusterShape,
        environment: Mapping[str, str],
        *,
        is_secure: bool = False,
    ) -> None:
        self.name = f"oncelog, a {'secured ' if is_secure else ''}cluster of processes"
        self._is_secure = is_secure
        self.roles = (*(role.role for role in ROLES), POSTGRES, REDIS, CLIENTS)
        self._folder = folder / "cluster"
        self._shape = shape
        self._environment = environment
        self._stack = ExitStack()

    def start(self, on_progress: OnProgress) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.proxy = ProxyProcess(self._folder / PROXY_LOG)
        self._stack.callback(self.proxy.close)
        self.network = ClusterNetwork(self._folder, self.proxy)
        library = find_faketime()
        self._clocks = Clocks(self._folder / "clocks", library) if library else None
        self.cluster = Cluster(
            self._folder,
            self._shape,
            is_secure=self._is_secure,
            environment=self._environment,
            on_progress=on_progress,
            on_plan=self._take_in,
        )
        self._stack.enter_context(self.cluster)

    def _take_in(self, state: ClusterState) -> None:
        self.network.take_in(state)
        if self._clocks is not None:
            for member in state.members:
                own = state.environments.setdefault(member.name, {})
                own.update(self._clocks.environment(member.name))

    @property
    def bootstrap(self) -> str:
        return self.network.bootstrap

    @property
    def client_config(self) -> str:
        security = self.cluster.security
        return "" if security is None else str(security.client_properties)

    @property
    def replicas(self) -> int:
        return min(REPLICAS, self._shape.storage)

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, Sequence[str]] = {
            role.role: [one.name for one in self.cluster.of_role(role)] for role in ROLES
        }
        return {**found, POSTGRES: [POSTGRES], REDIS: [REDIS], CLIENTS: [CLIENTS]}

    def injector(self, kill_client: Callable[[float], str]) -> ProcessInjector:
        return ProcessInjector(self.cluster, self.proxy, self._clocks, kill_client)

    def observe(self, at_ms: int) -> Observations:
        """Give the cluster time to end what is open, then stop it in order. Return what the files of its
        nodes hold."""
        evidence = Evidence.of(self.cluster)
        evidence.wait_settled(SETTLE_TIMEOUT_S)
        blocks = evidence.blocks()
        self.close()
        return evidence.read(at_ms, blocks)

    def verdicts(self) -> Sequence[Verdict]:
        """Return no verdicts: the checkers judge the files of this cluster instead."""
        return ()

    def close(self) -> None:
        self._stack.close()
