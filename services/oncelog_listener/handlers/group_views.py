"""DescribeGroups, ListGroups and DeleteGroups, by which operators see and delete groups. One listener answers for the
groups of all coordinators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.rpc.metadata import GROUP
from oncelog.rpc.stubs import GroupCoordinatorStub
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.brokers import listed_here
from oncelog_listener.call import Call
from oncelog_listener.cluster import PEER_FAILURES
from oncelog_listener.core.authorized_operations import NOT_ASKED
from oncelog_listener.core.repeating import Repeatable
from oncelog_listener.group_access import operations_on_group, split_groups
from oncelog_listener.handlers.groups import ask_coordinators, code_of, optional

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import DeleteGroupsCall, DescribeGroupsCall, ListGroupsCall

_UNKNOWN_IS_AN_ERROR_FROM: Final = 6
_OPERATIONS_FROM: Final = 3
_STATES_FROM: Final = 4
_TYPES_FROM: Final = 5
_DEAD: Final = "Dead"
CONSUMER: Final = "consumer"


async def described_groups(
    call: Call, ids: Sequence[str]
) -> Sequence[pb.DescribeGroupsResponse.Group | ErrorCode]:
    """Return each group's description from its coordinator, in the order of `ids`. Groups of both protocols (classic
    and KIP-848) are described; an ErrorCode is the group's error."""

    async def ask(
        coordinator: GroupCoordinatorStub, positions: list[int]
    ) -> Sequence[pb.DescribeGroupsResponse.Group]:
        forwarded = pb.DescribeGroupsRequest(group_ids=[ids[position] for position in positions])
        answer = await call.cluster.answer_in_time(coordinator.DescribeGroups(forwarded))
        return answer.groups

    return await ask_coordinators(call, ids, ask)


async def describe_groups(call: DescribeGroupsCall) -> kafka.DescribeGroupsResponse:
    ids, refused = split_groups(call, Operation.DESCRIBE, call.request.groups)
    found = await described_groups(call, ids)
    return call.types.DescribeGroupsResponse(
        groups=(
            *(_nothing(call, one, ErrorCode.GROUP_AUTHORIZATION_FAILED, "") for one in refused),
            *(_described(call, group_id, one) for group_id, one in zip(ids, found, strict=True)),
        ),
    )


def _described(
    call: DescribeGroupsCall, group_id: str, found: pb.DescribeGroupsResponse.Group | ErrorCode
) -> kafka.DescribeGroupsResponseTypes.DescribedGroup:
    """Return the response's row of a group: its description or an error. Before version 6 a group that does not exist
    is described as dead."""
    code = code_of(found)
    if isinstance(found, ErrorCode):
        found = pb.DescribeGroupsResponse.Group()
    if not code and found.group_type == CONSUMER:
        # As in Kafka: DescribeGroups is for classic groups. Clients use it where ConsumerGroupDescribe is missing.
        code = ErrorCode.GROUP_ID_NOT_FOUND
    is_unknown = code == ErrorCode.GROUP_ID_NOT_FOUND or (not code and found.state == _DEAD)
    if is_unknown and call.version < _UNKNOWN_IS_AN_ERROR_FROM:
        return _nothing(
            call, group_id, ErrorCode.NONE, _DEAD, operations=_operations(call, group_id)
        )
    if is_unknown:
        message = f"there is no group {group_id!r}"
        return _nothing(call, group_id, ErrorCode.GROUP_ID_NOT_FOUND, _DEAD, message)
    if code:
        return _nothing(call, group_id, code, "")
    types = call.types
    return types.DescribedGroup(
        error_code=0,
        error_message=None,
        group_id=group_id,
        group_state=found.state,
        protocol_type=found.protocol_type,
        protocol_data=found.protocol_name,
        authorized_operations=_operations(call, group_id),
        members=tuple(
            types.DescribedGroupMember(
                member_id=one.member_id,
                group_instance_id=optional(one, "group_instance_id"),
                client_id=one.client_id,
                client_host=one.client_host,
                member_metadata=one.metadata,
                member_assignment=one.assignment,
            )
            for one in found.members
        ),
    )


def _operations(call: DescribeGroupsCall, group_id: str) -> int:
    is_wanted = call.version >= _OPERATIONS_FROM and call.request.include_authorized_operations
    return operations_on_group(call, group_id) if is_wanted else NOT_ASKED


def _nothing(
    call: DescribeGroupsCall,
    group_id: str,
    code: int,
    state: str,
    message: str | None = None,
    operations: int = NOT_ASKED,
) -> kafka.DescribeGroupsResponseTypes.DescribedGroup:
    return call.types.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state=state,
        protocol_type="",
        protocol_data="",
        authorized_operations=operations,
        members=(),
    )


async def list_groups(call: ListGroupsCall) -> kafka.ListGroupsResponse:
    """Answer ListGroups with those groups, of all coordinators, whose names hash to this listener. Kafka's client asks
    every broker and joins the answers."""
    request, cluster = call.request, call.cluster
    forwarded = pb.ListGroupsRequest(
        state_filters=request.states_filter if call.version >= _STATES_FROM else (),
        type_filters=request.types_filter if call.version >= _TYPES_FROM else (),
    )
    shards = [shard for (kind, _), shard in cluster.image.shards.items() if kind == GROUP]
    if not shards or any(shard.coordinator < 0 for shard in shards):
        return _listed(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    found: dict[str, pb.ListGroupsResponse.Group] = {}
    for node_id in sorted({shard.coordinator for shard in shards}):
        try:
            answer = await cluster.answer_in_time(
                cluster.group_coordinator(node_id).ListGroups(forwarded)
            )
        except PEER_FAILURES:
            return _listed(call, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if answer.error_code:
            return _listed(call, answer.error_code)
        found.update((one.group_id, one) for one in answer.groups)
    is_own = listed_here(call)
    sees_all = call.may_cluster(Operation.DESCRIBE, is_logged=False)
    own = [
        one
        for group_id, one in found.items()
        if is_own(group_id)
        and (
            sees_all or call.may(Operation.DESCRIBE, ResourceType.GROUP, group_id, is_logged=False)
        )
    ]
    return _listed(call, ErrorCode.NONE, own)


def _listed(
    call: ListGroupsCall, error_code: int, found: Sequence[pb.ListGroupsResponse.Group] = ()
) -> kafka.ListGroupsResponse:
    types = call.types
    return types.ListGroupsResponse(
        error_code=error_code,
        groups=tuple(
            types.ListedGroup(
                group_id=one.group_id,
                protocol_type=one.protocol_type,
                group_state=one.state,
                group_type=one.group_type,
            )
            for one in found
        ),
    )


async def delete_groups(call: DeleteGroupsCall) -> kafka.DeleteGroupsResponse:
    ids, refused = split_groups(call, Operation.DELETE, call.request.groups_names)

    async def ask(
        coordinator: GroupCoordinatorStub, positions: list[int]
    ) -> Sequence[pb.DeleteGroupsResponse.Result]:
        forwarded = pb.DeleteGroupsRequest(group_ids=[ids[position] for position in positions])
        answer = await call.cluster.answer_in_time(coordinator.DeleteGroups(forwarded))
        return answer.results

    # A repetition would fail: a group that is deleted is not known any more.
    found = await ask_coordinators(call, ids, ask, Repeatable.UNLESS_DONE)
    codes = [(group_id, code_of(one)) for group_id, one in zip(ids, found, strict=True)]
    codes += [(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED) for group_id in refused]
    types = call.types
    return types.DeleteGroupsResponse(
        results=tuple(
            types.DeletableGroupResult(group_id=group_id, error_code=code)
            for group_id, code in codes
        ),
    )
