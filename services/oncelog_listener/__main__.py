"""`python -m oncelog_listener`: a listener as a process of its own (docs/architecture/processes.md)."""

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import OncelogError
from oncelog.process.figures import Figure, counter, counters_by, gauge
from oncelog.process.role_program import KafkaAddress, RoleProgram
from oncelog.rpc.node import Node
from oncelog.rpc.role import Role
from oncelog_listener.settings import ListenerSettings

if TYPE_CHECKING:
    from oncelog_listener.role import ListenerRole


def _build(settings: ListenerSettings, node: Node) -> Role:
    # Imported late: `--help` and a wrong flag need none of it.
    from oncelog_listener.wiring import build_listener

    return build_listener(settings, node.node_id, node.metadata, node.directory)


def _kafka_address(settings: ListenerSettings) -> KafkaAddress:
    """Other listeners send clients here, so it must be known before anything listens."""
    port = settings.advertised_port or settings.port
    if port == 0:
        raise OncelogError(
            "--listener-port 0 leaves other listeners without an address to tell clients; choose a port"
        )
    return KafkaAddress(settings.advertised_host or settings.host, port)


def _figures(role: "ListenerRole") -> Iterator[Figure]:
    """Under the names that a gateway gives them when it is in the same process."""
    counters = role.counters
    yield gauge(
        "oncelog_listener_connections_open",
        "Kafka clients connected now",
        counters.connections_open,
    )
    for name, text, value in (
        ("connections_accepted", "Connections accepted", counters.connections_accepted),
        ("connections_refused", "Connections closed at once: full", counters.connections_refused),
        ("bytes_received", "Bytes received", counters.bytes_received),
        ("bytes_sent", "Bytes sent", counters.bytes_sent),
    ):
        yield counter(f"oncelog_listener_{name}", text, value)
    for name, text, found in (
        ("requests", "Requests answered, by Kafka's API key", counters.requests),
        ("request_failures", "Requests that closed the connection", counters.request_failures),
    ):
        by_key = {str(api_key): count for api_key, count in found.items()}
        yield counters_by(f"oncelog_listener_{name}", text, "api_key", by_key)


PROGRAM = RoleProgram(
    module="oncelog_listener",
    summary="A listener: speaks the Kafka protocol to clients.",
    role=pb.ROLE_LISTENER,
    settings=ListenerSettings,
    build=_build,
    kafka_address=_kafka_address,
    figures=_figures,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.run())
