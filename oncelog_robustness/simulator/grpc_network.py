"""`grpc.aio` over the simulated network: production code makes its channels and servers as ever.

    install_grpc(network)

Everything that oncelog uses is there, with gRPC's own errors, statuses and words: calls of all four kinds,
`wait_for_connection`, `read`, `write`, iteration, `cancel`, deadlines, generic and registered handlers, contexts,
graceful stop, message limits, keepalive. A stream that is not read holds up its writer
(`NetworkProfile.grpc_window_bytes`). Features that are not simulated raise: TLS, interceptors, connectivity states.
Faults of the network act on gRPC as on TCP, because both run on the same connections. After a refused connection the
next call tries again at once: pausing is the caller's task.
"""

from collections.abc import Sequence
from typing import Any

import grpc.aio

from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.grpc_client import SimChannel
from oncelog_robustness.simulator.grpc_server import SimServer
from oncelog_robustness.simulator.network import SimNetwork


def install_grpc(network: SimNetwork) -> None:
    def insecure_channel(
        target: str, options: Any = None, compression: Any = None, interceptors: Any = None
    ) -> SimChannel:
        assert not interceptors, "interceptors are not simulated"
        return SimChannel(network, target, options)

    def server(
        migration_thread_pool: Any = None,
        handlers: Sequence[Any] | None = None,
        interceptors: Any = None,
        options: Any = None,
        maximum_concurrent_rpcs: int | None = None,
        compression: Any = None,
    ) -> SimServer:
        assert not interceptors, "interceptors are not simulated"
        made = SimServer(network, options, maximum_concurrent_rpcs)
        made.add_generic_rpc_handlers(handlers or ())
        return made

    seams.replace(grpc.aio, "insecure_channel", insecure_channel)
    seams.replace(grpc.aio, "server", server)
