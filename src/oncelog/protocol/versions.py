"""The Kafka APIs that oncelog serves, and their versions: one table, read by the listener and told in ApiVersions.

Ranges follow docs/kafka-facts.md, 2. Where we stop short of Kafka 4.x the reason stands beside the row. A client picks
the highest version both sides have, so a lower maximum costs a feature and never compatibility. ApiVersions tells only
what is served.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

    ApiKey = kafka.ApiKey
else:
    ApiKey = int
    """An API's number. mypy sees the types of its messages in it, too (ADR 0055)."""

PRODUCE: Final[kafka.ProduceKey] = ApiKey(0)
FETCH: Final[kafka.FetchKey] = ApiKey(1)
LIST_OFFSETS: Final[kafka.ListOffsetsKey] = ApiKey(2)
METADATA: Final[kafka.MetadataKey] = ApiKey(3)
OFFSET_COMMIT: Final[kafka.OffsetCommitKey] = ApiKey(8)
OFFSET_FETCH: Final[kafka.OffsetFetchKey] = ApiKey(9)
FIND_COORDINATOR: Final[kafka.FindCoordinatorKey] = ApiKey(10)
JOIN_GROUP: Final[kafka.JoinGroupKey] = ApiKey(11)
HEARTBEAT: Final[kafka.HeartbeatKey] = ApiKey(12)
LEAVE_GROUP: Final[kafka.LeaveGroupKey] = ApiKey(13)
SYNC_GROUP: Final[kafka.SyncGroupKey] = ApiKey(14)
DESCRIBE_GROUPS: Final[kafka.DescribeGroupsKey] = ApiKey(15)
LIST_GROUPS: Final[kafka.ListGroupsKey] = ApiKey(16)
SASL_HANDSHAKE: Final[kafka.SaslHandshakeKey] = ApiKey(17)
API_VERSIONS: Final[kafka.ApiVersionsKey] = ApiKey(18)
CREATE_TOPICS: Final[kafka.CreateTopicsKey] = ApiKey(19)
DELETE_TOPICS: Final[kafka.DeleteTopicsKey] = ApiKey(20)
DELETE_RECORDS: Final[kafka.DeleteRecordsKey] = ApiKey(21)
INIT_PRODUCER_ID: Final[kafka.InitProducerIdKey] = ApiKey(22)
OFFSET_FOR_LEADER_EPOCH: Final[kafka.OffsetForLeaderEpochKey] = ApiKey(23)
ADD_PARTITIONS_TO_TXN: Final[kafka.AddPartitionsToTxnKey] = ApiKey(24)
ADD_OFFSETS_TO_TXN: Final[kafka.AddOffsetsToTxnKey] = ApiKey(25)
END_TXN: Final[kafka.EndTxnKey] = ApiKey(26)
WRITE_TXN_MARKERS: Final[kafka.WriteTxnMarkersKey] = ApiKey(27)
TXN_OFFSET_COMMIT: Final[kafka.TxnOffsetCommitKey] = ApiKey(28)
DESCRIBE_ACLS: Final[kafka.DescribeAclsKey] = ApiKey(29)
CREATE_ACLS: Final[kafka.CreateAclsKey] = ApiKey(30)
DELETE_ACLS: Final[kafka.DeleteAclsKey] = ApiKey(31)
DESCRIBE_CONFIGS: Final[kafka.DescribeConfigsKey] = ApiKey(32)
ALTER_CONFIGS: Final[kafka.AlterConfigsKey] = ApiKey(33)
ALTER_REPLICA_LOG_DIRS: Final[kafka.AlterReplicaLogDirsKey] = ApiKey(34)
DESCRIBE_LOG_DIRS: Final[kafka.DescribeLogDirsKey] = ApiKey(35)
SASL_AUTHENTICATE: Final[kafka.SaslAuthenticateKey] = ApiKey(36)
CREATE_PARTITIONS: Final[kafka.CreatePartitionsKey] = ApiKey(37)
DELETE_GROUPS: Final[kafka.DeleteGroupsKey] = ApiKey(42)
ELECT_LEADERS: Final[kafka.ElectLeadersKey] = ApiKey(43)
INCREMENTAL_ALTER_CONFIGS: Final[kafka.IncrementalAlterConfigsKey] = ApiKey(44)
ALTER_PARTITION_REASSIGNMENTS: Final[kafka.AlterPartitionReassignmentsKey] = ApiKey(45)
LIST_PARTITION_REASSIGNMENTS: Final[kafka.ListPartitionReassignmentsKey] = ApiKey(46)
OFFSET_DELETE: Final[kafka.OffsetDeleteKey] = ApiKey(47)
DESCRIBE_CLIENT_QUOTAS: Final[kafka.DescribeClientQuotasKey] = ApiKey(48)
ALTER_CLIENT_QUOTAS: Final[kafka.AlterClientQuotasKey] = ApiKey(49)
DESCRIBE_USER_SCRAM_CREDENTIALS: Final[kafka.DescribeUserScramCredentialsKey] = ApiKey(50)
ALTER_USER_SCRAM_CREDENTIALS: Final[kafka.AlterUserScramCredentialsKey] = ApiKey(51)
DESCRIBE_QUORUM: Final[kafka.DescribeQuorumKey] = ApiKey(55)
UPDATE_FEATURES: Final[kafka.UpdateFeaturesKey] = ApiKey(57)
DESCRIBE_CLUSTER: Final[kafka.DescribeClusterKey] = ApiKey(60)
DESCRIBE_PRODUCERS: Final[kafka.DescribeProducersKey] = ApiKey(61)
DESCRIBE_TRANSACTIONS: Final[kafka.DescribeTransactionsKey] = ApiKey(65)
LIST_TRANSACTIONS: Final[kafka.ListTransactionsKey] = ApiKey(66)
CONSUMER_GROUP_HEARTBEAT: Final[kafka.ConsumerGroupHeartbeatKey] = ApiKey(68)
CONSUMER_GROUP_DESCRIBE: Final[kafka.ConsumerGroupDescribeKey] = ApiKey(69)
LIST_CONFIG_RESOURCES: Final[kafka.ListConfigResourcesKey] = ApiKey(74)
DESCRIBE_TOPIC_PARTITIONS: Final[kafka.DescribeTopicPartitionsKey] = ApiKey(75)


@dataclass(frozen=True, slots=True)
class Api:
    """One API of Kafka with the versions that are served. `served_min` is above `min_version` if ApiVersions tells
    older versions that are not served."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_from: int
    served_min: int

    def serves(self, version: int) -> bool:
        return self.served_min <= version <= self.max_version

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_from

    def response_has_tags(self, version: int) -> bool:
        """Return True if the response's header has tagged fields: it does if the request's header has them, but never
        for ApiVersions."""
        return version >= self.flexible_from and self.key != API_VERSIONS


def _api(
    key: int,
    name: str,
    min_version: int,
    max_version: int,
    flexible_from: int,
    served_min: int | None = None,
) -> Api:
    return Api(
        key,
        name,
        min_version,
        max_version,
        flexible_from,
        min_version if served_min is None else served_min,
    )


APIS: Final[Mapping[int, Api]] = {
    api.key: api
    for api in (
        # librdkafka decides which message format a broker has by the range of Produce, so 0 must be told (KAFKA-18659);
        # versions 0 to 2 carry message formats that no longer exist.
        _api(PRODUCE, "Produce", 0, 13, 9, served_min=3),
        _api(FETCH, "Fetch", 4, 18, 12),
        _api(LIST_OFFSETS, "ListOffsets", 1, 11, 6),
        _api(METADATA, "Metadata", 0, 13, 9),
        _api(OFFSET_COMMIT, "OffsetCommit", 2, 10, 8),
        _api(OFFSET_FETCH, "OffsetFetch", 1, 10, 6),
        _api(FIND_COORDINATOR, "FindCoordinator", 0, 6, 3),
        _api(JOIN_GROUP, "JoinGroup", 0, 9, 6),
        _api(HEARTBEAT, "Heartbeat", 0, 4, 4),
        _api(LEAVE_GROUP, "LeaveGroup", 0, 5, 4),
        _api(SYNC_GROUP, "SyncGroup", 0, 5, 4),
        _api(DESCRIBE_GROUPS, "DescribeGroups", 0, 6, 5),
        _api(LIST_GROUPS, "ListGroups", 0, 5, 3),
        _api(SASL_HANDSHAKE, "SaslHandshake", 0, 1, 2),
        _api(API_VERSIONS, "ApiVersions", 0, 5, 3),
        _api(CREATE_TOPICS, "CreateTopics", 2, 7, 5),
        _api(DELETE_TOPICS, "DeleteTopics", 1, 6, 4),
        _api(DELETE_RECORDS, "DeleteRecords", 0, 2, 2),
        # 6 is unstable in Kafka (KIP-939): its clients use it only for two-phase commit.
        _api(INIT_PRODUCER_ID, "InitProducerId", 0, 6, 2),
        _api(OFFSET_FOR_LEADER_EPOCH, "OffsetForLeaderEpoch", 2, 4, 4),
        # 4 and 5 are spoken between Kafka's brokers; our storage nodes ask the coordinator themselves.
        _api(ADD_PARTITIONS_TO_TXN, "AddPartitionsToTxn", 0, 3, 3),
        _api(ADD_OFFSETS_TO_TXN, "AddOffsetsToTxn", 0, 4, 3),
        _api(END_TXN, "EndTxn", 0, 5, 3),
        _api(WRITE_TXN_MARKERS, "WriteTxnMarkers", 1, 2, 1),
        _api(TXN_OFFSET_COMMIT, "TxnOffsetCommit", 0, 6, 3),
        _api(DESCRIBE_ACLS, "DescribeAcls", 1, 3, 2),
        _api(CREATE_ACLS, "CreateAcls", 1, 3, 2),
        _api(DELETE_ACLS, "DeleteAcls", 1, 3, 2),
        _api(DESCRIBE_CONFIGS, "DescribeConfigs", 1, 4, 4),
        _api(ALTER_CONFIGS, "AlterConfigs", 0, 2, 2),
        _api(ALTER_REPLICA_LOG_DIRS, "AlterReplicaLogDirs", 1, 2, 2),
        _api(DESCRIBE_LOG_DIRS, "DescribeLogDirs", 1, 5, 2),
        _api(SASL_AUTHENTICATE, "SaslAuthenticate", 0, 2, 2),
        _api(CREATE_PARTITIONS, "CreatePartitions", 0, 3, 2),
        _api(DELETE_GROUPS, "DeleteGroups", 0, 3, 2),
        _api(ELECT_LEADERS, "ElectLeaders", 0, 2, 2),
        _api(INCREMENTAL_ALTER_CONFIGS, "IncrementalAlterConfigs", 0, 1, 1),
        _api(ALTER_PARTITION_REASSIGNMENTS, "AlterPartitionReassignments", 0, 1, 0),
        _api(LIST_PARTITION_REASSIGNMENTS, "ListPartitionReassignments", 0, 0, 0),
        _api(OFFSET_DELETE, "OffsetDelete", 0, 0, 1),
        _api(DESCRIBE_CLIENT_QUOTAS, "DescribeClientQuotas", 0, 1, 1),
        _api(ALTER_CLIENT_QUOTAS, "AlterClientQuotas", 0, 1, 1),
        _api(DESCRIBE_USER_SCRAM_CREDENTIALS, "DescribeUserScramCredentials", 0, 0, 0),
        _api(ALTER_USER_SCRAM_CREDENTIALS, "AlterUserScramCredentials", 0, 0, 0),
        _api(DESCRIBE_QUORUM, "DescribeQuorum", 0, 2, 0),
        _api(UPDATE_FEATURES, "UpdateFeatures", 0, 2, 0),
        _api(DESCRIBE_CLUSTER, "DescribeCluster", 0, 2, 0),
        _api(DESCRIBE_PRODUCERS, "DescribeProducers", 0, 0, 0),
        _api(DESCRIBE_TRANSACTIONS, "DescribeTransactions", 0, 0, 0),
        _api(LIST_TRANSACTIONS, "ListTransactions", 0, 2, 0),
        _api(CONSUMER_GROUP_HEARTBEAT, "ConsumerGroupHeartbeat", 0, 1, 0),
        _api(CONSUMER_GROUP_DESCRIBE, "ConsumerGroupDescribe", 0, 1, 0),
        _api(LIST_CONFIG_RESOURCES, "ListConfigResources", 0, 1, 0),
        _api(DESCRIBE_TOPIC_PARTITIONS, "DescribeTopicPartitions", 0, 0, 0),
    )
}

API_VERSIONS_RANGE: Final = APIS[API_VERSIONS]
