"""The stubs of other roles, found by node id or by shard.

The roles' code takes its stubs from a `Directory` and does not know whether a call is direct or travels over gRPC.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import cast

from oncelog.rpc.contract import (
    GROUP_COORDINATOR,
    MARKER_SENDER,
    PROCESS,
    STORAGE,
    TRANSACTION_COORDINATOR,
)
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import TRANSACTION, MetadataImage
from oncelog.rpc.stubs import (
    ControllerStub,
    GroupCoordinatorStub,
    MarkerSenderStub,
    ProcessStub,
    StorageStub,
    TransactionCoordinatorStub,
)


class Directory(ABC):
    """Finds the stubs by which a role calls others, by node id.

    An unknown node raises KeyError: try again after the next metadata.
    """

    @abstractmethod
    def stub(self, node_id: int, service_name: str) -> object:
        """Return the stub of this service at this node. Raises KeyError for an unknown node."""

    @abstractmethod
    def controller(self) -> ControllerStub: ...

    @abstractmethod
    def marker_sender(self) -> MarkerSenderStub:
        """Return the stub of a marker sender that can deliver markers. Raises KeyError when none lives."""

    def controller_processes(self) -> Mapping[str, ProcessStub]:
        """Return the stubs of the controllers' processes, by address, as controllers have no node id in the metadata.

        Empty if the controller is in this process.
        """
        return {}

    def process(self, node_id: int) -> ProcessStub:
        return cast(ProcessStub, self.stub(node_id, PROCESS))

    def storage(self, node_id: int) -> StorageStub:
        return cast(StorageStub, self.stub(node_id, STORAGE))

    def coordinator(self, node_id: int) -> TransactionCoordinatorStub:
        return cast(TransactionCoordinatorStub, self.stub(node_id, TRANSACTION_COORDINATOR))

    def group_coordinator(self, node_id: int) -> GroupCoordinatorStub:
        return cast(GroupCoordinatorStub, self.stub(node_id, GROUP_COORDINATOR))

    def marker_sender_on(self, node_id: int) -> MarkerSenderStub:
        """Return the stub of the marker sender on this node, to describe it."""
        return cast(MarkerSenderStub, self.stub(node_id, MARKER_SENDER))


class LocalDirectory(Directory):
    """The directory of a process that has every role itself: all calls are direct."""

    def __init__(
        self,
        *,
        storage: StorageStub | DirectStub,
        coordinator: TransactionCoordinatorStub | DirectStub,
        marker_sender: MarkerSenderStub | DirectStub,
        controller: ControllerStub | DirectStub,
        group_coordinator: GroupCoordinatorStub | DirectStub | None = None,
        process: ProcessStub | DirectStub | None = None,
    ) -> None:
        self._stubs: dict[str, object] = {
            STORAGE: storage,
            TRANSACTION_COORDINATOR: coordinator,
            GROUP_COORDINATOR: group_coordinator,
            MARKER_SENDER: marker_sender,
        }
        if process is not None:
            self._stubs[PROCESS] = process
        self._controller = controller

    def stub(self, node_id: int, service_name: str) -> object:
        return self._stubs[service_name]

    def put(self, service_name: str, stub: object) -> None:
        """Replace the stub of a service, for example by one that holds requests back (`oncelog_server.faults`)."""
        self._stubs[service_name] = stub

    def controller(self) -> ControllerStub:
        return cast(ControllerStub, self._controller)

    def marker_sender(self) -> MarkerSenderStub:
        return self.marker_sender_on(0)


def transaction_coordinator(
    directory: Directory, image: MetadataImage, transactional_id: str
) -> TransactionCoordinatorStub | None:
    """Return the stub of the coordinator that owns this transactional.id's shard.

    None: there is no owner (COORDINATOR_NOT_AVAILABLE).
    """
    shard = image.shard_for(TRANSACTION, transactional_id)
    if shard is None or shard.coordinator < 0:
        return None
    try:
        return directory.coordinator(shard.coordinator)
    except KeyError:
        return None
