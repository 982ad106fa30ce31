"""The metadata image: the cluster (nodes, topics, shards, configs) as the journal's records so far describe it.

Only `apply` changes an image, and it returns what it touched. So the same replay feeds the state machine, which decides
on it, and the watchers' stream, which must say what changed. Everything inside is immutable and replaced.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final, assert_never

from oncelog.ids import Offset
from oncelog_controller.core.history import MetadataPosition
from oncelog_controller.core.records import (
    AclsChanged,
    ApiTokensChanged,
    ClientQuotasChanged,
    ClusterCreated,
    ConfigsChanged,
    ConsoleSessionsEnded,
    ControllerClaimed,
    FeaturesChanged,
    MetadataRecord,
    MetadataRestored,
    NodeDrainChanged,
    NodeFenced,
    NodeRegistered,
    NodeRemoved,
    NodeUnfenced,
    PartitionsAdded,
    PartitionsChanged,
    ProducerIdsAllocated,
    Replicas,
    ScramCredentialsChanged,
    ShardsAssigned,
    Snapshot,
    TopicConfigsChanged,
    TopicCreated,
    TopicDeleted,
    readable,
)
from oncelog_controller.core.security import SecurityChange, SecurityState

STORAGE: Final = "storage"
COORDINATOR: Final = "coordinator"
ROLES: Final = (
    "controller",
    COORDINATOR,
    STORAGE,
    "marker_sender",
    "listener",
    "gateway",
)
NO_COORDINATOR: Final = -1
NO_LEADER: Final = -1
CLAIMS_MAX: Final = 200
"""At most this many claims of controllers are remembered. A folder that names an older claim is believed."""
Claim = tuple[int, int, str]
"""A controller's claim, (controller epoch, metadata offset, incarnation id).

From this offset on, this controller wrote.
"""


@dataclass(frozen=True, slots=True)
class Node:
    node_id: int
    node_epoch: int
    incarnation_id: str
    roles: tuple[str, ...]
    rpc_address: str
    kafka_host: str
    kafka_port: int
    rack: str
    fenced: bool = False
    draining: bool = False
    configs: Mapping[str, str] = field(default_factory=dict)
    given: bool = False

    @property
    def keeps_session(self) -> bool:
        """True for a node with an address: it sends heartbeats, and is fenced without them.

        A node in the controller's own process has no address, and ends with the controller.
        """
        return bool(self.rpc_address)


@dataclass(frozen=True, slots=True)
class PartitionRegistration:
    leader: int  # or NO_LEADER
    leader_epoch: int
    partition_epoch: int
    replicas: Replicas  # during a reassignment also the added and removed ones
    isr: Replicas
    adding: Replicas = ()
    removing: Replicas = ()


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    topic_id: str  # 32 hex digits
    internal: bool
    configs: Mapping[str, str]
    partitions: tuple[PartitionRegistration, ...]


@dataclass(frozen=True, slots=True)
class Shard:
    kind: str
    shard: int
    coordinator: int  # or NO_COORDINATOR
    coordinator_epoch: int


ShardKey = tuple[str, int]
ConfigsKey = tuple[str, str]
"""The key of dynamic configs: (kind, name) of the resource that they are set for."""
BROKER: Final = "broker"
GROUP: Final = "group"
ALL_BROKERS: Final = ""


@dataclass(frozen=True, slots=True)
class Change:
    """The keys of the metadata that one record changed. The values are in the image."""

    nodes: tuple[int, ...] = ()
    removed_nodes: tuple[int, ...] = ()
    topics: tuple[str, ...] = ()
    removed_topics: tuple[str, ...] = ()
    shards: tuple[ShardKey, ...] = ()
    features: bool = False
    controller: bool = False
    configs: tuple[ConfigsKey, ...] = ()
    security: SecurityChange = SecurityChange()


@dataclass(slots=True)
class ClusterImage:
    metadata_offset: Offset = Offset(-1)
    snapshot_offset: Offset = Offset(-1)
    cluster_id: str = ""
    controller: int = -1
    controller_epoch: int = -1
    controller_incarnation_id: str = ""
    claims: tuple[Claim, ...] = ()
    features_epoch: int = -1
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    next_node_epoch: int = 0
    next_producer_id: int = 0
    partition_count: int = 0
    nodes: dict[int, Node] = field(default_factory=dict)
    topics: dict[str, Topic] = field(default_factory=dict)
    topic_names: dict[str, str] = field(default_factory=dict)  # by topic id
    shards: dict[ShardKey, Shard] = field(default_factory=dict)
    configs: dict[ConfigsKey, Mapping[str, str]] = field(default_factory=dict)
    security: SecurityState = field(default_factory=SecurityState)

    def nodes_with(self, role: str) -> list[int]:
        """Return the ids of nodes with this role, ascending."""
        return sorted(node.node_id for node in self.nodes.values() if role in node.roles)

    def live_with(self, role: str) -> list[int]:
        """Return the ids of nodes with this role that are not fenced, ascending."""
        return [node_id for node_id in self.nodes_with(role) if not self.nodes[node_id].fenced]

    def staying_with(self, role: str) -> list[int]:
        """Return the ids of nodes with this role that may get leadership or shards: neither fenced nor draining,
        ascending.
        """
        return [node_id for node_id in self.live_with(role) if not self.nodes[node_id].draining]

    @property
    def position(self) -> MetadataPosition:
        return MetadataPosition(
            self.metadata_offset, self.controller_epoch, self.controller_incarnation_id
        )

    def has(self, seen: MetadataPosition) -> bool:
        """True if this position is in this metadata: the same controller wrote the record at that offset.

        An offset alone proves nothing: a database and its older copy have different records at the same offsets.
        """
        if not seen.controller_incarnation_id:
            return True
        ends = [offset for _, offset, _ in self.claims[1:]] + [self.metadata_offset + 1]
        for (_, begin, incarnation_id), end in zip(self.claims, ends, strict=False):
            # A controller may have several terms, with others between them.
            is_its_term = incarnation_id == seen.controller_incarnation_id
            if is_its_term and begin <= seen.metadata_offset < end:
                return True
        # A claim from before those that are remembered is believed.
        oldest = self.claims[0][0] if self.claims else self.controller_epoch + 1
        return seen.controller_epoch < oldest

    def planned(self, records: Sequence[MetadataRecord]) -> "ClusterImage":
        """Return a copy of the metadata image with these records applied, for further decisions in the same append."""
        image = self.copy()
        for record in records:
            image.apply(Offset(image.metadata_offset + 1), record)
        return image

    def apply(self, offset: Offset, record: MetadataRecord) -> Change:
        """Apply a journaled record to the metadata image, and return what it changed. Asserts that the record fits."""
        assert offset > self.metadata_offset, (offset, self.metadata_offset, record)
        self.metadata_offset = offset
        match record:
            case ControllerClaimed():
                assert record.controller_epoch > self.controller_epoch, (offset, record)
                self.controller = record.controller
                self.controller_epoch = record.controller_epoch
                self.controller_incarnation_id = record.incarnation_id
                claim = record.controller_epoch, offset, record.incarnation_id
                self.claims = (*self.claims, claim)[-CLAIMS_MAX:]
                return Change(controller=True)
            case ClusterCreated():
                assert not self.cluster_id, (offset, record, self.cluster_id)
                self.cluster_id = record.cluster_id
                return Change()
            case FeaturesChanged():
                assert record.features_epoch > self.features_epoch, (offset, record)
                self.features_epoch = record.features_epoch
                self.feature_levels = dict(record.levels)
                return Change(features=True)
            case NodeRegistered():
                return self._register(record)
            case NodeFenced() | NodeUnfenced() | NodeDrainChanged() | NodeRemoved():
                return self._change_node(record)
            case PartitionsChanged():
                return self._change_partitions(record)
            case TopicCreated() | TopicDeleted() | PartitionsAdded() | TopicConfigsChanged():
                return self._change_topic(record)
            case ConfigsChanged():
                return self._set_configs(record)
            case (
                AclsChanged()
                | ScramCredentialsChanged()
                | ClientQuotasChanged()
                | ApiTokensChanged()
                | ConsoleSessionsEnded()
            ):
                return Change(security=self.security.apply(record))
            case ShardsAssigned():
                return self._assign(record)
            case ProducerIdsAllocated():
                assert record.first_producer_id == self.next_producer_id, (offset, record)
                self.next_producer_id += record.count
                return Change()
            case MetadataRestored():
                return self._go_on_further(record.step)
            case Snapshot():
                self._restore(record)
                self.snapshot_offset = offset
                return Change()
            case _:
                assert_never(record)

    def _register(self, record: NodeRegistered) -> Change:
        assert record.node_epoch >= self.next_node_epoch, record
        self.next_node_epoch = record.node_epoch + 1
        self.nodes[record.node_id] = Node(**asdict(record))
        topics = []
        for topic in self.topics.values():
            if any(partition.leader == record.node_id for partition in topic.partitions):
                topics.append(topic.name)
                self.topics[topic.name] = replace(
                    topic,
                    partitions=tuple(
                        replace(partition, leader_epoch=partition.leader_epoch + 1)
                        if partition.leader == record.node_id
                        else partition
                        for partition in topic.partitions
                    ),
                )
        shards = []
        for key, shard in self.shards.items():
            if shard.coordinator == record.node_id:
                shards.append(key)
                self.shards[key] = replace(shard, coordinator_epoch=shard.coordinator_epoch + 1)
        return Change(nodes=(record.node_id,), topics=tuple(topics), shards=tuple(shards))

    def _change_node(
        self, record: NodeFenced | NodeUnfenced | NodeDrainChanged | NodeRemoved
    ) -> Change:
        node = self.nodes[record.node_id]
        match record:
            case NodeFenced() | NodeUnfenced():
                assert record.node_epoch == node.node_epoch, (record, node)
                self.nodes[node.node_id] = replace(node, fenced=isinstance(record, NodeFenced))
            case NodeDrainChanged():
                self.nodes[node.node_id] = replace(node, draining=record.draining)
            case NodeRemoved():
                del self.nodes[node.node_id]
                return Change(removed_nodes=(node.node_id,))
        return Change(nodes=(node.node_id,))

    def _change_partitions(self, record: PartitionsChanged) -> Change:
        for name, states in record.topics:
            topic = self.topics[name]
            partitions = list(topic.partitions)
            for number, leader, replicas, isr, adding, removing in states:
                known = partitions[number]
                assert isr, (name, number, record)
                assert all(node_id in replicas for node_id in isr), (name, number, record)
                assert leader == NO_LEADER or leader in isr, (name, number, record)
                partitions[number] = PartitionRegistration(
                    leader=leader,
                    leader_epoch=known.leader_epoch + (leader != known.leader),
                    partition_epoch=known.partition_epoch + 1,
                    replicas=replicas,
                    isr=isr,
                    adding=adding,
                    removing=removing,
                )
            self.topics[name] = replace(topic, partitions=tuple(partitions))
        return Change(topics=tuple(name for name, _ in record.topics))

    def _change_topic(
        self, record: TopicCreated | TopicDeleted | PartitionsAdded | TopicConfigsChanged
    ) -> Change:
        match record:
            case TopicCreated():
                assert record.name not in self.topics, record
                self.topics[record.name] = Topic(
                    record.name,
                    record.topic_id,
                    record.internal,
                    dict(record.configs),
                    _new_partitions(record.assignment),
                )
                self.topic_names[record.topic_id] = record.name
                self.partition_count += len(record.assignment)
            case TopicDeleted():
                topic = self.topics.pop(record.name)
                assert topic.topic_id == record.topic_id, (topic, record)
                del self.topic_names[record.topic_id]
                self.partition_count -= len(topic.partitions)
                return Change(removed_topics=(record.name,))
            case PartitionsAdded():
                topic = self.topics[record.name]
                self.topics[record.name] = replace(
                    topic, partitions=topic.partitions + _new_partitions(record.assignment)
                )
                self.partition_count += len(record.assignment)
            case TopicConfigsChanged():
                self.topics[record.name] = replace(
                    self.topics[record.name], configs=dict(record.configs)
                )
        return Change(topics=(record.name,))

    def _set_configs(self, record: ConfigsChanged) -> Change:
        key = (record.kind, record.name)
        if record.configs:
            self.configs[key] = dict(record.configs)
        else:
            self.configs.pop(key, None)
        return Change(configs=(key,))

    def _assign(self, record: ShardsAssigned) -> Change:
        keys = []
        for number, coordinator in record.coordinators:
            key = (record.kind, number)
            known = self.shards.get(key)
            coordinator_epoch = known.coordinator_epoch + 1 if known else 0
            self.shards[key] = Shard(record.kind, number, coordinator, coordinator_epoch)
            keys.append(key)
        return Change(shards=tuple(keys))

    def _go_on_further(self, step: int) -> Change:
        self.next_node_epoch += step
        for topic in self.topics.values():
            further = tuple(
                replace(
                    partition,
                    leader_epoch=partition.leader_epoch + step,
                    partition_epoch=partition.partition_epoch + step,
                )
                for partition in topic.partitions
            )
            self.topics[topic.name] = replace(topic, partitions=further)
        for key, shard in self.shards.items():
            coordinator_epoch = shard.coordinator_epoch + step
            self.shards[key] = replace(shard, coordinator_epoch=coordinator_epoch)
        return Change(topics=tuple(self.topics), shards=tuple(self.shards))

    def to_state(self) -> dict[str, object]:
        """Return the whole metadata in values that JSON can hold; a `Snapshot` record carries it."""
        return {
            "cluster_id": self.cluster_id,
            "controller": self.controller,
            "controller_epoch": self.controller_epoch,
            "controller_incarnation_id": self.controller_incarnation_id,
            "claims": self.claims,
            "features_epoch": self.features_epoch,
            "feature_levels": dict(self.feature_levels),
            "next_node_epoch": self.next_node_epoch,
            "next_producer_id": self.next_producer_id,
            "nodes": tuple(asdict(node) for node in self.nodes.values()),
            "topics": tuple(asdict(topic) for topic in self.topics.values()),
            "shards": tuple(asdict(shard) for shard in self.shards.values()),
            "configs": tuple((*key, dict(configs)) for key, configs in self.configs.items()),
            "security": self.security.to_state(),
        }

    def _restore(self, record: Snapshot) -> None:
        state = dict(record.state)
        self.nodes = {node["node_id"]: Node(**readable(Node, node)) for node in state.pop("nodes")}
        self.topics = {}
        for body in state.pop("topics"):
            partitions = tuple(
                PartitionRegistration(**readable(PartitionRegistration, one))
                for one in body["partitions"]
            )
            self.topics[body["name"]] = Topic(**{**readable(Topic, body), "partitions": partitions})
        shards = (Shard(**readable(Shard, shard)) for shard in state.pop("shards"))
        self.shards = {(shard.kind, shard.shard): shard for shard in shards}
        # A snapshot of a version that had no such configs has no such field.
        self.configs = {(kind, name): found for kind, name, found in state.pop("configs", ())}
        self.security = SecurityState.restored(state.pop("security", {}))
        self.topic_names = {topic.topic_id: name for name, topic in self.topics.items()}
        self.partition_count = sum(len(topic.partitions) for topic in self.topics.values())
        for name, value in readable(ClusterImage, state).items():
            setattr(self, name, value)

    def copy(self) -> "ClusterImage":
        """Return a copy that can be changed without changing this image. The values inside are immutable, and
        shared.
        """
        return replace(
            self,
            nodes=dict(self.nodes),
            topics=dict(self.topics),
            topic_names=dict(self.topic_names),
            shards=dict(self.shards),
            configs=dict(self.configs),
            security=self.security.copy(),
        )


def _new_partitions(assignment: tuple[Replicas, ...]) -> tuple[PartitionRegistration, ...]:
    return tuple(
        PartitionRegistration(
            leader=replicas[0],
            leader_epoch=0,
            partition_epoch=0,
            replicas=replicas,
            isr=replicas,
        )
        for replicas in assignment
    )
