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
from oncelog_listener import advertised
from oncelog_listener.core.endpoints import EXTERNAL, Endpoint
from oncelog_listener.settings import ListenerSettings

if TYPE_CHECKING:
    from oncelog_listener.role import ListenerRole


def _build(settings: ListenerSettings, node: Node) -> "ListenerRole":
    # Imported late: `--help` and a wrong flag need none of it.
    from oncelog_listener.wiring import build_listener

    return build_listener(settings, node.node_id, node.metadata, node.directory)


def _kafka_address(settings: ListenerSettings, node: NodeSettings) -> KafkaAddress:
    """Return the address that this listener registers, and that other listeners tell clients.

    It is registered before anything listens, so it must be known then. A listener that listens on every interface is
    found at its node's address.
    """
    addresses = {one.name: _advertised(settings, one, node) for one in settings.endpoints}
    main = settings.endpoints[0]
    outside = settings.external_addresses.get(node.node_id)
    if EXTERNAL in addresses and EXTERNAL not in settings.advertised:
        # Only the chart knows the address of the external listener.
        del addresses[EXTERNAL]
        if outside is not None:
            addresses[EXTERNAL] = outside
    host, port = addresses[main.name]
    return KafkaAddress(host, port, advertised.configs_of(addresses) if len(addresses) > 1 else {})


def _advertised(
    settings: ListenerSettings, endpoint: Endpoint, node: NodeSettings
) -> tuple[str, int]:
    """Return the host and port at which other listeners tell clients to reach this endpoint of ours. Raises
    OncelogError for port 0."""
    if endpoint.name in settings.advertised:
        return settings.advertised[endpoint.name]
    is_main = endpoint is settings.endpoints[0]
    port = (settings.advertised_port if is_main else None) or endpoint.port
    if port == 0:
        raise OncelogError(
            f"port 0 of listener {endpoint.name} leaves other listeners without an address to tell clients; "
            "choose a port"
        )
    host = node.host if endpoint.host in EVERY_HOST else endpoint.host
    return (settings.advertised_host if is_main else None) or host, port


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
