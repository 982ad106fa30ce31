"""`python -m oncelog_gateway`: runs a gateway as a process of its own (docs/architecture/processes.md)."""

import sys

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.process.role_program import RoleProgram
from oncelog.rpc.node import Node
from oncelog.rpc.node_settings import NodeSettings
from oncelog.rpc.role import Role
from oncelog_gateway.settings import GatewaySettings


def _build(settings: GatewaySettings, node: Node) -> Role:
    # Imported late: `--help` and a wrong flag need none of it.
    from oncelog_gateway.wiring import build_gateway

    return build_gateway(settings, node.metadata, node.directory)


PROGRAM = RoleProgram(
    module="oncelog_gateway",
    summary="A gateway: REST, the console and /metrics.",
    role=pb.ROLE_GATEWAY,
    settings=GatewaySettings,
    build=_build,
    node=NodeSettings,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.run())
