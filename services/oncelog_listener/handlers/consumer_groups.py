"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

A heartbeat is answered at once, whatever the group is doing. Topics go by their ids, which the coordinator knows too.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.call import Call
from oncelog_listener.cluster import milliseconds
from oncelog_listener.core.authorized_operations import NOT_ASKED
from oncelog_listener.core.repeating import Repeatable
from oncelog_listener.group_access import (
    group_refusal,
    operations_on_group,
    split_groups,
)
from oncelog_listener.handlers.group_views import CONSUMER, described_groups
from oncelog_listener.handlers.groups import (
    ask_coordinator,
    client_host,
    code_of,
    optional,
)

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import ConsumerGroupDescribeCall, ConsumerGroupHeartbeatCall

_MEMBER_CHOOSES_ID_FROM: Final = 1
_REGEX_FROM: Final = 1
_JOINS: Final = 0
_CLASSIC_MEMBER: Final = 0
_CONSUMER_MEMBER: Final = 1


async def consumer_group_heartbeat(
    call: ConsumerGroupHeartbeatCall,
) -> kafka.ConsumerGroupHeartbeatResponse:
    request = call.request
    refusal = group_refusal(call, Operation.READ, request.group_id)
    topics = request.subscribed_topic_names
    if not refusal and not all(_may_see(call, topic) for topic in dict.fromkeys(topics or ())):
        refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if refusal:
        return _refused(call, refusal, "")
    if not request.group_id:
        return _refused(call, ErrorCode.INVALID_REQUEST, "the group id is empty")
    named = sum(len(name.encode()) for name in topics or ())
    if named > call.cluster.settings.group_payload_bytes_max:
        # A member's subscription is one record of the shard, so it must fit.
        return _refused(call, ErrorCode.MESSAGE_TOO_LARGE, "too many topics for one member")
    forwarded = pb.ConsumerGroupHeartbeatRequest(
        group_id=request.group_id,
        member_id=_member_id(call),
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=milliseconds(request.rebalance_timeout),
        subscribed_topic_names=topics or (),
        subscription_present=topics is not None,
        subscribed_topic_regex=request.subscribed_topic_regex
        if call.version >= _REGEX_FROM
        else None,
        server_assignor=request.server_assignor,
        owned=[
            pb.TopicIdPartitions(topic_id=one.topic_id.bytes, partitions=one.partitions)
            for one in request.topic_partitions or ()
            if one.topic_id is not None
        ],
        owned_present=request.topic_partitions is not None,
        client_id=call.client_id or "",
        client_host=client_host(call),
        origin=call.origin(None),
    )
    is_join = request.member_epoch == _JOINS
    answer = await ask_coordinator(
        call,
        forwarded,
        lambda coordinator: coordinator.ConsumerGroupHeartbeat,
        repeatable=Repeatable.ALWAYS if is_join else Repeatable.UNLESS_DONE,
    )
    if isinstance(answer, ErrorCode):
        return _refused(call, answer)
    if answer.error_code:
        return _refused(call, answer.error_code, answer.error_message)
    types = call.types
    assignment = None
    if answer.assignment_present:
        assignment = types.Assignment(
            topic_partitions=tuple(
                types.TopicPartitions(
                    topic_id=uuid.UUID(bytes=one.topic_id), partitions=tuple(one.partitions)
                )
                for one in answer.assignment
                if _may_see_id(call, one.topic_id)
            )
        )
    return types.ConsumerGroupHeartbeatResponse(
        error_code=0,
        error_message=None,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval=timedelta(milliseconds=answer.heartbeat_interval_ms),
        assignment=assignment,
    )


def _member_id(call: ConsumerGroupHeartbeatCall) -> str:
    """Return the member's id. Before version 1 of the request the listener makes one for a member that joins."""
    request = call.request
    is_given = call.version < _MEMBER_CHOOSES_ID_FROM and request.member_epoch == _JOINS
    return str(uuid.uuid4()) if is_given and not request.member_id else request.member_id


def _may_see(call: Call, topic: str, *, is_logged: bool = True) -> bool:
    return call.may(Operation.DESCRIBE, ResourceType.TOPIC, topic, is_logged=is_logged)


def _may_see_id(call: Call, topic_id: bytes) -> bool:
    """True if the client may describe the topic. It is checked here, because the coordinator matches regular
    expressions with topics and does not know the ACLs."""
    topic = call.cluster.image.topics_by_id.get(topic_id)
    return topic is None or _may_see(call, topic.name, is_logged=False)


def _refused(
    call: ConsumerGroupHeartbeatCall, code: int, message: str = ""
) -> kafka.ConsumerGroupHeartbeatResponse:
    return call.types.ConsumerGroupHeartbeatResponse(
        error_code=code,
        error_message=message or None,
        member_id=None,
        member_epoch=0,
        heartbeat_interval=timedelta(0),
        assignment=None,
    )


async def consumer_group_describe(
    call: ConsumerGroupDescribeCall,
) -> kafka.ConsumerGroupDescribeResponse:
    ids, refused = split_groups(call, Operation.DESCRIBE, call.request.group_ids)
    found = [
        *((group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED) for group_id in refused),
        *zip(ids, await described_groups(call, ids), strict=True),
    ]
    return call.types.ConsumerGroupDescribeResponse(
        groups=tuple(_described(call, *one) for one in found)
    )


def _described(
    call: ConsumerGroupDescribeCall,
    group_id: str,
    found: pb.DescribeGroupsResponse.Group | ErrorCode,
) -> kafka.ConsumerGroupDescribeResponseTypes.DescribedGroup:
    code, message = code_of(found), None
    if isinstance(found, ErrorCode):
        found = pb.DescribeGroupsResponse.Group()
    if not code and found.group_type != CONSUMER:
        code = ErrorCode.GROUP_ID_NOT_FOUND
    if not code and not _may_see_assignments(call, found.members):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        message = "the group reads a topic that this client may not describe"
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        message = f"there is no consumer group {group_id!r}"
    types = call.types
    return types.DescribedGroup(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="" if code else found.state,
        group_epoch=0 if code else found.group_epoch,
        assignment_epoch=0 if code else found.assignment_epoch,
        assignor_name="" if code else found.protocol_name,
        authorized_operations=operations_on_group(call, group_id)
        if call.request.include_authorized_operations and not code
        else NOT_ASKED,
        members=() if code else tuple(_member(call, one) for one in found.members),
    )


def _may_see_assignments(call: Call, members: Iterable[pb.DescribeGroupsResponse.Member]) -> bool:
    topic_ids = {
        one.topic_id
        for member in members
        for topics in (member.assigned, member.target)
        for one in topics
    }
    return all(_may_see_id(call, topic_id) for topic_id in topic_ids)


def _member(
    call: ConsumerGroupDescribeCall, member: pb.DescribeGroupsResponse.Member
) -> kafka.ConsumerGroupDescribeResponseTypes.Member:
    return call.types.Member(
        member_id=member.member_id,
        instance_id=optional(member, "group_instance_id"),
        rack_id=optional(member, "rack_id"),
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(member.subscribed_topic_names),
        subscribed_topic_regex=optional(member, "subscribed_topic_regex"),
        assignment=_assignment(call, member.assigned),
        target_assignment=_assignment(call, member.target),
        member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
    )


def _assignment(
    call: ConsumerGroupDescribeCall, topics: Iterable[pb.TopicIdPartitions]
) -> kafka.ConsumerGroupDescribeResponseTypes.Assignment:
    """Return a member's assignment for the response. A topic that was deleted has no name, and is left out."""
    known = call.cluster.image.topics_by_id
    types = call.types
    return types.Assignment(
        topic_partitions=tuple(
            types.TopicPartitions(
                topic_id=uuid.UUID(bytes=one.topic_id),
                topic_name=known[one.topic_id].name,
                partitions=tuple(one.partitions),
            )
            for one in topics
            if one.topic_id in known
        )
    )
