"""Whether the replicas here are in sync: who takes the next node down must know that this one has what it missed."""

from collections.abc import Mapping

from oncelog.ids import Partition as PartitionName
from oncelog_storage.core.messages import NodeFacts, TopicFacts


def is_in_sync(
    nodes: Mapping[int, NodeFacts], topics: Mapping[str, TopicFacts], node_id: int, node_epoch: int
) -> bool:
    """The metadata count this process as alive, and each replica here that can be in sync is.

    A node that drains is let into no ISR, so nothing is asked of it.
    """
    node = nodes.get(node_id)
    if node is None or node.fenced or node.node_epoch != node_epoch:
        return False
    return node.draining or first_lacking(nodes, topics, node_id) is None


def first_lacking(
    nodes: Mapping[int, NodeFacts], topics: Mapping[str, TopicFacts], node_id: int
) -> PartitionName | None:
    """A replica here that is out of sync with a leader that lives, if there is one.

    Without such a leader nobody can let it in. One that a reassignment adds was never in sync, and may take hours.
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
                return PartitionName(name, number)
    return None


def _lives(nodes: Mapping[int, NodeFacts], node_id: int) -> bool:
    node = nodes.get(node_id)
    return node is not None and not node.fenced
