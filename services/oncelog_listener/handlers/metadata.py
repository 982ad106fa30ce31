"""Metadata: the brokers are the listeners, and partitions are spread over them (docs/kafka-facts.md, 3; ADR 0001, ADR
0017).

Storage nodes take no client connections. The module `brokers` decides which listeners the answer lists, and which of
them it names as a partition's leader.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from uuid import UUID

from oncelog.api.v1 import controller_pb2
from oncelog.errors import ErrorCode
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.brokers import Brokers, brokers_for
from oncelog_listener.core.authorized_operations import NOT_ASKED
from oncelog_listener.core.topic_names import is_legal_topic_name
from oncelog_listener.topic_access import (
    TOPIC_REFUSED,
    operations_on_cluster,
    operations_on_topic,
    refused_in_turns,
)
from oncelog_listener.topic_creation import create_missing

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import DescribeTopicPartitionsCall, MetadataCall

    _Wanted = kafka.MetadataRequestTypes.MetadataRequestTopic
    _Topic = kafka.MetadataResponseTypes.MetadataResponseTopic
    _Described = kafka.DescribeTopicPartitionsResponseTypes.DescribeTopicPartitionsResponseTopic

_AUTO_CREATION_FROM: Final = 4
_ALL_IS_NULL_FROM: Final = 1
_OPERATIONS_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10
_CLUSTER_OPERATIONS_UNTIL: Final = 10
_LEADER_EPOCH_NONE: Final = -1


async def metadata(call: MetadataCall) -> kafka.MetadataResponse:
    request, cluster = call.request, call.cluster
    wanted = request.topics
    brokers = brokers_for(call)
    topics: list[_Topic] = []
    if wanted is None or (call.version < _ALL_IS_NULL_FROM and not wanted):
        for topic in cluster.image.topics.values():
            if call.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, is_logged=False):
                topics.append(await _topic(call, topic, brokers))
            elif call.is_turn_over():
                await call.next_turn()
        return _response(call, tuple(topics), brokers)
    # Beside an id a name is nothing that is asked for.
    names = [one.name for one in wanted if one.name is not None and _topic_id(call, one) is None]
    refused = set(await refused_in_turns(call, Operation.DESCRIBE, names))
    if call.version < _AUTO_CREATION_FROM or request.allow_auto_topic_creation:
        refused |= await _created_or_refused(call, [one for one in names if one not in refused])
    seen: set[UUID | str | None] = set()
    for one in wanted:
        # A topic that is named many times is answered once, as in Kafka.
        key = _topic_id(call, one) or one.name
        if key not in seen:
            seen.add(key)
            topics.append(await _wanted_topic(call, one, brokers, refused))
        elif call.is_turn_over():
            await call.next_turn()
    return _response(call, tuple(topics), brokers)


async def _created_or_refused(call: MetadataCall, names: list[str]) -> frozenset[str]:
    """Create the topics that are missing, where the client and the settings allow it. Return the names that the client
    may not create."""
    cluster = call.cluster
    if not cluster.settings.auto_create_topics:
        return frozenset()
    refused: frozenset[str] = frozenset()
    known = cluster.image.topics
    missing = [name for name in names if name not in known]
    if missing and not call.may_cluster(Operation.CREATE, is_logged=False):
        refused = await refused_in_turns(call, Operation.CREATE, missing)
    await create_missing(cluster, [name for name in names if name not in refused])
    return refused


async def _wanted_topic(
    call: MetadataCall, wanted: _Wanted, brokers: Brokers, refused: set[str]
) -> _Topic:
    image = call.cluster.image
    # The Java Admin client sends an empty name beside an id, others send null: as in Kafka, the id decides.
    topic_id = _topic_id(call, wanted)
    name = None if topic_id is not None else wanted.name
    if name is None:
        topic = image.topics_by_id.get(topic_id.bytes if topic_id else b"")
    else:
        topic = image.topics.get(name) if name not in refused else None
    if (
        name is None
        and topic is not None
        and not call.may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
    ):
        # The answer has the id and no name, as in Kafka: an id is no secret, the name is.
        return _missing(call, None, topic_id, TOPIC_REFUSED.error_code)
    if topic is not None:
        return await _topic(call, topic, brokers)
    if call.is_turn_over():
        await call.next_turn()
    if name is None:
        return _missing(call, None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
    if name in refused:
        return _missing(call, name, None, TOPIC_REFUSED.error_code)
    return _missing(call, name, None, _why_missing(name), _topic_operations(call, name))


def _topic_id(call: MetadataCall, wanted: _Wanted) -> UUID | None:
    return wanted.topic_id if call.version >= _TOPIC_IDS_FROM else None


def _missing(
    call: MetadataCall,
    name: str | None,
    topic_id: UUID | None,
    code: ErrorCode,
    operations: int = NOT_ASKED,
) -> _Topic:
    return call.types.MetadataResponseTopic(
        error_code=code,
        # Before version 12 a name cannot be null.
        name="" if name is None and call.version < 12 else name,
        topic_id=topic_id,
        is_internal=False,
        topic_authorized_operations=operations,
        partitions=(),
    )


async def _topic(call: MetadataCall, topic: controller_pb2.Topic, brokers: Brokers) -> _Topic:
    partitions: list[kafka.MetadataResponseTypes.MetadataResponsePartition] = []
    for partition in topic.partitions:
        partitions.append(_partition(call, topic, partition, brokers))
        if call.is_turn_over():
            await call.next_turn()
    return call.types.MetadataResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=UUID(bytes=topic.topic_id) if len(topic.topic_id) == 16 else None,
        is_internal=topic.internal,
        topic_authorized_operations=_topic_operations(call, topic.name),
        partitions=tuple(partitions),
    )


def _partition(
    call: MetadataCall,
    topic: controller_pb2.Topic,
    partition: controller_pb2.Partition,
    brokers: Brokers,
) -> kafka.MetadataResponseTypes.MetadataResponsePartition:
    node_id = brokers.listener_for(topic.name, partition.partition)
    has_leader = partition.leader >= 0
    return call.types.MetadataResponsePartition(
        error_code=ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.partition,
        leader_id=node_id if has_leader else -1,
        leader_epoch=partition.leader_epoch if has_leader else _LEADER_EPOCH_NONE,
        replica_nodes=(node_id,),
        isr_nodes=(node_id,),
        offline_replicas=(),
    )


def _topic_operations(call: MetadataCall, name: str) -> int:
    is_wanted = (
        call.version >= _OPERATIONS_FROM and call.request.include_topic_authorized_operations
    )
    return operations_on_topic(call, name) if is_wanted else NOT_ASKED


def _cluster_operations(call: MetadataCall) -> int:
    """Return the operations on the cluster that the client may do, as bits. From version 11 on only DescribeCluster
    tells them."""
    is_wanted = (
        _OPERATIONS_FROM <= call.version <= _CLUSTER_OPERATIONS_UNTIL
        and call.request.include_cluster_authorized_operations
    )
    return operations_on_cluster(call) if is_wanted else NOT_ASKED


def _response(
    call: MetadataCall, topics: tuple[_Topic, ...], brokers: Brokers
) -> kafka.MetadataResponse:
    cluster, types = call.cluster, call.types
    return types.MetadataResponse(
        brokers=tuple(
            types.MetadataResponseBroker(
                node_id=one.node_id, host=one.host, port=one.port, rack=one.rack
            )
            for one in brokers.all
        ),
        cluster_id=cluster.image.cluster_id or None,
        # Every listener passes requests on to the controller. Clients must not choose one that stops.
        controller_id=brokers.place("controller").node_id,
        topics=topics,
        error_code=0,
        cluster_authorized_operations=_cluster_operations(call),
    )


async def describe_topic_partitions(
    call: DescribeTopicPartitionsCall,
) -> kafka.DescribeTopicPartitionsResponse:
    """Answer DescribeTopicPartitions: metadata in pages, for topics with many partitions (KIP-966), in order of
    topic names."""
    request, image, types = call.request, call.cluster.image, call.types
    cursor, wanted = request.cursor, {topic.name for topic in request.topics}
    if cursor is not None and (
        cursor.partition_index < 0 or (wanted and cursor.topic_name not in wanted)
    ):
        return types.DescribeTopicPartitionsResponse(
            topics=tuple(
                _undescribed(call, one, ErrorCode.INVALID_REQUEST) for one in sorted(wanted)
            ),
        )
    refused = await refused_in_turns(
        call, Operation.DESCRIBE, wanted or image.topics.keys(), is_logged=bool(wanted)
    )
    names = sorted(wanted or (image.topics.keys() - refused))
    left = max(1, min(request.response_partition_limit, 2_000))
    topics: list[_Described] = []
    next_cursor = None
    brokers = brokers_for(call)
    for name in names:
        start = 0
        if cursor is not None:
            if name < cursor.topic_name:
                continue
            start = cursor.partition_index if name == cursor.topic_name else 0
        topic = image.topics.get(name)
        if name in refused:
            topics.append(_undescribed(call, name, TOPIC_REFUSED.error_code))
            if call.is_turn_over():
                await call.next_turn()
            continue
        if topic is None:
            operations = operations_on_topic(call, name)
            topics.append(_undescribed(call, name, _why_missing(name), operations))
            if call.is_turn_over():
                await call.next_turn()
            continue
        if left == 0:
            next_cursor = types.Cursor(topic_name=name, partition_index=0)
            break
        page = topic.partitions[start : start + left]
        left -= len(page)
        if call.is_turn_over(1 + len(page)):
            await call.next_turn()
        topics.append(_described(call, topic, page, brokers))
        if start + len(page) < len(topic.partitions):
            next_cursor = types.Cursor(topic_name=name, partition_index=start + len(page))
            break
    return types.DescribeTopicPartitionsResponse(topics=tuple(topics), next_cursor=next_cursor)


def _why_missing(name: str) -> ErrorCode:
    if is_legal_topic_name(name):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.INVALID_TOPIC_EXCEPTION


def _undescribed(
    call: DescribeTopicPartitionsCall, name: str, code: ErrorCode, operations: int = NOT_ASKED
) -> _Described:
    return call.types.DescribeTopicPartitionsResponseTopic(
        error_code=code,
        name=name,
        topic_id=None,
        is_internal=False,
        topic_authorized_operations=operations,
        partitions=(),
    )


def _described(
    call: DescribeTopicPartitionsCall,
    topic: controller_pb2.Topic,
    partitions: Sequence[controller_pb2.Partition],
    brokers: Brokers,
) -> _Described:
    types = call.types
    leaders = [brokers.listener_for(topic.name, one.partition) for one in partitions]
    return types.DescribeTopicPartitionsResponseTopic(
        error_code=0,
        name=topic.name,
        topic_id=UUID(bytes=topic.topic_id) if len(topic.topic_id) == 16 else None,
        is_internal=topic.internal,
        # Kafka tells them here unasked.
        topic_authorized_operations=operations_on_topic(call, topic.name),
        partitions=tuple(
            types.DescribeTopicPartitionsResponsePartition(
                error_code=ErrorCode.LEADER_NOT_AVAILABLE
                if partition.leader < 0
                else ErrorCode.NONE,
                partition_index=partition.partition,
                leader_id=-1 if partition.leader < 0 else node_id,
                leader_epoch=partition.leader_epoch,
                replica_nodes=(node_id,),
                isr_nodes=(node_id,),
                # The schema lets these two be null. Kafka never sends that, and its own Admin client breaks on it.
                eligible_leader_replicas=(),
                last_known_elr=(),
                offline_replicas=(),
            )
            for partition, node_id in zip(partitions, leaders, strict=True)
        ),
    )
