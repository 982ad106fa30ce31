"""What a suite runs against: `oncelog up`, or a cluster of processes, behind one face.

`ONCELOG_TEST_TARGET=cluster` runs the same tests against a cluster; without it, or with `embedded`, nothing changes.
`ONCELOG_TEST_SECURE=1` gives the processes of a cluster certificates; clients come as before. With
`ONCELOG_TEST_LOGIN=1` its listeners have TLS, SCRAM and ACLs as well: clients log in (`tests/conformance/logins.py`).
With `kafka` it is Apache Kafka, the judge.
With `address` it is what `ONCELOG_TEST_BOOTSTRAP` names, and tests that kill it are skipped.
The face: `bootstrap`, `gateway`, `address` (where it really listens), `start()`, `kill()`, `stop()`, context manager.
`kill` is what a power cut looks like to clients: every oncelog process gets SIGKILL, and `start` brings all back on
their data and ports. Tests that break one process of a cluster use `oncelog_server.cluster` itself.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path

import pytest

from oncelog.client.core.addresses import Address, parse_addresses
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import LISTENER, ClusterShape
from oncelog_server.cluster.security import keep_doors_plain
from oncelog_server.demo.processes import OncelogServer

VARIABLE = "ONCELOG_TEST_TARGET"
SECURE_VARIABLE = "ONCELOG_TEST_SECURE"
LOGIN_VARIABLE = "ONCELOG_TEST_LOGIN"
LOGIN_FILE_VARIABLE = "ONCELOG_TEST_LOGIN_FILE"
BOOTSTRAP_VARIABLE = "ONCELOG_TEST_BOOTSTRAP"


class TargetKind(StrEnum):
    EMBEDDED = "embedded"
    CLUSTER = "cluster"
    ADDRESS = "address"
    KAFKA = "kafka"


def target_kind() -> TargetKind:
    """Raises ValueError, with what can be chosen."""
    return TargetKind(os.environ.get(VARIABLE, TargetKind.EMBEDDED))


def open_target(
    folder: Path,
    *,
    advertised_port: int | None = None,
    environment: Mapping[str, str] | None = None,
):
    """A target that is not started yet. `advertised_port` is told to clients instead of its own: a proxy's."""
    if target_kind() is TargetKind.CLUSTER:
        return ClusterTarget(advertised_port, environment)
    if target_kind() is TargetKind.ADDRESS:
        return AddressedTarget()
    if target_kind() is TargetKind.KAFKA:
        # It needs Java and Maven: nobody else imports it.
        from tests.conformance.kafka_target import KafkaTarget

        return KafkaTarget(
            folder / "kafka", advertised_port=advertised_port, environment=environment
        )
    environment = dict(environment or {})
    if advertised_port is not None:
        environment["ONCELOG_ADVERTISED_HOST"] = "127.0.0.1"
        environment["ONCELOG_ADVERTISED_PORT"] = str(advertised_port)
    return OncelogServer(folder / "data", environment=environment)


def is_login_asked() -> bool:
    return os.environ.get(LOGIN_VARIABLE) == "1"


@contextmanager
def clients_log_in(cluster: Cluster) -> Iterator[None]:
    """To this cluster, until another one is started or this one ends: with what stands in the file that the variable
    LOGIN_FILE_VARIABLE names. Programs of other languages read it as well."""
    file = login_file()
    before = file.read_text() if file.exists() else ""
    shutil.copy(cluster.security.client_properties, file)
    try:
        yield
    finally:
        file.write_text(before)


def login_file() -> Path:
    """Of this process of tests and those that it starts."""
    if LOGIN_FILE_VARIABLE not in os.environ:
        folder = tempfile.mkdtemp(prefix="oncelog-login-")
        os.environ[LOGIN_FILE_VARIABLE] = f"{folder}/client.properties"
    return Path(os.environ[LOGIN_FILE_VARIABLE])


def asked_security() -> dict:
    """For `Cluster(...)`."""
    if is_login_asked():
        return {"is_secure": True}
    if os.environ.get(SECURE_VARIABLE) != "1":
        return {}
    return {"is_secure": True, "on_plan": keep_doors_plain}


@contextmanager
def cluster_folder() -> Iterator[Path]:
    """Not one of pytest's: under root Postgres runs as another user, and each start of pytest locks others out of its
    folders again."""
    folder = Path(tempfile.mkdtemp(prefix="oncelog-cluster-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class AddressedTarget:
    """Somebody else's: it runs, and goes on running."""

    is_running = True

    def __init__(self) -> None:
        self.bootstrap = os.environ[BOOTSTRAP_VARIABLE]

    @property
    def address(self) -> Address:
        return parse_addresses(self.bootstrap)[0]

    def start(self) -> None:
        """It is there."""

    def kill(self) -> None:
        pytest.skip("what is known by its address alone cannot be killed")

    def stop(self) -> None:
        """It is not ours."""

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class ClusterTarget:
    """A cluster with the face of `OncelogServer`; its folder goes with it."""

    def __init__(
        self,
        advertised_port: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        environment = dict(environment or {})
        shape = ClusterShape()
        if advertised_port is not None:
            environment["ONCELOG_LISTENER_ADVERTISED_HOST"] = "127.0.0.1"
            environment["ONCELOG_LISTENER_ADVERTISED_PORT"] = str(advertised_port)
            if asked_security():
                protocol = "SASL_SSL" if is_login_asked() else "PLAINTEXT"
                advertised = f"{protocol}://127.0.0.1:{advertised_port}"
                environment["ONCELOG_LISTENER_ADVERTISED_LISTENERS"] = advertised
            # One proxy stands before one listener: with a second, clients would be told one address for two brokers.
            shape = ClusterShape(listeners=1)
        self._shape = shape
        self._environment = environment
        self._stack = ExitStack()
        self._cluster: Cluster | None = None

    @property
    def cluster(self) -> Cluster:
        assert self._cluster is not None, "start() comes first"
        return self._cluster

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    @property
    def gateway(self) -> str:
        return self.cluster.gateway

    @property
    def address(self) -> Address:
        return parse_addresses(self.cluster.of_role(LISTENER)[0].address)[0]

    @property
    def is_running(self) -> bool:
        return self._cluster is not None and self._cluster.is_running

    def start(self) -> None:
        if self._cluster is not None:
            self._cluster.start_dead()
            return
        folder = self._stack.enter_context(cluster_folder())
        cluster = Cluster(folder, self._shape, environment=self._environment, **asked_security())
        self._cluster = self._stack.enter_context(cluster)
        if is_login_asked():
            self._stack.enter_context(clients_log_in(cluster))

    def kill(self) -> None:
        self.cluster.kill_all()

    def stop(self) -> None:
        self._stack.close()
        self._cluster = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
