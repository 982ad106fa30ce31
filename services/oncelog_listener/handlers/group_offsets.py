"""What groups have read: OffsetCommit, OffsetFetch, OffsetDelete, and the commits that belong to a transaction.

Which topics exist is known here and not at the coordinator, so partitions that do not exist are refused here, as
Kafka's brokers do before they ask their coordinator; the others go on without them. What a group committed for a topic
that was deleted since can still be read until the coordinator drops it.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from oncelog.api.v1 import coordinator_pb2, types_pb2
from oncelog.api.v1 import groups_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.protocol.versions import ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT
from oncelog.rpc.metadata import TRANSACTION
from oncelog_listener.call import Call
from oncelog_listener.cluster import (
    NO_THROTTLE,
    PEER_FAILURES,
    TopicPartition,
    grouped,
    wire_error,
)
from oncelog_listener.core.error_versions import error_for_version
from oncelog_listener.core.repeating import Repeatable
from oncelog_listener.handlers.groups import (
    NO_GENERATION,
    ask_coordinator,
    ask_coordinators,
    for_owner,
    told_code,
)
from oncelog_listener.shard_calls import call_shard

_TOPIC_IDS_FROM: Final = 10
_LEADER_EPOCH_FROM: Final = 6
_GROUPS_FROM: Final = 8
_GROUP_ERROR_FROM: Final = 2
_STABLE_FROM: Final = 7
_TXN_LEADER_EPOCH_FROM: Final = 2
_TXN_MEMBER_FROM: Final = 3
_TV2_COMMIT_FROM: Final = 5
_TV2: Final = 2
_NONE_COMMITTED: Final = -1


# ---------------------------------------------------------------------------------------------------- commits


async def offset_commit(call: Call) -> Any:
    request = call.request
    topics = [(_topic_name(call, topic), topic) for topic in request.topics]
    codes, offsets = await _checked(call, topics, call.version >= _LEADER_EPOCH_FROM)
    if offsets:
        asked = pb.OffsetCommitRequest(
            group_id=request.group_id,
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=getattr(request, "group_instance_id", None),
            offsets=offsets,
            stamp=call.origin(None),
        )
        answer = await ask_coordinator(
            call,
            request.group_id,
            lambda coordinator: coordinator.OffsetCommit(for_owner(call, asked)),
            error_code_of=_first_code,
        )
        codes.update(await _codes_of(call, answer, offsets))
    types = call.types
    told = [
        types.OffsetCommitResponseTopic(
            **_topic_fields(topic, name),
            partitions=await _coded(
                call, types.OffsetCommitResponsePartition, name, topic, codes, wire_error
            ),
        )
        for name, topic in topics
    ]
    return types.OffsetCommitResponse(throttle_time=NO_THROTTLE, topics=tuple(told))


async def txn_offset_commit(call: Call) -> Any:
    """Offsets that become visible with their transaction. The version says which protocol its producer speaks."""
    request = call.request
    topics = [(topic.name, topic) for topic in request.topics]
    codes, offsets = await _checked(call, topics, call.version >= _TXN_LEADER_EPOCH_FROM)
    if offsets:
        has_member = call.version >= _TXN_MEMBER_FROM
        commit = pb.TxnOffsetCommitRequest(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            group_id=request.group_id,
            generation_id=request.generation_id if has_member else NO_GENERATION,
            member_id=request.member_id if has_member else "",
            group_instance_id=request.group_instance_id if has_member else None,
            offsets=offsets,
            client_transaction_version=_TV2 if call.version >= _TV2_COMMIT_FROM else 0,
            stamp=call.origin(request.transactional_id),
        )
        answer: Any = ErrorCode.INVALID_GROUP_ID
        if not request.transactional_id:
            answer = ErrorCode.INVALID_REQUEST
        elif call.is_out_of_date:
            # Every client repeats the commit after this code. KafkaJS fails after COORDINATOR_NOT_AVAILABLE.
            answer = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif request.group_id:
            answer = await ask_coordinator(
                call,
                request.group_id,
                lambda coordinator: coordinator.TxnOffsetCommit(for_owner(call, commit)),
                error_code_of=_first_code,
            )
        codes.update(await _codes_of(call, answer, offsets))

    def wire_code(code: int) -> Any:
        return wire_error(error_for_version(TXN_OFFSET_COMMIT, call.version, code))

    types = call.types
    told = [
        types.TxnOffsetCommitResponseTopic(
            name=name,
            partitions=await _coded(
                call, types.TxnOffsetCommitResponsePartition, name, topic, codes, wire_code
            ),
        )
        for name, topic in topics
    ]
    return types.TxnOffsetCommitResponse(throttle_time=NO_THROTTLE, topics=tuple(told))


async def _checked(
    call: Call, topics: Iterable[tuple[str | None, Any]], has_leader_epoch: bool
) -> tuple[dict[TopicPartition, int], list[pb.OffsetToCommit]]:
    """The codes of partitions that do not exist, and the offsets of those that do: of a partition the last one."""
    codes: dict[TopicPartition, int] = {}
    offsets: dict[TopicPartition, pb.OffsetToCommit] = {}
    known = call.cluster.image.topics
    for name, topic in topics:
        if name is None:
            continue
        count = len(known[name].partitions) if name in known else 0
        for one in topic.partitions:
            if call.is_turn_over():
                await call.next_turn()
            if not 0 <= one.partition_index < count:
                codes[name, one.partition_index] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                continue
            offsets[name, one.partition_index] = pb.OffsetToCommit(
                topic=name,
                partition=one.partition_index,
                offset=one.committed_offset,
                leader_epoch=one.committed_leader_epoch if has_leader_epoch else -1,
                metadata=one.committed_metadata or "",
            )
    return codes, list(offsets.values())


def _first_code(answer: Any) -> int:
    """A coordinator that cannot answer says so of every partition."""
    return next((one.error_code for one in answer.partitions if one.error_code), 0)


async def _codes_of(call: Call, answer: Any, offsets: Iterable[Any]) -> dict[TopicPartition, int]:
    """Each partition's code. An answer that is an ErrorCode, or leaves one out, is told of each it concerns."""
    is_refused = isinstance(answer, ErrorCode)
    default = answer if is_refused else ErrorCode.UNKNOWN_SERVER_ERROR
    codes: dict[TopicPartition, int] = {}
    for one in offsets:
        codes[one.topic, one.partition] = default
        if call.is_turn_over():
            await call.next_turn()
    for one in () if is_refused else answer.partitions:
        codes[one.topic, one.partition] = one.error_code
        if call.is_turn_over():
            await call.next_turn()
    return codes


async def _coded(
    call: Call,
    partition_type: Any,
    name: str | None,
    topic: Any,
    codes: Mapping[TopicPartition, int],
    wire_code: Callable[[int], Any],
) -> tuple[Any, ...]:
    found = []
    for one in topic.partitions:
        index = one.partition_index
        code = ErrorCode.UNKNOWN_TOPIC_ID if name is None else codes[name, index]
        found.append(partition_type(partition_index=index, error_code=wire_code(code)))
        if call.is_turn_over():
            await call.next_turn()
    return tuple(found)


async def add_offsets_to_txn(call: Call) -> Any:
    """A TV1 producer adds the partition of `__consumer_offsets` that its group's offsets will be written to."""
    request = call.request
    code: int = ErrorCode.INVALID_REQUEST
    if request.transactional_id:
        asked = coordinator_pb2.AddOffsetsToTxnRequest(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            group_id=request.group_id,
            stamp=call.origin(request.transactional_id),
        )
        try:
            answer = await call_shard(
                call.cluster,
                TRANSACTION,
                request.transactional_id,
                lambda coordinator: coordinator.AddOffsetsToTxn(asked),
                is_wanted=call.is_wanted,
            )
            code = answer.error_code
            if answer.HasField("delayed_by"):
                call.told_delayed(request.transactional_id, answer.delayed_by)
        except PEER_FAILURES:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return call.types.AddOffsetsToTxnResponse(
        throttle_time=NO_THROTTLE,
        error_code=wire_error(error_for_version(ADD_OFFSETS_TO_TXN, call.version, code)),
    )


# ------------------------------------------------------------------------------------------------------ reads


async def offset_fetch(call: Call) -> Any:
    request, types = call.request, call.types
    is_batch = call.version >= _GROUPS_FROM
    groups = request.groups if is_batch else (request,)

    async def ask(coordinator: Any, positions: list[int]) -> Sequence[Any]:
        asked = pb.OffsetFetchRequest(
            groups=[_asked(call, groups[position]) for position in positions],
            require_stable=call.version >= _STABLE_FROM and request.require_stable,
        )
        answer = await call.cluster.ask(coordinator.OffsetFetch(asked))
        found: Sequence[Any] = answer.groups
        return found

    found = await ask_coordinators(call, [group.group_id for group in groups], ask)
    fetched = [_fetched(call, *pair) for pair in zip(groups, found, strict=True)]
    if is_batch:
        return types.OffsetFetchResponse(
            throttle_time=NO_THROTTLE,
            groups=tuple(
                types.OffsetFetchResponseGroup(
                    group_id=group.group_id, topics=topics, error_code=wire_error(code)
                )
                for group, (code, topics) in zip(groups, fetched, strict=True)
            ),
        )
    ((code, topics),) = fetched
    return types.OffsetFetchResponse(
        throttle_time=NO_THROTTLE, topics=topics, error_code=wire_error(code)
    )


def _asked(call: Call, group: Any) -> pb.OffsetFetchRequest.Group:
    """No topics are all topics; an id that no topic has is not asked for."""
    named = [(_topic_name(call, topic), topic) for topic in group.topics or ()]
    return pb.OffsetFetchRequest.Group(
        group_id=group.group_id,
        member_id=getattr(group, "member_id", None) or "",
        member_epoch=getattr(group, "member_epoch", -1),
        all_topics=group.topics is None,
        topics=[
            types_pb2.TopicPartitions(topic=name, partitions=topic.partition_indexes)
            for name, topic in named
            if name is not None
        ],
    )


def _fetched(call: Call, group: Any, answer: Any) -> tuple[int, tuple[Any, ...]]:
    """One group's code and topics."""
    named = [(_topic_name(call, topic), topic) for topic in group.topics or ()]
    code = told_code(answer)
    if code and call.version >= _GROUP_ERROR_FROM:
        return code, ()
    if code:
        return 0, tuple(_all_failed(call, name, topic, code) for name, topic in named)
    if group.topics is None:
        return 0, _every_topic(call, answer.offsets)
    found = {(offset.topic, offset.partition): offset for offset in answer.offsets}
    return 0, tuple(
        _all_failed(call, name, topic, ErrorCode.UNKNOWN_TOPIC_ID)
        if name is None
        else _topic_type(call)(
            **_topic_fields(topic, name),
            partitions=tuple(
                _fetched_partition(call, partition, found.get((name, partition)))
                for partition in topic.partition_indexes
            ),
        )
        for name, topic in named
    )


def _every_topic(call: Call, offsets: Iterable[Any]) -> tuple[Any, ...]:
    """By topic. Where ids are spoken, a topic that is gone has none and is left out, as in Kafka."""
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
        if name in known or not uses_ids
    )


def _all_failed(call: Call, name: str | None, topic: Any, code: int) -> Any:
    return _topic_type(call)(
        **_topic_fields(topic, name),
        partitions=tuple(
            _fetched_partition(call, partition, None, code) for partition in topic.partition_indexes
        ),
    )


def _fetched_partition(call: Call, partition: int, found: Any, code: int = 0) -> Any:
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
        error_code=wire_error(code if found is None else found.error_code),
    )


def _topic_type(call: Call) -> Any:
    types = call.types
    return (
        types.OffsetFetchResponseTopics
        if call.version >= _GROUPS_FROM
        else types.OffsetFetchResponseTopic
    )


# ---------------------------------------------------------------------------------------------------- removal


async def offset_delete(call: Call) -> Any:
    request = call.request
    image, codes = call.cluster.image, {}
    existing: list[TopicPartition] = []
    for topic in request.topics:
        count = len(image.topics[topic.name].partitions) if topic.name in image.topics else 0
        for one in topic.partitions:
            key = (topic.name, one.partition_index)
            if 0 <= one.partition_index < count:
                existing.append(key)
            else:
                codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    answer: Any = ErrorCode.INVALID_GROUP_ID
    if request.group_id:
        asked = pb.OffsetDeleteRequest(
            group_id=request.group_id,
            topics=[
                types_pb2.TopicPartitions(topic=name, partitions=partitions)
                for name, partitions in grouped(existing).items()
            ],
        )
        answer = await ask_coordinator(
            call,
            request.group_id,
            lambda coordinator: coordinator.OffsetDelete(asked),
            # The first copy, held up on its way, would delete what was committed since.
            repeatable=Repeatable.UNLESS_DONE,
        )
    code = told_code(answer)
    types = call.types
    if code:
        return types.OffsetDeleteResponse(
            error_code=wire_error(code), throttle_time=NO_THROTTLE, topics=()
        )
    codes.update(dict.fromkeys(existing, ErrorCode.NONE))
    codes.update({(one.topic, one.partition): one.error_code for one in answer.partitions})
    return types.OffsetDeleteResponse(
        error_code=wire_error(0),
        throttle_time=NO_THROTTLE,
        topics=tuple(
            types.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    types.OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=wire_error(codes[topic.name, one.partition_index]),
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


# --------------------------------------------------------------------------------------------- names and ids


def _topic_name(call: Call, topic: Any) -> str | None:
    """The topic's name; None for an id that no topic has."""
    if call.version < _TOPIC_IDS_FROM:
        name: str = topic.name
        return name
    if topic.topic_id is None:
        return None
    found = call.cluster.image.topics_by_id.get(topic.topic_id.bytes)
    return None if found is None else found.name


def _topic_fields(topic: Any, name: str | None) -> dict[str, Any]:
    """What names a topic in an answer: its id where the request gave one, else its name."""
    return {"name": name, "topic_id": getattr(topic, "topic_id", None)}
