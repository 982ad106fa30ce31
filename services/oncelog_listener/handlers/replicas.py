"""Replicas for Kafka's tools: their folders, ElectLeaders, AlterPartitionReassignments and ListPartitionReassignments.

Clients see listeners as brokers, and each partition "led" by one of them (ADR 0017). Replicas are on storage nodes:

- a reassignment names storage nodes, as `oncelog nodes list` shows them; a listener's id is refused;
- an election elects among storage nodes, and changes no broker in Metadata;
- each broker tells the folders and sizes of the partitions that Metadata says it leads, as their storage leaders have
  them. So all brokers together tell each partition once;
- a storage node has one folder, so no replica moves to another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import controller_pb2, storage_pb2, types_pb2
from oncelog.errors import ErrorCode
from oncelog.rpc.stubs import ControllerStub, StorageStub
from oncelog.security.acl import Operation
from oncelog_listener.brokers import Brokers, brokers_for
from oncelog_listener.call import Call
from oncelog_listener.cluster import (
    ApiError,
    TopicPartition,
    grouped,
)
from oncelog_listener.topic_access import CLUSTER_REFUSED, cluster_refusal

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        AlterPartitionReassignmentsCall,
        AlterReplicaLogDirsCall,
        DescribeLogDirsCall,
        ElectLeadersCall,
        ListPartitionReassignmentsCall,
    )

    _NamedPartitions = (
        kafka.DescribeLogDirsRequestTypes.DescribableLogDirTopic
        | kafka.ElectLeadersRequestTypes.TopicPartitions
    )

_Outcomes = dict[TopicPartition, types_pb2.PartitionError | ApiError]

_ChangedPartitions = controller_pb2.ElectLeadersResponse | controller_pb2.ReassignPartitionsResponse

_LOG_DIRS: Final = "log.dirs"
_TYPES_FROM: Final = 1
_UNCLEAN: Final = 1
_FACTOR_CHANGE_FROM: Final = 1


# Folders.


async def describe_log_dirs(call: DescribeLogDirsCall) -> kafka.DescribeLogDirsResponse:
    cluster, types = call.cluster, call.types
    image, brokers = cluster.image, brokers_for(call)
    if refusal := cluster_refusal(call, Operation.DESCRIBE):
        return types.DescribeLogDirsResponse(results=(), error_code=refusal.error_code)
    wanted = [
        key
        for key in _wanted(call, call.request.topics)
        if brokers.listener_for(*key) == cluster.node_id
    ]

    async def ask(
        storage: StorageStub, items: list[types_pb2.TopicPartition]
    ) -> Sequence[storage_pb2.PartitionDescription]:
        answer = await storage.DescribePartitions(
            storage_pb2.DescribePartitionsRequest(partitions=items)
        )
        return answer.partitions

    found = await cluster.ask_leaders({key: _named(key) for key in wanted}, ask)
    # Every folder is told, also one without a partition: Kafka's client takes none at all for a refusal.
    by_leader: dict[int, dict[TopicPartition, int]] = {
        node.node_id: {}
        for node in image.nodes.values()
        if controller_pb2.ROLE_STORAGE in node.roles and not node.fenced
    }
    for key, answer in found.items():
        leader = cluster.leader_of(image, key)
        if isinstance(answer, ApiError) or answer.error_code:
            continue
        if isinstance(leader, int):
            by_leader.setdefault(leader, {})[key] = answer.size_bytes
    results = tuple(
        types.DescribeLogDirsResult(
            error_code=0,
            log_dir=_log_dir(call, node_id),
            topics=_sizes(call, sizes),
        )
        for node_id, sizes in sorted(by_leader.items())
    )
    return types.DescribeLogDirsResponse(results=results, error_code=0)


async def alter_replica_log_dirs(
    call: AlterReplicaLogDirsCall,
) -> kafka.AlterReplicaLogDirsResponse:
    types, brokers = call.types, brokers_for(call)
    is_allowed = call.may_cluster(Operation.ALTER)
    folders = {_log_dir(call, node_id) for node_id in call.cluster.image.nodes}
    found: dict[
        str, dict[int, kafka.AlterReplicaLogDirsResponseTypes.AlterReplicaLogDirPartitionResult]
    ] = {}
    for one in call.request.dirs:
        for topic in one.topics:
            for partition in topic.partitions:
                if not is_allowed:
                    code: int = CLUSTER_REFUSED.error_code
                elif one.path not in folders:
                    code = ErrorCode.LOG_DIR_NOT_FOUND
                else:
                    code = _move_refused(call, brokers, one.path, (topic.name, partition))
                found.setdefault(topic.name, {})[partition] = (
                    types.AlterReplicaLogDirPartitionResult(
                        partition_index=partition, error_code=code
                    )
                )
                if call.is_turn_over():
                    await call.next_turn()
    results = []
    for name, answered in found.items():
        results.append(
            types.AlterReplicaLogDirTopicResult(
                topic_name=name, partitions=tuple(answered.values())
            )
        )
        if call.is_turn_over():
            await call.next_turn()
    return types.AlterReplicaLogDirsResponse(results=tuple(results))


def _move_refused(call: Call, brokers: Brokers, path: str, key: TopicPartition) -> int:
    """Return the error with which AlterReplicaLogDirs refuses to move the partition to this folder; 0: it is there
    already."""
    cluster = call.cluster
    leader = cluster.leader_of(cluster.image, key)
    if not isinstance(leader, int):
        return leader.error_code
    if brokers.listener_for(*key) != cluster.node_id:
        return ErrorCode.REPLICA_NOT_AVAILABLE
    return ErrorCode.NONE if path == _log_dir(call, leader) else ErrorCode.LOG_DIR_NOT_FOUND


def _log_dir(call: Call, node_id: int) -> str:
    node = call.cluster.image.nodes.get(node_id)
    path = node.configs.get(_LOG_DIRS, "") if node is not None else ""
    return f"storage-{node_id}:{path}"


def _sizes(
    call: DescribeLogDirsCall, sizes: dict[TopicPartition, int]
) -> tuple[kafka.DescribeLogDirsResponseTypes.DescribeLogDirsTopic, ...]:
    types = call.types
    return tuple(
        types.DescribeLogDirsTopic(
            name=topic,
            partitions=tuple(
                types.DescribeLogDirsPartition(
                    partition_index=partition,
                    partition_size=sizes[topic, partition],
                    offset_lag=0,
                    is_future_key=False,
                )
                for partition in partitions
            ),
        )
        for topic, partitions in grouped(list(sizes)).items()
    )


def _wanted(call: Call, topics: Iterable[_NamedPartitions] | None) -> list[TopicPartition]:
    """Return the partitions that the request names; with null, all that exist. Named ones may not exist: the caller
    handles them."""
    if topics is None:
        found = call.cluster.image.topics.values()
        return [(topic.name, one.partition) for topic in found for one in topic.partitions]
    return [(one.topic, partition) for one in topics for partition in one.partitions]


def _named(key: TopicPartition) -> types_pb2.TopicPartition:
    return types_pb2.TopicPartition(topic=key[0], partition=key[1])


# Elections.


async def elect_leaders(call: ElectLeadersCall) -> kafka.ElectLeadersResponse:
    request, types = call.request, call.types
    is_all = request.topic_partitions is None
    is_unclean = call.version >= _TYPES_FROM and request.election_type == _UNCLEAN
    is_allowed = call.may_cluster(Operation.ALTER)
    failed: ApiError | None
    # A refused client is answered with no other names than those that it sent.
    wanted = _wanted(call, request.topic_partitions) if is_allowed or not is_all else []
    forwarded = controller_pb2.ElectLeadersRequest(
        partitions=[_named(key) for key in wanted], unclean=is_unclean
    )
    if not is_allowed:
        # Each partition gets the error, too: before version 1 there is no error for the whole request.
        answers, failed = _refused_alike(wanted), CLUSTER_REFUSED
    else:
        answers, failed = await _changed(
            call, lambda controller: controller.ElectLeaders(forwarded)
        )
    results: dict[str, list[kafka.ElectLeadersResponseTypes.PartitionResult]] = {}
    for topic, partition in wanted if answers else ():
        results.setdefault(topic, [])
        outcome = answers[topic, partition]
        if is_all and outcome.error_code == ErrorCode.ELECTION_NOT_NEEDED:
            continue
        results[topic].append(
            types.PartitionResult(
                partition_id=partition,
                error_code=outcome.error_code,
                error_message=outcome.error_message or None,
            )
        )
    return types.ElectLeadersResponse(
        error_code=failed.error_code if failed else 0,
        replica_election_results=tuple(
            types.ReplicaElectionResult(topic=topic, partition_result=tuple(found))
            for topic, found in results.items()
        ),
    )


def _refused_alike(wanted: Iterable[TopicPartition]) -> _Outcomes:
    """Return CLUSTER_AUTHORIZATION_FAILED for each partition that the client named: it may not do this to any."""
    return dict.fromkeys(wanted, CLUSTER_REFUSED)


async def _changed(
    call: Call, change: Callable[[ControllerStub], Awaitable[_ChangedPartitions]]
) -> tuple[_Outcomes, ApiError | None]:
    """Ask the controller for a change of replicas. Return its code and message for each partition, and an error if the
    whole call failed."""
    answer = await call.cluster.ask_controller(change)
    if isinstance(answer, ApiError):
        return {}, answer
    return {(one.topic, one.partition): one for one in answer.partitions}, None


# Reassignments.


async def alter_partition_reassignments(
    call: AlterPartitionReassignmentsCall,
) -> kafka.AlterPartitionReassignmentsResponse:
    request, types = call.request, call.types
    wanted = {
        (topic.name, one.partition_index): one.replicas
        for topic in request.topics
        for one in topic.partitions
    }
    refused = _refused(call, wanted)
    forwarded = controller_pb2.ReassignPartitionsRequest(
        assignments=[
            controller_pb2.ReassignPartitionsRequest.Assignment(
                partition=_named(key), replicas=replicas or ()
            )
            for key, replicas in wanted.items()
            if key not in refused
        ]
    )
    failed: ApiError | None
    if not call.may_cluster(Operation.ALTER):
        answers, failed = _refused_alike(wanted), CLUSTER_REFUSED
    elif forwarded.assignments:
        answers, failed = await _changed(
            call, lambda controller: controller.ReassignPartitions(forwarded)
        )
    else:
        answers, failed = {}, None
    outcomes = answers if failed else {**answers, **refused}
    return types.AlterPartitionReassignmentsResponse(
        error_code=failed.error_code if failed else 0,
        error_message=failed.error_message if failed else None,
        responses=tuple(
            types.ReassignableTopicResponse(
                name=topic,
                partitions=tuple(
                    types.ReassignablePartitionResponse(
                        partition_index=partition,
                        error_code=outcomes[topic, partition].error_code,
                        error_message=outcomes[topic, partition].error_message or None,
                    )
                    for partition in partitions
                ),
            )
            for topic, partitions in grouped(list(outcomes)).items()
        ),
        allow_replication_factor_change=_may_change_factor(call),
    )


def _may_change_factor(call: AlterPartitionReassignmentsCall) -> bool:
    return call.version < _FACTOR_CHANGE_FROM or bool(call.request.allow_replication_factor_change)


def _refused(
    call: AlterPartitionReassignmentsCall, wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> _Outcomes:
    """Return the errors of reassignments that are refused before the controller is asked: an empty list of replicas, or
    another number of them where the request forbids that."""
    found: _Outcomes = {}
    may_change = _may_change_factor(call)
    for key, replicas in wanted.items():
        if replicas is None:
            continue
        topic = call.cluster.image.topics.get(key[0])
        if not replicas:
            found[key] = ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the list of replicas is empty"
            )
        elif not may_change and topic is not None and key[1] in range(len(topic.partitions)):
            known = topic.partitions[key[1]]
            settled = [one for one in known.replicas if one not in known.adding_replicas]
            if len(replicas) != len(settled):
                found[key] = ApiError(
                    ErrorCode.INVALID_REPLICATION_FACTOR,
                    f"{len(settled)} replicas would become {len(replicas)}",
                )
    return found


async def list_partition_reassignments(
    call: ListPartitionReassignmentsCall,
) -> kafka.ListPartitionReassignmentsResponse:
    types, image = call.types, call.cluster.image
    topics = call.request.topics
    failed = cluster_refusal(call, Operation.DESCRIBE)
    if failed is not None:
        topics = topics or ()
    keys = (
        _wanted(call, None)
        if topics is None
        else [(one.name, partition) for one in topics for partition in one.partition_indexes]
    )
    moving: dict[
        str, list[kafka.ListPartitionReassignmentsResponseTypes.OngoingPartitionReassignment]
    ] = {}
    for name, number in keys:
        if failed is not None:
            # A refused client is answered with the names that it sent.
            nothing = types.OngoingPartitionReassignment(
                partition_index=number, replicas=(), adding_replicas=(), removing_replicas=()
            )
            moving.setdefault(name, []).append(nothing)
            continue
        topic = image.topics.get(name)
        if topic is None or number not in range(len(topic.partitions)):
            continue
        found = topic.partitions[number]
        if found.adding_replicas or found.removing_replicas:
            moving.setdefault(name, []).append(
                types.OngoingPartitionReassignment(
                    partition_index=number,
                    replicas=tuple(found.replicas),
                    adding_replicas=tuple(found.adding_replicas),
                    removing_replicas=tuple(found.removing_replicas),
                )
            )
    return types.ListPartitionReassignmentsResponse(
        error_code=failed.error_code if failed else 0,
        error_message=failed.error_message if failed else None,
        topics=tuple(
            types.OngoingTopicReassignment(name=name, partitions=tuple(found))
            for name, found in moving.items()
        ),
    )
