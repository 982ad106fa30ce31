"""OffsetFetch: the offsets that groups have committed, of the topics that the client may describe."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode
from oncelog.rpc.stubs import GroupCoordinatorStub
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.call import Call
from oncelog_listener.cluster import grouped
from oncelog_listener.group_access import group_refusal
from oncelog_listener.handlers.groups import ask_coordinators, code_of
from oncelog_listener.topic_ids import topic_fields, topic_name

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import OffsetFetchCall

_GROUPS_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10
_GROUP_ERROR_FROM: Final = 2
_STABLE_FROM: Final = 7
_NONE_COMMITTED: Final = -1


class _Topic(NamedTuple):
    name: str | None
    request: Any
    refusal: ErrorCode
    """The error because of which the coordinator is not asked for the topic; NONE: it is asked."""


class _Group(NamedTuple):
    request: Any
    refusal: ErrorCode
    topics: tuple[_Topic, ...]


async def offset_fetch(call: OffsetFetchCall) -> kafka.OffsetFetchResponse:
    request, types = call.request, call.types
    is_batch = call.version >= _GROUPS_FROM
    groups = [_read(call, group) for group in (request.groups if is_batch else (request,))]
    allowed = [group for group in groups if not group.refusal]

    async def ask(
        coordinator: GroupCoordinatorStub, positions: list[int]
    ) -> Sequence[pb.OffsetFetchResponse.Group]:
        forwarded = pb.OffsetFetchRequest(
            groups=[_group_request(call, allowed[position]) for position in positions],
            require_stable=call.version >= _STABLE_FROM and request.require_stable,
        )
        answer = await call.cluster.ask(coordinator.OffsetFetch(forwarded))
        return answer.groups

    found = iter(await ask_coordinators(call, [group.request.group_id for group in allowed], ask))
    fetched = [_fetched(call, group, group.refusal or next(found)) for group in groups]
    if is_batch:
        return types.OffsetFetchResponse(
            groups=tuple(
                types.OffsetFetchResponseGroup(
                    group_id=group.request.group_id, topics=topics, error_code=code
                )
                for group, (code, topics) in zip(groups, fetched, strict=True)
            ),
        )
    ((code, topics),) = fetched
    return types.OffsetFetchResponse(topics=topics, error_code=code)


def _read(call: Call, group: Any) -> _Group:
    """Return what the client asks of the group, and the errors for what it may not see."""
    of_group = group_refusal(call, Operation.DESCRIBE, group.group_id)
    topics: list[_Topic] = []
    for topic_request in group.topics or ():
        name, refusal = topic_name(call.cluster.image, topic_request), of_group
        if not refusal and name is None:
            refusal = ErrorCode.UNKNOWN_TOPIC_ID
        elif not refusal and not call.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        topics.append(_Topic(name, topic_request, refusal))
    return _Group(group, of_group, tuple(topics))


def _group_request(call: Call, group: _Group) -> pb.OffsetFetchRequest.Group:
    """Return the request to the coordinator. A client's request without topics asks for all topics."""
    request, known = group.request, call.cluster.image.topics
    return pb.OffsetFetchRequest.Group(
        group_id=request.group_id,
        member_id=getattr(request, "member_id", None) or "",
        member_epoch=getattr(request, "member_epoch", -1),
        all_topics=request.topics is None,
        topics=[
            types_pb2.TopicPartitions(topic=topic.name, partitions=topic.request.partition_indexes)
            for topic in group.topics
            if not topic.refusal
        ],
        topic_ids={
            topic.name: known[topic.name].topic_id
            for topic in group.topics
            if not topic.refusal and topic.name is not None and topic.name in known
        },
    )


def _fetched(
    call: OffsetFetchCall, group: _Group, answer: pb.OffsetFetchResponse.Group | ErrorCode
) -> tuple[int, tuple[Any, ...]]:
    """Return the error code and the topics of one group, for the response."""
    if isinstance(answer, ErrorCode) or answer.error_code:
        code = code_of(answer)
        if call.version >= _GROUP_ERROR_FROM:
            return code, ()
        return 0, tuple(_all_failed(call, topic, code) for topic in group.topics)
    if group.request.topics is None:
        return 0, _every_topic(call, answer.offsets)
    found: dict[tuple[str | None, int], pb.OffsetFetchResponse.Offset] = {
        (offset.topic, offset.partition): offset for offset in answer.offsets
    }
    return 0, tuple(
        _all_failed(call, topic, topic.refusal)
        if topic.refusal
        else _topic_type(call)(
            **topic_fields(topic.request, topic.name),
            partitions=tuple(
                _fetched_partition(call, partition, found.get((topic.name, partition)))
                for partition in topic.request.partition_indexes
            ),
        )
        for topic in group.topics
    )


def _every_topic(
    call: OffsetFetchCall, offsets: Iterable[pb.OffsetFetchResponse.Offset]
) -> tuple[Any, ...]:
    """Return every committed offset by topic. Where the version has ids, a topic that is gone has none and is left
    out, as in Kafka."""
    found = {(offset.topic, offset.partition): offset for offset in offsets}
    known = call.cluster.image.topics
    uses_ids = call.version >= _TOPIC_IDS_FROM
    return tuple(
        _topic_type(call)(
            name=name,
            topic_id=uuid.UUID(bytes=known[name].topic_id) if uses_ids else None,
            partitions=tuple(
                _fetched_partition(call, partition, found[name, partition])
                for partition in partitions
            ),
        )
        for name, partitions in grouped(list(found)).items()
        if (name in known or not uses_ids)
        and call.may(Operation.DESCRIBE, ResourceType.TOPIC, name, is_logged=False)
    )


def _all_failed(call: OffsetFetchCall, topic: _Topic, code: int) -> Any:
    return _topic_type(call)(
        **topic_fields(topic.request, topic.name),
        partitions=tuple(
            _fetched_partition(call, partition, None, code)
            for partition in topic.request.partition_indexes
        ),
    )


def _fetched_partition(
    call: OffsetFetchCall,
    partition: int,
    found: pb.OffsetFetchResponse.Offset | None,
    code: int = 0,
) -> Any:
    types = call.types
    build = (
        types.OffsetFetchResponsePartitions
        if call.version >= _GROUPS_FROM
        else types.OffsetFetchResponsePartition
    )
    return build(
        partition_index=partition,
        committed_offset=_NONE_COMMITTED if found is None else found.offset,
        committed_leader_epoch=-1 if found is None else found.leader_epoch,
        metadata="" if found is None else found.metadata,
        error_code=code if found is None else found.error_code,
    )


def _topic_type(call: OffsetFetchCall) -> Any:
    types = call.types
    if call.version >= _GROUPS_FROM:
        return types.OffsetFetchResponseTopics

    def without_id(*, topic_id: uuid.UUID | None, **given: Any) -> Any:
        assert topic_id is None, (topic_id, given)
        return types.OffsetFetchResponseTopic(**given)

    return without_id
