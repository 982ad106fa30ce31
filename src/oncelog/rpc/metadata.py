"""The metadata image: the state of the cluster that every role knows, kept current by the controller's stream.

Readers take `follower.image` and use it for one request; an image never changes, a new one replaces it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Final, Protocol

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.broker_config import BROKER_CONFIGS, topic_defaults
from oncelog.ids import SHARD_TOPICS, Partition, shard_name_of, shard_of
from oncelog.rpc.security_image import SecurityImage
from oncelog.topic_config import TopicConfig

TWO_PHASE_COMMIT: Final = "two.phase.commit.version"
TRANSACTION = pb.SHARD_KIND_TRANSACTION
GROUP = pb.SHARD_KIND_GROUP
TOPIC_OF_KIND: Final[Mapping[int, str]] = {
    pb.ShardKind.Value(f"SHARD_KIND_{kind.upper()}"): topic for kind, topic in SHARD_TOPICS.items()
}
"""The internal topic of each kind of shard, as the metadata names the kind: TRANSACTION, GROUP."""
KIND_OF_TOPIC: Final[Mapping[str, int]] = {topic: kind for kind, topic in TOPIC_OF_KIND.items()}
ALL_BROKERS = ""


@dataclass(frozen=True)
class MetadataImage:
    """The state of the cluster that the controller has decided up to `metadata_offset`: nodes, topics, shards, configs.

    The values are the stream's own messages: treat them as read-only.
    """

    metadata_offset: int = -1
    cluster_id: str = ""
    controller: int = -1
    controller_epoch: int = -1
    controller_incarnation_id: str = ""
    nodes: Mapping[int, pb.Node] = field(default_factory=dict)
    topics: Mapping[str, pb.Topic] = field(default_factory=dict)
    topics_by_id: Mapping[bytes, pb.Topic] = field(default_factory=dict)
    shards: Mapping[tuple[int, int], pb.Shard] = field(default_factory=dict)
    features_epoch: int = -1
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[tuple[int, str], Mapping[str, str]] = field(default_factory=dict)
    """The configs of brokers and groups that were set while the cluster runs, by kind and name."""
    security: SecurityImage = SecurityImage()

    @property
    def position(self) -> pb.MetadataPosition:
        """The offset of this image in the controllers' log, with the controller epoch and incarnation that wrote it. A
        process sends it to controllers."""
        return pb.MetadataPosition(
            metadata_offset=self.metadata_offset,
            controller_epoch=self.controller_epoch,
            controller_incarnation_id=self.controller_incarnation_id,
        )

    @property
    def transaction_version(self) -> int:
        """The finalized level of `transaction.version`: 0, 1 or 2."""
        return self.feature_levels.get("transaction.version", 0)

    @property
    def known_levels(self) -> dict[str, int]:
        """The level of each feature that can be set. One that was never set, and that a new cluster lacks, is at 0."""
        return {TWO_PHASE_COMMIT: 0, **self.feature_levels}

    @property
    def has_two_phase_commit(self) -> bool:
        """True if the cluster allows two-phase transactions, whose outcome the application decides (KIP-939, ADR 0043).

        That needs TV2, too.
        """
        has_level = self.feature_levels.get(TWO_PHASE_COMMIT, 0) >= 1
        return has_level and self.transaction_version >= 2

    def partition(self, partition: Partition) -> pb.Partition | None:
        """Return the partition with its leader and replicas; None if it does not exist."""
        found = self._found.get(partition)
        if found is None:
            topic = self.topics.get(partition.topic)
            if topic is None or not 0 <= partition.partition < len(topic.partitions):
                return None
            found = self._found[partition] = topic.partitions[partition.partition]
        return found

    @cached_property
    def _found(self) -> dict[Partition, pb.Partition]:
        """A cache of the partitions that were looked up: reading them from a protobuf message costs several times as
        much.
        """
        return {}

    def topic_config(self, topic: str, node_id: int | None = None) -> TopicConfig:
        """Return a topic's configs. What the topic does not set comes from this node's configs, then from those of all
        brokers. `node_id` None: no node's configs count.

        An internal topic has only its own, and an unknown topic only Kafka's defaults.
        """
        found = self.topics.get(topic)
        if found is None:
            return TopicConfig()
        if found.internal:
            return TopicConfig.from_overrides(found.configs)
        return TopicConfig.from_overrides(
            {**self.topic_defaults, **self.topic_defaults_of(node_id), **found.configs}
        )

    @cached_property
    def topic_defaults(self) -> Mapping[str, str]:
        """The topic configs that are set for all brokers."""
        return topic_defaults(self.broker_configs(ALL_BROKERS))

    def topic_defaults_of(self, node_id: int | None) -> Mapping[str, str]:
        """Return the topic configs that are set for this node; None: those of no node, so none."""
        return {} if node_id is None else topic_defaults(self.broker_configs(str(node_id)))

    @cached_property
    def transaction_max_timeout_ms(self) -> int:
        """The longest time in ms that any coordinator lets a transaction be open, as the coordinators published it."""
        key = "transaction.max.timeout.ms"
        published = [
            int(node.configs.get(key, BROKER_CONFIGS[key].key.default))
            for node in self.nodes.values()
            if pb.ROLE_COORDINATOR in node.roles
        ]
        return max(published, default=int(BROKER_CONFIGS[key].key.default))

    def broker_configs(self, name: str) -> Mapping[str, str]:
        """Return the configs that are set for this node id (as text), or for all brokers with ALL_BROKERS."""
        return self.configs.get((pb.CONFIG_KIND_BROKER, name), {})

    def group_configs(self, group_id: str) -> Mapping[str, str]:
        return self.configs.get((pb.CONFIG_KIND_GROUP, group_id), {})

    def changed_setting(self, node_id: int, name: str) -> str | None:
        """Return the value of a config that was set for this node, else for all brokers.

        None: it was not set; the setting of the node's process holds.
        """
        if not self.configs:
            return None
        found = self.broker_configs(str(node_id)).get(name)
        return self.broker_configs(ALL_BROKERS).get(name) if found is None else found

    @cached_property
    def _shard_counts(self) -> dict[int, int]:
        return Counter(kind for kind, _ in self.shards)

    def shard_count(self, kind: int) -> int:
        """Return how many shards of this kind (transactions or groups) exist; 0 until the internal topic is created."""
        return self._shard_counts.get(kind, 0)

    def shard_for(self, kind: int, name: str) -> pb.Shard | None:
        """Return the shard (a partition of an internal topic, with its coordinator) of a transactional.id or group id.

        None until the internal topic is created.
        """
        count = self.shard_count(kind)
        hashed = shard_name_of(name) if kind == TRANSACTION else name
        return self.shards.get((kind, shard_of(hashed, count))) if count else None

    def updated(self, update: pb.MetadataUpdate) -> "MetadataImage":
        """Return the image after this update from the stream. Updates come in order; an old one is ignored."""
        if update.metadata_offset <= self.metadata_offset and not update.HasField("snapshot"):
            return self
        if update.HasField("snapshot"):
            return _from_snapshot(update.metadata_offset, update.snapshot)
        return self._with_delta(update.metadata_offset, update.delta)

    def _with_delta(self, metadata_offset: int, delta: pb.MetadataDelta) -> "MetadataImage":
        nodes = dict(self.nodes)
        nodes.update((node.node_id, node) for node in delta.nodes)
        for node_id in delta.removed_nodes:
            nodes.pop(node_id, None)
        topics = self.topics
        if delta.topics or delta.removed_topics:
            changed = dict(topics)
            changed.update((topic.name, topic) for topic in delta.topics)
            for name in delta.removed_topics:
                changed.pop(name, None)
            topics = changed
        shards = dict(self.shards)
        shards.update(((shard.kind, shard.shard), shard) for shard in delta.shards)
        configs = self.configs
        if delta.configs:
            configs = {**configs, **_configs_by_key(delta.configs)}
        has_features = delta.HasField("features")
        # A controller of an older version does not name its incarnation: it is unknown then, and not the one before.
        said = delta if delta.controller_epoch else self
        return replace(
            self,
            metadata_offset=metadata_offset,
            controller=delta.controller or self.controller,
            controller_epoch=delta.controller_epoch or self.controller_epoch,
            controller_incarnation_id=said.controller_incarnation_id,
            nodes=MappingProxyType(nodes),
            topics=topics,
            topics_by_id={topic.topic_id: topic for topic in topics.values()}
            if topics is not self.topics
            else self.topics_by_id,
            shards=shards,
            features_epoch=delta.features.features_epoch if has_features else self.features_epoch,
            feature_levels=dict(delta.features.levels) if has_features else self.feature_levels,
            configs=configs,
            security=self.security.updated(delta),
        )


def _from_snapshot(metadata_offset: int, snapshot: pb.MetadataSnapshot) -> MetadataImage:
    return MetadataImage(
        metadata_offset=metadata_offset,
        cluster_id=snapshot.cluster_id,
        controller=snapshot.controller,
        controller_epoch=snapshot.controller_epoch,
        controller_incarnation_id=snapshot.controller_incarnation_id,
        nodes={node.node_id: node for node in snapshot.nodes},
        topics={topic.name: topic for topic in snapshot.topics},
        topics_by_id={topic.topic_id: topic for topic in snapshot.topics},
        shards={(shard.kind, shard.shard): shard for shard in snapshot.shards},
        features_epoch=snapshot.features.features_epoch,
        feature_levels=dict(snapshot.features.levels),
        configs=_configs_by_key(snapshot.configs),
        security=SecurityImage().updated(snapshot),
    )


def _configs_by_key(
    found: Iterable[pb.DynamicConfigs],
) -> dict[tuple[int, str], Mapping[str, str]]:
    return {(one.kind, one.name): dict(one.configs) for one in found}


OnChange = Callable[[MetadataImage, MetadataImage], None]


class MetadataSource(Protocol):
    """A source of the metadata stream for a follower: a gRPC stub, or the controller's servicer in the same process."""

    def WatchMetadata(
        self, request: pb.WatchMetadataRequest
    ) -> AsyncIterator[pb.MetadataUpdate]: ...


class MetadataFollower:
    """Keeps a process's image of the metadata current, from the controller's stream.

    The owner runs `run` in a task. Callbacks registered with `on_change` are called synchronously with (old, new), in
    order of registration.
    """

    def __init__(self, node_id: int, source: MetadataSource) -> None:
        self._node_id = node_id
        self._source = source
        self._changed = asyncio.Event()
        self._callbacks: dict[object, OnChange] = {}
        self.image = MetadataImage()

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Register a callback for new images of the metadata, and return the function that removes it."""
        key = object()
        self._callbacks[key] = callback

        def forget() -> None:
            self._callbacks.pop(key, None)

        return forget

    async def run(self) -> None:
        """Follow the stream until cancelled. Raises what the stream raises: the caller decides about retrying."""
        request = pb.WatchMetadataRequest(
            node_id=self._node_id,
            from_metadata_offset=self.image.metadata_offset,
            seen=self.image.position,
        )
        async for update in self._source.WatchMetadata(request):
            self.apply_update(update)

    def apply_update(self, update: pb.MetadataUpdate) -> None:
        old, new = self.image, self.image.updated(update)
        if new is old or _is_behind(new, old):
            return
        self.image = new
        for callback in tuple(self._callbacks.values()):
            callback(old, new)
        self._changed.set()
        self._changed = asyncio.Event()

    async def newer_than(self, image: MetadataImage, timeout_s: float) -> bool:
        """Return True as soon as the metadata image is another than this one; False after `timeout_s`.

        It serves a caller whose call failed, or that found no owner: the next image usually names another one.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while self.image is image:
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def wait_until(self, metadata_offset: int, timeout_s: float = 5.0) -> None:
        """Return once the metadata image is at this offset or a later one. Raises TimeoutError."""
        await self.wait_for(lambda image: image.metadata_offset >= metadata_offset, timeout_s)

    async def wait_for(
        self, holds: Callable[[MetadataImage], bool], timeout_s: float | None = 5.0
    ) -> None:
        """Return once `holds` is true of the metadata image. Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            while not holds(self.image):
                await self._changed.wait()


def _is_behind(new: MetadataImage, old: MetadataImage) -> bool:
    """Return True if the new image is older than the present one: its controller does not know all metadata yet.

    Such an image is ignored, so metadata never goes back.
    """
    return new.cluster_id == old.cluster_id and new.metadata_offset < old.metadata_offset
