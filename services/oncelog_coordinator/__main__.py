"""`python -m oncelog_coordinator`: a coordinator as a process of its own (docs/architecture/processes.md)."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog.process.role_metrics import RoleMetric
from oncelog.process.role_program import RoleProgram
from oncelog.rpc.contract import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from oncelog.rpc.node import Node
from oncelog_coordinator.settings import CoordinatorSettings

if TYPE_CHECKING:
    from oncelog_coordinator.wiring import CoordinatorRole


def _build(settings: CoordinatorSettings, node: Node) -> "CoordinatorRole":
    # Imported late: `--help` and a wrong flag need none of it.
    from oncelog_coordinator.wiring import build_coordinator

    return build_coordinator(settings, node.node_id, node.metadata, node.directory)


def _services(role: "CoordinatorRole") -> dict[str, object]:
    return {
        TRANSACTION_COORDINATOR: role.servicer,
        GROUP_COORDINATOR: role.group_servicer,
    }


def _metrics(role: "CoordinatorRole") -> Iterable[RoleMetric]:
    from oncelog_coordinator.role_metrics import coordinator_metrics

    return coordinator_metrics(role)


def _tell(role: "CoordinatorRole", answer: DescribeProcessResponse) -> None:
    from oncelog_coordinator.process_counts import tell_counts

    tell_counts(role, answer)


PROGRAM = RoleProgram(
    module="oncelog_coordinator",
    summary="A coordinator: owns shards of transactions and groups.",
    role=pb.ROLE_COORDINATOR,
    settings=CoordinatorSettings,
    build=_build,
    services=_services,
    metrics=_metrics,
    tell=_tell,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.run())
