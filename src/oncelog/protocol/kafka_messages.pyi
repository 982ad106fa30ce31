"""Kafka's messages for mypy and editors, written by `make kafka-types` from kio 0.6.5 and `newer_messages`.

Nothing of this exists when a process runs: import it under TYPE_CHECKING. A structure has the fields of all served
versions. A comment says which versions have a field, where it is not in all. A field with `= ...` may be left out.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeAlias
from uuid import UUID

from typing_extensions import TypeVar

RequestTypesT_co = TypeVar("RequestTypesT_co", covariant=True)
RequestT_co = TypeVar("RequestT_co", covariant=True)
ResponseTypesT_co = TypeVar("ResponseTypesT_co", covariant=True)
ResponseT_co = TypeVar("ResponseT_co", covariant=True)

class ApiKey(int, Generic[RequestTypesT_co, RequestT_co, ResponseTypesT_co, ResponseT_co]):
    """The number of an API, and the types of its messages. When a process runs it is an int."""

class Types:
    """The constructors of a message and of the structures in it. Each drops fields that its version does not have."""

    version: int

class ProduceRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ProduceRequest:
        transactional_id: str | None = ...
        acks: int
        timeout: timedelta
        topic_data: tuple[ProduceRequestTypes.TopicProduceData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicProduceData:
        name: str = ...  # to version 12
        partition_data: tuple[ProduceRequestTypes.PartitionProduceData, ...]
        topic_id: UUID | None = ...  # from version 13

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionProduceData:
        index: int
        records: bytes | None

ProduceRequest: TypeAlias = ProduceRequestTypes.ProduceRequest

class ProduceResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ProduceResponse:
        responses: tuple[ProduceResponseTypes.TopicProduceResponse, ...]
        throttle_time: timedelta = ...
        node_endpoints: tuple[ProduceResponseTypes.NodeEndpoint, ...] = ...  # from version 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicProduceResponse:
        name: str  # to version 12
        partition_responses: tuple[ProduceResponseTypes.PartitionProduceResponse, ...]
        topic_id: UUID | None  # from version 13

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionProduceResponse:
        index: int
        error_code: int
        base_offset: int
        log_append_time: datetime | None = ...
        log_start_offset: int = ...  # from version 5
        record_errors: tuple[ProduceResponseTypes.BatchIndexAndErrorMessage, ...]  # from version 8
        error_message: str | None = ...  # from version 8
        current_leader: ProduceResponseTypes.LeaderIdAndEpoch = ...  # from version 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class BatchIndexAndErrorMessage:  # from version 8
        batch_index: int
        batch_index_error_message: str | None = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class LeaderIdAndEpoch:  # from version 10
        leader_id: int = ...
        leader_epoch: int = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class NodeEndpoint:  # from version 10
        node_id: int
        host: str
        port: int
        rack: str | None = ...

ProduceResponse: TypeAlias = ProduceResponseTypes.ProduceResponse

ProduceKey: TypeAlias = ApiKey[ProduceRequestTypes, ProduceRequest, ProduceResponseTypes, ProduceResponse]

class FetchRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class FetchRequest:
        replica_id: int = ...  # to version 14
        max_wait: timedelta
        min_bytes: int
        max_bytes: int = ...
        isolation_level: int = ...
        topics: tuple[FetchRequestTypes.FetchTopic, ...]
        session_id: int = ...  # from version 7
        session_epoch: int = ...  # from version 7
        forgotten_topics_data: tuple[FetchRequestTypes.ForgottenTopic, ...] = ...  # from version 7
        rack_id: str = ...  # from version 11
        cluster_id: str | None = ...  # from version 12
        replica_state: FetchRequestTypes.ReplicaState = ...  # from version 15

    @dataclass(frozen=True, slots=True, kw_only=True)
    class FetchTopic:
        topic: str = ...  # to version 12
        partitions: tuple[FetchRequestTypes.FetchPartition, ...]
        topic_id: UUID | None = ...  # from version 13

    @dataclass(frozen=True, slots=True, kw_only=True)
    class FetchPartition:
        partition: int
        fetch_offset: int
        partition_max_bytes: int
        log_start_offset: int = ...  # from version 5
        current_leader_epoch: int = ...  # from version 9
        last_fetched_epoch: int = ...  # from version 12
        replica_directory_id: UUID | None = ...  # from version 17
        high_watermark: int = ...  # from version 18

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ForgottenTopic:  # from version 7
        topic: str = ...  # to version 12
        partitions: tuple[int, ...] = ...
        topic_id: UUID | None = ...  # from version 13

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReplicaState:  # from version 15
        replica_id: int = ...
        replica_epoch: int = ...

FetchRequest: TypeAlias = FetchRequestTypes.FetchRequest

class FetchResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class FetchResponse:
        throttle_time: timedelta = ...
        responses: tuple[FetchResponseTypes.FetchableTopicResponse, ...]
        error_code: int  # from version 7
        session_id: int = ...  # from version 7
        node_endpoints: tuple[FetchResponseTypes.NodeEndpoint, ...] = ...  # from version 16

    @dataclass(frozen=True, slots=True, kw_only=True)
    class FetchableTopicResponse:
        topic: str  # to version 12
        partitions: tuple[FetchResponseTypes.PartitionData, ...]
        topic_id: UUID | None  # from version 13

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionData:
        partition_index: int
        error_code: int
        high_watermark: int
        last_stable_offset: int = ...
        aborted_transactions: tuple[FetchResponseTypes.AbortedTransaction, ...] | None
        records: bytes | None
        log_start_offset: int = ...  # from version 5
        preferred_read_replica: int = ...  # from version 11
        diverging_epoch: FetchResponseTypes.EpochEndOffset = ...  # from version 12
        current_leader: FetchResponseTypes.LeaderIdAndEpoch = ...  # from version 12
        snapshot_id: FetchResponseTypes.SnapshotId = ...  # from version 12

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AbortedTransaction:
        producer_id: int
        first_offset: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class EpochEndOffset:  # from version 12
        epoch: int = ...
        end_offset: int = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class LeaderIdAndEpoch:  # from version 12
        leader_id: int = ...
        leader_epoch: int = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class SnapshotId:  # from version 12
        end_offset: int = ...
        epoch: int = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class NodeEndpoint:  # from version 16
        node_id: int
        host: str
        port: int
        rack: str | None = ...

FetchResponse: TypeAlias = FetchResponseTypes.FetchResponse

FetchKey: TypeAlias = ApiKey[FetchRequestTypes, FetchRequest, FetchResponseTypes, FetchResponse]

class ListOffsetsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListOffsetsRequest:
        replica_id: int
        topics: tuple[ListOffsetsRequestTypes.ListOffsetsTopic, ...]
        isolation_level: int = ...  # from version 2
        timeout: timedelta = ...  # from version 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListOffsetsTopic:
        name: str
        partitions: tuple[ListOffsetsRequestTypes.ListOffsetsPartition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListOffsetsPartition:
        partition_index: int
        timestamp: int
        current_leader_epoch: int = ...  # from version 4

ListOffsetsRequest: TypeAlias = ListOffsetsRequestTypes.ListOffsetsRequest

class ListOffsetsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListOffsetsResponse:
        topics: tuple[ListOffsetsResponseTypes.ListOffsetsTopicResponse, ...]
        throttle_time: timedelta = ...  # from version 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListOffsetsTopicResponse:
        name: str
        partitions: tuple[ListOffsetsResponseTypes.ListOffsetsPartitionResponse, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListOffsetsPartitionResponse:
        partition_index: int
        error_code: int
        timestamp: int = ...
        offset: int = ...
        leader_epoch: int = ...  # from version 4

ListOffsetsResponse: TypeAlias = ListOffsetsResponseTypes.ListOffsetsResponse

ListOffsetsKey: TypeAlias = ApiKey[ListOffsetsRequestTypes, ListOffsetsRequest, ListOffsetsResponseTypes, ListOffsetsResponse]

class MetadataRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class MetadataRequest:
        topics: tuple[MetadataRequestTypes.MetadataRequestTopic, ...] | None
        allow_auto_topic_creation: bool = ...  # from version 4
        include_cluster_authorized_operations: bool = ...  # versions 8 to 10
        include_topic_authorized_operations: bool = ...  # from version 8

    @dataclass(frozen=True, slots=True, kw_only=True)
    class MetadataRequestTopic:
        name: str | None
        topic_id: UUID | None = ...  # from version 10

MetadataRequest: TypeAlias = MetadataRequestTypes.MetadataRequest

class MetadataResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class MetadataResponse:
        brokers: tuple[MetadataResponseTypes.MetadataResponseBroker, ...]
        topics: tuple[MetadataResponseTypes.MetadataResponseTopic, ...]
        controller_id: int = ...  # from version 1
        cluster_id: str | None = ...  # from version 2
        throttle_time: timedelta = ...  # from version 3
        cluster_authorized_operations: int = ...  # versions 8 to 10
        error_code: int  # from version 13

    @dataclass(frozen=True, slots=True, kw_only=True)
    class MetadataResponseBroker:
        node_id: int
        host: str
        port: int
        rack: str | None = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class MetadataResponseTopic:
        error_code: int
        name: str | None
        partitions: tuple[MetadataResponseTypes.MetadataResponsePartition, ...]
        is_internal: bool = ...  # from version 1
        topic_authorized_operations: int = ...  # from version 8
        topic_id: UUID | None  # from version 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class MetadataResponsePartition:
        error_code: int
        partition_index: int
        leader_id: int
        replica_nodes: tuple[int, ...] = ...
        isr_nodes: tuple[int, ...] = ...
        offline_replicas: tuple[int, ...] = ...  # from version 5
        leader_epoch: int = ...  # from version 7

MetadataResponse: TypeAlias = MetadataResponseTypes.MetadataResponse

MetadataKey: TypeAlias = ApiKey[MetadataRequestTypes, MetadataRequest, MetadataResponseTypes, MetadataResponse]

class OffsetCommitRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetCommitRequest:
        group_id: str
        generation_id_or_member_epoch: int = ...
        member_id: str
        retention_time: timedelta = ...  # to version 4
        topics: tuple[OffsetCommitRequestTypes.OffsetCommitRequestTopic, ...]
        group_instance_id: str | None = ...  # from version 7

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetCommitRequestTopic:
        name: str = ...  # to version 9
        partitions: tuple[OffsetCommitRequestTypes.OffsetCommitRequestPartition, ...]
        topic_id: UUID | None = ...  # from version 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetCommitRequestPartition:
        partition_index: int
        committed_offset: int
        committed_metadata: str | None
        committed_leader_epoch: int = ...  # from version 6

OffsetCommitRequest: TypeAlias = OffsetCommitRequestTypes.OffsetCommitRequest

class OffsetCommitResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetCommitResponse:
        topics: tuple[OffsetCommitResponseTypes.OffsetCommitResponseTopic, ...]
        throttle_time: timedelta = ...  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetCommitResponseTopic:
        name: str  # to version 9
        partitions: tuple[OffsetCommitResponseTypes.OffsetCommitResponsePartition, ...]
        topic_id: UUID | None  # from version 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetCommitResponsePartition:
        partition_index: int
        error_code: int

OffsetCommitResponse: TypeAlias = OffsetCommitResponseTypes.OffsetCommitResponse

OffsetCommitKey: TypeAlias = ApiKey[OffsetCommitRequestTypes, OffsetCommitRequest, OffsetCommitResponseTypes, OffsetCommitResponse]

class OffsetFetchRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchRequest:
        group_id: str = ...  # to version 7
        topics: tuple[OffsetFetchRequestTypes.OffsetFetchRequestTopic, ...] | None = ...  # to version 7
        require_stable: bool = ...  # from version 7
        groups: tuple[OffsetFetchRequestTypes.OffsetFetchRequestGroup, ...] = ...  # from version 8

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchRequestTopic:  # to version 7
        name: str
        partition_indexes: tuple[int, ...] = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchRequestGroup:  # from version 8
        group_id: str
        topics: tuple[OffsetFetchRequestTypes.OffsetFetchRequestTopics, ...] | None
        member_id: str | None = ...  # from version 9
        member_epoch: int = ...  # from version 9

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchRequestTopics:  # from version 8
        name: str = ...  # to version 9
        partition_indexes: tuple[int, ...] = ...
        topic_id: UUID | None = ...  # from version 10

OffsetFetchRequest: TypeAlias = OffsetFetchRequestTypes.OffsetFetchRequest

class OffsetFetchResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchResponse:
        topics: tuple[OffsetFetchResponseTypes.OffsetFetchResponseTopic, ...]  # to version 7
        error_code: int = ...  # versions 2 to 7
        throttle_time: timedelta = ...  # from version 3
        groups: tuple[OffsetFetchResponseTypes.OffsetFetchResponseGroup, ...]  # from version 8

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchResponseTopic:  # to version 7
        name: str
        partitions: tuple[OffsetFetchResponseTypes.OffsetFetchResponsePartition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchResponsePartition:  # to version 7
        partition_index: int
        committed_offset: int
        metadata: str | None
        error_code: int
        committed_leader_epoch: int = ...  # from version 5

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchResponseGroup:  # from version 8
        group_id: str
        topics: tuple[OffsetFetchResponseTypes.OffsetFetchResponseTopics, ...]
        error_code: int = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchResponseTopics:  # from version 8
        name: str  # to version 9
        partitions: tuple[OffsetFetchResponseTypes.OffsetFetchResponsePartitions, ...]
        topic_id: UUID | None  # from version 10

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetFetchResponsePartitions:  # from version 8
        partition_index: int
        committed_offset: int
        committed_leader_epoch: int = ...
        metadata: str | None
        error_code: int

OffsetFetchResponse: TypeAlias = OffsetFetchResponseTypes.OffsetFetchResponse

OffsetFetchKey: TypeAlias = ApiKey[OffsetFetchRequestTypes, OffsetFetchRequest, OffsetFetchResponseTypes, OffsetFetchResponse]

class FindCoordinatorRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class FindCoordinatorRequest:
        key: str = ...  # to version 3
        key_type: int = ...  # from version 1
        coordinator_keys: tuple[str, ...] = ...  # from version 4

FindCoordinatorRequest: TypeAlias = FindCoordinatorRequestTypes.FindCoordinatorRequest

class FindCoordinatorResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class FindCoordinatorResponse:
        error_code: int  # to version 3
        node_id: int  # to version 3
        host: str  # to version 3
        port: int  # to version 3
        throttle_time: timedelta = ...  # from version 1
        error_message: str | None  # versions 1 to 3
        coordinators: tuple[FindCoordinatorResponseTypes.Coordinator, ...]  # from version 4

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Coordinator:  # from version 4
        key: str
        node_id: int
        host: str
        port: int
        error_code: int
        error_message: str | None

FindCoordinatorResponse: TypeAlias = FindCoordinatorResponseTypes.FindCoordinatorResponse

FindCoordinatorKey: TypeAlias = ApiKey[FindCoordinatorRequestTypes, FindCoordinatorRequest, FindCoordinatorResponseTypes, FindCoordinatorResponse]

class JoinGroupRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class JoinGroupRequest:
        group_id: str
        session_timeout: timedelta
        member_id: str
        protocol_type: str
        protocols: tuple[JoinGroupRequestTypes.JoinGroupRequestProtocol, ...]
        rebalance_timeout: timedelta = ...  # from version 1
        group_instance_id: str | None = ...  # from version 5
        reason: str | None = ...  # from version 8

    @dataclass(frozen=True, slots=True, kw_only=True)
    class JoinGroupRequestProtocol:
        name: str
        metadata: bytes

JoinGroupRequest: TypeAlias = JoinGroupRequestTypes.JoinGroupRequest

class JoinGroupResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class JoinGroupResponse:
        error_code: int
        generation_id: int = ...
        protocol_name: str | None
        leader: str
        member_id: str
        members: tuple[JoinGroupResponseTypes.JoinGroupResponseMember, ...]
        throttle_time: timedelta = ...  # from version 2
        protocol_type: str | None = ...  # from version 7
        skip_assignment: bool = ...  # from version 9

    @dataclass(frozen=True, slots=True, kw_only=True)
    class JoinGroupResponseMember:
        member_id: str
        metadata: bytes
        group_instance_id: str | None = ...  # from version 5

JoinGroupResponse: TypeAlias = JoinGroupResponseTypes.JoinGroupResponse

JoinGroupKey: TypeAlias = ApiKey[JoinGroupRequestTypes, JoinGroupRequest, JoinGroupResponseTypes, JoinGroupResponse]

class HeartbeatRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class HeartbeatRequest:
        group_id: str
        generation_id: int
        member_id: str
        group_instance_id: str | None = ...  # from version 3

HeartbeatRequest: TypeAlias = HeartbeatRequestTypes.HeartbeatRequest

class HeartbeatResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class HeartbeatResponse:
        error_code: int
        throttle_time: timedelta = ...  # from version 1

HeartbeatResponse: TypeAlias = HeartbeatResponseTypes.HeartbeatResponse

HeartbeatKey: TypeAlias = ApiKey[HeartbeatRequestTypes, HeartbeatRequest, HeartbeatResponseTypes, HeartbeatResponse]

class LeaveGroupRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class LeaveGroupRequest:
        group_id: str
        member_id: str = ...  # to version 2
        members: tuple[LeaveGroupRequestTypes.MemberIdentity, ...] = ...  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class MemberIdentity:  # from version 3
        member_id: str
        group_instance_id: str | None = ...
        reason: str | None = ...  # from version 5

LeaveGroupRequest: TypeAlias = LeaveGroupRequestTypes.LeaveGroupRequest

class LeaveGroupResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class LeaveGroupResponse:
        error_code: int
        throttle_time: timedelta = ...  # from version 1
        members: tuple[LeaveGroupResponseTypes.MemberResponse, ...]  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class MemberResponse:  # from version 3
        member_id: str
        group_instance_id: str | None
        error_code: int

LeaveGroupResponse: TypeAlias = LeaveGroupResponseTypes.LeaveGroupResponse

LeaveGroupKey: TypeAlias = ApiKey[LeaveGroupRequestTypes, LeaveGroupRequest, LeaveGroupResponseTypes, LeaveGroupResponse]

class SyncGroupRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class SyncGroupRequest:
        group_id: str
        generation_id: int
        member_id: str
        assignments: tuple[SyncGroupRequestTypes.SyncGroupRequestAssignment, ...]
        group_instance_id: str | None = ...  # from version 3
        protocol_type: str | None = ...  # from version 5
        protocol_name: str | None = ...  # from version 5

    @dataclass(frozen=True, slots=True, kw_only=True)
    class SyncGroupRequestAssignment:
        member_id: str
        assignment: bytes

SyncGroupRequest: TypeAlias = SyncGroupRequestTypes.SyncGroupRequest

class SyncGroupResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class SyncGroupResponse:
        error_code: int
        assignment: bytes
        throttle_time: timedelta = ...  # from version 1
        protocol_type: str | None = ...  # from version 5
        protocol_name: str | None = ...  # from version 5

SyncGroupResponse: TypeAlias = SyncGroupResponseTypes.SyncGroupResponse

SyncGroupKey: TypeAlias = ApiKey[SyncGroupRequestTypes, SyncGroupRequest, SyncGroupResponseTypes, SyncGroupResponse]

class DescribeGroupsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeGroupsRequest:
        groups: tuple[str, ...] = ...
        include_authorized_operations: bool = ...  # from version 3

DescribeGroupsRequest: TypeAlias = DescribeGroupsRequestTypes.DescribeGroupsRequest

class DescribeGroupsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeGroupsResponse:
        groups: tuple[DescribeGroupsResponseTypes.DescribedGroup, ...]
        throttle_time: timedelta = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribedGroup:
        error_code: int
        group_id: str
        group_state: str
        protocol_type: str
        protocol_data: str
        members: tuple[DescribeGroupsResponseTypes.DescribedGroupMember, ...]
        authorized_operations: int = ...  # from version 3
        error_message: str | None = ...  # from version 6

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribedGroupMember:
        member_id: str
        client_id: str
        client_host: str
        member_metadata: bytes
        member_assignment: bytes
        group_instance_id: str | None = ...  # from version 4

DescribeGroupsResponse: TypeAlias = DescribeGroupsResponseTypes.DescribeGroupsResponse

DescribeGroupsKey: TypeAlias = ApiKey[DescribeGroupsRequestTypes, DescribeGroupsRequest, DescribeGroupsResponseTypes, DescribeGroupsResponse]

class ListGroupsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListGroupsRequest:
        states_filter: tuple[str, ...] = ...  # from version 4
        types_filter: tuple[str, ...] = ...  # from version 5

ListGroupsRequest: TypeAlias = ListGroupsRequestTypes.ListGroupsRequest

class ListGroupsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListGroupsResponse:
        error_code: int
        groups: tuple[ListGroupsResponseTypes.ListedGroup, ...]
        throttle_time: timedelta = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListedGroup:
        group_id: str
        protocol_type: str
        group_state: str  # from version 4
        group_type: str  # from version 5

ListGroupsResponse: TypeAlias = ListGroupsResponseTypes.ListGroupsResponse

ListGroupsKey: TypeAlias = ApiKey[ListGroupsRequestTypes, ListGroupsRequest, ListGroupsResponseTypes, ListGroupsResponse]

class SaslHandshakeRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class SaslHandshakeRequest:
        mechanism: str

SaslHandshakeRequest: TypeAlias = SaslHandshakeRequestTypes.SaslHandshakeRequest

class SaslHandshakeResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class SaslHandshakeResponse:
        error_code: int
        mechanisms: tuple[str, ...] = ...

SaslHandshakeResponse: TypeAlias = SaslHandshakeResponseTypes.SaslHandshakeResponse

SaslHandshakeKey: TypeAlias = ApiKey[SaslHandshakeRequestTypes, SaslHandshakeRequest, SaslHandshakeResponseTypes, SaslHandshakeResponse]

class ApiVersionsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ApiVersionsRequest:
        client_software_name: str = ...  # from version 3
        client_software_version: str = ...  # from version 3
        cluster_id: str | None = ...  # from version 5
        node_id: int = ...  # from version 5

ApiVersionsRequest: TypeAlias = ApiVersionsRequestTypes.ApiVersionsRequest

class ApiVersionsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ApiVersionsResponse:
        error_code: int
        api_keys: tuple[ApiVersionsResponseTypes.ApiVersion, ...]
        throttle_time: timedelta = ...  # from version 1
        supported_features: tuple[ApiVersionsResponseTypes.SupportedFeatureKey, ...] = ...  # from version 3
        finalized_features_epoch: int = ...  # from version 3
        finalized_features: tuple[ApiVersionsResponseTypes.FinalizedFeatureKey, ...] = ...  # from version 3
        zk_migration_ready: bool = ...  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ApiVersion:
        api_key: int
        min_version: int
        max_version: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class SupportedFeatureKey:  # from version 3
        name: str
        min_version: int
        max_version: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class FinalizedFeatureKey:  # from version 3
        name: str
        max_version_level: int
        min_version_level: int

ApiVersionsResponse: TypeAlias = ApiVersionsResponseTypes.ApiVersionsResponse

ApiVersionsKey: TypeAlias = ApiKey[ApiVersionsRequestTypes, ApiVersionsRequest, ApiVersionsResponseTypes, ApiVersionsResponse]

class CreateTopicsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreateTopicsRequest:
        topics: tuple[CreateTopicsRequestTypes.CreatableTopic, ...]
        timeout: timedelta = ...
        validate_only: bool = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatableTopic:
        name: str
        num_partitions: int
        replication_factor: int
        assignments: tuple[CreateTopicsRequestTypes.CreatableReplicaAssignment, ...]
        configs: tuple[CreateTopicsRequestTypes.CreatableTopicConfig, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatableReplicaAssignment:
        partition_index: int
        broker_ids: tuple[int, ...] = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatableTopicConfig:
        name: str
        value: str | None

CreateTopicsRequest: TypeAlias = CreateTopicsRequestTypes.CreateTopicsRequest

class CreateTopicsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreateTopicsResponse:
        throttle_time: timedelta = ...
        topics: tuple[CreateTopicsResponseTypes.CreatableTopicResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatableTopicResult:
        name: str
        error_code: int
        error_message: str | None
        topic_config_error_code: int = ...  # from version 5
        num_partitions: int = ...  # from version 5
        replication_factor: int = ...  # from version 5
        configs: tuple[CreateTopicsResponseTypes.CreatableTopicConfigs, ...] | None  # from version 5
        topic_id: UUID | None  # from version 7

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatableTopicConfigs:  # from version 5
        name: str
        value: str | None
        read_only: bool
        config_source: int = ...
        is_sensitive: bool

CreateTopicsResponse: TypeAlias = CreateTopicsResponseTypes.CreateTopicsResponse

CreateTopicsKey: TypeAlias = ApiKey[CreateTopicsRequestTypes, CreateTopicsRequest, CreateTopicsResponseTypes, CreateTopicsResponse]

class DeleteTopicsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteTopicsRequest:
        topic_names: tuple[str, ...] = ...  # to version 5
        timeout: timedelta
        topics: tuple[DeleteTopicsRequestTypes.DeleteTopicState, ...] = ...  # from version 6

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteTopicState:  # from version 6
        name: str | None = ...
        topic_id: UUID | None

DeleteTopicsRequest: TypeAlias = DeleteTopicsRequestTypes.DeleteTopicsRequest

class DeleteTopicsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteTopicsResponse:
        throttle_time: timedelta = ...
        responses: tuple[DeleteTopicsResponseTypes.DeletableTopicResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeletableTopicResult:
        name: str | None
        error_code: int
        error_message: str | None = ...  # from version 5
        topic_id: UUID | None  # from version 6

DeleteTopicsResponse: TypeAlias = DeleteTopicsResponseTypes.DeleteTopicsResponse

DeleteTopicsKey: TypeAlias = ApiKey[DeleteTopicsRequestTypes, DeleteTopicsRequest, DeleteTopicsResponseTypes, DeleteTopicsResponse]

class DeleteRecordsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteRecordsRequest:
        topics: tuple[DeleteRecordsRequestTypes.DeleteRecordsTopic, ...]
        timeout: timedelta

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteRecordsTopic:
        name: str
        partitions: tuple[DeleteRecordsRequestTypes.DeleteRecordsPartition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteRecordsPartition:
        partition_index: int
        offset: int

DeleteRecordsRequest: TypeAlias = DeleteRecordsRequestTypes.DeleteRecordsRequest

class DeleteRecordsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteRecordsResponse:
        throttle_time: timedelta = ...
        topics: tuple[DeleteRecordsResponseTypes.DeleteRecordsTopicResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteRecordsTopicResult:
        name: str
        partitions: tuple[DeleteRecordsResponseTypes.DeleteRecordsPartitionResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteRecordsPartitionResult:
        partition_index: int
        low_watermark: int
        error_code: int

DeleteRecordsResponse: TypeAlias = DeleteRecordsResponseTypes.DeleteRecordsResponse

DeleteRecordsKey: TypeAlias = ApiKey[DeleteRecordsRequestTypes, DeleteRecordsRequest, DeleteRecordsResponseTypes, DeleteRecordsResponse]

class InitProducerIdRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class InitProducerIdRequest:
        transactional_id: str | None
        transaction_timeout: timedelta
        producer_id: int = ...  # from version 3
        producer_epoch: int = ...  # from version 3
        enable2_pc: bool = ...  # from version 6
        keep_prepared_txn: bool = ...  # from version 6

InitProducerIdRequest: TypeAlias = InitProducerIdRequestTypes.InitProducerIdRequest

class InitProducerIdResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class InitProducerIdResponse:
        throttle_time: timedelta = ...
        error_code: int
        producer_id: int = ...
        producer_epoch: int
        ongoing_txn_producer_id: int = ...  # from version 6
        ongoing_txn_producer_epoch: int = ...  # from version 6

InitProducerIdResponse: TypeAlias = InitProducerIdResponseTypes.InitProducerIdResponse

InitProducerIdKey: TypeAlias = ApiKey[InitProducerIdRequestTypes, InitProducerIdRequest, InitProducerIdResponseTypes, InitProducerIdResponse]

class OffsetForLeaderEpochRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetForLeaderEpochRequest:
        topics: tuple[OffsetForLeaderEpochRequestTypes.OffsetForLeaderTopic, ...]
        replica_id: int = ...  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetForLeaderTopic:
        topic: str
        partitions: tuple[OffsetForLeaderEpochRequestTypes.OffsetForLeaderPartition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetForLeaderPartition:
        partition: int
        current_leader_epoch: int = ...
        leader_epoch: int

OffsetForLeaderEpochRequest: TypeAlias = OffsetForLeaderEpochRequestTypes.OffsetForLeaderEpochRequest

class OffsetForLeaderEpochResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetForLeaderEpochResponse:
        throttle_time: timedelta = ...
        topics: tuple[OffsetForLeaderEpochResponseTypes.OffsetForLeaderTopicResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetForLeaderTopicResult:
        topic: str
        partitions: tuple[OffsetForLeaderEpochResponseTypes.EpochEndOffset, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class EpochEndOffset:
        error_code: int
        partition: int
        leader_epoch: int = ...
        end_offset: int = ...

OffsetForLeaderEpochResponse: TypeAlias = OffsetForLeaderEpochResponseTypes.OffsetForLeaderEpochResponse

OffsetForLeaderEpochKey: TypeAlias = ApiKey[OffsetForLeaderEpochRequestTypes, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponseTypes, OffsetForLeaderEpochResponse]

class AddPartitionsToTxnRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AddPartitionsToTxnRequest:
        v3_and_below_transactional_id: str
        v3_and_below_producer_id: int
        v3_and_below_producer_epoch: int
        v3_and_below_topics: tuple[AddPartitionsToTxnRequestTypes.AddPartitionsToTxnTopic, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AddPartitionsToTxnTopic:
        name: str
        partitions: tuple[int, ...] = ...

AddPartitionsToTxnRequest: TypeAlias = AddPartitionsToTxnRequestTypes.AddPartitionsToTxnRequest

class AddPartitionsToTxnResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AddPartitionsToTxnResponse:
        throttle_time: timedelta = ...
        results_by_topic_v3_and_below: tuple[AddPartitionsToTxnResponseTypes.AddPartitionsToTxnTopicResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AddPartitionsToTxnTopicResult:
        name: str
        results_by_partition: tuple[AddPartitionsToTxnResponseTypes.AddPartitionsToTxnPartitionResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AddPartitionsToTxnPartitionResult:
        partition_index: int
        partition_error_code: int

AddPartitionsToTxnResponse: TypeAlias = AddPartitionsToTxnResponseTypes.AddPartitionsToTxnResponse

AddPartitionsToTxnKey: TypeAlias = ApiKey[AddPartitionsToTxnRequestTypes, AddPartitionsToTxnRequest, AddPartitionsToTxnResponseTypes, AddPartitionsToTxnResponse]

class AddOffsetsToTxnRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AddOffsetsToTxnRequest:
        transactional_id: str
        producer_id: int
        producer_epoch: int
        group_id: str

AddOffsetsToTxnRequest: TypeAlias = AddOffsetsToTxnRequestTypes.AddOffsetsToTxnRequest

class AddOffsetsToTxnResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AddOffsetsToTxnResponse:
        throttle_time: timedelta = ...
        error_code: int

AddOffsetsToTxnResponse: TypeAlias = AddOffsetsToTxnResponseTypes.AddOffsetsToTxnResponse

AddOffsetsToTxnKey: TypeAlias = ApiKey[AddOffsetsToTxnRequestTypes, AddOffsetsToTxnRequest, AddOffsetsToTxnResponseTypes, AddOffsetsToTxnResponse]

class EndTxnRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class EndTxnRequest:
        transactional_id: str
        producer_id: int
        producer_epoch: int
        committed: bool

EndTxnRequest: TypeAlias = EndTxnRequestTypes.EndTxnRequest

class EndTxnResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class EndTxnResponse:
        throttle_time: timedelta = ...
        error_code: int
        producer_id: int = ...  # from version 5
        producer_epoch: int = ...  # from version 5

EndTxnResponse: TypeAlias = EndTxnResponseTypes.EndTxnResponse

EndTxnKey: TypeAlias = ApiKey[EndTxnRequestTypes, EndTxnRequest, EndTxnResponseTypes, EndTxnResponse]

class WriteTxnMarkersRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class WriteTxnMarkersRequest:
        markers: tuple[WriteTxnMarkersRequestTypes.WritableTxnMarker, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class WritableTxnMarker:
        producer_id: int
        producer_epoch: int
        transaction_result: bool
        topics: tuple[WriteTxnMarkersRequestTypes.WritableTxnMarkerTopic, ...]
        coordinator_epoch: int
        transaction_version: int = ...  # from version 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class WritableTxnMarkerTopic:
        name: str
        partition_indexes: tuple[int, ...] = ...

WriteTxnMarkersRequest: TypeAlias = WriteTxnMarkersRequestTypes.WriteTxnMarkersRequest

class WriteTxnMarkersResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class WriteTxnMarkersResponse:
        markers: tuple[WriteTxnMarkersResponseTypes.WritableTxnMarkerResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class WritableTxnMarkerResult:
        producer_id: int
        topics: tuple[WriteTxnMarkersResponseTypes.WritableTxnMarkerTopicResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class WritableTxnMarkerTopicResult:
        name: str
        partitions: tuple[WriteTxnMarkersResponseTypes.WritableTxnMarkerPartitionResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class WritableTxnMarkerPartitionResult:
        partition_index: int
        error_code: int

WriteTxnMarkersResponse: TypeAlias = WriteTxnMarkersResponseTypes.WriteTxnMarkersResponse

WriteTxnMarkersKey: TypeAlias = ApiKey[WriteTxnMarkersRequestTypes, WriteTxnMarkersRequest, WriteTxnMarkersResponseTypes, WriteTxnMarkersResponse]

class TxnOffsetCommitRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class TxnOffsetCommitRequest:
        transactional_id: str
        group_id: str
        producer_id: int
        producer_epoch: int
        topics: tuple[TxnOffsetCommitRequestTypes.TxnOffsetCommitRequestTopic, ...]
        generation_id: int = ...  # from version 3
        member_id: str = ...  # from version 3
        group_instance_id: str | None = ...  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TxnOffsetCommitRequestTopic:
        name: str = ...  # to version 5
        partitions: tuple[TxnOffsetCommitRequestTypes.TxnOffsetCommitRequestPartition, ...]
        topic_id: UUID | None = ...  # from version 6

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TxnOffsetCommitRequestPartition:
        partition_index: int
        committed_offset: int
        committed_metadata: str | None
        committed_leader_epoch: int = ...  # from version 2

TxnOffsetCommitRequest: TypeAlias = TxnOffsetCommitRequestTypes.TxnOffsetCommitRequest

class TxnOffsetCommitResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class TxnOffsetCommitResponse:
        throttle_time: timedelta = ...
        topics: tuple[TxnOffsetCommitResponseTypes.TxnOffsetCommitResponseTopic, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TxnOffsetCommitResponseTopic:
        name: str  # to version 5
        partitions: tuple[TxnOffsetCommitResponseTypes.TxnOffsetCommitResponsePartition, ...]
        topic_id: UUID | None  # from version 6

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TxnOffsetCommitResponsePartition:
        partition_index: int
        error_code: int

TxnOffsetCommitResponse: TypeAlias = TxnOffsetCommitResponseTypes.TxnOffsetCommitResponse

TxnOffsetCommitKey: TypeAlias = ApiKey[TxnOffsetCommitRequestTypes, TxnOffsetCommitRequest, TxnOffsetCommitResponseTypes, TxnOffsetCommitResponse]

class DescribeAclsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeAclsRequest:
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int = ...
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int

DescribeAclsRequest: TypeAlias = DescribeAclsRequestTypes.DescribeAclsRequest

class DescribeAclsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeAclsResponse:
        throttle_time: timedelta = ...
        error_code: int
        error_message: str | None
        resources: tuple[DescribeAclsResponseTypes.DescribeAclsResource, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeAclsResource:
        resource_type: int
        resource_name: str
        pattern_type: int = ...
        acls: tuple[DescribeAclsResponseTypes.AclDescription, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AclDescription:
        principal: str
        host: str
        operation: int
        permission_type: int

DescribeAclsResponse: TypeAlias = DescribeAclsResponseTypes.DescribeAclsResponse

DescribeAclsKey: TypeAlias = ApiKey[DescribeAclsRequestTypes, DescribeAclsRequest, DescribeAclsResponseTypes, DescribeAclsResponse]

class CreateAclsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreateAclsRequest:
        creations: tuple[CreateAclsRequestTypes.AclCreation, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AclCreation:
        resource_type: int
        resource_name: str
        resource_pattern_type: int = ...
        principal: str
        host: str
        operation: int
        permission_type: int

CreateAclsRequest: TypeAlias = CreateAclsRequestTypes.CreateAclsRequest

class CreateAclsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreateAclsResponse:
        throttle_time: timedelta = ...
        results: tuple[CreateAclsResponseTypes.AclCreationResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AclCreationResult:
        error_code: int
        error_message: str | None

CreateAclsResponse: TypeAlias = CreateAclsResponseTypes.CreateAclsResponse

CreateAclsKey: TypeAlias = ApiKey[CreateAclsRequestTypes, CreateAclsRequest, CreateAclsResponseTypes, CreateAclsResponse]

class DeleteAclsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteAclsRequest:
        filters: tuple[DeleteAclsRequestTypes.DeleteAclsFilter, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteAclsFilter:
        resource_type_filter: int
        resource_name_filter: str | None
        pattern_type_filter: int = ...
        principal_filter: str | None
        host_filter: str | None
        operation: int
        permission_type: int

DeleteAclsRequest: TypeAlias = DeleteAclsRequestTypes.DeleteAclsRequest

class DeleteAclsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteAclsResponse:
        throttle_time: timedelta = ...
        filter_results: tuple[DeleteAclsResponseTypes.DeleteAclsFilterResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteAclsFilterResult:
        error_code: int
        error_message: str | None
        matching_acls: tuple[DeleteAclsResponseTypes.DeleteAclsMatchingAcl, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteAclsMatchingAcl:
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        pattern_type: int = ...
        principal: str
        host: str
        operation: int
        permission_type: int

DeleteAclsResponse: TypeAlias = DeleteAclsResponseTypes.DeleteAclsResponse

DeleteAclsKey: TypeAlias = ApiKey[DeleteAclsRequestTypes, DeleteAclsRequest, DeleteAclsResponseTypes, DeleteAclsResponse]

class DescribeConfigsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeConfigsRequest:
        resources: tuple[DescribeConfigsRequestTypes.DescribeConfigsResource, ...]
        include_synonyms: bool = ...
        include_documentation: bool = ...  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeConfigsResource:
        resource_type: int
        resource_name: str
        configuration_keys: tuple[str, ...] | None = ...

DescribeConfigsRequest: TypeAlias = DescribeConfigsRequestTypes.DescribeConfigsRequest

class DescribeConfigsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeConfigsResponse:
        throttle_time: timedelta = ...
        results: tuple[DescribeConfigsResponseTypes.DescribeConfigsResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeConfigsResult:
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str
        configs: tuple[DescribeConfigsResponseTypes.DescribeConfigsResourceResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeConfigsResourceResult:
        name: str
        value: str | None
        read_only: bool
        config_source: int = ...
        is_sensitive: bool
        synonyms: tuple[DescribeConfigsResponseTypes.DescribeConfigsSynonym, ...]
        config_type: int = ...  # from version 3
        documentation: str | None  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeConfigsSynonym:
        name: str
        value: str | None
        source: int

DescribeConfigsResponse: TypeAlias = DescribeConfigsResponseTypes.DescribeConfigsResponse

DescribeConfigsKey: TypeAlias = ApiKey[DescribeConfigsRequestTypes, DescribeConfigsRequest, DescribeConfigsResponseTypes, DescribeConfigsResponse]

class AlterConfigsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterConfigsRequest:
        resources: tuple[AlterConfigsRequestTypes.AlterConfigsResource, ...]
        validate_only: bool

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterConfigsResource:
        resource_type: int
        resource_name: str
        configs: tuple[AlterConfigsRequestTypes.AlterableConfig, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterableConfig:
        name: str
        value: str | None

AlterConfigsRequest: TypeAlias = AlterConfigsRequestTypes.AlterConfigsRequest

class AlterConfigsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterConfigsResponse:
        throttle_time: timedelta = ...
        responses: tuple[AlterConfigsResponseTypes.AlterConfigsResourceResponse, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterConfigsResourceResponse:
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str

AlterConfigsResponse: TypeAlias = AlterConfigsResponseTypes.AlterConfigsResponse

AlterConfigsKey: TypeAlias = ApiKey[AlterConfigsRequestTypes, AlterConfigsRequest, AlterConfigsResponseTypes, AlterConfigsResponse]

class AlterReplicaLogDirsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterReplicaLogDirsRequest:
        dirs: tuple[AlterReplicaLogDirsRequestTypes.AlterReplicaLogDir, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterReplicaLogDir:
        path: str
        topics: tuple[AlterReplicaLogDirsRequestTypes.AlterReplicaLogDirTopic, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterReplicaLogDirTopic:
        name: str
        partitions: tuple[int, ...] = ...

AlterReplicaLogDirsRequest: TypeAlias = AlterReplicaLogDirsRequestTypes.AlterReplicaLogDirsRequest

class AlterReplicaLogDirsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterReplicaLogDirsResponse:
        throttle_time: timedelta = ...
        results: tuple[AlterReplicaLogDirsResponseTypes.AlterReplicaLogDirTopicResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterReplicaLogDirTopicResult:
        topic_name: str
        partitions: tuple[AlterReplicaLogDirsResponseTypes.AlterReplicaLogDirPartitionResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterReplicaLogDirPartitionResult:
        partition_index: int
        error_code: int

AlterReplicaLogDirsResponse: TypeAlias = AlterReplicaLogDirsResponseTypes.AlterReplicaLogDirsResponse

AlterReplicaLogDirsKey: TypeAlias = ApiKey[AlterReplicaLogDirsRequestTypes, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponseTypes, AlterReplicaLogDirsResponse]

class DescribeLogDirsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeLogDirsRequest:
        topics: tuple[DescribeLogDirsRequestTypes.DescribableLogDirTopic, ...] | None

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribableLogDirTopic:
        topic: str
        partitions: tuple[int, ...] = ...

DescribeLogDirsRequest: TypeAlias = DescribeLogDirsRequestTypes.DescribeLogDirsRequest

class DescribeLogDirsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeLogDirsResponse:
        throttle_time: timedelta = ...
        results: tuple[DescribeLogDirsResponseTypes.DescribeLogDirsResult, ...]
        error_code: int  # from version 3

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeLogDirsResult:
        error_code: int
        log_dir: str
        topics: tuple[DescribeLogDirsResponseTypes.DescribeLogDirsTopic, ...]
        total_bytes: int = ...  # from version 4
        usable_bytes: int = ...  # from version 4
        is_cordoned: bool = ...  # from version 5

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeLogDirsTopic:
        name: str
        partitions: tuple[DescribeLogDirsResponseTypes.DescribeLogDirsPartition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeLogDirsPartition:
        partition_index: int
        partition_size: int
        offset_lag: int
        is_future_key: bool

DescribeLogDirsResponse: TypeAlias = DescribeLogDirsResponseTypes.DescribeLogDirsResponse

DescribeLogDirsKey: TypeAlias = ApiKey[DescribeLogDirsRequestTypes, DescribeLogDirsRequest, DescribeLogDirsResponseTypes, DescribeLogDirsResponse]

class SaslAuthenticateRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class SaslAuthenticateRequest:
        auth_bytes: bytes

SaslAuthenticateRequest: TypeAlias = SaslAuthenticateRequestTypes.SaslAuthenticateRequest

class SaslAuthenticateResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class SaslAuthenticateResponse:
        error_code: int
        error_message: str | None
        auth_bytes: bytes
        session_lifetime: timedelta = ...  # from version 1

SaslAuthenticateResponse: TypeAlias = SaslAuthenticateResponseTypes.SaslAuthenticateResponse

SaslAuthenticateKey: TypeAlias = ApiKey[SaslAuthenticateRequestTypes, SaslAuthenticateRequest, SaslAuthenticateResponseTypes, SaslAuthenticateResponse]

class CreatePartitionsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatePartitionsRequest:
        topics: tuple[CreatePartitionsRequestTypes.CreatePartitionsTopic, ...]
        timeout: timedelta
        validate_only: bool

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatePartitionsTopic:
        name: str
        count: int
        assignments: tuple[CreatePartitionsRequestTypes.CreatePartitionsAssignment, ...] | None

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatePartitionsAssignment:
        broker_ids: tuple[int, ...] = ...

CreatePartitionsRequest: TypeAlias = CreatePartitionsRequestTypes.CreatePartitionsRequest

class CreatePartitionsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatePartitionsResponse:
        throttle_time: timedelta = ...
        results: tuple[CreatePartitionsResponseTypes.CreatePartitionsTopicResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CreatePartitionsTopicResult:
        name: str
        error_code: int
        error_message: str | None = ...

CreatePartitionsResponse: TypeAlias = CreatePartitionsResponseTypes.CreatePartitionsResponse

CreatePartitionsKey: TypeAlias = ApiKey[CreatePartitionsRequestTypes, CreatePartitionsRequest, CreatePartitionsResponseTypes, CreatePartitionsResponse]

class DeleteGroupsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteGroupsRequest:
        groups_names: tuple[str, ...] = ...

DeleteGroupsRequest: TypeAlias = DeleteGroupsRequestTypes.DeleteGroupsRequest

class DeleteGroupsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeleteGroupsResponse:
        throttle_time: timedelta = ...
        results: tuple[DeleteGroupsResponseTypes.DeletableGroupResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DeletableGroupResult:
        group_id: str
        error_code: int
        error_message: str | None = ...  # from version 3

DeleteGroupsResponse: TypeAlias = DeleteGroupsResponseTypes.DeleteGroupsResponse

DeleteGroupsKey: TypeAlias = ApiKey[DeleteGroupsRequestTypes, DeleteGroupsRequest, DeleteGroupsResponseTypes, DeleteGroupsResponse]

class ElectLeadersRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ElectLeadersRequest:
        topic_partitions: tuple[ElectLeadersRequestTypes.TopicPartitions, ...] | None
        timeout: timedelta = ...
        election_type: int = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicPartitions:
        topic: str
        partitions: tuple[int, ...] = ...

ElectLeadersRequest: TypeAlias = ElectLeadersRequestTypes.ElectLeadersRequest

class ElectLeadersResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ElectLeadersResponse:
        throttle_time: timedelta = ...
        replica_election_results: tuple[ElectLeadersResponseTypes.ReplicaElectionResult, ...]
        error_code: int  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReplicaElectionResult:
        topic: str
        partition_result: tuple[ElectLeadersResponseTypes.PartitionResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionResult:
        partition_id: int
        error_code: int
        error_message: str | None

ElectLeadersResponse: TypeAlias = ElectLeadersResponseTypes.ElectLeadersResponse

ElectLeadersKey: TypeAlias = ApiKey[ElectLeadersRequestTypes, ElectLeadersRequest, ElectLeadersResponseTypes, ElectLeadersResponse]

class IncrementalAlterConfigsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class IncrementalAlterConfigsRequest:
        resources: tuple[IncrementalAlterConfigsRequestTypes.AlterConfigsResource, ...]
        validate_only: bool

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterConfigsResource:
        resource_type: int
        resource_name: str
        configs: tuple[IncrementalAlterConfigsRequestTypes.AlterableConfig, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterableConfig:
        name: str
        config_operation: int
        value: str | None

IncrementalAlterConfigsRequest: TypeAlias = IncrementalAlterConfigsRequestTypes.IncrementalAlterConfigsRequest

class IncrementalAlterConfigsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class IncrementalAlterConfigsResponse:
        throttle_time: timedelta = ...
        responses: tuple[IncrementalAlterConfigsResponseTypes.AlterConfigsResourceResponse, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterConfigsResourceResponse:
        error_code: int
        error_message: str | None
        resource_type: int
        resource_name: str

IncrementalAlterConfigsResponse: TypeAlias = IncrementalAlterConfigsResponseTypes.IncrementalAlterConfigsResponse

IncrementalAlterConfigsKey: TypeAlias = ApiKey[IncrementalAlterConfigsRequestTypes, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponseTypes, IncrementalAlterConfigsResponse]

class AlterPartitionReassignmentsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterPartitionReassignmentsRequest:
        timeout: timedelta = ...
        topics: tuple[AlterPartitionReassignmentsRequestTypes.ReassignableTopic, ...]
        allow_replication_factor_change: bool = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReassignableTopic:
        name: str
        partitions: tuple[AlterPartitionReassignmentsRequestTypes.ReassignablePartition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReassignablePartition:
        partition_index: int
        replicas: tuple[int, ...] | None = ...

AlterPartitionReassignmentsRequest: TypeAlias = AlterPartitionReassignmentsRequestTypes.AlterPartitionReassignmentsRequest

class AlterPartitionReassignmentsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterPartitionReassignmentsResponse:
        throttle_time: timedelta = ...
        error_code: int
        error_message: str | None
        responses: tuple[AlterPartitionReassignmentsResponseTypes.ReassignableTopicResponse, ...]
        allow_replication_factor_change: bool = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReassignableTopicResponse:
        name: str
        partitions: tuple[AlterPartitionReassignmentsResponseTypes.ReassignablePartitionResponse, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReassignablePartitionResponse:
        partition_index: int
        error_code: int
        error_message: str | None

AlterPartitionReassignmentsResponse: TypeAlias = AlterPartitionReassignmentsResponseTypes.AlterPartitionReassignmentsResponse

AlterPartitionReassignmentsKey: TypeAlias = ApiKey[AlterPartitionReassignmentsRequestTypes, AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponseTypes, AlterPartitionReassignmentsResponse]

class ListPartitionReassignmentsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListPartitionReassignmentsRequest:
        timeout: timedelta = ...
        topics: tuple[ListPartitionReassignmentsRequestTypes.ListPartitionReassignmentsTopics, ...] | None

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListPartitionReassignmentsTopics:
        name: str
        partition_indexes: tuple[int, ...] = ...

ListPartitionReassignmentsRequest: TypeAlias = ListPartitionReassignmentsRequestTypes.ListPartitionReassignmentsRequest

class ListPartitionReassignmentsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListPartitionReassignmentsResponse:
        throttle_time: timedelta = ...
        error_code: int
        error_message: str | None
        topics: tuple[ListPartitionReassignmentsResponseTypes.OngoingTopicReassignment, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OngoingTopicReassignment:
        name: str
        partitions: tuple[ListPartitionReassignmentsResponseTypes.OngoingPartitionReassignment, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OngoingPartitionReassignment:
        partition_index: int
        replicas: tuple[int, ...] = ...
        adding_replicas: tuple[int, ...] = ...
        removing_replicas: tuple[int, ...] = ...

ListPartitionReassignmentsResponse: TypeAlias = ListPartitionReassignmentsResponseTypes.ListPartitionReassignmentsResponse

ListPartitionReassignmentsKey: TypeAlias = ApiKey[ListPartitionReassignmentsRequestTypes, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponseTypes, ListPartitionReassignmentsResponse]

class OffsetDeleteRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetDeleteRequest:
        group_id: str
        topics: tuple[OffsetDeleteRequestTypes.OffsetDeleteRequestTopic, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetDeleteRequestTopic:
        name: str
        partitions: tuple[OffsetDeleteRequestTypes.OffsetDeleteRequestPartition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetDeleteRequestPartition:
        partition_index: int

OffsetDeleteRequest: TypeAlias = OffsetDeleteRequestTypes.OffsetDeleteRequest

class OffsetDeleteResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetDeleteResponse:
        error_code: int
        throttle_time: timedelta = ...
        topics: tuple[OffsetDeleteResponseTypes.OffsetDeleteResponseTopic, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetDeleteResponseTopic:
        name: str
        partitions: tuple[OffsetDeleteResponseTypes.OffsetDeleteResponsePartition, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OffsetDeleteResponsePartition:
        partition_index: int
        error_code: int

OffsetDeleteResponse: TypeAlias = OffsetDeleteResponseTypes.OffsetDeleteResponse

OffsetDeleteKey: TypeAlias = ApiKey[OffsetDeleteRequestTypes, OffsetDeleteRequest, OffsetDeleteResponseTypes, OffsetDeleteResponse]

class DescribeClientQuotasRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeClientQuotasRequest:
        components: tuple[DescribeClientQuotasRequestTypes.ComponentData, ...]
        strict: bool

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ComponentData:
        entity_type: str
        match_type: int
        match: str | None

DescribeClientQuotasRequest: TypeAlias = DescribeClientQuotasRequestTypes.DescribeClientQuotasRequest

class DescribeClientQuotasResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeClientQuotasResponse:
        throttle_time: timedelta = ...
        error_code: int
        error_message: str | None
        entries: tuple[DescribeClientQuotasResponseTypes.EntryData, ...] | None

    @dataclass(frozen=True, slots=True, kw_only=True)
    class EntryData:
        entity: tuple[DescribeClientQuotasResponseTypes.EntityData, ...]
        values: tuple[DescribeClientQuotasResponseTypes.ValueData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class EntityData:
        entity_type: str
        entity_name: str | None

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ValueData:
        key: str
        value: float

DescribeClientQuotasResponse: TypeAlias = DescribeClientQuotasResponseTypes.DescribeClientQuotasResponse

DescribeClientQuotasKey: TypeAlias = ApiKey[DescribeClientQuotasRequestTypes, DescribeClientQuotasRequest, DescribeClientQuotasResponseTypes, DescribeClientQuotasResponse]

class AlterClientQuotasRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterClientQuotasRequest:
        entries: tuple[AlterClientQuotasRequestTypes.EntryData, ...]
        validate_only: bool

    @dataclass(frozen=True, slots=True, kw_only=True)
    class EntryData:
        entity: tuple[AlterClientQuotasRequestTypes.EntityData, ...]
        ops: tuple[AlterClientQuotasRequestTypes.OpData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class EntityData:
        entity_type: str
        entity_name: str | None

    @dataclass(frozen=True, slots=True, kw_only=True)
    class OpData:
        key: str
        value: float
        remove: bool

AlterClientQuotasRequest: TypeAlias = AlterClientQuotasRequestTypes.AlterClientQuotasRequest

class AlterClientQuotasResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterClientQuotasResponse:
        throttle_time: timedelta = ...
        entries: tuple[AlterClientQuotasResponseTypes.EntryData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class EntryData:
        error_code: int
        error_message: str | None
        entity: tuple[AlterClientQuotasResponseTypes.EntityData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class EntityData:
        entity_type: str
        entity_name: str | None

AlterClientQuotasResponse: TypeAlias = AlterClientQuotasResponseTypes.AlterClientQuotasResponse

AlterClientQuotasKey: TypeAlias = ApiKey[AlterClientQuotasRequestTypes, AlterClientQuotasRequest, AlterClientQuotasResponseTypes, AlterClientQuotasResponse]

class DescribeUserScramCredentialsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeUserScramCredentialsRequest:
        users: tuple[DescribeUserScramCredentialsRequestTypes.UserName, ...] | None

    @dataclass(frozen=True, slots=True, kw_only=True)
    class UserName:
        name: str

DescribeUserScramCredentialsRequest: TypeAlias = DescribeUserScramCredentialsRequestTypes.DescribeUserScramCredentialsRequest

class DescribeUserScramCredentialsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeUserScramCredentialsResponse:
        throttle_time: timedelta = ...
        error_code: int
        error_message: str | None
        results: tuple[DescribeUserScramCredentialsResponseTypes.DescribeUserScramCredentialsResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeUserScramCredentialsResult:
        user: str
        error_code: int
        error_message: str | None
        credential_infos: tuple[DescribeUserScramCredentialsResponseTypes.CredentialInfo, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class CredentialInfo:
        mechanism: int
        iterations: int

DescribeUserScramCredentialsResponse: TypeAlias = DescribeUserScramCredentialsResponseTypes.DescribeUserScramCredentialsResponse

DescribeUserScramCredentialsKey: TypeAlias = ApiKey[DescribeUserScramCredentialsRequestTypes, DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponseTypes, DescribeUserScramCredentialsResponse]

class AlterUserScramCredentialsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterUserScramCredentialsRequest:
        deletions: tuple[AlterUserScramCredentialsRequestTypes.ScramCredentialDeletion, ...]
        upsertions: tuple[AlterUserScramCredentialsRequestTypes.ScramCredentialUpsertion, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ScramCredentialDeletion:
        name: str
        mechanism: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ScramCredentialUpsertion:
        name: str
        mechanism: int
        iterations: int
        salt: bytes
        salted_password: bytes

AlterUserScramCredentialsRequest: TypeAlias = AlterUserScramCredentialsRequestTypes.AlterUserScramCredentialsRequest

class AlterUserScramCredentialsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterUserScramCredentialsResponse:
        throttle_time: timedelta = ...
        results: tuple[AlterUserScramCredentialsResponseTypes.AlterUserScramCredentialsResult, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class AlterUserScramCredentialsResult:
        user: str
        error_code: int
        error_message: str | None

AlterUserScramCredentialsResponse: TypeAlias = AlterUserScramCredentialsResponseTypes.AlterUserScramCredentialsResponse

AlterUserScramCredentialsKey: TypeAlias = ApiKey[AlterUserScramCredentialsRequestTypes, AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponseTypes, AlterUserScramCredentialsResponse]

class DescribeQuorumRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeQuorumRequest:
        topics: tuple[DescribeQuorumRequestTypes.TopicData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicData:
        topic_name: str
        partitions: tuple[DescribeQuorumRequestTypes.PartitionData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionData:
        partition_index: int

DescribeQuorumRequest: TypeAlias = DescribeQuorumRequestTypes.DescribeQuorumRequest

class DescribeQuorumResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeQuorumResponse:
        error_code: int
        topics: tuple[DescribeQuorumResponseTypes.TopicData, ...]
        error_message: str | None  # from version 2
        nodes: tuple[DescribeQuorumResponseTypes.Node, ...]  # from version 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicData:
        topic_name: str
        partitions: tuple[DescribeQuorumResponseTypes.PartitionData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionData:
        partition_index: int
        error_code: int
        leader_id: int
        leader_epoch: int
        high_watermark: int
        current_voters: tuple[DescribeQuorumResponseTypes.ReplicaState, ...]
        observers: tuple[DescribeQuorumResponseTypes.ReplicaState, ...]
        error_message: str | None  # from version 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ReplicaState:
        replica_id: int
        log_end_offset: int
        last_fetch_timestamp: int = ...  # from version 1
        last_caught_up_timestamp: int = ...  # from version 1
        replica_directory_id: UUID | None  # from version 2

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Node:  # from version 2
        node_id: int
        listeners: tuple[DescribeQuorumResponseTypes.Listener, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Listener:  # from version 2
        name: str
        host: str
        port: int

DescribeQuorumResponse: TypeAlias = DescribeQuorumResponseTypes.DescribeQuorumResponse

DescribeQuorumKey: TypeAlias = ApiKey[DescribeQuorumRequestTypes, DescribeQuorumRequest, DescribeQuorumResponseTypes, DescribeQuorumResponse]

class UpdateFeaturesRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class UpdateFeaturesRequest:
        timeout: timedelta = ...
        feature_updates: tuple[UpdateFeaturesRequestTypes.FeatureUpdateKey, ...]
        validate_only: bool = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class FeatureUpdateKey:
        feature: str
        max_version_level: int
        allow_downgrade: bool = ...  # to version 0
        upgrade_type: int = ...  # from version 1

UpdateFeaturesRequest: TypeAlias = UpdateFeaturesRequestTypes.UpdateFeaturesRequest

class UpdateFeaturesResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class UpdateFeaturesResponse:
        throttle_time: timedelta = ...
        error_code: int
        error_message: str | None
        results: tuple[UpdateFeaturesResponseTypes.UpdatableFeatureResult, ...]  # to version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class UpdatableFeatureResult:  # to version 1
        feature: str
        error_code: int
        error_message: str | None

UpdateFeaturesResponse: TypeAlias = UpdateFeaturesResponseTypes.UpdateFeaturesResponse

UpdateFeaturesKey: TypeAlias = ApiKey[UpdateFeaturesRequestTypes, UpdateFeaturesRequest, UpdateFeaturesResponseTypes, UpdateFeaturesResponse]

class DescribeClusterRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeClusterRequest:
        include_cluster_authorized_operations: bool
        endpoint_type: int = ...  # from version 1
        include_fenced_brokers: bool = ...  # from version 2

DescribeClusterRequest: TypeAlias = DescribeClusterRequestTypes.DescribeClusterRequest

class DescribeClusterResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeClusterResponse:
        throttle_time: timedelta = ...
        error_code: int
        error_message: str | None = ...
        cluster_id: str
        controller_id: int = ...
        brokers: tuple[DescribeClusterResponseTypes.DescribeClusterBroker, ...]
        cluster_authorized_operations: int = ...
        endpoint_type: int = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeClusterBroker:
        broker_id: int
        host: str
        port: int
        rack: str | None = ...
        is_fenced: bool  # from version 2

DescribeClusterResponse: TypeAlias = DescribeClusterResponseTypes.DescribeClusterResponse

DescribeClusterKey: TypeAlias = ApiKey[DescribeClusterRequestTypes, DescribeClusterRequest, DescribeClusterResponseTypes, DescribeClusterResponse]

class DescribeProducersRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeProducersRequest:
        topics: tuple[DescribeProducersRequestTypes.TopicRequest, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicRequest:
        name: str
        partition_indexes: tuple[int, ...] = ...

DescribeProducersRequest: TypeAlias = DescribeProducersRequestTypes.DescribeProducersRequest

class DescribeProducersResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeProducersResponse:
        throttle_time: timedelta = ...
        topics: tuple[DescribeProducersResponseTypes.TopicResponse, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicResponse:
        name: str
        partitions: tuple[DescribeProducersResponseTypes.PartitionResponse, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class PartitionResponse:
        partition_index: int
        error_code: int
        error_message: str | None = ...
        active_producers: tuple[DescribeProducersResponseTypes.ProducerState, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ProducerState:
        producer_id: int
        producer_epoch: int
        last_sequence: int = ...
        last_timestamp: int = ...
        coordinator_epoch: int
        current_txn_start_offset: int = ...

DescribeProducersResponse: TypeAlias = DescribeProducersResponseTypes.DescribeProducersResponse

DescribeProducersKey: TypeAlias = ApiKey[DescribeProducersRequestTypes, DescribeProducersRequest, DescribeProducersResponseTypes, DescribeProducersResponse]

class DescribeTransactionsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeTransactionsRequest:
        transactional_ids: tuple[str, ...] = ...

DescribeTransactionsRequest: TypeAlias = DescribeTransactionsRequestTypes.DescribeTransactionsRequest

class DescribeTransactionsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeTransactionsResponse:
        throttle_time: timedelta = ...
        transaction_states: tuple[DescribeTransactionsResponseTypes.TransactionState, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TransactionState:
        error_code: int
        transactional_id: str
        transaction_state: str
        transaction_timeout: timedelta
        transaction_start_time: datetime | None
        producer_id: int
        producer_epoch: int
        topics: tuple[DescribeTransactionsResponseTypes.TopicData, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicData:
        topic: str
        partitions: tuple[int, ...] = ...

DescribeTransactionsResponse: TypeAlias = DescribeTransactionsResponseTypes.DescribeTransactionsResponse

DescribeTransactionsKey: TypeAlias = ApiKey[DescribeTransactionsRequestTypes, DescribeTransactionsRequest, DescribeTransactionsResponseTypes, DescribeTransactionsResponse]

class ListTransactionsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListTransactionsRequest:
        state_filters: tuple[str, ...] = ...
        producer_id_filters: tuple[int, ...] = ...
        duration_filter: int = ...  # from version 1
        transactional_id_pattern: str | None = ...  # from version 2

ListTransactionsRequest: TypeAlias = ListTransactionsRequestTypes.ListTransactionsRequest

class ListTransactionsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListTransactionsResponse:
        throttle_time: timedelta = ...
        error_code: int
        unknown_state_filters: tuple[str, ...] = ...
        transaction_states: tuple[ListTransactionsResponseTypes.TransactionState, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TransactionState:
        transactional_id: str
        producer_id: int
        transaction_state: str

ListTransactionsResponse: TypeAlias = ListTransactionsResponseTypes.ListTransactionsResponse

ListTransactionsKey: TypeAlias = ApiKey[ListTransactionsRequestTypes, ListTransactionsRequest, ListTransactionsResponseTypes, ListTransactionsResponse]

class ConsumerGroupHeartbeatRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ConsumerGroupHeartbeatRequest:
        group_id: str
        member_id: str
        member_epoch: int
        instance_id: str | None = ...
        rack_id: str | None = ...
        rebalance_timeout: timedelta = ...
        subscribed_topic_names: tuple[str, ...] | None = ...
        server_assignor: str | None = ...
        topic_partitions: tuple[ConsumerGroupHeartbeatRequestTypes.TopicPartitions, ...] | None
        subscribed_topic_regex: str | None = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicPartitions:
        topic_id: UUID | None
        partitions: tuple[int, ...] = ...

ConsumerGroupHeartbeatRequest: TypeAlias = ConsumerGroupHeartbeatRequestTypes.ConsumerGroupHeartbeatRequest

class ConsumerGroupHeartbeatResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ConsumerGroupHeartbeatResponse:
        throttle_time: timedelta = ...
        error_code: int
        error_message: str | None = ...
        member_id: str | None = ...
        member_epoch: int
        heartbeat_interval: timedelta
        assignment: ConsumerGroupHeartbeatResponseTypes.Assignment | None = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Assignment:
        topic_partitions: tuple[ConsumerGroupHeartbeatResponseTypes.TopicPartitions, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicPartitions:
        topic_id: UUID | None
        partitions: tuple[int, ...] = ...

ConsumerGroupHeartbeatResponse: TypeAlias = ConsumerGroupHeartbeatResponseTypes.ConsumerGroupHeartbeatResponse

ConsumerGroupHeartbeatKey: TypeAlias = ApiKey[ConsumerGroupHeartbeatRequestTypes, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponseTypes, ConsumerGroupHeartbeatResponse]

class ConsumerGroupDescribeRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ConsumerGroupDescribeRequest:
        group_ids: tuple[str, ...] = ...
        include_authorized_operations: bool

ConsumerGroupDescribeRequest: TypeAlias = ConsumerGroupDescribeRequestTypes.ConsumerGroupDescribeRequest

class ConsumerGroupDescribeResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ConsumerGroupDescribeResponse:
        throttle_time: timedelta = ...
        groups: tuple[ConsumerGroupDescribeResponseTypes.DescribedGroup, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribedGroup:
        error_code: int
        error_message: str | None = ...
        group_id: str
        group_state: str
        group_epoch: int
        assignment_epoch: int
        assignor_name: str
        members: tuple[ConsumerGroupDescribeResponseTypes.Member, ...]
        authorized_operations: int = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Member:
        member_id: str
        instance_id: str | None = ...
        rack_id: str | None = ...
        member_epoch: int
        client_id: str
        client_host: str
        subscribed_topic_names: tuple[str, ...] = ...
        subscribed_topic_regex: str | None = ...
        assignment: ConsumerGroupDescribeResponseTypes.Assignment
        target_assignment: ConsumerGroupDescribeResponseTypes.Assignment
        member_type: int = ...  # from version 1

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Assignment:
        topic_partitions: tuple[ConsumerGroupDescribeResponseTypes.TopicPartitions, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicPartitions:
        topic_id: UUID | None
        topic_name: str
        partitions: tuple[int, ...] = ...

ConsumerGroupDescribeResponse: TypeAlias = ConsumerGroupDescribeResponseTypes.ConsumerGroupDescribeResponse

ConsumerGroupDescribeKey: TypeAlias = ApiKey[ConsumerGroupDescribeRequestTypes, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponseTypes, ConsumerGroupDescribeResponse]

class ListConfigResourcesRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListConfigResourcesRequest:
        resource_types: tuple[int, ...] = ...  # from version 1

ListConfigResourcesRequest: TypeAlias = ListConfigResourcesRequestTypes.ListConfigResourcesRequest

class ListConfigResourcesResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class ListConfigResourcesResponse:
        throttle_time: timedelta = ...
        error_code: int
        config_resources: tuple[ListConfigResourcesResponseTypes.ConfigResource, ...]

    @dataclass(frozen=True, slots=True, kw_only=True)
    class ConfigResource:
        resource_name: str
        resource_type: int = ...  # from version 1

ListConfigResourcesResponse: TypeAlias = ListConfigResourcesResponseTypes.ListConfigResourcesResponse

ListConfigResourcesKey: TypeAlias = ApiKey[ListConfigResourcesRequestTypes, ListConfigResourcesRequest, ListConfigResourcesResponseTypes, ListConfigResourcesResponse]

class DescribeTopicPartitionsRequestTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeTopicPartitionsRequest:
        topics: tuple[DescribeTopicPartitionsRequestTypes.TopicRequest, ...]
        response_partition_limit: int = ...
        cursor: DescribeTopicPartitionsRequestTypes.Cursor | None = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class TopicRequest:
        name: str

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Cursor:
        topic_name: str
        partition_index: int

DescribeTopicPartitionsRequest: TypeAlias = DescribeTopicPartitionsRequestTypes.DescribeTopicPartitionsRequest

class DescribeTopicPartitionsResponseTypes(Types):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeTopicPartitionsResponse:
        throttle_time: timedelta = ...
        topics: tuple[DescribeTopicPartitionsResponseTypes.DescribeTopicPartitionsResponseTopic, ...]
        next_cursor: DescribeTopicPartitionsResponseTypes.Cursor | None = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeTopicPartitionsResponseTopic:
        error_code: int
        name: str | None
        topic_id: UUID | None
        is_internal: bool = ...
        partitions: tuple[DescribeTopicPartitionsResponseTypes.DescribeTopicPartitionsResponsePartition, ...]
        topic_authorized_operations: int = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class DescribeTopicPartitionsResponsePartition:
        error_code: int
        partition_index: int
        leader_id: int
        leader_epoch: int = ...
        replica_nodes: tuple[int, ...] = ...
        isr_nodes: tuple[int, ...] = ...
        eligible_leader_replicas: tuple[int, ...] | None = ...
        last_known_elr: tuple[int, ...] | None = ...
        offline_replicas: tuple[int, ...] = ...

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Cursor:
        topic_name: str
        partition_index: int

DescribeTopicPartitionsResponse: TypeAlias = DescribeTopicPartitionsResponseTypes.DescribeTopicPartitionsResponse

DescribeTopicPartitionsKey: TypeAlias = ApiKey[DescribeTopicPartitionsRequestTypes, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponseTypes, DescribeTopicPartitionsResponse]
