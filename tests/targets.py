"""What a suite runs against: `oncelog up`, or a cluster of processes, behind one face.

`ONCELOG_TEST_TARGET=cluster` runs the same tests against a cluster; without it, or with `embedded`, nothing changes.
The face: `bootstrap`, `gateway`, `address` (where it really listens), `start()`, `kill()`, `stop()`, context manager.
`kill` is what a power cut looks like to clients: every oncelog process gets SIGKILL, and `start` brings all back on
their data and ports. Tests that break one process of a cluster use `oncelog_server.cluster` itself.
"""

import os
from enum import StrEnum
from pathlib import Path

from oncelog.client.core.addresses import Address, parse_addresses
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import LISTENER, ClusterShape
from oncelog_server.demo.processes import OncelogServer

VARIABLE = "ONCELOG_TEST_TARGET"


class TargetKind(StrEnum):
    EMBEDDED = "embedded"
    CLUSTER = "cluster"


def target_kind() -> TargetKind:
    """Raises ValueError, with what can be chosen."""
    return TargetKind(os.environ.get(VARIABLE, TargetKind.EMBEDDED))


def open_target(folder: Path, *, advertised_port: int | None = None):
    """A target that is not started yet. `advertised_port` is told to clients instead of its own: a proxy's."""
    if target_kind() is TargetKind.CLUSTER:
        return ClusterTarget(folder / "cluster", advertised_port)
    environment = {}
    if advertised_port is not None:
        environment["ONCELOG_ADVERTISED_HOST"] = "127.0.0.1"
        environment["ONCELOG_ADVERTISED_PORT"] = str(advertised_port)
    return OncelogServer(folder / "data", environment=environment)


class ClusterTarget:
    """A cluster with the face of `OncelogServer`."""

    def __init__(self, folder: Path, advertised_port: int | None = None) -> None:
        environment = {}
        shape = ClusterShape()
        if advertised_port is not None:
            environment["ONCELOG_LISTENER_ADVERTISED_HOST"] = "127.0.0.1"
            environment["ONCELOG_LISTENER_ADVERTISED_PORT"] = str(advertised_port)
            # One proxy stands before one listener: with a second, clients would be told one address for two brokers.
            shape = ClusterShape(listeners=1)
        self.cluster = Cluster(folder, shape, environment=environment)
        self._is_up = False

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
        return self.cluster.is_running

    def start(self) -> None:
        if self._is_up:
            self.cluster.start_dead()
            return
        self.cluster.start()
        self._is_up = True

    def kill(self) -> None:
        self.cluster.kill_all()

    def stop(self) -> None:
        if self._is_up:
            self.cluster.stop()
            self._is_up = False

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
