"""A client's view of a cluster: brokers, topics, leaders. It never changes; a newer answer makes a new view.

A leader's epoch never goes back (KIP-320): older news of a partition is left out. A topic that was made again has
another id, and its epochs begin anew.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from oncelog.client.core.addresses import Address
from oncelog.errors import ErrorCode
from oncelog.ids import Partition

NO_NODE: Final = -1
OF_ANOTHER_TOPIC: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""The errors with which a leader refuses the id of a topic that is gone, or that it does not know yet."""


class Node(NamedTuple):
    node_id: int
    address: Address
    rack: str | None


class Leader(NamedTuple):
    """The leader of a partition. `node_id` is NO_NODE where there is no leader now."""

    node_id: int
    epoch: int
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicView:
    """One topic as the client knows it: its id and the leader of each partition. `error` is set where a broker reported
    an error of the topic."""

    name: str
    topic_id: bytes
    leaders: tuple[Leader, ...]
    is_internal: bool = False
    error: ErrorCode = ErrorCode.NONE

    @property
    def partition_count(self) -> int:
        return len(self.leaders)


@dataclass(frozen=True, slots=True)
class ClusterView:
    nodes: Mapping[int, Node] = field(default_factory=dict)
    topics: Mapping[str, TopicView] = field(default_factory=dict)
    cluster_id: str = ""
    controller: int = NO_NODE
    version: int = 0
    """A number that grows with each change of the view."""

    def leader(self, partition: Partition) -> Leader | None:
        """Return the partition's leader; None where the topic or the partition is unknown."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < topic.partition_count:
            return None
        return topic.leaders[partition.partition]

    def with_answer(
        self, nodes: Iterable[Node], topics: Iterable[TopicView], cluster_id: str, controller: int
    ) -> "ClusterView":
        """Return the view after a Metadata answer, which lists all brokers and some topics."""
        known = dict(self.topics)
        for topic in topics:
            old = known.get(topic.name)
            known[topic.name] = topic if old is None else _newer(old, topic)
        return ClusterView(
            {node.node_id: node for node in nodes}, known, cluster_id, controller, self.version + 1
        )

    def without(self, names: Iterable[str]) -> "ClusterView":
        """Return the view without these topics, which the client no longer needs."""
        gone = frozenset(names)
        kept = {name: topic for name, topic in self.topics.items() if name not in gone}
        return replace(self, topics=kept, version=self.version + 1)

    def with_leader(self, partition: Partition, leader: Leader, node: Node | None) -> "ClusterView":
        """Return the view after a Produce or Fetch answer named a newer leader (KIP-951). `node` is the leader's
        address, if the answer has it. Older news changes nothing, nor does a leader without an address."""
        topic, known = self.topics.get(partition.topic), self.leader(partition)
        if topic is None or known is None or leader.epoch <= known.epoch:
            return self
        nodes = dict(self.nodes)
        if node is not None:
            nodes[node.node_id] = node
        if leader.node_id not in nodes:
            return self
        leaders = list(topic.leaders)
        leaders[partition.partition] = leader._replace(replicas=known.replicas)
        topics = {**self.topics, topic.name: replace(topic, leaders=tuple(leaders))}
        return replace(self, nodes=nodes, topics=topics, version=self.version + 1)


def _newer(old: TopicView, new: TopicView) -> TopicView:
    """Return the new view of a topic, but keep a partition's old leader if its epoch is higher. After a passing error
    the old view stays; UNKNOWN_TOPIC_OR_PARTITION removes the topic."""
    if new.error is not ErrorCode.NONE and not new.leaders and new.error.is_retriable:
        return (
            new
            if new.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else replace(old, error=new.error)
        )
    if old.topic_id != new.topic_id:
        return new
    leaders = tuple(
        before if now.epoch < before.epoch else now
        for before, now in zip(old.leaders, new.leaders, strict=False)
    )
    return replace(new, leaders=leaders + new.leaders[len(leaders) :])
