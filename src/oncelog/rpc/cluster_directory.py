"""Finds the processes to call in a cluster: stubs by node id, kept up to date by the metadata image.

A fenced node can still be called. The image only says that its session with the controller ended. A caller with an old
image gets the node's response or PeerUnavailable. An epoch fences every write that the node would accept. Only a marker
sender is chosen among the nodes that are not fenced: any of them will do.
"""

from collections.abc import Mapping
from typing import cast

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.contract import MARKER_SENDER, PROCESS
from oncelog.rpc.controller_stub import ActiveControllerStub
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.rpc.session_client import SessionStub
from oncelog.rpc.session_pool import SessionPool
from oncelog.rpc.stubs import ControllerStub, MarkerSenderStub, ProcessStub


class ClusterDirectory(Directory):
    """The stubs by which a process calls the other nodes of its cluster. Services of this process are called
    directly.
    """

    def __init__(
        self,
        node_id: int,
        metadata: MetadataFollower,
        controller: ActiveControllerStub,
        controller_addresses: frozenset[str],
        pool: SessionPool,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._controller = controller
        self._controller_addresses = controller_addresses
        self._pool = pool
        self._local: dict[str, DirectStub] = {}
        self._stubs: dict[tuple[int, str], tuple[str, SessionStub]] = {}
        self._marker_sender_id = -1
        metadata.on_change(self._forget_gone_nodes)

    def add_local(self, service_name: str, servicer: object) -> None:
        self._local[service_name] = DirectStub(servicer)

    def marker_sender(self) -> MarkerSenderStub:
        """Return the stub of a marker sender: this process's own if it has one, else the same one as long as it lives.

        Raises KeyError when none lives.
        """
        if MARKER_SENDER in self._local:
            return cast(MarkerSenderStub, self._local[MARKER_SENDER])
        nodes = self._metadata.image.nodes
        chosen = nodes.get(self._marker_sender_id)
        if chosen is None or not _can_send_markers(chosen):
            living = sorted(node.node_id for node in nodes.values() if _can_send_markers(node))
            if not living:
                raise KeyError("marker sender")
            # Different processes choose different marker senders.
            self._marker_sender_id = living[self._node_id % len(living)]
        return self.marker_sender_on(self._marker_sender_id)

    def controller(self) -> ControllerStub:
        return cast(ControllerStub, self._controller)

    def controller_processes(self) -> Mapping[str, ProcessStub]:
        return {
            address: cast(ProcessStub, SessionStub(self._pool.get(address), PROCESS))
            for address in sorted(self._controller_addresses)
        }

    def stub(self, node_id: int, service_name: str) -> DirectStub | SessionStub:
        if node_id == self._node_id:
            return self._local[service_name]
        node = self._metadata.image.nodes.get(node_id)
        if node is None or not node.rpc_address:
            raise KeyError(node_id)
        known = self._stubs.get((node_id, service_name))
        if known is not None and known[0] == node.rpc_address:
            return known[1]
        stub = SessionStub(self._pool.get(node.rpc_address), service_name)
        self._stubs[node_id, service_name] = (node.rpc_address, stub)
        return stub

    def _forget_gone_nodes(self, old: MetadataImage, new: MetadataImage) -> None:
        if old.nodes is new.nodes:
            return
        addresses = {node.rpc_address for node in new.nodes.values()}
        gone = [key for key, (address, _) in self._stubs.items() if address not in addresses]
        for key in gone:
            del self._stubs[key]
        self._pool.keep_only(addresses | self._controller_addresses)


def _can_send_markers(node: pb.Node) -> bool:
    return pb.ROLE_MARKER_SENDER in node.roles and not node.fenced
