"""The check that the replicas on this node are in sync. Nobody should stop the next node before they are."""

from collections.abc import Mapping

from oncelog.ids import Partition
from oncelog_storage.core.messages import NodeFacts, TopicFacts


def is_in_sync(
    nodes: Mapping[int, NodeFacts], topics: Mapping[str, TopicFacts], node_id: int, node_epoch: int
) -> bool:
    """True if the metadata count this process as alive, and each replica here that can be in sync is in sync.

    A draining node may join no ISR, so it always counts as in sync.
    """
    node = nodes.get(node_id)
    if node is None or node.fenced or node.node_epoch != node_epoch:
        return False
    return node.draining or first_lacking(nodes, topics, node_id) is None


def first_lacking(
    nodes: Mapping[int, NodeFacts], topics: Mapping[str, TopicFacts], node_id: int
) -> Partition | None:
    """Return a replica here that is out of sync although its leader lives; None if there is none.

    Without a living leader a replica cannot join the ISR. A replica that a reassignment adds does not count: it was
    never in sync, and may take hours.
    """
    for name, topic in topics.items():
        for number, found in enumerate(topic.partitions):
            if (
                found.leader != node_id
                and node_id in found.replicas
                and node_id not in found.isr
                and node_id not in found.adding_replicas
                and _lives(nodes, found.leader)
            ):
                return Partition(name, number)
    return None


def _lives(nodes: Mapping[int, NodeFacts], node_id: int) -> bool:
    node = nodes.get(node_id)
    return node is not None and not node.fenced
