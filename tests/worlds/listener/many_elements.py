"""Requests with as many elements as a listener takes, of every API that takes many."""

import uuid
from collections.abc import Mapping
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any, NamedTuple

from tests.integration.listener.requests_by_vocabulary import request_of

from oncelog.protocol import versions
from oncelog.protocol.versions import APIS

ACROSS, AGAIN, WITHIN = "across", "again", "within"
"""Many topics, which do not exist; one partition many times; many partitions of one topic."""

WORDS = {
    "acks": -1,
    "assignments": (),
    "committed_metadata": "",
    "committed_offset": 1,
    "configuration_keys": None,
    "configs": (),
    "count": -2,
    "cursor": None,
    "generation_id_or_member_epoch": -1,
    "group_id": "g",
    "include_documentation": True,
    "include_synonyms": True,
    "num_partitions": -2,
    "offset": -1,
    "path": "/data",
    "producer_id": 1,
    "records": b"",
    "replica_id": -1,
    "replicas": None,
    "replication_factor": 1,
    "require_stable": True,
    "response_partition_limit": 2_000,
    "timeout": timedelta(seconds=30),
    "timestamp": -1,
    "current_leader_epoch": -1,
    "CreatePartitions.assignments": None,
    "IncrementalAlterConfigs.validate_only": True,
    "TxnOffsetCommit.transactional_id": "t",
    "v3_and_below_transactional_id": "t",
    "v3_and_below_producer_id": 1,
}


class Large(NamedTuple):
    api_key: int
    version: int
    lists: str
    """The way to the list of many. `topics*partitions`: of both. `resources:resource_name`: they differ in that
    field, and not in their first one."""
    words: Mapping[str, Any] = {}
    again: str = "orders"
    """The name that stands there many times."""


CONFIGS = "resources:resource_name"
LARGE = {
    "Produce": Large(versions.PRODUCE, 8, "topic_data*partition_data"),
    "ListOffsets": Large(versions.LIST_OFFSETS, 7, "topics*partitions"),
    "OffsetCommit": Large(versions.OFFSET_COMMIT, 8, "topics*partitions"),
    "OffsetFetch of a group": Large(versions.OFFSET_FETCH, 7, "topics*partition_indexes"),
    "OffsetFetch": Large(versions.OFFSET_FETCH, 9, "groups", {"topics": None}),
    "DescribeGroups": Large(versions.DESCRIBE_GROUPS, 5, "groups"),
    "CreateTopics": Large(versions.CREATE_TOPICS, 7, "topics"),
    "CreateTopics with configs": Large(
        *(versions.CREATE_TOPICS, 7, "topics/configs"),
        {"CreateTopics.name": "new", "num_partitions": 1, "value": "1", "configs": "many"},
    ),
    "DeleteTopics": Large(versions.DELETE_TOPICS, 5, "topic_names"),
    "DeleteTopics by id": Large(versions.DELETE_TOPICS, 6, "topics:topic_id"),
    "DeleteRecords": Large(versions.DELETE_RECORDS, 2, "topics*partitions"),
    "OffsetForLeaderEpoch": Large(versions.OFFSET_FOR_LEADER_EPOCH, 4, "topics*partitions"),
    "AddPartitionsToTxn": Large(
        versions.ADD_PARTITIONS_TO_TXN, 3, "v3_and_below_topics*partitions"
    ),
    "WriteTxnMarkers": Large(versions.WRITE_TXN_MARKERS, 1, "markers/topics*partition_indexes"),
    "WriteTxnMarkers, many": Large(
        *(versions.WRITE_TXN_MARKERS, 1, "markers"), {"name": "orders", "partition_indexes": (0,)}
    ),
    "TxnOffsetCommit": Large(versions.TXN_OFFSET_COMMIT, 3, "topics*partitions"),
    "DescribeConfigs of topics": Large(
        versions.DESCRIBE_CONFIGS, 4, CONFIGS, {"resource_type": 2}, "1"
    ),
    "DescribeConfigs of brokers": Large(
        versions.DESCRIBE_CONFIGS, 4, CONFIGS, {"resource_type": 4}, "1"
    ),
    "IncrementalAlterConfigs": Large(
        versions.INCREMENTAL_ALTER_CONFIGS, 1, CONFIGS, {"resource_type": 2}
    ),
    "AlterReplicaLogDirs": Large(versions.ALTER_REPLICA_LOG_DIRS, 2, "dirs/topics*partitions"),
    "DescribeLogDirs": Large(versions.DESCRIBE_LOG_DIRS, 4, "topics*partitions"),
    "CreatePartitions": Large(versions.CREATE_PARTITIONS, 3, "topics"),
    "DeleteGroups": Large(versions.DELETE_GROUPS, 2, "groups_names"),
    "ElectLeaders": Large(versions.ELECT_LEADERS, 2, "topic_partitions*partitions"),
    "AlterPartitionReassignments": Large(
        versions.ALTER_PARTITION_REASSIGNMENTS, 0, "topics*partitions"
    ),
    "ListPartitionReassignments": Large(
        versions.LIST_PARTITION_REASSIGNMENTS, 0, "topics*partition_indexes"
    ),
    "OffsetDelete": Large(versions.OFFSET_DELETE, 0, "topics*partitions"),
    "DescribeProducers": Large(versions.DESCRIBE_PRODUCERS, 0, "topics*partition_indexes"),
    "DescribeTransactions": Large(versions.DESCRIBE_TRANSACTIONS, 0, "transactional_ids"),
    "ConsumerGroupDescribe": Large(versions.CONSUMER_GROUP_DESCRIBE, 0, "group_ids"),
    "DescribeTopicPartitions": Large(versions.DESCRIBE_TOPIC_PARTITIONS, 0, "topics"),
}


def large_request(name, count, shape):
    """(API key, version, request)."""
    large = LARGE[name]
    request = request_of(APIS[large.api_key], large.version, {**WORDS, **large.words})
    if name == "WriteTxnMarkers, many":
        count //= 3  # Each brings a topic and a partition along.
    return large.api_key, large.version, _with_many(request, large, large.lists, count, shape)


def _with_many(entity, large, lists, count, shape):
    first, _, rest = lists.partition("/")
    if rest:
        (only,) = getattr(entity, first)
        return replace(entity, **{first: (_with_many(only, large, rest, count - 1, shape),)})
    topics, _, partitions = lists.partition("*")
    if partitions:
        (topic,) = getattr(entity, topics)
        found = tuple(
            _in_topic(topic, name, partitions, numbers)
            for name, numbers in _numbers_by_topic(count, shape).items()
        )
        return replace(entity, **{topics: found})
    listed, _, key = lists.partition(":")
    template = next(iter(getattr(entity, listed)), None)
    numbers = [0 if shape == AGAIN else number for number in range(count)]
    found = tuple(_element(template, key, number, large, shape) for number in numbers)
    return replace(entity, **{listed: found})


def _in_topic(topic, name, partitions, numbers):
    template = next(iter(getattr(topic, partitions)), None)
    found = tuple(number if template is None else _keyed(template, number) for number in numbers)
    return replace(_keyed(topic, name), **{partitions: found})


def _numbers_by_topic(count, shape):
    """Partitions by topic. An element costs two where it brings its topic along."""
    if shape == ACROSS:
        return {f"t{number:06d}": [0] for number in range(count // 2)}
    return {"orders": [0 if shape == AGAIN else number for number in range(count - 1)]}


def _element(template, key, number, large, shape):
    name = large.again if shape == AGAIN else f"n{number:06d}"
    if template is None:
        return name
    if key == "topic_id":
        return replace(template, topic_id=uuid.UUID(int=number + 1))
    value = number if hasattr(template, "producer_id") else name
    return replace(template, **{key: value}) if key else _keyed(template, value)


def _keyed(entity, value):
    """Its first field is its name or number."""
    return replace(entity, **{fields(entity)[0].name: value})
