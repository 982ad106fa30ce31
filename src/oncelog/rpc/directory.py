"""Where to find whom: from node ids and shards to stubs.

The roles' code takes its stubs from a `Directory` and does not know whether a call is direct or travels over gRPC.
"""

from typing import Protocol, cast

from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import TRANSACTION, MetadataImage
from oncelog.rpc.stubs import (
    ControllerStub,
    GroupCoordinatorStub,
    MarkerSenderStub,
    StorageStub,
    TransactionCoordinatorStub,
)


class Directory(Protocol):
    """Stubs by node id. Raises KeyError for a node that is not known (yet): ask again after the next metadata."""

    def storage(self, node_id: int) -> StorageStub: ...

    def coordinator(self, node_id: int) -> TransactionCoordinatorStub: ...

    def group_coordinator(self, node_id: int) -> GroupCoordinatorStub: ...

    def marker_sender(self) -> MarkerSenderStub: ...

    def marker_sender_on(self, node_id: int) -> MarkerSenderStub: ...

    def controller(self) -> ControllerStub: ...


class LocalDirectory:
    """Every role is this process."""

    def __init__(
        self,
        *,
        storage: StorageStub | DirectStub,
        coordinator: TransactionCoordinatorStub | DirectStub,
        marker_sender: MarkerSenderStub | DirectStub,
        controller: ControllerStub | DirectStub,
        group_coordinator: GroupCoordinatorStub | DirectStub | None = None,
    ) -> None:
        self._storage = cast(StorageStub, storage)
        self._coordinator = cast(TransactionCoordinatorStub, coordinator)
        self._group_coordinator = cast(GroupCoordinatorStub, group_coordinator)
        self._marker_sender = cast(MarkerSenderStub, marker_sender)
        self._controller = cast(ControllerStub, controller)

    def storage(self, node_id: int) -> StorageStub:
        return self._storage

    def coordinator(self, node_id: int) -> TransactionCoordinatorStub:
        return self._coordinator

    def group_coordinator(self, node_id: int) -> GroupCoordinatorStub:
        return self._group_coordinator

    def marker_sender(self) -> MarkerSenderStub:
        return self._marker_sender

    def marker_sender_on(self, node_id: int) -> MarkerSenderStub:
        return self._marker_sender

    def controller(self) -> ControllerStub:
        return self._controller


def transaction_coordinator(
    directory: Directory, image: MetadataImage, transactional_id: str
) -> TransactionCoordinatorStub | None:
    """The stub of the coordinator that owns this id's shard; None while there is none (COORDINATOR_NOT_AVAILABLE)."""
    shard = image.shard_for(TRANSACTION, transactional_id)
    if shard is None or shard.coordinator < 0:
        return None
    try:
        return directory.coordinator(shard.coordinator)
    except KeyError:
        return None
