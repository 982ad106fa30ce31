"""Requests with as many elements as a listener takes, of every API that takes many."""

import uuid
from datetime import timedelta

from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of

WAIT = timedelta(seconds=30)
ACROSS, AGAIN, WITHIN = "across", "again", "within"
"""Many topics, which do not exist; one partition many times; many partitions of one topic."""


def numbered(count, shape):
    """(topic, partition) of each element; an element costs two where it brings its topic along."""
    if shape == ACROSS:
        return [(f"t{number:06d}", 0) for number in range(count // 2)]
    return [("orders", 0 if shape == AGAIN else number) for number in range(count - 1)]


def names(count, shape):
    return tuple("orders" if shape == AGAIN else f"n{number:06d}" for number in range(count))


def in_topics(count, shape, topic, partition):
    """What `topic(name, partitions)` makes of the elements, by topic."""
    by_topic = {}
    for name, number in numbered(count, shape):
        by_topic.setdefault(name, []).append(partition(number))
    return tuple(topic(name, tuple(found)) for name, found in by_topic.items())


def produce(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.TopicProduceData(name=name, partition_data=found),
        lambda number: types.PartitionProduceData(index=number, records=b""),
    )
    return types.ProduceRequest(transactional_id=None, acks=-1, timeout=WAIT, topic_data=topics)


def list_offsets(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.ListOffsetsTopic(name=name, partitions=found),
        lambda number: types.ListOffsetsPartition(
            partition_index=number, timestamp=-1, current_leader_epoch=-1
        ),
    )
    return types.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics)


def offset_commit(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.OffsetCommitRequestTopic(name=name, partitions=found),
        lambda number: types.OffsetCommitRequestPartition(
            partition_index=number, committed_offset=1, committed_metadata=""
        ),
    )
    return types.OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )


def offset_fetch_of_one(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.OffsetFetchRequestTopic(name=name, partition_indexes=found),
        int,
    )
    return types.OffsetFetchRequest(group_id="g", topics=topics, require_stable=True)


def offset_fetch(types, count, shape):
    groups = tuple(
        types.OffsetFetchRequestGroup(group_id=name, topics=None) for name in names(count, shape)
    )
    return types.OffsetFetchRequest(groups=groups, require_stable=True)


def describe_groups(types, count, shape):
    return types.DescribeGroupsRequest(
        groups=names(count, shape), include_authorized_operations=False
    )


def create_topics(types, count, shape):
    topics = tuple(
        types.CreatableTopic(
            name=name, num_partitions=-2, replication_factor=1, assignments=(), configs=()
        )
        for name in names(count, shape)
    )
    return types.CreateTopicsRequest(topics=topics, timeout=WAIT, validate_only=False)


def create_topic_with_configs(types, count, shape):
    configs = tuple(
        types.CreatableTopicConfig(name=name, value="1") for name in names(count - 1, shape)
    )
    new = types.CreatableTopic(
        name="new", num_partitions=1, replication_factor=1, assignments=(), configs=configs
    )
    return types.CreateTopicsRequest(topics=(new,), timeout=WAIT, validate_only=False)


def delete_topics(types, count, shape):
    return types.DeleteTopicsRequest(topic_names=names(count, shape), timeout=WAIT)


def delete_topics_by_id(types, count, shape):
    topics = tuple(
        types.DeleteTopicState(name=None, topic_id=uuid.UUID(int=1 if shape == AGAIN else number))
        for number in range(1, count + 1)
    )
    return types.DeleteTopicsRequest(topics=topics, timeout=WAIT)


def delete_records(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.DeleteRecordsTopic(name=name, partitions=found),
        lambda number: types.DeleteRecordsPartition(partition_index=number, offset=-1),
    )
    return types.DeleteRecordsRequest(topics=topics, timeout=WAIT)


def offset_for_leader_epoch(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.OffsetForLeaderTopic(topic=name, partitions=found),
        lambda number: types.OffsetForLeaderPartition(
            partition=number, current_leader_epoch=-1, leader_epoch=0
        ),
    )
    return types.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def add_partitions_to_txn(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.AddPartitionsToTxnTopic(name=name, partitions=found),
        int,
    )
    return types.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="t",
        v3_and_below_producer_id=1,
        v3_and_below_producer_epoch=0,
        v3_and_below_topics=topics,
    )


def write_txn_markers(types, count, shape):
    topics = in_topics(
        count - 1,
        shape,
        lambda name, found: types.WritableTxnMarkerTopic(name=name, partition_indexes=found),
        int,
    )
    marker = types.WritableTxnMarker(
        producer_id=1,
        producer_epoch=0,
        transaction_result=False,
        topics=topics,
        coordinator_epoch=0,
    )
    return types.WriteTxnMarkersRequest(markers=(marker,))


def many_txn_markers(types, count, shape):
    markers = tuple(
        types.WritableTxnMarker(
            producer_id=1 if shape == AGAIN else number,
            producer_epoch=0,
            transaction_result=False,
            topics=(types.WritableTxnMarkerTopic(name="orders", partition_indexes=(0,)),),
            coordinator_epoch=0,
        )
        for number in range(count // 3)
    )
    return types.WriteTxnMarkersRequest(markers=markers)


def txn_offset_commit(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.TxnOffsetCommitRequestTopic(name=name, partitions=found),
        lambda number: types.TxnOffsetCommitRequestPartition(
            partition_index=number, committed_offset=1, committed_metadata=""
        ),
    )
    return types.TxnOffsetCommitRequest(
        transactional_id="t", group_id="g", producer_id=1, producer_epoch=0, topics=topics
    )


def describe_configs(resource_type):
    def build(types, count, shape):
        resources = tuple(
            types.DescribeConfigsResource(
                resource_type=resource_type,
                resource_name="1" if shape == AGAIN else name,
                configuration_keys=None,
            )
            for name in names(count, shape)
        )
        return types.DescribeConfigsRequest(
            resources=resources, include_synonyms=True, include_documentation=True
        )

    return build


def incremental_alter_configs(types, count, shape):
    resources = tuple(
        types.AlterConfigsResource(resource_type=2, resource_name=name, configs=())
        for name in names(count, shape)
    )
    return types.IncrementalAlterConfigsRequest(resources=resources, validate_only=True)


def alter_replica_log_dirs(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.AlterReplicaLogDirTopic(name=name, partitions=found),
        int,
    )
    return types.AlterReplicaLogDirsRequest(
        dirs=(types.AlterReplicaLogDir(path="/data", topics=topics),)
    )


def describe_log_dirs(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.DescribableLogDirTopic(topic=name, partitions=found),
        int,
    )
    return types.DescribeLogDirsRequest(topics=topics)


def create_partitions(types, count, shape):
    topics = tuple(
        types.CreatePartitionsTopic(name=name, count=-2, assignments=None)
        for name in names(count, shape)
    )
    return types.CreatePartitionsRequest(topics=topics, timeout=WAIT, validate_only=False)


def delete_groups(types, count, shape):
    return types.DeleteGroupsRequest(groups_names=names(count, shape))


def elect_leaders(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.TopicPartitions(topic=name, partitions=found),
        int,
    )
    return types.ElectLeadersRequest(election_type=0, topic_partitions=topics, timeout=WAIT)


def alter_partition_reassignments(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.ReassignableTopic(name=name, partitions=found),
        lambda number: types.ReassignablePartition(partition_index=number, replicas=None),
    )
    return types.AlterPartitionReassignmentsRequest(timeout=WAIT, topics=topics)


def list_partition_reassignments(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.ListPartitionReassignmentsTopics(
            name=name, partition_indexes=found
        ),
        int,
    )
    return types.ListPartitionReassignmentsRequest(timeout=WAIT, topics=topics)


def offset_delete(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.OffsetDeleteRequestTopic(name=name, partitions=found),
        lambda number: types.OffsetDeleteRequestPartition(partition_index=number),
    )
    return types.OffsetDeleteRequest(group_id="g", topics=topics)


def describe_producers(types, count, shape):
    topics = in_topics(
        count,
        shape,
        lambda name, found: types.TopicRequest(name=name, partition_indexes=found),
        int,
    )
    return types.DescribeProducersRequest(topics=topics)


def describe_transactions(types, count, shape):
    return types.DescribeTransactionsRequest(transactional_ids=names(count, shape))


def consumer_group_describe(types, count, shape):
    return types.ConsumerGroupDescribeRequest(
        group_ids=names(count, shape), include_authorized_operations=False
    )


def describe_topic_partitions(types, count, shape):
    topics = tuple(types.TopicRequest(name=name) for name in names(count, shape))
    return types.DescribeTopicPartitionsRequest(
        topics=topics, response_partition_limit=2_000, cursor=None
    )


LARGE = {
    "Produce": (versions.PRODUCE, 8, produce),
    "ListOffsets": (versions.LIST_OFFSETS, 7, list_offsets),
    "OffsetCommit": (versions.OFFSET_COMMIT, 8, offset_commit),
    "OffsetFetch of a group": (versions.OFFSET_FETCH, 7, offset_fetch_of_one),
    "OffsetFetch": (versions.OFFSET_FETCH, 9, offset_fetch),
    "DescribeGroups": (versions.DESCRIBE_GROUPS, 5, describe_groups),
    "CreateTopics": (versions.CREATE_TOPICS, 7, create_topics),
    "CreateTopics with configs": (versions.CREATE_TOPICS, 7, create_topic_with_configs),
    "DeleteTopics": (versions.DELETE_TOPICS, 5, delete_topics),
    "DeleteTopics by id": (versions.DELETE_TOPICS, 6, delete_topics_by_id),
    "DeleteRecords": (versions.DELETE_RECORDS, 2, delete_records),
    "OffsetForLeaderEpoch": (versions.OFFSET_FOR_LEADER_EPOCH, 4, offset_for_leader_epoch),
    "AddPartitionsToTxn": (versions.ADD_PARTITIONS_TO_TXN, 3, add_partitions_to_txn),
    "WriteTxnMarkers": (versions.WRITE_TXN_MARKERS, 1, write_txn_markers),
    "WriteTxnMarkers, many": (versions.WRITE_TXN_MARKERS, 1, many_txn_markers),
    "TxnOffsetCommit": (versions.TXN_OFFSET_COMMIT, 3, txn_offset_commit),
    "DescribeConfigs of topics": (versions.DESCRIBE_CONFIGS, 4, describe_configs(2)),
    "DescribeConfigs of brokers": (versions.DESCRIBE_CONFIGS, 4, describe_configs(4)),
    "IncrementalAlterConfigs": (
        versions.INCREMENTAL_ALTER_CONFIGS,
        1,
        incremental_alter_configs,
    ),
    "AlterReplicaLogDirs": (versions.ALTER_REPLICA_LOG_DIRS, 2, alter_replica_log_dirs),
    "DescribeLogDirs": (versions.DESCRIBE_LOG_DIRS, 4, describe_log_dirs),
    "CreatePartitions": (versions.CREATE_PARTITIONS, 3, create_partitions),
    "DeleteGroups": (versions.DELETE_GROUPS, 2, delete_groups),
    "ElectLeaders": (versions.ELECT_LEADERS, 2, elect_leaders),
    "AlterPartitionReassignments": (
        versions.ALTER_PARTITION_REASSIGNMENTS,
        0,
        alter_partition_reassignments,
    ),
    "ListPartitionReassignments": (
        versions.LIST_PARTITION_REASSIGNMENTS,
        0,
        list_partition_reassignments,
    ),
    "OffsetDelete": (versions.OFFSET_DELETE, 0, offset_delete),
    "DescribeProducers": (versions.DESCRIBE_PRODUCERS, 0, describe_producers),
    "DescribeTransactions": (versions.DESCRIBE_TRANSACTIONS, 0, describe_transactions),
    "ConsumerGroupDescribe": (versions.CONSUMER_GROUP_DESCRIBE, 0, consumer_group_describe),
    "DescribeTopicPartitions": (
        versions.DESCRIBE_TOPIC_PARTITIONS,
        0,
        describe_topic_partitions,
    ),
}


def large_request(name, count, shape):
    """(API key, version, request)."""
    api_key, version, build = LARGE[name]
    return api_key, version, build(schema_of(api_key, version).request_types, count, shape)
