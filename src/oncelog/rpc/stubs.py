"""The types of the stubs: for each service in `proto/` a protocol with its unary methods.

`DirectStub` and `SessionStub` find their methods as they are called, so they carry no types. The code of the roles sees
these protocols. A new method of `proto/` gets a line here: `tests/unit/rpc/test_stubs.py` compares them with it.
"""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from oncelog.api.v1 import controller_pb2 as controller
from oncelog.api.v1 import coordinator_pb2 as coordinator
from oncelog.api.v1 import groups_pb2 as groups
from oncelog.api.v1 import marker_sender_pb2 as marker_sender
from oncelog.api.v1 import process_pb2 as process
from oncelog.api.v1 import storage_pb2 as storage

RequestT = TypeVar("RequestT", contravariant=True)
ResponseT = TypeVar("ResponseT", covariant=True)


class Unary(Protocol[RequestT, ResponseT]):
    """The type of a unary method of a stub: it takes a request and a timeout in seconds, and its response is
    awaited.
    """

    def __call__(self, request: RequestT, timeout: float | None = None) -> Awaitable[ResponseT]: ...


class ControllerStub(Protocol):
    RegisterNode: Unary[controller.RegisterNodeRequest, controller.RegisterNodeResponse]
    NodeHeartbeat: Unary[controller.NodeHeartbeatRequest, controller.NodeHeartbeatResponse]
    DescribeController: Unary[
        controller.DescribeControllerRequest, controller.DescribeControllerResponse
    ]
    CreateTopics: Unary[controller.CreateTopicsRequest, controller.CreateTopicsResponse]
    DeleteTopics: Unary[controller.DeleteTopicsRequest, controller.DeleteTopicsResponse]
    CreatePartitions: Unary[controller.CreatePartitionsRequest, controller.CreatePartitionsResponse]
    AlterConfigs: Unary[controller.AlterConfigsRequest, controller.AlterConfigsResponse]
    UpdateFeatures: Unary[controller.UpdateFeaturesRequest, controller.UpdateFeaturesResponse]
    CreateAcls: Unary[controller.CreateAclsRequest, controller.CreateAclsResponse]
    DeleteAcls: Unary[controller.DeleteAclsRequest, controller.DeleteAclsResponse]
    AlterUserScramCredentials: Unary[
        controller.AlterUserScramCredentialsRequest, controller.AlterUserScramCredentialsResponse
    ]
    AlterClientQuotas: Unary[
        controller.AlterClientQuotasRequest, controller.AlterClientQuotasResponse
    ]
    AlterApiTokens: Unary[controller.AlterApiTokensRequest, controller.AlterApiTokensResponse]
    EndConsoleSession: Unary[
        controller.EndConsoleSessionRequest, controller.EndConsoleSessionResponse
    ]
    AllocateProducerIds: Unary[
        controller.AllocateProducerIdsRequest, controller.AllocateProducerIdsResponse
    ]
    AlterPartition: Unary[controller.AlterPartitionRequest, controller.AlterPartitionResponse]
    ReassignPartitions: Unary[
        controller.ReassignPartitionsRequest, controller.ReassignPartitionsResponse
    ]
    ElectLeaders: Unary[controller.ElectLeadersRequest, controller.ElectLeadersResponse]
    DrainNode: Unary[controller.DrainNodeRequest, controller.DrainNodeResponse]
    RemoveNode: Unary[controller.RemoveNodeRequest, controller.RemoveNodeResponse]


class StorageStub(Protocol):
    Produce: Unary[storage.ProduceRequest, storage.ProduceResponse]
    Append: Unary[storage.AppendRequest, storage.AppendResponse]
    Fetch: Unary[storage.FetchRequest, storage.FetchResponse]
    ListOffsets: Unary[storage.ListOffsetsRequest, storage.ListOffsetsResponse]
    OffsetsForLeaderEpoch: Unary[
        storage.OffsetsForLeaderEpochRequest, storage.OffsetsForLeaderEpochResponse
    ]
    WriteTxnMarkers: Unary[storage.WriteTxnMarkersRequest, storage.WriteTxnMarkersResponse]
    DescribeProducers: Unary[storage.DescribeProducersRequest, storage.DescribeProducersResponse]
    DescribePartitions: Unary[storage.DescribePartitionsRequest, storage.DescribePartitionsResponse]
    DescribeRecord: Unary[storage.DescribeRecordRequest, storage.DescribeRecordResponse]
    DeleteRecords: Unary[storage.DeleteRecordsRequest, storage.DeleteRecordsResponse]
    ReplicaFetch: Unary[storage.ReplicaFetchRequest, storage.ReplicaFetchResponse]


class TransactionCoordinatorStub(Protocol):
    InitProducerId: Unary[coordinator.InitProducerIdRequest, coordinator.InitProducerIdResponse]
    AddPartitionsToTxn: Unary[
        coordinator.AddPartitionsToTxnRequest, coordinator.AddPartitionsToTxnResponse
    ]
    AddOffsetsToTxn: Unary[coordinator.AddOffsetsToTxnRequest, coordinator.AddOffsetsToTxnResponse]
    EndTxn: Unary[coordinator.EndTxnRequest, coordinator.EndTxnResponse]
    DescribeTransactions: Unary[
        coordinator.DescribeTransactionsRequest, coordinator.DescribeTransactionsResponse
    ]
    ListTransactions: Unary[
        coordinator.ListTransactionsRequest, coordinator.ListTransactionsResponse
    ]
    ForceTerminateTransaction: Unary[
        coordinator.ForceTerminateTransactionRequest, coordinator.ForceTerminateTransactionResponse
    ]
    CompletePreparedTransaction: Unary[
        coordinator.CompletePreparedTransactionRequest,
        coordinator.CompletePreparedTransactionResponse,
    ]
    OpenAttempt: Unary[coordinator.OpenAttemptRequest, coordinator.OpenAttemptResponse]
    JoinAttempt: Unary[coordinator.JoinAttemptRequest, coordinator.JoinAttemptResponse]
    SealBranch: Unary[coordinator.SealBranchRequest, coordinator.SealBranchResponse]
    CommitBatch: Unary[coordinator.CommitBatchRequest, coordinator.CommitBatchResponse]
    AbortAttempt: Unary[coordinator.AbortAttemptRequest, coordinator.AbortAttemptResponse]
    DescribeSink: Unary[coordinator.DescribeSinkRequest, coordinator.DescribeSinkResponse]
    ListSinks: Unary[coordinator.ListSinksRequest, coordinator.ListSinksResponse]
    DeleteSink: Unary[coordinator.DeleteSinkRequest, coordinator.DeleteSinkResponse]


class GroupCoordinatorStub(Protocol):
    JoinGroup: Unary[groups.JoinGroupRequest, groups.JoinGroupResponse]
    SyncGroup: Unary[groups.SyncGroupRequest, groups.SyncGroupResponse]
    GroupHeartbeat: Unary[groups.GroupHeartbeatRequest, groups.GroupHeartbeatResponse]
    LeaveGroup: Unary[groups.LeaveGroupRequest, groups.LeaveGroupResponse]
    OffsetCommit: Unary[groups.OffsetCommitRequest, groups.OffsetCommitResponse]
    TxnOffsetCommit: Unary[groups.TxnOffsetCommitRequest, groups.OffsetCommitResponse]
    OffsetFetch: Unary[groups.OffsetFetchRequest, groups.OffsetFetchResponse]
    OffsetDelete: Unary[groups.OffsetDeleteRequest, groups.OffsetDeleteResponse]
    DescribeGroups: Unary[groups.DescribeGroupsRequest, groups.DescribeGroupsResponse]
    ListGroups: Unary[groups.ListGroupsRequest, groups.ListGroupsResponse]
    DeleteGroups: Unary[groups.DeleteGroupsRequest, groups.DeleteGroupsResponse]
    ConsumerGroupHeartbeat: Unary[
        groups.ConsumerGroupHeartbeatRequest, groups.ConsumerGroupHeartbeatResponse
    ]
    WriteTxnMarkers: Unary[storage.WriteTxnMarkersRequest, storage.WriteTxnMarkersResponse]


class MarkerSenderStub(Protocol):
    DeliverMarkers: Unary[marker_sender.DeliverMarkersRequest, marker_sender.DeliverMarkersResponse]
    CancelShard: Unary[marker_sender.CancelShardRequest, marker_sender.CancelShardResponse]
    DescribeDeliveries: Unary[
        marker_sender.DescribeDeliveriesRequest, marker_sender.DescribeDeliveriesResponse
    ]
    DescribeQueues: Unary[marker_sender.DescribeQueuesRequest, marker_sender.DescribeQueuesResponse]


class ProcessStub(Protocol):
    DescribeProcess: Unary[process.DescribeProcessRequest, process.DescribeProcessResponse]
