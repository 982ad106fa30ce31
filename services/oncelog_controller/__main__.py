"""`python -m oncelog_controller`: a controller as a process of its own (docs/architecture/processes.md).

A controller is no registered node: no leadership or shard is assigned to it, and it must start while no other
controller is active. It is ready when it has read the journal and stands by, or is active.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from oncelog.process.run import Program, Running, Settings, run
from oncelog.rpc.contract import CONTROLLER, PROCESS
from oncelog.rpc.node_settings import NamedNodeSettings
from oncelog_controller.settings import ControllerSettings


@asynccontextmanager
async def _open(settings: Settings) -> AsyncIterator[Running]:
    # Imported late: `--help` and a wrong flag need none of it.
    from oncelog.rpc.mutual_tls import limits_of
    from oncelog.rpc.process_servicer import ProcessServicer
    from oncelog.rpc.server import RpcServer
    from oncelog_controller.role_metrics import controller_metrics
    from oncelog_controller.wiring import build_controller

    node = settings[NamedNodeSettings]
    server = RpcServer(node.host, node.port, limits_of(node))
    async with AsyncExitStack() as stack:
        await server.start()
        stack.push_async_callback(server.stop)
        rpc_address = node.address(server.port)
        own = settings[ControllerSettings].model_copy(
            update={"controller_id": node.node_id, "rpc_address": rpc_address}
        )
        controller = build_controller(own)
        await controller.start()
        stack.push_async_callback(controller.stop)
        server.served.add(CONTROLLER, controller.servicer)
        server.served.add(PROCESS, ProcessServicer(node.node_id))
        await server.set_ready(True)
        stack.push_async_callback(server.set_ready, False)
        # Its stop is all the drain there is: that releases the lease, and a standby takes over at once.
        yield Running(
            controller,
            node.node_id,
            f"controller {node.node_id} serves on {rpc_address}",
            lambda: server.is_ready,
            lambda: controller_metrics(controller),
            controller.failure,
        )


PROGRAM = Program(
    module="oncelog_controller",
    summary="A controller: the only writer of cluster metadata while it is the active one.",
    settings=(NamedNodeSettings, ControllerSettings),
    node_id=lambda settings: settings[NamedNodeSettings].node_id,
    open=_open,
    derived=frozenset({"ONCELOG_CONTROLLER_CONTROLLER_ID", "ONCELOG_CONTROLLER_RPC_ADDRESS"}),
)

if __name__ == "__main__":
    sys.exit(run(PROGRAM))
