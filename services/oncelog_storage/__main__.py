"""`python -m oncelog_storage`: a storage node as a process of its own (docs/architecture/processes.md)."""

import sys
from collections.abc import Awaitable, Iterable
from typing import TYPE_CHECKING

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1.process_pb2 import DescribeProcessResponse
from oncelog.process.role_metrics import RoleMetric
from oncelog.process.role_program import RoleProgram
from oncelog.rpc.contract import STORAGE
from oncelog.rpc.node import Node, NodeHistory
from oncelog_storage.settings import StorageSettings

if TYPE_CHECKING:
    from oncelog_storage.wiring import StorageRole


def _build(settings: StorageSettings, node: Node) -> "StorageRole":
    # Imported late: `--help` and a wrong flag need none of it.
    from oncelog_storage.wiring import build_storage

    return build_storage(settings, node.node_id, node.metadata, node.directory)


def _history(settings: StorageSettings) -> NodeHistory:
    from oncelog_storage.folder_history import FolderHistory

    return FolderHistory(settings.data_dir)


def _services(role: "StorageRole") -> dict[str, object]:
    return {STORAGE: role.servicer}


def _is_whole(role: "StorageRole") -> Awaitable[None]:
    return role.replication.in_sync()


def _metrics(role: "StorageRole") -> Iterable[RoleMetric]:
    from oncelog_storage.role_metrics import storage_metrics

    return storage_metrics(role)


def _tell(role: "StorageRole", answer: DescribeProcessResponse) -> None:
    from oncelog_storage.process_counts import tell_counts

    tell_counts(role, answer)


PROGRAM = RoleProgram(
    module="oncelog_storage",
    summary="A storage node: keeps partitions and copies those it does not lead.",
    role=pb.ROLE_STORAGE,
    settings=StorageSettings,
    build=_build,
    services=_services,
    is_whole=_is_whole,
    history=_history,
    metrics=_metrics,
    tell=_tell,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.run())
