"""What chaos runs against: a cluster of its own in a folder, or any Kafka given by its address."""

import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Protocol, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from oncelog.errors import OncelogError
from oncelog_server.cluster.cluster import Cluster, Progress
from oncelog_server.cluster.databases import POSTGRES, REDIS
from oncelog_server.cluster.plan import ROLES, ClusterShape
from oncelog_server.cluster.state_file import ClusterState
from robustness.chaos.evidence import Evidence
from robustness.chaos.hands import Clocks, ProcessHands, find_faketime, name_of
from robustness.chaos.links import CLIENTS
from robustness.chaos.network import PROXY_LOG, ClusterNetwork, ProxyProcess
from robustness.nemesis import FaultKind, PlannedFault
from robustness.observations import Observations

ANSWER_TIMEOUT_S: Final = 10.0
REPLICAS: Final = 3
SETTLE_TIMEOUT_S: Final = 60.0


class ChaosHands(Protocol):
    """What the runner needs of hands, beyond `Hands`."""

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

    @property
    def roles(self) -> Sequence[str]:
        """Known before it starts."""
        ...

    def start(self, on_progress: Progress) -> None: ...

    @property
    def bootstrap(self) -> str: ...

    @property
    def replicas(self) -> int: ...

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        """Whom faults may strike, by role."""
        ...

    def hands(self, kill_client: Callable[[float], str]) -> ChaosHands: ...

    def observe(self, at_ms: int) -> Observations:
        """What can be seen inside after all is done; whatever has to end for it ends."""
        ...

    def close(self) -> None: ...


class ClusterTarget:
    """Everything behind our proxy."""

    def __init__(self, folder: Path, shape: ClusterShape, environment: Mapping[str, str]) -> None:
        self.name = "oncelog, a cluster of processes"
        self.roles = (*(role.role for role in ROLES), POSTGRES, REDIS, CLIENTS)
        self._folder = folder / "cluster"
        self._shape = shape
        self._environment = environment
        self._stack = ExitStack()

    def start(self, on_progress: Progress) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self.proxy = ProxyProcess(self._folder / PROXY_LOG)
        self._stack.callback(self.proxy.close)
        self.network = ClusterNetwork(self._folder, self.proxy)
        library = find_faketime()
        self._clocks = Clocks(self._folder / "clocks", library) if library else None
        self.cluster = Cluster(
            self._folder,
            self._shape,
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
    def replicas(self) -> int:
        return min(REPLICAS, self._shape.storage)

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        found: dict[str, Sequence[str]] = {
            role.role: [one.name for one in self.cluster.of_role(role)] for role in ROLES
        }
        return {**found, POSTGRES: [POSTGRES], REDIS: [REDIS], CLIENTS: [CLIENTS]}

    def hands(self, kill_client: Callable[[float], str]) -> ProcessHands:
        return ProcessHands(self.cluster, self.proxy, self._clocks, kill_client)

    def observe(self, at_ms: int) -> Observations:
        """Gives it time to end what is open, then ends it in order: its files say what is committed."""
        evidence = Evidence.of(self.cluster)
        evidence.wait_settled(SETTLE_TIMEOUT_S)
        blocks = evidence.blocks()
        self.close()
        return evidence.read(at_ms, blocks)

    def close(self) -> None:
        self._stack.close()


class ClientHands:
    """All that can be broken of somebody else's cluster: our own clients."""

    def __init__(self, kill_client: Callable[[float], str]) -> None:
        self._kill_client = kill_client
        self.findings: list[str] = []
        self.facts: dict[str, str] = {}
        self.missed: set[str] = set()

    def can(self, kind: FaultKind) -> bool:
        return kind is FaultKind.CLIENT_KILL

    async def begin(self, fault: PlannedFault) -> None:
        if not self._kill_client(fault.strength):
            self.missed.add(name_of(fault))

    async def end(self, fault: PlannedFault) -> None:
        """The dead stay dead; their successors come by themselves."""

    async def heal(self) -> None:
        """Nothing was broken."""

    async def look_for_dead(self) -> None:
        """Not ours to look after."""

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AddressTarget:
    """Any Kafka."""

    def __init__(self, bootstrap: str) -> None:
        self.name = f"Kafka at {bootstrap}"
        self.roles = (CLIENTS,)
        self._bootstrap = bootstrap
        self._brokers = 1

    def start(self, on_progress: Progress) -> None:
        """Raises OncelogError, in one line, when nobody answers there as Kafka does."""
        on_progress(self._bootstrap, "starting")
        for address in self._bootstrap.split(","):
            self._refuse_bad(address.strip())
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        try:
            self._brokers = len(admin.list_topics(timeout=ANSWER_TIMEOUT_S).brokers)
        except KafkaException as error:
            raise OncelogError(
                f"{self._bootstrap} does not answer as a Kafka broker: {error.args[0].str()}"
            ) from error
        on_progress(self._bootstrap, "ready")

    def _refuse_bad(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise OncelogError(f"--bootstrap {address!r} is no host:port")
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            raise OncelogError(f"nobody listens at {address}: {error}") from error

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def replicas(self) -> int:
        return min(REPLICAS, self._brokers)

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        return {CLIENTS: [CLIENTS]}

    def hands(self, kill_client: Callable[[float], str]) -> ClientHands:
        return ClientHands(kill_client)

    def observe(self, at_ms: int) -> Observations:
        """Nothing: it is not ours."""
        return Observations(is_healed=True)

    def close(self) -> None:
        """It is not ours."""
