"""The requests of group members: JoinGroup, SyncGroup, Heartbeat and LeaveGroup, sent on to the coordinator that owns
the group.

A JoinGroup waits until every member has joined again, a SyncGroup until the leader has told the assignment: minutes, if
a member is slow. Only the requests behind it on the same connection wait with it, which is Kafka's rule and what
clients build on. Neither request is cancelled when its client disconnects: the member is in the group until its session
times out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from google.protobuf.message import Message

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.rpc.deadline import AnswerT
from oncelog.rpc.metadata import GROUP
from oncelog.rpc.stubs import GroupCoordinatorStub, Unary
from oncelog.security.acl import Operation
from oncelog_listener.call import Call
from oncelog_listener.cluster import (
    PEER_FAILURES,
    milliseconds,
)
from oncelog_listener.core.repeating import Repeatable, is_repeated
from oncelog_listener.group_access import group_refusal
from oncelog_listener.retry_policy import RetryPolicy, was_sent
from oncelog_listener.shard_calls import GROUP_COORDINATORS, call_shard

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        HeartbeatCall,
        JoinGroupCall,
        LeaveGroupCall,
        SyncGroupCall,
    )


class _OfGroup(Protocol):
    """A request to a coordinator about one group."""

    @property
    def group_id(self) -> str: ...


class _Coded(Protocol):
    @property
    def error_code(self) -> int: ...


OfGroupT = TypeVar("OfGroupT", bound=_OfGroup)
CodedT = TypeVar("CodedT", bound=_Coded)

_REBALANCE_TIMEOUT_FROM: Final = 1
_MEMBER_ID_REQUIRED_FROM: Final = 4
_NULL_PROTOCOL_FROM: Final = 7
_SKIPPED_ASSIGNMENT_FROM: Final = 9
_PROTOCOL_NAMED_FROM: Final = 5
_MANY_LEAVE_FROM: Final = 3
_INSTANCE_FROM: Final = 3
"""The version from which SyncGroup and Heartbeat name a static member."""
_JOIN_INSTANCE_FROM: Final = 5
_JOIN_REASON_FROM: Final = 8
_LEAVE_REASON_FROM: Final = 5
NO_GENERATION: Final = -1
_NO_MEMBER: Final = ""


async def ask_coordinator(
    call: Call,
    request: OfGroupT,
    method: Callable[[GroupCoordinatorStub], Unary[OfGroupT, AnswerT]],
    *,
    error_code_of: Callable[[AnswerT], int] = attrgetter("error_code"),
    repeatable: Repeatable = Repeatable.ALWAYS,
    timeout_ms: int | None = None,
) -> AnswerT | ErrorCode:
    """Send the request to the group's coordinator, and return its answer, or COORDINATOR_NOT_AVAILABLE if none answers
    in time. `timeout_ms` None: the time limit of the settings."""
    try:
        return await call_shard(
            call.cluster,
            GROUP_COORDINATORS,
            request.group_id,
            lambda coordinator: method(coordinator)(_for_owner(call, request)),
            error_code_of=error_code_of,
            repeatable=repeatable,
            timeout_ms=timeout_ms,
            is_wanted=call.is_wanted,
        )
    except PEER_FAILURES:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE


def _for_owner(call: Call, request: OfGroupT) -> OfGroupT:
    """Return the request for the group's coordinator. One with an origin (which connection it came by) is copied, and
    gets the epoch of the coordinator that it is sent to.

    That coordinator may lose the group and get it back before the request arrives. Then the client may have sent later
    requests to another coordinator, and this one is a late copy.
    """
    shard = call.cluster.image.shard_for(GROUP, request.group_id)
    if shard is None or not hasattr(request, "origin"):
        return request
    with_epoch = deepcopy(request)
    with_epoch.origin.coordinator_epoch = shard.coordinator_epoch
    return with_epoch


async def ask_coordinators(
    call: Call,
    group_ids: Sequence[str],
    ask: Callable[[GroupCoordinatorStub, list[int]], Awaitable[Iterable[CodedT]]],
    repeatable: Repeatable = Repeatable.ALWAYS,
) -> list[CodedT | ErrorCode]:
    """Ask the coordinators of many groups, each in one call, all at the same time. Return for each group its answer, or
    an ErrorCode.

    `ask(stub, positions)` returns, in order, the answers for the groups at these positions.
    """
    cluster = call.cluster
    retries = RetryPolicy(cluster)
    found: list[CodedT | ErrorCode] = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(group_ids)
    sent: set[int] = set()
    pending = list(range(len(group_ids)))

    async def ask_one(node_id: int, positions: list[int]) -> None:
        sent.difference_update(positions)
        try:
            answers: list[CodedT | ErrorCode] = list(
                await ask(cluster.group_coordinator(node_id), positions)
            )
        except PEER_FAILURES as error:
            answers = [ErrorCode.COORDINATOR_NOT_AVAILABLE] * len(positions)
            if was_sent(error):
                sent.update(positions)
        else:
            sent.update(positions)
            if len(answers) != len(positions):
                answers = [ErrorCode.UNKNOWN_SERVER_ERROR] * len(positions)
        for position, answer in zip(positions, answers, strict=True):
            found[position] = answer

    while True:
        image = cluster.image
        positions_of: dict[int, list[int]] = {}
        for position in pending:
            shard = image.shard_for(GROUP, group_ids[position])
            if shard is not None and shard.coordinator >= 0:
                positions_of.setdefault(shard.coordinator, []).append(position)
        async with asyncio.TaskGroup() as group:
            for node_id, positions in positions_of.items():
                group.create_task(ask_one(node_id, positions))
        pending = [
            position
            for position in pending
            if is_repeated(repeatable, code_of(found[position]), position in sent)
        ]
        if not pending or not await retries.pause(image):
            return found


def refused(call: Call, group_id: str, operation: Operation = Operation.READ) -> ErrorCode:
    """Return the error with which this listener refuses the request itself: no permission for the group, or an empty
    group id. NONE: the coordinator is asked."""
    invalid = ErrorCode.NONE if group_id else ErrorCode.INVALID_GROUP_ID
    return group_refusal(call, operation, group_id) or invalid


def _payload_fault(call: Call, payloads: Iterable[bytes]) -> ErrorCode:
    """Return MESSAGE_TOO_LARGE if the members' data can never fit into one record of `__consumer_offsets`; otherwise
    NONE."""
    if sum(len(payload) for payload in payloads) > call.cluster.settings.group_payload_bytes_max:
        return ErrorCode.MESSAGE_TOO_LARGE
    return ErrorCode.NONE


async def join_group(call: JoinGroupCall) -> kafka.JoinGroupResponse:
    request = call.request
    refusal = group_refusal(call, Operation.READ, request.group_id)
    if refusal:
        # Before the group is asked the member has no id, whatever it says.
        return _not_joined(call, refusal, _NO_MEMBER)
    if not request.group_id:
        return _not_joined(call, ErrorCode.INVALID_GROUP_ID)
    fault = _payload_fault(call, (one.metadata for one in request.protocols))
    if fault:
        return _not_joined(call, fault)
    instance_id = request.group_instance_id if call.version >= _JOIN_INSTANCE_FROM else None
    session_timeout_ms = milliseconds(request.session_timeout)
    forwarded = pb.JoinGroupRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        group_instance_id=instance_id,
        client_id=call.client_id or "",
        client_host=client_host(call),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout)
        if call.version >= _REBALANCE_TIMEOUT_FROM
        else session_timeout_ms,
        protocol_type=request.protocol_type,
        protocols=[
            pb.GroupProtocol(name=one.name, metadata=one.metadata) for one in request.protocols
        ],
        reason=(request.reason or "") if call.version >= _JOIN_REASON_FROM else "",
        requires_known_member_id=call.version >= _MEMBER_ID_REQUIRED_FROM and instance_id is None,
        supports_skipping_assignment=call.version >= _SKIPPED_ASSIGNMENT_FROM,
    )
    # A member that has no id yet is given one each time it asks. So it is asked for a second time only when the first
    # cannot have arrived.
    is_known = bool(request.member_id) or instance_id is not None
    answer = await ask_coordinator(
        call,
        forwarded,
        lambda coordinator: coordinator.JoinGroup,
        repeatable=Repeatable.ALWAYS if is_known else Repeatable.UNLESS_DONE,
        timeout_ms=call.cluster.settings.rebalance_wait_max_ms,
    )
    if isinstance(answer, ErrorCode):
        return _not_joined(call, answer)
    if answer.error_code:
        return _not_joined(call, answer.error_code, answer.member_id or None)
    types = call.types
    return types.JoinGroupResponse(
        error_code=0,
        generation_id=answer.generation_id,
        protocol_type=answer.protocol_type or None,
        protocol_name=_protocol_name(call, answer.protocol_name),
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            types.JoinGroupResponseMember(
                member_id=one.member_id,
                group_instance_id=optional(one, "group_instance_id"),
                metadata=one.metadata,
            )
            for one in answer.members
        ),
    )


def _not_joined(
    call: JoinGroupCall, error_code: int, member_id: str | None = None
) -> kafka.JoinGroupResponse:
    """Return the response to a JoinGroup that is refused. With MEMBER_ID_REQUIRED it names the id with which the member
    must join again."""
    return call.types.JoinGroupResponse(
        error_code=error_code,
        generation_id=NO_GENERATION,
        protocol_type=None,
        protocol_name=_protocol_name(call, ""),
        leader="",
        skip_assignment=False,
        member_id=call.request.member_id if member_id is None else member_id,
        members=(),
    )


def _protocol_name(call: Call, name: str) -> str | None:
    return name if name or call.version < _NULL_PROTOCOL_FROM else None


async def sync_group(call: SyncGroupCall) -> kafka.SyncGroupResponse:
    request = call.request
    protocol_type = protocol_name = None
    if call.version >= _PROTOCOL_NAMED_FROM:
        protocol_type, protocol_name = request.protocol_type, request.protocol_name
        if protocol_type is None or protocol_name is None:
            return _not_synced(call, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    refusal = refused(call, request.group_id) or _payload_fault(
        call, (one.assignment for one in request.assignments)
    )
    if refusal:
        return _not_synced(call, refusal)
    forwarded = pb.SyncGroupRequest(
        group_id=request.group_id,
        generation_id=request.generation_id,
        member_id=request.member_id,
        group_instance_id=request.group_instance_id if call.version >= _INSTANCE_FROM else None,
        protocol_type=protocol_type or "",
        protocol_name=protocol_name or "",
        assignments=[
            pb.SyncGroupRequest.Assignment(member_id=one.member_id, assignment=one.assignment)
            for one in request.assignments
        ],
    )
    answer = await ask_coordinator(
        call,
        forwarded,
        lambda coordinator: coordinator.SyncGroup,
        timeout_ms=call.cluster.settings.rebalance_wait_max_ms,
    )
    if isinstance(answer, ErrorCode) or answer.error_code:
        return _not_synced(call, code_of(answer))
    return call.types.SyncGroupResponse(
        error_code=0,
        protocol_type=answer.protocol_type or None,
        protocol_name=answer.protocol_name or None,
        assignment=answer.assignment,
    )


def _not_synced(call: SyncGroupCall, error_code: int) -> kafka.SyncGroupResponse:
    return call.types.SyncGroupResponse(
        error_code=error_code,
        protocol_type=None,
        protocol_name=None,
        assignment=b"",
    )


async def heartbeat(call: HeartbeatCall) -> kafka.HeartbeatResponse:
    request = call.request
    answer: pb.GroupHeartbeatResponse | ErrorCode = refused(call, request.group_id)
    if not answer:
        forwarded = pb.GroupHeartbeatRequest(
            group_id=request.group_id,
            generation_id=request.generation_id,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id if call.version >= _INSTANCE_FROM else None,
        )
        answer = await ask_coordinator(
            call, forwarded, lambda coordinator: coordinator.GroupHeartbeat
        )
    return call.types.HeartbeatResponse(error_code=code_of(answer))


async def leave_group(call: LeaveGroupCall) -> kafka.LeaveGroupResponse:
    request = call.request
    if call.version < _MANY_LEAVE_FROM:
        leaving = [pb.LeaveGroupRequest.Member(member_id=request.member_id)]
    else:
        leaving = [
            pb.LeaveGroupRequest.Member(
                member_id=one.member_id,
                group_instance_id=one.group_instance_id,
                reason=(one.reason or "") if call.version >= _LEAVE_REASON_FROM else "",
            )
            for one in request.members
        ]
    answer: pb.LeaveGroupResponse | ErrorCode = refused(call, request.group_id)
    if not answer:
        forwarded = pb.LeaveGroupRequest(group_id=request.group_id, members=leaving)
        answer = await ask_coordinator(
            call,
            forwarded,
            lambda coordinator: coordinator.LeaveGroup,
            # A repetition would fail: a member that has left is not known any more.
            repeatable=Repeatable.UNLESS_DONE,
        )
    code = code_of(answer)
    left = () if code or isinstance(answer, ErrorCode) else tuple(answer.members)
    types = call.types
    if call.version < _MANY_LEAVE_FROM:
        # One leaves, so its code is the answer's.
        code = code or next((one.error_code for one in left if one.error_code), 0)
        return types.LeaveGroupResponse(error_code=code, members=())
    return types.LeaveGroupResponse(
        error_code=code,
        members=tuple(
            types.MemberResponse(
                member_id=one.member_id,
                group_instance_id=optional(one, "group_instance_id"),
                error_code=one.error_code,
            )
            for one in left
        ),
    )


def code_of(answer: _Coded | ErrorCode) -> int:
    """Return the error code of a coordinator's answer; an ErrorCode in its place is returned as it is."""
    return answer if isinstance(answer, ErrorCode) else answer.error_code


def optional(message: Message, field: str) -> str | None:
    """Return an optional string field of a protobuf message; None: the field is not set."""
    if not message.HasField(field):
        return None
    value: str = getattr(message, field)
    return value


def client_host(call: Call) -> str:
    """Return the client's host as Kafka shows it to people, such as `/127.0.0.1`."""
    return "/" + call.session.peer.rpartition(":")[0]
