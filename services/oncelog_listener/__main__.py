"""`python -m oncelog_listener`: a listener as a process of its own (docs/architecture/processes.md)."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import OncelogError
from oncelog.process.role_metrics import RoleMetric
from oncelog.process.role_program import KafkaAddress, RoleProgram
from oncelog.rpc.node import Node
from oncelog.rpc.node_settings import EVERY_HOST, NodeSettings
from oncelog.rpc.role import Role
from oncelog_listener import external
from oncelog_listener.settings import ListenerSettings

if TYPE_CHECKING:
    from oncelog_listener.role import ListenerRole


def _build(settings: ListenerSettings, node: Node) -> Role:
    # Imported late: `--help` and a wrong flag need none of it.
    from oncelog_listener.wiring import build_listener

    return build_listener(settings, node.node_id, node.metadata, node.directory)


def _kafka_address(settings: ListenerSettings, node: NodeSettings) -> KafkaAddress:
    """Other listeners send clients here, so it must be known before anything listens. One that listens on every
    interface is found where its node is."""
    port = settings.advertised_port or settings.port
    if port == 0:
        raise OncelogError(
            "--listener-port 0 leaves other listeners without an address to tell clients; choose a port"
        )
    host = node.host if settings.host in EVERY_HOST else settings.host
    host = settings.advertised_host or host
    outside = settings.external_addresses.get(node.node_id)
    return KafkaAddress(host, port, external.told((host, port), outside) if outside else {})


def _metrics(role: "ListenerRole") -> Iterable[RoleMetric]:
    from oncelog_listener.role_metrics import listener_metrics

    return listener_metrics(role.counters)


PROGRAM = RoleProgram(
    module="oncelog_listener",
    summary="A listener: speaks the Kafka protocol to clients.",
    role=pb.ROLE_LISTENER,
    settings=ListenerSettings,
    build=_build,
    node=NodeSettings,
    kafka_address=_kafka_address,
    metrics=_metrics,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.run())
