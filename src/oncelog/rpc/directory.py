"""Where to find whom: from node ids and shards to stubs.

The roles' code asks a `Directory` and never knows whether the answer is a direct call or a channel.
Stubs are `Any`-typed at this seam: generated gRPC stubs carry no useful types.
"""

from typing import Any, Protocol

from oncelog.rpc.metadata import TRANSACTION, MetadataImage


class Directory(Protocol):
    """Stubs by node id. Raises KeyError for a node that is not known (yet): ask again after the next metadata."""

    def storage(self, node_id: int) -> Any: ...

    def coordinator(self, node_id: int) -> Any: ...

    def group_coordinator(self, node_id: int) -> Any: ...

    def marker_sender(self) -> Any: ...

    def marker_sender_on(self, node_id: int) -> Any: ...

    def controller(self) -> Any: ...


class LocalDirectory:
    """Every role is this process."""

    def __init__(
        self,
        *,
        storage: Any,
        coordinator: Any,
        marker_sender: Any,
        controller: Any,
        group_coordinator: Any = None,
    ) -> None:
        self._storage = storage
        self._coordinator = coordinator
        self._group_coordinator = group_coordinator
        self._marker_sender = marker_sender
        self._controller = controller

    def storage(self, node_id: int) -> Any:
        return self._storage

    def coordinator(self, node_id: int) -> Any:
        return self._coordinator

    def group_coordinator(self, node_id: int) -> Any:
        return self._group_coordinator

    def marker_sender(self) -> Any:
        return self._marker_sender

    def marker_sender_on(self, node_id: int) -> Any:
        return self._marker_sender

    def controller(self) -> Any:
        return self._controller


def transaction_coordinator(
    directory: Directory, image: MetadataImage, transactional_id: str
) -> Any | None:
    """The stub of the coordinator that owns this id's shard; None while there is none (COORDINATOR_NOT_AVAILABLE)."""
    shard = image.shard_for(TRANSACTION, transactional_id)
    if shard is None or shard.coordinator < 0:
        return None
    try:
        return directory.coordinator(shard.coordinator)
    except KeyError:
        return None
