"""OffsetFetch: the offsets that groups have committed, of the topics that the client may describe."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode
from oncelog.rpc.stubs import GroupCoordinatorStub
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.call import Call
from oncelog_listener.cluster import grouped
from oncelog_listener.group_access import group_refusal
from oncelog_listener.handlers.groups import ask_coordinators, code_of
from oncelog_listener.topic_ids import topic_id_of, topic_name

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import OffsetFetchCall

    _TopicAsked = (
        kafka.OffsetFetchRequestTypes.OffsetFetchRequestTopic
        | kafka.OffsetFetchRequestTypes.OffsetFetchRequestTopics
    )

_GROUPS_FROM: Final = 8
_MEMBER_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 10
_GROUP_ERROR_FROM: Final = 2
_STABLE_FROM: Final = 7
_NONE_COMMITTED: Final = -1
_NO_EPOCH: Final = -1


class _Topic(NamedTuple):
    """One topic of an OffsetFetch request: its name or id, and the partitions whose committed offsets are asked for."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: Sequence[int]
    refusal: ErrorCode
    """The error because of which the coordinator is not asked for the topic; NONE: it is asked."""


class _Group(NamedTuple):
    """One group of an OffsetFetch request, with the topics asked for, and why any of them is refused."""

    group_id: str
    refusal: ErrorCode
    topics: tuple[_Topic, ...]
    is_whole: bool
    """True if all topics are asked for."""
    member_id: str = ""
    member_epoch: int = _NO_EPOCH


class _Committed(NamedTuple):
    """The committed offset of one partition, as the response gives it."""

    partition: int
    offset: int
    leader_epoch: int
    metadata: str
    error_code: int


class _Fetched(NamedTuple):
    """The committed offsets of one topic, as the response gives them."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: list[_Committed]


async def offset_fetch(call: OffsetFetchCall) -> kafka.OffsetFetchResponse:
    request, types = call.request, call.types
    is_batch = call.version >= _GROUPS_FROM
    groups = _groups(call) if is_batch else [_read(call, request.group_id, request.topics)]
    allowed = [group for group in groups if not group.refusal]

    async def ask(
        coordinator: GroupCoordinatorStub, positions: list[int]
    ) -> Sequence[pb.OffsetFetchResponse.Group]:
        forwarded = pb.OffsetFetchRequest(
            groups=[_group_request(call, allowed[position]) for position in positions],
            require_stable=call.version >= _STABLE_FROM and request.require_stable,
        )
        answer = await call.cluster.answer_in_time(coordinator.OffsetFetch(forwarded))
        return answer.groups

    found = iter(await ask_coordinators(call, [group.group_id for group in allowed], ask))
    fetched = [_fetched(call, group, group.refusal or next(found)) for group in groups]
    if is_batch:
        return types.OffsetFetchResponse(
            topics=(),
            groups=tuple(
                types.OffsetFetchResponseGroup(
                    group_id=group.group_id, topics=_topics(types, topics), error_code=code
                )
                for group, (code, topics) in zip(groups, fetched, strict=True)
            ),
        )
    ((code, topics),) = fetched
    return types.OffsetFetchResponse(
        topics=_topics_of_one_group(types, topics), error_code=code, groups=()
    )


def _groups(call: OffsetFetchCall) -> list[_Group]:
    has_member = call.version >= _MEMBER_FROM
    return [
        _read(
            call,
            one.group_id,
            one.topics,
            (one.member_id or "") if has_member else "",
            one.member_epoch if has_member else _NO_EPOCH,
        )
        for one in call.request.groups
    ]


def _read(
    call: Call,
    group_id: str,
    topics: Sequence[_TopicAsked] | None,
    member_id: str = "",
    member_epoch: int = _NO_EPOCH,
) -> _Group:
    """Return what the client asks about this group, with an error for the group or for each topic that it may not
    describe. `topics` None: it asks about all topics."""
    of_group = group_refusal(call, Operation.DESCRIBE, group_id)
    read: list[_Topic] = []
    for topic in topics or ():
        name, refusal = topic_name(call.cluster.image, topic), of_group
        if not refusal and name is None:
            refusal = ErrorCode.UNKNOWN_TOPIC_ID
        elif not refusal and not call.may(Operation.DESCRIBE, ResourceType.TOPIC, name):
            refusal = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        read.append(_Topic(name, topic_id_of(topic), topic.partition_indexes, refusal))
    return _Group(group_id, of_group, tuple(read), topics is None, member_id, member_epoch)


def _group_request(call: Call, group: _Group) -> pb.OffsetFetchRequest.Group:
    """Return the request about one group for its coordinator. A client's request without topics asks for all topics."""
    known = call.cluster.image.topics
    asked = [topic for topic in group.topics if not topic.refusal]
    return pb.OffsetFetchRequest.Group(
        group_id=group.group_id,
        member_id=group.member_id,
        member_epoch=group.member_epoch,
        all_topics=group.is_whole,
        topics=[
            types_pb2.TopicPartitions(topic=topic.name, partitions=topic.partitions)
            for topic in asked
        ],
        topic_ids={
            topic.name: known[topic.name].topic_id
            for topic in asked
            if topic.name is not None and topic.name in known
        },
    )


def _fetched(
    call: OffsetFetchCall, group: _Group, answer: pb.OffsetFetchResponse.Group | ErrorCode
) -> tuple[int, list[_Fetched]]:
    """Return the error code and the topics of one group, for the response."""
    if isinstance(answer, ErrorCode) or answer.error_code:
        code = code_of(answer)
        if call.version >= _GROUP_ERROR_FROM:
            return code, []
        return 0, [_all_failed(topic, code) for topic in group.topics]
    if group.is_whole:
        return 0, _every_topic(call, answer.offsets)
    found: dict[tuple[str | None, int], pb.OffsetFetchResponse.Offset] = {
        (offset.topic, offset.partition): offset for offset in answer.offsets
    }
    return 0, [
        _all_failed(topic, topic.refusal)
        if topic.refusal
        else _Fetched(
            topic.name,
            topic.topic_id,
            [
                _committed(partition, found.get((topic.name, partition)))
                for partition in topic.partitions
            ],
        )
        for topic in group.topics
    ]


def _every_topic(
    call: OffsetFetchCall, offsets: Iterable[pb.OffsetFetchResponse.Offset]
) -> list[_Fetched]:
    """Return every committed offset, grouped by topic. A deleted topic has no id, so versions with ids leave it out, as
    in Kafka."""
    found = {(offset.topic, offset.partition): offset for offset in offsets}
    known = call.cluster.image.topics
    uses_ids = call.version >= _TOPIC_IDS_FROM
    return [
        _Fetched(
            name,
            uuid.UUID(bytes=known[name].topic_id) if uses_ids else None,
            [_committed(partition, found[name, partition]) for partition in partitions],
        )
        for name, partitions in grouped(list(found)).items()
        if (name in known or not uses_ids)
        and call.may(Operation.DESCRIBE, ResourceType.TOPIC, name, is_logged=False)
    ]


def _all_failed(topic: _Topic, code: int) -> _Fetched:
    partitions = [_committed(partition, None, code) for partition in topic.partitions]
    return _Fetched(topic.name, topic.topic_id, partitions)


def _committed(
    partition: int, found: pb.OffsetFetchResponse.Offset | None, code: int = 0
) -> _Committed:
    if found is None:
        return _Committed(partition, _NONE_COMMITTED, _NO_EPOCH, "", code)
    return _Committed(partition, found.offset, found.leader_epoch, found.metadata, found.error_code)


def _topics(
    types: kafka.OffsetFetchResponseTypes, fetched: Iterable[_Fetched]
) -> tuple[kafka.OffsetFetchResponseTypes.OffsetFetchResponseTopics, ...]:
    return tuple(
        types.OffsetFetchResponseTopics(
            name=topic.name or "",
            topic_id=topic.topic_id,
            partitions=tuple(
                types.OffsetFetchResponsePartitions(
                    partition_index=one.partition,
                    committed_offset=one.offset,
                    committed_leader_epoch=one.leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ),
        )
        for topic in fetched
    )


def _topics_of_one_group(
    types: kafka.OffsetFetchResponseTypes, fetched: Iterable[_Fetched]
) -> tuple[kafka.OffsetFetchResponseTypes.OffsetFetchResponseTopic, ...]:
    return tuple(
        types.OffsetFetchResponseTopic(
            name=topic.name or "",
            partitions=tuple(
                types.OffsetFetchResponsePartition(
                    partition_index=one.partition,
                    committed_offset=one.offset,
                    committed_leader_epoch=one.leader_epoch,
                    metadata=one.metadata,
                    error_code=one.error_code,
                )
                for one in topic.partitions
            ),
        )
        for topic in fetched
    )
