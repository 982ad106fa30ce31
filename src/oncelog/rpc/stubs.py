"""What each role's stub has: the unary methods of its service in `proto/`, with their types.

Generated gRPC stubs carry no types, and `DirectStub` and `SessionStub` find their methods as they are called. The code
of the roles sees these protocols. `tests/unit/rpc/test_stubs.py` compares them with the contract.
"""

from collections.abc import Awaitable
from typing import Protocol, TypeVar

from oncelog.api.v1 import (
    controller_pb2,
    coordinator_pb2,
    groups_pb2,
    marker_sender_pb2,
    storage_pb2,
)

RequestT = TypeVar("RequestT", contravariant=True)
ResponseT = TypeVar("ResponseT", covariant=True)


class Unary(Protocol[RequestT, ResponseT]):
    """One of these methods."""

    def __call__(self, request: RequestT, timeout: float | None = None) -> Awaitable[ResponseT]: ...


class ControllerStub(Protocol):
    async def RegisterNode(
        self, request: controller_pb2.RegisterNodeRequest, timeout: float | None = None
    ) -> controller_pb2.RegisterNodeResponse: ...

    async def NodeHeartbeat(
        self, request: controller_pb2.NodeHeartbeatRequest, timeout: float | None = None
    ) -> controller_pb2.NodeHeartbeatResponse: ...

    async def DescribeController(
        self, request: controller_pb2.DescribeControllerRequest, timeout: float | None = None
    ) -> controller_pb2.DescribeControllerResponse: ...

    async def CreateTopics(
        self, request: controller_pb2.CreateTopicsRequest, timeout: float | None = None
    ) -> controller_pb2.CreateTopicsResponse: ...

    async def DeleteTopics(
        self, request: controller_pb2.DeleteTopicsRequest, timeout: float | None = None
    ) -> controller_pb2.DeleteTopicsResponse: ...

    async def CreatePartitions(
        self, request: controller_pb2.CreatePartitionsRequest, timeout: float | None = None
    ) -> controller_pb2.CreatePartitionsResponse: ...

    async def AlterConfigs(
        self, request: controller_pb2.AlterConfigsRequest, timeout: float | None = None
    ) -> controller_pb2.AlterConfigsResponse: ...

    async def UpdateFeatures(
        self, request: controller_pb2.UpdateFeaturesRequest, timeout: float | None = None
    ) -> controller_pb2.UpdateFeaturesResponse: ...

    async def CreateAcls(
        self, request: controller_pb2.CreateAclsRequest, timeout: float | None = None
    ) -> controller_pb2.CreateAclsResponse: ...

    async def DeleteAcls(
        self, request: controller_pb2.DeleteAclsRequest, timeout: float | None = None
    ) -> controller_pb2.DeleteAclsResponse: ...

    async def AlterUserScramCredentials(
        self, request: controller_pb2.AlterUserScramCredentialsRequest, timeout: float | None = None
    ) -> controller_pb2.AlterUserScramCredentialsResponse: ...

    async def AlterClientQuotas(
        self, request: controller_pb2.AlterClientQuotasRequest, timeout: float | None = None
    ) -> controller_pb2.AlterClientQuotasResponse: ...

    async def AlterApiTokens(
        self, request: controller_pb2.AlterApiTokensRequest, timeout: float | None = None
    ) -> controller_pb2.AlterApiTokensResponse: ...

    async def EndConsoleSession(
        self, request: controller_pb2.EndConsoleSessionRequest, timeout: float | None = None
    ) -> controller_pb2.EndConsoleSessionResponse: ...

    async def AllocateProducerIds(
        self, request: controller_pb2.AllocateProducerIdsRequest, timeout: float | None = None
    ) -> controller_pb2.AllocateProducerIdsResponse: ...

    async def AlterPartition(
        self, request: controller_pb2.AlterPartitionRequest, timeout: float | None = None
    ) -> controller_pb2.AlterPartitionResponse: ...

    async def ReassignPartitions(
        self, request: controller_pb2.ReassignPartitionsRequest, timeout: float | None = None
    ) -> controller_pb2.ReassignPartitionsResponse: ...

    async def ElectLeaders(
        self, request: controller_pb2.ElectLeadersRequest, timeout: float | None = None
    ) -> controller_pb2.ElectLeadersResponse: ...

    async def DrainNode(
        self, request: controller_pb2.DrainNodeRequest, timeout: float | None = None
    ) -> controller_pb2.DrainNodeResponse: ...

    async def RemoveNode(
        self, request: controller_pb2.RemoveNodeRequest, timeout: float | None = None
    ) -> controller_pb2.RemoveNodeResponse: ...


class StorageStub(Protocol):
    async def Produce(
        self, request: storage_pb2.ProduceRequest, timeout: float | None = None
    ) -> storage_pb2.ProduceResponse: ...

    async def Append(
        self, request: storage_pb2.AppendRequest, timeout: float | None = None
    ) -> storage_pb2.AppendResponse: ...

    async def Fetch(
        self, request: storage_pb2.FetchRequest, timeout: float | None = None
    ) -> storage_pb2.FetchResponse: ...

    async def ListOffsets(
        self, request: storage_pb2.ListOffsetsRequest, timeout: float | None = None
    ) -> storage_pb2.ListOffsetsResponse: ...

    async def OffsetsForLeaderEpoch(
        self, request: storage_pb2.OffsetsForLeaderEpochRequest, timeout: float | None = None
    ) -> storage_pb2.OffsetsForLeaderEpochResponse: ...

    async def WriteTxnMarkers(
        self, request: storage_pb2.WriteTxnMarkersRequest, timeout: float | None = None
    ) -> storage_pb2.WriteTxnMarkersResponse: ...

    async def DescribeProducers(
        self, request: storage_pb2.DescribeProducersRequest, timeout: float | None = None
    ) -> storage_pb2.DescribeProducersResponse: ...

    async def DescribePartitions(
        self, request: storage_pb2.DescribePartitionsRequest, timeout: float | None = None
    ) -> storage_pb2.DescribePartitionsResponse: ...

    async def DescribeRecord(
        self, request: storage_pb2.DescribeRecordRequest, timeout: float | None = None
    ) -> storage_pb2.DescribeRecordResponse: ...

    async def DeleteRecords(
        self, request: storage_pb2.DeleteRecordsRequest, timeout: float | None = None
    ) -> storage_pb2.DeleteRecordsResponse: ...

    async def ReplicaFetch(
        self, request: storage_pb2.ReplicaFetchRequest, timeout: float | None = None
    ) -> storage_pb2.ReplicaFetchResponse: ...


class TransactionCoordinatorStub(Protocol):
    async def InitProducerId(
        self, request: coordinator_pb2.InitProducerIdRequest, timeout: float | None = None
    ) -> coordinator_pb2.InitProducerIdResponse: ...

    async def AddPartitionsToTxn(
        self, request: coordinator_pb2.AddPartitionsToTxnRequest, timeout: float | None = None
    ) -> coordinator_pb2.AddPartitionsToTxnResponse: ...

    async def AddOffsetsToTxn(
        self, request: coordinator_pb2.AddOffsetsToTxnRequest, timeout: float | None = None
    ) -> coordinator_pb2.AddOffsetsToTxnResponse: ...

    async def EndTxn(
        self, request: coordinator_pb2.EndTxnRequest, timeout: float | None = None
    ) -> coordinator_pb2.EndTxnResponse: ...

    async def DescribeTransactions(
        self, request: coordinator_pb2.DescribeTransactionsRequest, timeout: float | None = None
    ) -> coordinator_pb2.DescribeTransactionsResponse: ...

    async def ListTransactions(
        self, request: coordinator_pb2.ListTransactionsRequest, timeout: float | None = None
    ) -> coordinator_pb2.ListTransactionsResponse: ...

    async def ForceTerminateTransaction(
        self,
        request: coordinator_pb2.ForceTerminateTransactionRequest,
        timeout: float | None = None,
    ) -> coordinator_pb2.ForceTerminateTransactionResponse: ...

    async def OpenAttempt(
        self, request: coordinator_pb2.OpenAttemptRequest, timeout: float | None = None
    ) -> coordinator_pb2.OpenAttemptResponse: ...

    async def JoinAttempt(
        self, request: coordinator_pb2.JoinAttemptRequest, timeout: float | None = None
    ) -> coordinator_pb2.JoinAttemptResponse: ...

    async def SealBranch(
        self, request: coordinator_pb2.SealBranchRequest, timeout: float | None = None
    ) -> coordinator_pb2.SealBranchResponse: ...

    async def CommitBatch(
        self, request: coordinator_pb2.CommitBatchRequest, timeout: float | None = None
    ) -> coordinator_pb2.CommitBatchResponse: ...

    async def AbortAttempt(
        self, request: coordinator_pb2.AbortAttemptRequest, timeout: float | None = None
    ) -> coordinator_pb2.AbortAttemptResponse: ...

    async def DescribeSink(
        self, request: coordinator_pb2.DescribeSinkRequest, timeout: float | None = None
    ) -> coordinator_pb2.DescribeSinkResponse: ...

    async def ListSinks(
        self, request: coordinator_pb2.ListSinksRequest, timeout: float | None = None
    ) -> coordinator_pb2.ListSinksResponse: ...

    async def DeleteSink(
        self, request: coordinator_pb2.DeleteSinkRequest, timeout: float | None = None
    ) -> coordinator_pb2.DeleteSinkResponse: ...


class GroupCoordinatorStub(Protocol):
    async def JoinGroup(
        self, request: groups_pb2.JoinGroupRequest, timeout: float | None = None
    ) -> groups_pb2.JoinGroupResponse: ...

    async def SyncGroup(
        self, request: groups_pb2.SyncGroupRequest, timeout: float | None = None
    ) -> groups_pb2.SyncGroupResponse: ...

    async def GroupHeartbeat(
        self, request: groups_pb2.GroupHeartbeatRequest, timeout: float | None = None
    ) -> groups_pb2.GroupHeartbeatResponse: ...

    async def LeaveGroup(
        self, request: groups_pb2.LeaveGroupRequest, timeout: float | None = None
    ) -> groups_pb2.LeaveGroupResponse: ...

    async def OffsetCommit(
        self, request: groups_pb2.OffsetCommitRequest, timeout: float | None = None
    ) -> groups_pb2.OffsetCommitResponse: ...

    async def TxnOffsetCommit(
        self, request: groups_pb2.TxnOffsetCommitRequest, timeout: float | None = None
    ) -> groups_pb2.OffsetCommitResponse: ...

    async def OffsetFetch(
        self, request: groups_pb2.OffsetFetchRequest, timeout: float | None = None
    ) -> groups_pb2.OffsetFetchResponse: ...

    async def OffsetDelete(
        self, request: groups_pb2.OffsetDeleteRequest, timeout: float | None = None
    ) -> groups_pb2.OffsetDeleteResponse: ...

    async def DescribeGroups(
        self, request: groups_pb2.DescribeGroupsRequest, timeout: float | None = None
    ) -> groups_pb2.DescribeGroupsResponse: ...

    async def ListGroups(
        self, request: groups_pb2.ListGroupsRequest, timeout: float | None = None
    ) -> groups_pb2.ListGroupsResponse: ...

    async def DeleteGroups(
        self, request: groups_pb2.DeleteGroupsRequest, timeout: float | None = None
    ) -> groups_pb2.DeleteGroupsResponse: ...

    async def ConsumerGroupHeartbeat(
        self, request: groups_pb2.ConsumerGroupHeartbeatRequest, timeout: float | None = None
    ) -> groups_pb2.ConsumerGroupHeartbeatResponse: ...

    async def WriteTxnMarkers(
        self, request: storage_pb2.WriteTxnMarkersRequest, timeout: float | None = None
    ) -> storage_pb2.WriteTxnMarkersResponse: ...


class MarkerSenderStub(Protocol):
    async def DeliverMarkers(
        self, request: marker_sender_pb2.DeliverMarkersRequest, timeout: float | None = None
    ) -> marker_sender_pb2.DeliverMarkersResponse: ...

    async def CancelShard(
        self, request: marker_sender_pb2.CancelShardRequest, timeout: float | None = None
    ) -> marker_sender_pb2.CancelShardResponse: ...

    async def DescribeQueues(
        self, request: marker_sender_pb2.DescribeQueuesRequest, timeout: float | None = None
    ) -> marker_sender_pb2.DescribeQueuesResponse: ...
