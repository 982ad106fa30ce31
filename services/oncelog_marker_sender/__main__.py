"""`python -m oncelog_marker_sender`: a marker sender as a process of its own (docs/architecture/processes.md)."""

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog.process.role_metrics import RoleMetric
from oncelog.process.role_program import RoleProgram
from oncelog.rpc.contract import MARKER_SENDER
from oncelog.rpc.node import Node
from oncelog.rpc.node_settings import NodeSettings
from oncelog_marker_sender.settings import MarkerSenderSettings

if TYPE_CHECKING:
    from oncelog_marker_sender.wiring import MarkerSenderRole


def _build(settings: MarkerSenderSettings, node: Node) -> "MarkerSenderRole":
    # Imported late: `--help` and a wrong flag need none of it.
    from oncelog_marker_sender.wiring import build_marker_sender

    return build_marker_sender(settings, node.metadata, node.directory, node.node_id)


def _services(role: "MarkerSenderRole") -> dict[str, object]:
    return {MARKER_SENDER: role.servicer}


def _metrics(role: "MarkerSenderRole") -> Iterable[RoleMetric]:
    from oncelog_marker_sender.role_metrics import marker_sender_metrics

    return marker_sender_metrics(role)


def _tell(role: "MarkerSenderRole", answer: DescribeProcessResponse) -> None:
    from oncelog_marker_sender.process_counts import tell_counts

    tell_counts(role, answer)


PROGRAM = RoleProgram(
    module="oncelog_marker_sender",
    summary="A marker sender: brings the markers of decided transactions to partition leaders.",
    role=pb.ROLE_MARKER_SENDER,
    settings=MarkerSenderSettings,
    build=_build,
    node=NodeSettings,
    services=_services,
    metrics=_metrics,
    tell=_tell,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.run())
