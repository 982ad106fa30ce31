"""The metadata machine: the one place that decides what the cluster is.

Two things are put in front of a decision's records when they are due, so that they cost no append of their own:
the claim of a controller process that writes for the first time, and a snapshot when the journal has grown long.

The first registration creates the cluster, and the one that completes the set of nodes it takes (storage and a
coordinator) creates the internal topics with their shards: embedded, all of that is one append.
"""

from dataclasses import dataclass
from typing import Final, assert_never

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, Millis, Offset
from oncelog.machine import Decision, Effect, Reply, Send
from oncelog_controller.core.events import (
    WATCHERS,
    AllocateProducerIds,
    AlterConfigs,
    Committed,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MetadataEvent,
    NodeAnswer,
    NodeHeartbeat,
    ProducerIdsAnswer,
    RegisterNode,
    StatusAnswer,
    TopicResult,
    TopicsAnswer,
    UpdateFeatures,
)
from oncelog_controller.core.image import (
    COORDINATOR,
    GROUP_SHARD,
    NO_COORDINATOR,
    ROLES,
    STORAGE,
    TRANSACTION_SHARD,
    ClusterImage,
)
from oncelog_controller.core.placement import default_replication_factor, round_robin
from oncelog_controller.core.records import (
    ClusterCreated,
    ControllerClaimed,
    FeaturesChanged,
    MetadataRecord,
    NodeRegistered,
    ProducerIdsAllocated,
    ShardsAssigned,
    Snapshot,
    TopicCreated,
)
from oncelog_controller.core.topics import (
    TopicLimits,
    altered_configs,
    create_partitions,
    create_topics,
    delete_topics,
)

PRODUCER_ID_BLOCK_SIZE: Final = 1000
PRODUCER_ID_MAX: Final = 2**63 - 1
FEATURE_LEVELS: Final = {"transaction.version": range(3)}
"""Features that may be finalized, with the levels this version speaks."""

INTERNAL_TOPIC_CONFIGS: Final = {
    "cleanup.policy": "compact",
    "compression.type": "uncompressed",
    "segment.bytes": "104857600",
}
"""Facts 5.1; what else it asks for is oncelog's default."""


@dataclass(frozen=True, slots=True)
class MetadataRules:
    """What a decision depends on besides the image; see `ControllerSettings` for units and reasons."""

    controller: int
    incarnation_id: str
    transaction_version: int = 2
    transaction_shard_count: int = 50
    group_shard_count: int = 50
    default_partitions: int = 1
    partitions_max: int = 10_000
    bootstrap_storage_nodes: int = 1
    snapshot_interval_records: int = 10_000


class MetadataMachine:
    """Decides every change of the cluster's metadata. Answers are the dataclasses of `core.events`."""

    def __init__(self, rules: MetadataRules) -> None:
        self.image = ClusterImage()
        self._rules = rules
        self._limits = TopicLimits(rules.default_partitions, rules.partitions_max)

    def apply(self, offset: Offset, record: MetadataRecord) -> None:
        self.image.apply(offset, record)

    def resume(self, now: Millis) -> tuple[Effect, ...]:
        """Nothing is owed: every decision is complete in its records, and watchers begin with a snapshot."""
        return ()

    def decide(self, event: MetadataEvent, now: Millis) -> Decision[MetadataRecord]:
        match event:
            case RegisterNode():
                return self._register(event)
            case NodeHeartbeat():
                return self._heartbeat(event)
            case CreateTopics() | DeleteTopics() | CreatePartitions():
                return self._change_topics(event)
            case AlterConfigs():
                return self._alter_configs(event)
            case UpdateFeatures():
                return self._update_features(event)
            case AllocateProducerIds():
                return self._allocate(event)
            case _:
                assert_never(event)

    # ------------------------------------------------------------------------------------------------- nodes

    def _register(self, event: RegisterNode) -> Decision[MetadataRecord]:
        reason = _registration_fault(event)
        if reason:
            answer = NodeAnswer(ErrorCode.INVALID_REGISTRATION, reason)
            return _rejected(event.request_id, answer, "registration_refused")
        known = self.image.nodes.get(event.node_id)
        registered = NodeRegistered(
            node_id=event.node_id,
            node_epoch=self.image.next_node_epoch,
            incarnation_id=event.incarnation_id,
            roles=event.roles,
            rpc_address=event.rpc_address,
            kafka_host=event.kafka_host,
            kafka_port=event.kafka_port,
            rack=event.rack,
        )
        if known is not None and known.incarnation_id == event.incarnation_id:
            # The same process asks again because its answer was lost: a second fencing would hit itself.
            answer = NodeAnswer(node_epoch=known.node_epoch)
            return _rejected(event.request_id, answer, "registration_repeated")
        records: list[MetadataRecord] = []
        if not self.image.cluster_id:
            records.append(ClusterCreated(event.cluster_id))
            levels = {"transaction.version": self._rules.transaction_version}
            records.append(FeaturesChanged(self.image.features_epoch + 1, levels))
        records.append(registered)
        records += self._bootstrap(event)
        answer = NodeAnswer(node_epoch=registered.node_epoch)
        return self._recorded(records, event.request_id, answer, "registered")

    def _bootstrap(self, event: RegisterNode) -> list[MetadataRecord]:
        """Internal topics that are still missing, and a coordinator for every shard that has none."""
        storage_nodes = _with(self.image.nodes_with(STORAGE), event, STORAGE)
        coordinators = _with(self.image.nodes_with(COORDINATOR), event, COORDINATOR)
        records: list[MetadataRecord] = []
        first = self.image.partition_count
        for name, topic_id, count, kind in (
            (
                TRANSACTION_STATE_TOPIC,
                event.transaction_topic_id,
                self._rules.transaction_shard_count,
                TRANSACTION_SHARD,
            ),
            (
                CONSUMER_OFFSETS_TOPIC,
                event.group_topic_id,
                self._rules.group_shard_count,
                GROUP_SHARD,
            ),
        ):
            if name in self.image.topics:
                orphans = [
                    shard.shard
                    for shard in self.image.shards.values()
                    if shard.kind == kind
                    and shard.coordinator not in (coordinators or [NO_COORDINATOR])
                ]
                records += _assigned(kind, orphans, coordinators)
                continue
            if len(storage_nodes) < self._rules.bootstrap_storage_nodes or not coordinators:
                continue
            assignment = round_robin(
                storage_nodes,
                first=first,
                partitions=count,
                replication_factor=default_replication_factor(len(storage_nodes)),
            )
            first += count
            records.append(TopicCreated(name, topic_id, True, INTERNAL_TOPIC_CONFIGS, assignment))
            records += _assigned(kind, list(range(count)), coordinators)
        return records

    def _node_fault(self, node_id: int, node_epoch: int) -> tuple[ErrorCode, str]:
        node = self.image.nodes.get(node_id)
        if node is None:
            return (
                ErrorCode.BROKER_ID_NOT_REGISTERED,
                f"node {node_id} is not registered; register it",
            )
        if node.node_epoch != node_epoch:
            return (
                ErrorCode.STALE_BROKER_EPOCH,
                f"node {node_id} has node epoch {node.node_epoch}, not {node_epoch}: a newer process took its place",
            )
        return ErrorCode.NONE, ""

    def _heartbeat(self, event: NodeHeartbeat) -> Decision[MetadataRecord]:
        error_code, message = self._node_fault(event.node_id, event.node_epoch)
        answer = StatusAnswer(error_code, message, self.image.metadata_offset)
        label = "heartbeat" if error_code is ErrorCode.NONE else "heartbeat_refused"
        return _rejected(event.request_id, answer, label)

    def _allocate(self, event: AllocateProducerIds) -> Decision[MetadataRecord]:
        error_code, message = self._node_fault(event.node_id, event.node_epoch)
        first = self.image.next_producer_id
        if error_code is ErrorCode.NONE and first > PRODUCER_ID_MAX - PRODUCER_ID_BLOCK_SIZE:
            error_code, message = ErrorCode.UNKNOWN_SERVER_ERROR, "all producer ids are used up"
        if error_code is not ErrorCode.NONE:
            answer = ProducerIdsAnswer(error_code, message)
            return _rejected(event.request_id, answer, "block_refused")
        record = ProducerIdsAllocated(
            first, PRODUCER_ID_BLOCK_SIZE, event.node_id, event.node_epoch
        )
        answer = ProducerIdsAnswer(first_producer_id=first, count=PRODUCER_ID_BLOCK_SIZE)
        return self._recorded([record], event.request_id, answer, "block_allocated")

    # ------------------------------------------------------------------------------------ topics and features

    def _change_topics(
        self, event: CreateTopics | DeleteTopics | CreatePartitions
    ) -> Decision[MetadataRecord]:
        results: list[TopicResult]
        records: list[MetadataRecord] = []
        validate_only = False
        match event:
            case CreateTopics():
                results, created = create_topics(self.image, event, self._limits)
                records += created
                label, validate_only = "topics_created", event.validate_only
            case DeleteTopics():
                results, deleted = delete_topics(self.image, event)
                records += deleted
                label = "topics_deleted"
            case CreatePartitions():
                results, added = create_partitions(self.image, event, self._limits)
                records += added
                label, validate_only = "partitions_added", event.validate_only
        if validate_only or not records:
            answer = TopicsAnswer(tuple(results), self.image.metadata_offset)
            label = "topics_validated" if validate_only else "topics_refused"
            return _rejected(event.request_id, answer, label)
        records = self._with_preamble(records)
        answer = TopicsAnswer(tuple(results), self._offset_after(records))
        return self._decision(records, event.request_id, answer, label)

    def _alter_configs(self, event: AlterConfigs) -> Decision[MetadataRecord]:
        try:
            record = altered_configs(self.image, event)
        except KafkaError as error:
            refusal = StatusAnswer(error.error_code, error.message, self.image.metadata_offset)
            return _rejected(event.request_id, refusal, "configs_refused")
        if record is None or event.validate_only:
            unchanged = StatusAnswer(metadata_offset=self.image.metadata_offset)
            return _rejected(event.request_id, unchanged, "configs_unchanged")
        records = self._with_preamble([record])
        answer = StatusAnswer(metadata_offset=self._offset_after(records))
        return self._decision(records, event.request_id, answer, "configs_changed")

    def _update_features(self, event: UpdateFeatures) -> Decision[MetadataRecord]:
        reason = "" if self.image.cluster_id else "no node has registered yet; start one first"
        for name, level in event.levels.items():
            levels = FEATURE_LEVELS.get(name)
            if levels is None:
                reason = f"unknown feature {name!r}; known are {', '.join(FEATURE_LEVELS)}"
            elif level not in levels:
                reason = f"{name}={level} is not one of the levels {levels[0]} to {levels[-1]}"
        if reason:
            refusal = StatusAnswer(
                ErrorCode.FEATURE_UPDATE_FAILED, reason, self.image.metadata_offset
            )
            return _rejected(event.request_id, refusal, "features_refused")
        wanted = {**self.image.feature_levels, **event.levels}
        if wanted == self.image.feature_levels or event.validate_only:
            unchanged = StatusAnswer(metadata_offset=self.image.metadata_offset)
            return _rejected(event.request_id, unchanged, "features_unchanged")
        records = self._with_preamble([FeaturesChanged(self.image.features_epoch + 1, wanted)])
        answer = StatusAnswer(metadata_offset=self._offset_after(records))
        return self._decision(records, event.request_id, answer, "features_changed")

    # ---------------------------------------------------------------------------------------------- decisions

    def _with_preamble(self, records: list[MetadataRecord]) -> list[MetadataRecord]:
        """A due snapshot and a due claim, then `records`."""
        image, rules = self.image, self._rules
        preamble: list[MetadataRecord] = []
        if image.metadata_offset - image.snapshot_offset >= rules.snapshot_interval_records:
            preamble.append(Snapshot(image.to_state()))
        if image.controller_incarnation_id != rules.incarnation_id:
            preamble.append(
                ControllerClaimed(
                    rules.controller, max(image.controller_epoch, 0) + 1, rules.incarnation_id
                )
            )
        return preamble + records

    def _offset_after(self, records: list[MetadataRecord]) -> int:
        return self.image.metadata_offset + len(records)

    def _recorded(
        self, records: list[MetadataRecord], request_id: int, answer: object, label: str
    ) -> Decision[MetadataRecord]:
        return self._decision(self._with_preamble(records), request_id, answer, label)

    def _decision(
        self, records: list[MetadataRecord], request_id: int, answer: object, label: str
    ) -> Decision[MetadataRecord]:
        # Watchers are told before the caller is, so that an answer's offset is already on its way to every image.
        committed = Committed(self._offset_after(records), tuple(records))
        return Decision(
            records=tuple(records),
            effects=(Send(WATCHERS, committed), Reply(request_id, answer)),
            label=label,
        )


def _rejected(request_id: int, answer: object, label: str) -> Decision[MetadataRecord]:
    """An answer that changes nothing."""
    return Decision(effects=(Reply(request_id, answer),), label=label)


def _registration_fault(event: RegisterNode) -> str:
    if event.node_id < 1:
        return f"node id {event.node_id} is not 1 or more"
    if not event.incarnation_id:
        return "incarnation_id is empty; make a new one at each start of the process"
    if not event.roles:
        return f"node {event.node_id} names no role; name at least one of {', '.join(ROLES)}"
    if any(role not in ROLES for role in event.roles):
        return f"node {event.node_id} names roles {list(event.roles)}; known are {', '.join(ROLES)}"
    if not 0 <= event.kafka_port <= 65535:
        return f"kafka port {event.kafka_port} is not a port"
    return ""


def _with(nodes: list[int], event: RegisterNode, role: str) -> list[int]:
    """`nodes` as they are once `event` is recorded."""
    others = [node_id for node_id in nodes if node_id != event.node_id]
    return sorted([*others, event.node_id]) if role in event.roles else others


def _assigned(kind: str, shards: list[int], coordinators: list[int]) -> list[MetadataRecord]:
    """Shards dealt to coordinators in turn."""
    if not shards:
        return []
    return [
        ShardsAssigned(
            kind,
            tuple(
                (shard, coordinators[index % len(coordinators)] if coordinators else NO_COORDINATOR)
                for index, shard in enumerate(shards)
            ),
        )
    ]
