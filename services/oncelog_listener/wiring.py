"""The function that builds the listener role from its settings and its node."""

from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower
from oncelog_listener.cluster import Cluster
from oncelog_listener.role import ListenerRole
from oncelog_listener.settings import ListenerSettings


def build_listener(
    settings: ListenerSettings, node_id: int, metadata: MetadataFollower, directory: Directory
) -> ListenerRole:
    """Return the listener of this node; `start` binds its port."""
    return ListenerRole(Cluster(settings, node_id, metadata, directory))
