"""Any Kafka, given by its address: only our own clients are broken, and what they saw is judged."""

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

    decks = DECKS
    limits: Sequence[str] = ()

    def __init__(self, bootstrap: str, client_config: str = "") -> None:
        self.client_config = client_config
        self.name = f"Kafka at {bootstrap}"
        self.roles = (CLIENTS,)
        self._bootstrap = bootstrap
        self._brokers = 1

    def start(self, on_progress: OnProgress) -> None:
        """Raises OncelogError, in one line, when nobody answers there as Kafka does."""
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
        """Nothing: it is not ours."""
        return Observations(is_healed=True)

    def verdicts(self) -> Sequence[Verdict]:
        """Nothing of it is seen."""
        return ()

    def close(self) -> None:
        """It is not ours."""
