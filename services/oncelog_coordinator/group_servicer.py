"""The GroupCoordinator service: requests become events of a group's state machine, its answers become responses.

Every method answers with Kafka error codes and raises nothing. What is wrong with the request itself comes first, then
whether the shard is here, then the machine's answer. A JoinGroup or SyncGroup waits for the other members, which may
take as long as a rebalance. If the caller disconnects meanwhile, its answer is dropped.
"""

import asyncio
import uuid
from collections.abc import Callable
from typing import Concatenate, Final, ParamSpec, TypeVar

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.api.v1 import storage_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import (
    ProducerEpoch,
    ProducerId,
)
from oncelog.runtime import DriverStopped
from oncelog_coordinator.classic_messages import described_classic, joined
from oncelog_coordinator.commit_order import LATE, CommitOrder, HeartbeatOrder
from oncelog_coordinator.consumer_messages import (
    described_group,
    heartbeat_event,
    heartbeat_response,
)
from oncelog_coordinator.core.consumer_group import ConsumerGroup
from oncelog_coordinator.core.group_events import (
    CodeAnswer,
    CommitAnswer,
    CommitOffsets,
    CommitTxnOffsets,
    ConsumerHeartbeatAnswer,
    DeleteGroup,
    DeleteOffsets,
    DescribeAnswer,
    DescribeGroup,
    FetchOffsets,
    FetchOffsetsAnswer,
    GroupEvent,
    Heartbeat,
    JoinAnswer,
    JoinGroup,
    LeaveAnswer,
    LeaveGroup,
    Leaving,
    ListAnswer,
    ListGroups,
    OffsetToCommit,
    SyncAnswer,
    SyncGroup,
)
from oncelog_coordinator.core.group_names import MEMBER_PREFIX_MAX, fits, is_group_id
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.group_markers import GroupMarkers
from oncelog_coordinator.group_shards import GroupShards
from oncelog_coordinator.group_transactions import TV2, TransactionCheck
from oncelog_coordinator.offset_messages import (
    commit_codes,
    instance_id,
    offsets_to_commit,
    partition_errors,
    partitions_of,
)
from oncelog_coordinator.request_origins import RequestWithOrigin, origins_of
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shard_terms import ShardUnavailable

AnswerT = TypeVar("AnswerT")
P = ParamSpec("P")
GROUPS_PER_CALL_MAX: Final = 1_000
DEAD: Final = "Dead"


class GroupCoordinatorServicer:
    """The GroupCoordinator service. Its methods have the names and messages of `groups.proto`."""

    def __init__(
        self,
        shards: GroupShards,
        check: TransactionCheck,
        markers: GroupMarkers,
        settings: CoordinatorSettings,
    ) -> None:
        self._shards = shards
        self._check = check
        self._markers = markers
        self._settings = settings
        self._order = CommitOrder()
        self._heartbeats = HeartbeatOrder()

    async def _ask(
        self,
        refused: Callable[[ErrorCode], AnswerT],
        event: Callable[Concatenate[int, str, P], GroupEvent],
        group_id: str,
        /,
        *fields: P.args,
        **named: P.kwargs,
    ) -> AnswerT:
        """Send the group's state machine an event of this class with these fields, and return its answer.

        Without an answer, because the shard is not here or has stopped, return `refused(error code)`. Where an answer's
        class has the error code as its first field, it is passed as `refused`.
        """
        if not is_group_id(group_id):
            return refused(ErrorCode.INVALID_GROUP_ID)
        try:
            answer: AnswerT = await self._shards.ask(
                group_id, lambda request_id: event(request_id, group_id, *fields, **named)
            )
            return answer
        except (ShardUnavailable, DriverStopped) as unavailable:
            return refused(unavailable.error_code)

    # ------------------------------------------------------------------------------------------------ membership

    async def JoinGroup(
        self, request: pb.JoinGroupRequest, context: object
    ) -> pb.JoinGroupResponse:
        settings = self._settings
        shortest, longest = (
            settings.group_session_timeout_min_ms,
            settings.group_session_timeout_max_ms,
        )
        if request.group_id and not shortest <= request.session_timeout_ms <= longest:
            return joined(JoinAnswer(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
        instance = instance_id(request)
        names = (instance or "", request.protocol_type, *(one.name for one in request.protocols))
        if not all(map(fits, names)):
            return joined(JoinAnswer(ErrorCode.INVALID_REQUEST, request.member_id))
        prefix = (request.client_id if instance is None else instance)[:MEMBER_PREFIX_MAX]
        rebalance_timeout_ms = request.rebalance_timeout_ms
        answer = await self._ask(
            lambda error_code: JoinAnswer(error_code, request.member_id),
            JoinGroup,
            request.group_id,
            request.member_id,
            instance,
            request.client_id,
            request.client_host,
            request.session_timeout_ms,
            rebalance_timeout_ms if rebalance_timeout_ms > 0 else request.session_timeout_ms,
            request.protocol_type,
            tuple((each.name, each.metadata) for each in request.protocols),
            f"{prefix}-{uuid.uuid4()}",
            request.requires_known_member_id,
            request.supports_skipping_assignment,
        )
        return joined(answer)

    async def SyncGroup(
        self, request: pb.SyncGroupRequest, context: object
    ) -> pb.SyncGroupResponse:
        answer = await self._ask(
            SyncAnswer,
            SyncGroup,
            request.group_id,
            request.generation_id,
            request.member_id,
            instance_id(request),
            request.protocol_type,
            request.protocol_name,
            tuple((each.member_id, each.assignment) for each in request.assignments),
        )
        # A shard that moves or loads: the member finds it again when it joins again.
        error_code = answer.error_code
        if error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            error_code = ErrorCode.REBALANCE_IN_PROGRESS
        return pb.SyncGroupResponse(
            error_code=error_code,
            protocol_type=answer.protocol_type,
            protocol_name=answer.protocol_name,
            assignment=answer.assignment,
        )

    async def GroupHeartbeat(
        self, request: pb.GroupHeartbeatRequest, context: object
    ) -> pb.GroupHeartbeatResponse:
        answer = await self._ask(
            CodeAnswer,
            Heartbeat,
            request.group_id,
            request.generation_id,
            request.member_id,
            instance_id(request),
        )
        error_code = answer.error_code
        if error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            # Nobody's session ends while its shard loads, and clients fail on this code here.
            error_code = ErrorCode.NONE
        return pb.GroupHeartbeatResponse(error_code=error_code)

    async def LeaveGroup(
        self, request: pb.LeaveGroupRequest, context: object
    ) -> pb.LeaveGroupResponse:
        leaving = tuple(Leaving(each.member_id, instance_id(each)) for each in request.members)
        answer = await self._ask(LeaveAnswer, LeaveGroup, request.group_id, leaving)
        return pb.LeaveGroupResponse(
            error_code=answer.error_code,
            members=[
                pb.LeaveGroupResponse.Member(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    error_code=error_code,
                )
                for member, error_code in answer.members
            ],
        )

    # ------------------------------------------------------------------------------------------------ offsets

    async def OffsetCommit(
        self, request: pb.OffsetCommitRequest, context: object
    ) -> pb.OffsetCommitResponse:
        offsets = offsets_to_commit(request)
        origin = self._origin_of(request)
        answer = self._answered_already(request, origin)
        if answer is None:
            answer = await self._ask(
                CommitAnswer,
                CommitOffsets,
                request.group_id,
                request.generation_id,
                request.member_id,
                instance_id(request),
                offsets,
            )
            self._order.keep_answer(origin, answer)
        return pb.OffsetCommitResponse(partitions=commit_codes(answer, offsets))

    def _origin_of(self, request: RequestWithOrigin) -> RequestOrigin | None:
        return origins_of(request, is_enabled=self._settings.origin_check_enabled).origin

    def _answered_already(
        self,
        request: pb.OffsetCommitRequest | pb.TxnOffsetCommitRequest,
        origin: RequestOrigin | None,
    ) -> CommitAnswer | None:
        """Return the answer of a commit that must not be handled: a copy or a late one. None: the commit is to be
        handled.

        A request that was sent to an earlier coordinator of the shard is refused: the client may have committed later
        offsets since.
        """
        if origin is not None and self._shards.is_outdated(request):
            return CommitAnswer(ErrorCode.NOT_COORDINATOR)
        return self._order.arrived(origin)

    async def TxnOffsetCommit(
        self, request: pb.TxnOffsetCommitRequest, context: object
    ) -> pb.OffsetCommitResponse:
        offsets = offsets_to_commit(request)
        origin = self._origin_of(request)
        answer = self._answered_already(request, origin)
        if answer is None:
            answer = await self._commit_in_transaction(request, offsets, origin)
            self._order.keep_answer(origin, answer)
        return pb.OffsetCommitResponse(partitions=commit_codes(answer, offsets))

    async def _commit_in_transaction(
        self,
        request: pb.TxnOffsetCommitRequest,
        offsets: tuple[OffsetToCommit, ...],
        origin: RequestOrigin | None,
    ) -> CommitAnswer:
        if not request.transactional_id:
            return CommitAnswer(ErrorCode.INVALID_REQUEST)
        if not is_group_id(request.group_id):
            return CommitAnswer(ErrorCode.INVALID_GROUP_ID)
        try:
            answer, start_ms = await self._verify_and_commit(request, offsets, origin)
            if answer.error_code is ErrorCode.INVALID_TXN_STATE and start_ms:
                # A marker came while we asked. Was it a late one, then the transaction that was verified runs on; the
                # next one, which has the same epoch and perhaps the same group, must not get these offsets.
                answer, _ = await self._verify_and_commit(request, offsets, origin, start_ms)
        except (ShardUnavailable, DriverStopped) as unavailable:
            return CommitAnswer(unavailable.error_code)
        return answer

    async def _verify_and_commit(
        self,
        request: pb.TxnOffsetCommitRequest,
        offsets: tuple[OffsetToCommit, ...],
        origin: RequestOrigin | None,
        only_start_ms: int = 0,
    ) -> tuple[CommitAnswer, int]:
        """Verify the transaction at its coordinator, and commit its offsets. Return the answer and the transaction's
        start.

        The start is in milliseconds; 0: unknown. `only_start_ms`, unless it is 0, is the start that the transaction
        must have.
        """
        producer_id = ProducerId(request.producer_id)
        producer_epoch = ProducerEpoch(request.producer_epoch)
        partition, machine = self._shards.machine(request.group_id)
        error_code, is_known, verified_at = machine.verification(producer_id, producer_epoch)
        start_ms = 0
        if error_code is ErrorCode.NONE and (only_start_ms or not is_known):
            error_code, start_ms = await self._check.verify_in_transaction(
                request.transactional_id,
                producer_id,
                producer_epoch,
                request.client_transaction_version,
                partition,
            )
        if error_code is ErrorCode.NONE and only_start_ms not in (0, start_ms):
            error_code = ErrorCode.INVALID_TXN_STATE
        if error_code is not ErrorCode.NONE:
            return CommitAnswer(error_code), 0
        if self._order.is_late(origin):
            return LATE, start_ms
        if origin is not None and self._shards.is_outdated(request):
            return CommitAnswer(ErrorCode.NOT_COORDINATOR), start_ms
        answer: CommitAnswer = await self._shards.ask(
            request.group_id,
            lambda request_id: CommitTxnOffsets(
                request_id,
                request.group_id,
                request.generation_id,
                request.member_id,
                instance_id(request),
                offsets,
                producer_id,
                producer_epoch,
                verified_at,
                start_ms,
                request.client_transaction_version >= TV2,
            ),
        )
        return answer, start_ms

    async def OffsetFetch(
        self, request: pb.OffsetFetchRequest, context: object
    ) -> pb.OffsetFetchResponse:
        fetched = await asyncio.gather(*(self._fetch(one, request) for one in request.groups))
        return pb.OffsetFetchResponse(groups=fetched)

    async def _fetch(
        self, group: pb.OffsetFetchRequest.Group, request: pb.OffsetFetchRequest
    ) -> pb.OffsetFetchResponse.Group:
        partitions = None if group.all_topics else tuple(partitions_of(group.topics))
        answer = await self._ask(
            lambda error_code: FetchOffsetsAnswer((), error_code),
            FetchOffsets,
            group.group_id,
            partitions,
            request.require_stable,
            group.member_id,
            group.member_epoch,
            request.with_pending,
            dict(group.topic_ids),
        )
        if answer.error_code is not ErrorCode.NONE:
            return pb.OffsetFetchResponse.Group(
                group_id=group.group_id, error_code=answer.error_code
            )
        return pb.OffsetFetchResponse.Group(
            group_id=group.group_id,
            offsets=[
                pb.OffsetFetchResponse.Offset(
                    topic=found.partition.topic,
                    partition=found.partition.partition,
                    offset=found.offset,
                    leader_epoch=found.leader_epoch,
                    metadata=found.metadata,
                    error_code=found.error_code,
                    pending_producer_ids=found.pending,
                )
                for found in answer.offsets
            ],
        )

    async def OffsetDelete(
        self, request: pb.OffsetDeleteRequest, context: object
    ) -> pb.OffsetDeleteResponse:
        partitions = tuple(partitions_of(request.topics))
        answer = await self._ask(CommitAnswer, DeleteOffsets, request.group_id, partitions)
        return pb.OffsetDeleteResponse(
            error_code=answer.error_code, partitions=partition_errors(answer.partitions)
        )

    async def WriteTxnMarkers(
        self, request: storage_pb2.WriteTxnMarkersRequest, context: object
    ) -> storage_pb2.WriteTxnMarkersResponse:
        return await self._markers.write(request)

    # ------------------------------------------------------------------------------------------------ views

    async def DescribeGroups(
        self, request: pb.DescribeGroupsRequest, context: object
    ) -> pb.DescribeGroupsResponse:
        names = request.group_ids[:GROUPS_PER_CALL_MAX]
        described = await asyncio.gather(*map(self._describe, names))
        refused = [
            pb.DescribeGroupsResponse.Group(error_code=ErrorCode.INVALID_REQUEST, group_id=name)
            for name in request.group_ids[GROUPS_PER_CALL_MAX:]
        ]
        return pb.DescribeGroupsResponse(groups=[*described, *refused])

    async def _describe(self, group_id: str) -> pb.DescribeGroupsResponse.Group:
        answer = await self._ask(
            lambda error_code: DescribeAnswer(None, error_code), DescribeGroup, group_id
        )
        if answer.error_code is not ErrorCode.NONE:
            return pb.DescribeGroupsResponse.Group(error_code=answer.error_code, group_id=group_id)
        if answer.group is None:
            return pb.DescribeGroupsResponse.Group(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND, group_id=group_id, state=DEAD
            )
        if isinstance(answer.group, ConsumerGroup):
            return described_group(answer.group, self._shards.topic_name)
        return described_classic(answer.group)

    async def ListGroups(
        self, request: pb.ListGroupsRequest, context: object
    ) -> pb.ListGroupsResponse:
        states = tuple(state.lower() for state in request.state_filters)
        types = tuple(each.lower() for each in request.type_filters)
        found: list[pb.ListGroupsResponse.Group] = []
        try:
            for _, driver in self._shards.drivers():
                request_id = driver.request_id()
                answer: ListAnswer = await driver.ask(
                    ListGroups(request_id, states, types), request_id
                )
                found += [pb.ListGroupsResponse.Group(**row._asdict()) for row in answer.groups]
        except (ShardUnavailable, DriverStopped) as unavailable:
            return pb.ListGroupsResponse(error_code=unavailable.error_code)
        return pb.ListGroupsResponse(groups=found)

    async def DeleteGroups(
        self, request: pb.DeleteGroupsRequest, context: object
    ) -> pb.DeleteGroupsResponse:
        names = tuple(dict.fromkeys(request.group_ids))
        codes = await asyncio.gather(*map(self._delete, names))
        return pb.DeleteGroupsResponse(
            results=[
                pb.DeleteGroupsResponse.Result(group_id=name, error_code=error_code)
                for name, error_code in zip(names, codes, strict=True)
            ]
        )

    async def _delete(self, group_id: str) -> ErrorCode:
        return (await self._ask(CodeAnswer, DeleteGroup, group_id)).error_code

    async def ConsumerGroupHeartbeat(
        self, request: pb.ConsumerGroupHeartbeatRequest, context: object
    ) -> pb.ConsumerGroupHeartbeatResponse:
        shards = self._shards
        if not shards.speaks_consumer_protocol:
            return pb.ConsumerGroupHeartbeatResponse(
                error_code=ErrorCode.UNSUPPORTED_VERSION,
                error_message="the cluster's group.version is 0",
            )
        origin = self._origin_of(request)
        if origin is not None and shards.is_outdated(request):
            return heartbeat_response(ConsumerHeartbeatAnswer(ErrorCode.NOT_COORDINATOR))
        answer = self._heartbeats.arrived(origin)
        if answer is None:
            answer = await self._ask(
                ConsumerHeartbeatAnswer,
                lambda request_id, _: heartbeat_event(
                    request_id, request, shards.shapes, shards.topics_version
                ),
                request.group_id,
            )
            self._heartbeats.keep_answer(origin, answer)
        return heartbeat_response(answer)
