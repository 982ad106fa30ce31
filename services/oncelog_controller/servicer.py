"""The `Controller` service: requests become events of the metadata machine, its answers become responses. It decides
nothing.

Everything drawn by chance (topic ids, the cluster id) is drawn here, before an event enters the machine. Heartbeats
that change nothing, which is nearly all, are answered from the committed image: they wait for no append, and the
machine need not be there.
"""

import base64
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TypedDict

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.api.v1 import types_pb2 as types
from oncelog.errors import ErrorCode
from oncelog.rpc.callers import CALLER_ROLE
from oncelog_controller.core.events import (
    AllocateProducerIds,
    AlterConfigs,
    AlterPartition,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DrainNode,
    ElectLeaders,
    HeartbeatAnswer,
    NewPartitions,
    NewTopic,
    NodeAnswer,
    NodeHeartbeat,
    PartitionResult,
    PartitionsAnswer,
    ProducerIdsAnswer,
    ProposedIsr,
    Reassignment,
    ReassignPartitions,
    RegisterNode,
    RemoveNode,
    StatusAnswer,
    TopicResult,
    TopicsAnswer,
    UpdateFeatures,
)
from oncelog_controller.core.history import OTHER_HISTORY, MetadataPosition
from oncelog_controller.core.nodes import plain_heartbeat
from oncelog_controller.election import Standing
from oncelog_controller.messages import config_kind, folder_of, position_of, role_names
from oncelog_controller.metadata_calls import unavailable_reason
from oncelog_controller.metadata_log import MetadataLog
from oncelog_controller.security_servicer import SecurityServicer
from oncelog_controller.session_watch import SessionWatch
from oncelog_controller.watchers import Watchers


class ControllerServicer(SecurityServicer):
    """The gRPC methods of the `Controller` service. A caller in this process calls them directly, with None as
    `context`.
    """

    def __init__(
        self,
        log: MetadataLog,
        watchers: Watchers,
        sessions: SessionWatch,
        standing: Callable[[], Standing],
        controller_id: int,
        session_timeout_ms: int,
    ) -> None:
        super().__init__(log)
        self._watchers = watchers
        self._sessions = sessions
        self._standing = standing
        self._controller_id = controller_id
        self._session_timeout_ms = session_timeout_ms

    async def DescribeController(
        self, request: pb.DescribeControllerRequest, context: object
    ) -> pb.DescribeControllerResponse:
        standing = self._standing()
        return pb.DescribeControllerResponse(
            node_id=self._controller_id,
            active=standing.is_active,
            active_node_id=standing.holder,
            active_rpc_address=standing.rpc_address,
            controller_epoch=standing.controller_epoch,
            metadata_offset=self._watchers.metadata_offset,
            lease_remaining_ms=standing.remaining_ms,
        )

    async def RegisterNode(
        self, request: pb.RegisterNodeRequest, context: object
    ) -> pb.RegisterNodeResponse:
        node = request.node
        if fault := self._role_fault(node.node_id, role_names(node.roles)):
            return pb.RegisterNodeResponse(status=fault)
        cluster_id = _random_uuid_base64()
        topic_ids = uuid.uuid4().hex, uuid.uuid4().hex
        answer = await self._ask(
            NodeAnswer,
            RegisterNode,
            node_id=node.node_id,
            incarnation_id=request.incarnation_id,
            roles=role_names(node.roles),
            rpc_address=node.rpc_address,
            kafka_host=node.kafka_host,
            kafka_port=node.kafka_port,
            rack=node.rack,
            cluster_id=cluster_id,
            transaction_topic_id=topic_ids[0],
            group_topic_id=topic_ids[1],
            is_other_live=self._sessions.is_live(node.node_id),
            configs=dict(node.configs),
            given=node.given,
            folder=folder_of(request),
        )
        if await self._is_not_to_be_believed(answer.error_code):
            return pb.RegisterNodeResponse(status=_NOT_ACTIVE)
        return pb.RegisterNodeResponse(
            status=_status(answer.error_code, answer.message),
            node_epoch=answer.node_epoch,
            session_timeout_ms=self._session_timeout_ms,
            node_id=answer.node_id,
        )

    async def NodeHeartbeat(
        self, request: pb.NodeHeartbeatRequest, context: object
    ) -> pb.NodeHeartbeatResponse:
        if fault := self._role_fault(request.node_id):
            return pb.NodeHeartbeatResponse(status=fault)
        return await self._heartbeat(request)

    async def NodeSession(
        self, requests: AsyncIterator[pb.NodeHeartbeatRequest], context: object = None
    ) -> AsyncIterator[pb.NodeHeartbeatResponse]:
        """Answer a stream of a node's heartbeats, which is the node's session.

        The stream ends after an answer that ends the session: this controller is not active, another process has taken
        the node's place, the node is not registered, or it knows other metadata.
        """
        opened: tuple[int, int] | None = None
        try:
            async for request in requests:
                if fault := self._role_fault(request.node_id):
                    yield pb.NodeHeartbeatResponse(status=fault)
                    return
                node = request.node_id, request.node_epoch
                # The session opens before the answer: a process may end while its first heartbeat is being written
                # down, and its successor would have to wait until that heartbeat's session is over.
                if opened is None and self._sessions.opened(*node):
                    opened = node
                response = await self._heartbeat(request)
                error_code = response.status.error_code
                yield response
                if error_code in _SESSION_OVER:
                    return
        finally:
            if opened is not None:
                self._sessions.closed(*opened)

    def _role_fault(self, node_id: int, claimed: Iterable[str] = ()) -> types.Status | None:
        """Return the refusal if a process speaks for a node that has another role than its certificate names.

        None: it may speak for the node. `claimed` are the roles that it wants to register.
        """
        role = CALLER_ROLE.get()
        if role is None:
            return None
        known = self._log.image.nodes.get(node_id)
        roles = {*claimed, *(known.roles if known is not None else ())}
        others = sorted(roles - {role.replace("-", "_")})
        if not others:
            return None
        return _status(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
            f"node {node_id} has the role {', '.join(others)}, and the certificate of this process names {role}; "
            "give it the certificate of its role, or another ONCELOG_NODE_NODE_ID",
        )

    async def _heartbeat(self, request: pb.NodeHeartbeatRequest) -> pb.NodeHeartbeatResponse:
        if not self._log.is_serving:
            return pb.NodeHeartbeatResponse(status=_NOT_ACTIVE)
        node = request.node_id, request.node_epoch, request.want_drain
        # A version that names no claim has its offset outside.
        has_claim = request.HasField("seen")
        seen = position_of(request.seen) if has_claim else MetadataPosition(request.metadata_offset)
        answer = plain_heartbeat(self._log.image, NodeHeartbeat(0, *node, seen=seen))
        if answer is None:
            self._sessions.heartbeat_received(request.node_id, request.node_epoch)
            topic_ids = uuid.uuid4().hex, uuid.uuid4().hex
            answer = await self._ask(HeartbeatAnswer, NodeHeartbeat, *node, *topic_ids, seen)
        if answer.error_code is ErrorCode.NONE:
            self._sessions.heartbeat_received(request.node_id, request.node_epoch)
        if await self._is_not_to_be_believed(answer.error_code):
            return pb.NodeHeartbeatResponse(status=_NOT_ACTIVE)
        return pb.NodeHeartbeatResponse(
            status=_status(answer.error_code, answer.message),
            fenced=answer.fenced,
            drained=answer.drained,
        )

    async def _is_not_to_be_believed(self, error_code: ErrorCode) -> bool:
        """True if this refusal may be wrong, because this controller was deposed without knowing it.

        Such a controller lacks its successor's metadata. It would refuse a node that knows these, and the node would
        end. So the database is asked first who holds the lease.
        """
        return error_code is OTHER_HISTORY and not await self._log.may_write()

    async def WatchMetadata(
        self, request: pb.WatchMetadataRequest, context: object = None
    ) -> AsyncIterator[pb.MetadataUpdate]:
        seen = position_of(request.seen)
        async for update in self._watchers.watch(request.from_metadata_offset, seen):
            yield update

    async def CreateTopics(
        self, request: pb.CreateTopicsRequest, context: object
    ) -> pb.CreateTopicsResponse:
        topics = tuple(_new_topic(topic) for topic in request.topics)
        refused = _topics_refused(topic.name for topic in topics)
        answer = await self._ask(refused, CreateTopics, topics, request.validate_only)
        return pb.CreateTopicsResponse(**_topic_results(answer))

    async def DeleteTopics(
        self, request: pb.DeleteTopicsRequest, context: object
    ) -> pb.DeleteTopicsResponse:
        names = tuple(request.names)
        topic_ids = tuple(topic_id.hex() for topic_id in request.topic_ids)
        answer = await self._ask(_topics_refused(names, topic_ids), DeleteTopics, names, topic_ids)
        return pb.DeleteTopicsResponse(**_topic_results(answer))

    async def CreatePartitions(
        self, request: pb.CreatePartitionsRequest, context: object
    ) -> pb.CreatePartitionsResponse:
        topics = tuple(
            NewPartitions(topic.name, topic.count, _assignment(topic.assignment))
            for topic in request.topics
        )
        refused = _topics_refused(topic.name for topic in topics)
        answer = await self._ask(refused, CreatePartitions, topics, request.validate_only)
        return pb.CreatePartitionsResponse(**_topic_results(answer))

    async def AlterConfigs(
        self, request: pb.AlterConfigsRequest, context: object
    ) -> pb.AlterConfigsResponse:
        answer = await self._ask(
            StatusAnswer,
            AlterConfigs,
            request.name,
            dict(request.set),
            tuple(request.remove),
            request.validate_only,
            config_kind(request.kind),
        )
        return pb.AlterConfigsResponse(**_status_and_offset(answer))

    async def UpdateFeatures(
        self, request: pb.UpdateFeaturesRequest, context: object
    ) -> pb.UpdateFeaturesResponse:
        answer = await self._ask(
            StatusAnswer, UpdateFeatures, dict(request.levels), request.validate_only
        )
        return pb.UpdateFeaturesResponse(**_status_and_offset(answer))

    async def AllocateProducerIds(
        self, request: pb.AllocateProducerIdsRequest, context: object
    ) -> pb.AllocateProducerIdsResponse:
        answer = await self._ask(
            ProducerIdsAnswer,
            AllocateProducerIds,
            request.node_id,
            request.node_epoch,
            position_of(request.seen),
        )
        return pb.AllocateProducerIdsResponse(
            status=_status(answer.error_code, answer.message),
            first_producer_id=answer.first_producer_id,
            producer_id_count=answer.count,
        )

    async def AlterPartition(
        self, request: pb.AlterPartitionRequest, context: object
    ) -> pb.AlterPartitionResponse:
        proposals = tuple(
            ProposedIsr(
                proposed.partition.topic,
                proposed.partition.partition,
                proposed.leader_epoch,
                proposed.partition_epoch,
                tuple(proposed.isr),
            )
            for proposed in request.partitions
        )
        answer = await self._ask(
            _partitions_refused,
            AlterPartition,
            request.node_id,
            request.node_epoch,
            proposals,
            position_of(request.seen),
        )
        is_decided = answer.metadata_offset >= 0
        is_refused = answer.error_code or any(each.error_code for each in answer.results)
        if is_decided and is_refused and self._standing().is_over:
            # Refusals need no statement that would tell us. If another controller has taken this proposal by now, its
            # leader must not drop it: the new member may be elected, and counts for the high watermark.
            error_code = ErrorCode.NOT_CONTROLLER
            answer = _partitions_refused(error_code, unavailable_reason(error_code))
        return pb.AlterPartitionResponse(
            **_status_and_offset(answer), partitions=_partition_errors(answer.results)
        )

    async def ReassignPartitions(
        self, request: pb.ReassignPartitionsRequest, context: object
    ) -> pb.ReassignPartitionsResponse:
        assignments = tuple(
            Reassignment(wanted.partition.topic, wanted.partition.partition, tuple(wanted.replicas))
            for wanted in request.assignments
        )
        refused = _each_refused((wanted.topic, wanted.partition) for wanted in assignments)
        answer = await self._ask(refused, ReassignPartitions, assignments)
        return pb.ReassignPartitionsResponse(
            partitions=_partition_errors(answer.results), metadata_offset=answer.metadata_offset
        )

    async def ElectLeaders(
        self, request: pb.ElectLeadersRequest, context: object
    ) -> pb.ElectLeadersResponse:
        partitions = tuple((one.topic, one.partition) for one in request.partitions)
        answer = await self._ask(
            _each_refused(partitions), ElectLeaders, partitions, request.unclean
        )
        return pb.ElectLeadersResponse(
            partitions=_partition_errors(answer.results), metadata_offset=answer.metadata_offset
        )

    async def DrainNode(
        self, request: pb.DrainNodeRequest, context: object
    ) -> pb.DrainNodeResponse:
        answer = await self._ask(StatusAnswer, DrainNode, request.node_id, request.cancel)
        return pb.DrainNodeResponse(**_status_and_offset(answer))

    async def RemoveNode(
        self, request: pb.RemoveNodeRequest, context: object
    ) -> pb.RemoveNodeResponse:
        answer = await self._ask(StatusAnswer, RemoveNode, request.node_id)
        return pb.RemoveNodeResponse(**_status_and_offset(answer))


def _status(error_code: ErrorCode, message: str = "") -> types.Status:
    return types.Status(error_code=error_code, error_message=message)


class _Done(TypedDict):
    """The fields of a response that says whether a change succeeded, and at which metadata offset it shows."""

    status: types.Status
    metadata_offset: int


class _TopicsDone(TypedDict):
    """The fields of a response about topics: a result for each, and the metadata offset at which the changes show."""

    results: list[pb.TopicResult]
    metadata_offset: int


def _status_and_offset(answer: StatusAnswer | PartitionsAnswer) -> _Done:
    return {
        "status": _status(answer.error_code, answer.message),
        "metadata_offset": answer.metadata_offset,
    }


_NOT_ACTIVE = _status(ErrorCode.NOT_CONTROLLER, unavailable_reason(ErrorCode.NOT_CONTROLLER))
_SESSION_OVER = (
    OTHER_HISTORY,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.STALE_BROKER_EPOCH,
    ErrorCode.BROKER_ID_NOT_REGISTERED,
)


def _partition_errors(results: Iterable[PartitionResult]) -> list[types.PartitionError]:
    return [
        types.PartitionError(
            topic=result.topic,
            partition=result.partition,
            error_code=result.error_code,
            error_message=result.message,
        )
        for result in results
    ]


def _partitions_refused(error_code: ErrorCode, reason: str) -> PartitionsAnswer:
    return PartitionsAnswer((), error_code, reason)


def _each_refused(
    partitions: Iterable[tuple[str, int]],
) -> Callable[[ErrorCode, str], PartitionsAnswer]:
    return lambda error_code, reason: PartitionsAnswer(
        tuple(PartitionResult(*partition, error_code, reason) for partition in partitions)
    )


def _new_topic(topic: pb.NewTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        topic_id=uuid.uuid4().hex,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        configs=dict(topic.configs),
        internal=topic.internal,
        assignment=_assignment(topic.assignment),
    )


def _assignment(assignment: Mapping[int, pb.ReplicaList]) -> dict[int, tuple[int, ...]]:
    return {partition: tuple(listed.replicas) for partition, listed in assignment.items()}


def _topics_refused(
    names: Iterable[str], topic_ids: Iterable[str] = ()
) -> Callable[[ErrorCode, str], TopicsAnswer]:
    def refused(error_code: ErrorCode, reason: str) -> TopicsAnswer:
        results = [TopicResult(name, error_code, reason) for name in dict.fromkeys(names)]
        results += [TopicResult("", error_code, reason, topic_id) for topic_id in topic_ids]
        return TopicsAnswer(tuple(results))

    return refused


def _topic_results(answer: TopicsAnswer) -> _TopicsDone:
    results = list(map(_topic_result, answer.results))
    return {"results": results, "metadata_offset": answer.metadata_offset}


def _topic_result(result: TopicResult) -> pb.TopicResult:
    return pb.TopicResult(
        name=result.name,
        error_code=result.error_code,
        error_message=result.message,
        topic_id=bytes.fromhex(result.topic_id),
        partitions=result.partitions,
        replication_factor=result.replication_factor,
    )


def _random_uuid_base64() -> str:
    """Return a new cluster id: 22 characters, as Kafka writes them.

    It never begins with "-": command lines would take it for an option.
    """
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
