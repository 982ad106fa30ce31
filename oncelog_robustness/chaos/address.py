"""A target for any Kafka, given by its address: only our own clients are broken, and what they saw is judged."""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.contract import OnProgress
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.plan import DECKS, REPLICAS, name_of
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.clients.login import confluent_settings
from oncelog_robustness.fault_plan import FaultKind, PlannedFault
from oncelog_robustness.observations import Observations
from oncelog_server.cli.client_config import read_client_config

ANSWER_TIMEOUT_S: Final = 10.0


class ClientInjector:
    """A fault injector for a foreign cluster: it can kill our own clients, and nothing else."""

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
        """Do nothing: a killed client stays dead, and the workload starts its successor."""

    async def heal(self) -> None:
        """Do nothing: this injector has broken nothing that lasts."""

    async def look_for_dead(self) -> None:
        """Do nothing: the processes of a foreign cluster are not ours to restart."""

    def close(self) -> None:
        """Do nothing: this injector holds no resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AddressTarget:
    """A target of chaos that is any Kafka cluster, which runs already and is reached at its bootstrap
    address."""

    decks = DECKS
    limits: Sequence[str] = ()

    def __init__(self, bootstrap: str, client_config: str = "") -> None:
        self.client_config = client_config
        self.name = f"Kafka at {bootstrap}"
        self.roles = (CLIENTS,)
        self._bootstrap = bootstrap
        self._brokers = 1

    def start(self, on_progress: OnProgress) -> None:
        """Check that a Kafka broker answers at the address, and count the brokers. Raises OncelogError, in
        one line, if none does."""
        on_progress(self._bootstrap, "starting")
        for address in self._bootstrap.split(","):
            self._refuse_bad(address.strip())
        login = read_client_config(self.client_config).login
        settings = confluent_settings(login)
        admin = AdminClient({**settings, "bootstrap.servers": self._bootstrap, "log_level": 0})
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

    def injector(self, kill_client: Callable[[float], str]) -> ClientInjector:
        return ClientInjector(kill_client)

    def observe(self, at_ms: int) -> Observations:
        """Return no observations: the inside of a foreign cluster is not seen."""
        return Observations(is_healed=True)

    def verdicts(self) -> Sequence[Verdict]:
        """Return no verdicts: the inside of a foreign cluster is not seen."""
        return ()

    def close(self) -> None:
        """Do nothing: the run did not start this cluster and does not stop it."""
