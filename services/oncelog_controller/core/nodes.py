"""Nodes: registration, the begin and end of a session, draining, removal.

A node that keeps a session is fenced from its registration to its first heartbeat, by which it says that it is ready.
Fencing takes away the leaderships and shards of a node, and its place in each ISR that has another replica; it keeps
its replicas. A node whose id the controller gave is removed instead (`given_ids`).

The first registration creates the cluster. The internal topics and their shards wait for storage nodes and a
coordinator. They are created in the append in which the last of these comes to life. With every role in one process,
all of that is one append.
"""

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import (
    GROUP_SHARD,
    SHARD_TOPICS,
    TRANSACTION_SHARD,
)
from oncelog.wording import counted
from oncelog_controller.core.events import (
    AllocateProducerIds,
    AlterPartition,
    DrainNode,
    HeartbeatAnswer,
    NodeAnswer,
    NodeHeartbeat,
    Outcome,
    RegisterNode,
    RemoveNode,
    SessionsEnded,
    StatusAnswer,
)
from oncelog_controller.core.folders import judged_folder
from oncelog_controller.core.given_ids import asks_for_id, with_id
from oncelog_controller.core.history import OTHER_HISTORY, not_in_this_journal
from oncelog_controller.core.image import (
    COORDINATOR,
    ROLES,
    STORAGE,
    ClusterImage,
)
from oncelog_controller.core.leadership import consequences
from oncelog_controller.core.placement import default_replication_factor, round_robin
from oncelog_controller.core.records import (
    ClusterCreated,
    FeaturesChanged,
    MetadataRecord,
    NodeDrainChanged,
    NodeFenced,
    NodeRegistered,
    NodeRemoved,
    NodeUnfenced,
    ShardsAssigned,
    TopicCreated,
)
from oncelog_controller.core.rules import INTERNAL_TOPIC_CONFIGS, MetadataRules

SHOWN_PARTITIONS_MAX = 5


def node_fault(image: ClusterImage, node_id: int, node_epoch: int) -> tuple[ErrorCode, str]:
    """Return NONE if this node is registered under this node epoch; else the error code and message that refuse its
    request.
    """
    node = image.nodes.get(node_id)
    if node is None:
        return ErrorCode.BROKER_ID_NOT_REGISTERED, f"node {node_id} is not registered; register it"
    if node.node_epoch != node_epoch:
        return (
            ErrorCode.STALE_BROKER_EPOCH,
            f"node {node_id} has node epoch {node.node_epoch}, not {node_epoch}: a newer process took its place",
        )
    return ErrorCode.NONE, ""


def requester_fault(
    image: ClusterImage, event: AllocateProducerIds | AlterPartition
) -> tuple[ErrorCode, str]:
    """Return what `node_fault` does, or NOT_CONTROLLER if the node knows metadata that this journal does not have.

    The node then retries as with a controller that is not active: this one may have been deposed without knowing it.
    The heartbeat of such a node is refused, and the node ends.
    """
    if not image.has(event.seen):
        return ErrorCode.NOT_CONTROLLER, not_in_this_journal(f"node {event.node_id}", event.seen)
    return node_fault(image, event.node_id, event.node_epoch)


def registered(image: ClusterImage, event: RegisterNode, rules: MetadataRules) -> Outcome:
    reason = _registration_fault(event)
    if reason:
        return Outcome(NodeAnswer(ErrorCode.INVALID_REGISTRATION, reason), "registration_refused")
    if asks_for_id(event):
        try:
            event = with_id(image, event)
        except KafkaError as error:
            refusal = NodeAnswer(error.error_code, error.message)
            return Outcome(refusal, "registration_refused")
    known = image.nodes.get(event.node_id)
    try:
        demotions = judged_folder(image, event)
    except KafkaError as error:
        return Outcome(NodeAnswer(error.error_code, error.message), "registration_refused")
    if known is not None and known.incarnation_id == event.incarnation_id:
        # The same process asks again because its answer was lost: a second fencing would hit itself.
        answer = NodeAnswer(node_epoch=known.node_epoch, node_id=known.node_id)
        return Outcome(answer, "registration_repeated")
    if known is not None and event.is_other_live:
        reason = (
            f"node {event.node_id} is running as another process; "
            "give this one another node id, or stop that one first"
        )
        return Outcome(
            NodeAnswer(ErrorCode.DUPLICATE_BROKER_REGISTRATION, reason), "registration_duplicate"
        )
    records: list[MetadataRecord] = [*demotions]
    if not image.cluster_id:
        records.append(ClusterCreated(event.cluster_id))
        levels = {"group.version": 1, "transaction.version": rules.transaction_version}
        records.append(FeaturesChanged(image.features_epoch + 1, levels))
    node_epoch = image.next_node_epoch
    records.append(
        NodeRegistered(
            node_id=event.node_id,
            node_epoch=node_epoch,
            incarnation_id=event.incarnation_id,
            roles=event.roles,
            rpc_address=event.rpc_address,
            kafka_host=event.kafka_host,
            kafka_port=event.kafka_port,
            rack=event.rack,
            fenced=bool(event.rpc_address),
            configs=event.configs,
            given=event.given,
        )
    )
    settled = _settled(image, records, (event.transaction_topic_id, event.group_topic_id), rules)
    answer = NodeAnswer(node_epoch=node_epoch, node_id=event.node_id)
    return Outcome(answer, "registered", settled)


def heartbeat(image: ClusterImage, event: NodeHeartbeat, rules: MetadataRules) -> Outcome:
    plain = plain_heartbeat(image, event)
    if plain is not None:
        refused = plain.error_code is not ErrorCode.NONE
        return Outcome(plain, "heartbeat_refused" if refused else "heartbeat")
    node = image.nodes[event.node_id]
    record: MetadataRecord = (
        NodeUnfenced(node.node_id, node.node_epoch)
        if node.fenced
        else NodeDrainChanged(node.node_id, True)
    )
    topic_ids = event.transaction_topic_id, event.group_topic_id
    settled = _settled(image, [record], topic_ids, rules)
    answer = HeartbeatAnswer(
        drained=event.want_drain and is_drained(image.planned(settled), node.node_id)
    )
    return Outcome(answer, "unfenced" if node.fenced else "draining", settled)


def plain_heartbeat(image: ClusterImage, event: NodeHeartbeat) -> HeartbeatAnswer | None:
    """Return the answer to a heartbeat that changes nothing in the metadata; None for one that the state machine must
    decide.

    The shell answers such heartbeats from the committed image, also while nothing can be written.
    """
    if not image.has(event.seen):
        # First, whatever else is wrong: a node that registered again would go on in another history.
        return HeartbeatAnswer(
            OTHER_HISTORY, not_in_this_journal(f"node {event.node_id}", event.seen)
        )
    known = image.nodes.get(event.node_id)
    if known is not None and event.node_epoch > known.node_epoch:
        # Registered with a controller of a later term, or before the journal was restored from an older copy. Told
        # that it was replaced, a healthy node would end; to register again does no harm where it is registered.
        reason = f"this controller has not heard of node epoch {event.node_epoch} of node {event.node_id}; register it"
        return HeartbeatAnswer(ErrorCode.BROKER_ID_NOT_REGISTERED, reason)
    error_code, message = node_fault(image, event.node_id, event.node_epoch)
    if error_code is not ErrorCode.NONE:
        return HeartbeatAnswer(error_code, message)
    node = image.nodes[event.node_id]
    if event.seen.metadata_offset > image.metadata_offset and STORAGE in node.roles:
        # A node of a version that names no claim. Its registration, with its folder's word, is judged.
        reason = f"this controller has not heard of metadata offset {event.seen.metadata_offset}; register"
        return HeartbeatAnswer(ErrorCode.BROKER_ID_NOT_REGISTERED, reason)
    if node.fenced:
        # A node that is about to stop is not unfenced for its drain.
        return HeartbeatAnswer(fenced=True, drained=True) if event.want_drain else None
    if event.want_drain and not node.draining:
        return None
    return HeartbeatAnswer(drained=node.draining and is_drained(image, event.node_id))


def is_drained(image: ClusterImage, node_id: int) -> bool:
    """True if the node leads no partition and owns no shard that another node could take.

    That is, no partition with another live replica, and no shard if there is another coordinator. A replica that is out
    of sync counts, for it may catch up, and the node waits for it.
    """
    staying = frozenset(image.staying_with(STORAGE)) - {node_id}
    coordinators = [other for other in image.staying_with(COORDINATOR) if other != node_id]
    if coordinators and any(shard.coordinator == node_id for shard in image.shards.values()):
        return False
    return not any(
        partition.leader == node_id and any(replica in staying for replica in partition.replicas)
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def sessions_ended(image: ClusterImage, event: SessionsEnded) -> Outcome:
    ended: list[MetadataRecord] = []
    for node_id, node_epoch in event.nodes:
        node = image.nodes.get(node_id)
        if node is None or node.node_epoch != node_epoch:
            continue
        if node.given:
            # A given id is also taken from a node that never began: it is fenced already, and holds the id.
            ended.append(NodeRemoved(node_id))
        elif not node.fenced:
            ended.append(NodeFenced(node_id, node_epoch))
    if not ended:
        return Outcome(None, "sessions_known_ended")
    label = "fenced" if any(isinstance(one, NodeFenced) for one in ended) else "forgotten"
    return Outcome(None, label, (*ended, *consequences(image.planned(ended))))


def drained(image: ClusterImage, event: DrainNode) -> Outcome:
    node = image.nodes.get(event.node_id)
    if node is None:
        reason = f"node {event.node_id} is not registered; known are {sorted(image.nodes)}"
        return Outcome(StatusAnswer(ErrorCode.BROKER_ID_NOT_REGISTERED, reason), "drain_refused")
    if node.draining is not event.cancel:
        return Outcome(StatusAnswer(), "drain_unchanged")
    records: list[MetadataRecord] = [NodeDrainChanged(node.node_id, not event.cancel)]
    records += consequences(image.planned(records))
    label = "drain_cancelled" if event.cancel else "draining"
    return Outcome(StatusAnswer(), label, tuple(records))


def removed(image: ClusterImage, event: RemoveNode) -> Outcome:
    node = image.nodes.get(event.node_id)
    error_code, reason = ErrorCode.NONE, ""
    if node is None:
        error_code = ErrorCode.BROKER_ID_NOT_REGISTERED
        reason = f"node {event.node_id} is not registered; known are {sorted(image.nodes)}"
    elif not node.fenced:
        error_code = ErrorCode.INVALID_REQUEST
        reason = f"node {event.node_id} is running; stop it first"
    else:
        hosted = [
            f"{name}-{number}"
            for name, topic in image.topics.items()
            for number, partition in enumerate(topic.partitions)
            if event.node_id in partition.replicas
        ]
        if hosted:
            error_code = ErrorCode.INVALID_REQUEST
            more = ", …" if len(hosted) > SHOWN_PARTITIONS_MAX else ""
            reason = (
                f"node {event.node_id} has replicas of {counted(len(hosted), 'partition')} "
                f"({', '.join(hosted[:SHOWN_PARTITIONS_MAX])}{more}); "
                "reassign those to other nodes, wait until that is done, and ask again"
            )
    if reason:
        return Outcome(StatusAnswer(error_code, reason), "removal_refused")
    return Outcome(StatusAnswer(), "node_removed", (NodeRemoved(event.node_id),))


def _settled(
    image: ClusterImage,
    records: list[MetadataRecord],
    topic_ids: tuple[str, str],
    rules: MetadataRules,
) -> tuple[MetadataRecord, ...]:
    """Return `records`, those that create the internal topics if enough nodes are there, and the resulting changes of
    leaders and shards. `topic_ids` are for `__transaction_state` and `__consumer_offsets`.
    """
    created = _internal_topics(image.planned(records), topic_ids, rules)
    records = records + created
    return (*records, *consequences(image.planned(records)))


def _internal_topics(
    image: ClusterImage, topic_ids: tuple[str, str], rules: MetadataRules
) -> list[MetadataRecord]:
    storage_nodes = image.live_with(STORAGE)
    coordinators = image.live_with(COORDINATOR)
    if len(storage_nodes) < rules.bootstrap_storage_nodes or not coordinators:
        return []
    records: list[MetadataRecord] = []
    first = image.partition_count
    how = {
        TRANSACTION_SHARD: (rules.transaction_topic, rules.transaction_shard_count),
        GROUP_SHARD: (rules.group_topic, rules.group_shard_count),
    }
    for (kind, name), topic_id in zip(SHARD_TOPICS.items(), topic_ids, strict=True):
        topic, count = how[kind]
        factor = topic.replication_factor or default_replication_factor(len(storage_nodes))
        if name in image.topics or factor > len(storage_nodes):
            continue
        assert topic_id, "an event that may complete the cluster carries ids for the topics"
        configs = {**INTERNAL_TOPIC_CONFIGS, "segment.bytes": str(topic.segment_bytes)}
        min_isr = topic.min_isr or (2 if factor > 2 else 1)
        if min_isr > 1:
            configs["min.insync.replicas"] = str(min_isr)
        assignment = round_robin(
            storage_nodes, first=first, partitions=count, replication_factor=factor
        )
        first += count
        records.append(TopicCreated(name, topic_id, True, configs, assignment))
        dealt = tuple((shard, coordinators[shard % len(coordinators)]) for shard in range(count))
        records.append(ShardsAssigned(kind, dealt))
    return records


def _registration_fault(event: RegisterNode) -> str:
    if event.node_id < 0:
        return f"node id {event.node_id} is not 1 or more, or 0 for one that the controller gives"
    if not event.incarnation_id:
        return "incarnation_id is empty; make a new one at each start of the process"
    if not event.roles:
        return f"node {event.node_id} names no role; name at least one of {', '.join(ROLES)}"
    if any(role not in ROLES for role in event.roles):
        return f"node {event.node_id} names roles {list(event.roles)}; known are {', '.join(ROLES)}"
    if not 0 <= event.kafka_port <= 65535:
        return f"kafka port {event.kafka_port} is not a port"
    return ""
