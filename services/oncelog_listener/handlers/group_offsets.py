"""The offsets that groups commit: OffsetCommit, OffsetDelete, and the commits that belong to a transaction.

Partitions that do not exist are refused here, as Kafka's brokers do; the coordinator gets the rest of the request. The
coordinator is told the topic's id, and refuses the offset if the name means another topic by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from oncelog.api.v1 import coordinator_pb2, types_pb2
from oncelog.api.v1 import groups_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.call import Call
from oncelog_listener.cluster import (
    PEER_FAILURES,
    TopicPartition,
    grouped,
)
from oncelog_listener.core.repeating import Repeatable
from oncelog_listener.group_access import commit_refusal, group_refusal
from oncelog_listener.handlers.groups import (
    NO_GENERATION,
    ask_coordinator,
    code_of,
    refused,
)
from oncelog_listener.shard_calls import TRANSACTION_COORDINATORS, call_shard
from oncelog_listener.topic_ids import topic_id_of, topic_name

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        AddOffsetsToTxnCall,
        OffsetCommitCall,
        OffsetDeleteCall,
        TxnOffsetCommitCall,
    )

    _Topic = (
        kafka.OffsetCommitRequestTypes.OffsetCommitRequestTopic
        | kafka.TxnOffsetCommitRequestTypes.TxnOffsetCommitRequestTopic
    )

_LEADER_EPOCH_FROM: Final = 6
_INSTANCE_FROM: Final = 7
_TXN_LEADER_EPOCH_FROM: Final = 2
_TXN_MEMBER_FROM: Final = 3
_TV2_COMMIT_FROM: Final = 5
_TV2: Final = 2


_CodedT = TypeVar("_CodedT", covariant=True)


class _CodedType(Protocol[_CodedT]):
    """The constructor of a partition with its error code, in an answer."""

    def __call__(self, *, partition_index: int, error_code: int) -> _CodedT: ...


# ---------------------------------------------------------------------------------------------------- commits


async def offset_commit(call: OffsetCommitCall) -> kafka.OffsetCommitResponse:
    request = call.request
    topics = [(topic_name(call.cluster.image, topic), topic) for topic in request.topics]
    refusal = group_refusal(call, Operation.READ, request.group_id)
    codes, offsets = await _checked(call, topics, call.version >= _LEADER_EPOCH_FROM, refusal)
    if offsets:
        forwarded = pb.OffsetCommitRequest(
            group_id=request.group_id,
            generation_id=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            group_instance_id=request.group_instance_id if call.version >= _INSTANCE_FROM else None,
            offsets=offsets,
            origin=call.origin(None),
        )
        answer = await ask_coordinator(
            call,
            forwarded,
            lambda coordinator: coordinator.OffsetCommit,
            error_code_of=_first_code,
        )
        codes.update(await _codes_of(call, answer, offsets))
    types = call.types
    topic_results = [
        types.OffsetCommitResponseTopic(
            name=name or "",
            topic_id=topic_id_of(topic),
            partitions=await _coded(
                call,
                types.OffsetCommitResponsePartition,
                name,
                topic,
                codes,
                refusal or ErrorCode.UNKNOWN_TOPIC_ID,
            ),
        )
        for name, topic in topics
    ]
    return types.OffsetCommitResponse(topics=tuple(topic_results))


async def txn_offset_commit(call: TxnOffsetCommitCall) -> kafka.TxnOffsetCommitResponse:
    """Answer TxnOffsetCommit: commit offsets that become visible with their transaction. Its version tells if the
    producer speaks TV1 or TV2 (KIP-890)."""
    request = call.request
    topics = [(topic_name(call.cluster.image, topic), topic) for topic in request.topics]
    refusal = commit_refusal(call, request.transactional_id, request.group_id)
    codes, offsets = await _checked(call, topics, call.version >= _TXN_LEADER_EPOCH_FROM, refusal)
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
            origin=call.origin(request.transactional_id),
        )
        answer: pb.OffsetCommitResponse | ErrorCode = ErrorCode.INVALID_GROUP_ID
        if not request.transactional_id:
            answer = ErrorCode.INVALID_REQUEST
        elif call.is_out_of_date:
            # Every client repeats the commit after this code. KafkaJS fails after COORDINATOR_NOT_AVAILABLE.
            answer = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif request.group_id:
            answer = await ask_coordinator(
                call,
                commit,
                lambda coordinator: coordinator.TxnOffsetCommit,
                error_code_of=_first_code,
            )
        codes.update(await _codes_of(call, answer, offsets))

    types = call.types
    topic_results = [
        types.TxnOffsetCommitResponseTopic(
            name=name or "",
            topic_id=topic_id_of(topic),
            partitions=await _coded(
                call,
                types.TxnOffsetCommitResponsePartition,
                name,
                topic,
                codes,
                refusal or ErrorCode.UNKNOWN_TOPIC_ID,
            ),
        )
        for name, topic in topics
    ]
    return types.TxnOffsetCommitResponse(topics=tuple(topic_results))


async def _checked(
    call: Call,
    topics: Iterable[tuple[str | None, _Topic]],
    has_leader_epoch: bool,
    refusal: ErrorCode,
) -> tuple[dict[TopicPartition, int], list[pb.OffsetToCommit]]:
    """Return two things: an error code for each partition that may not be read or does not exist, and the offsets of
    the others to commit.

    Of a partition that is named twice the last offset counts. `refusal` is the whole request's, and each partition gets
    it.
    """
    codes: dict[TopicPartition, int] = {}
    offsets: dict[TopicPartition, pb.OffsetToCommit] = {}
    known = call.cluster.image.topics
    for name, topic in topics:
        if name is None:
            continue
        count = len(known[name].partitions) if name in known else 0
        of_topic = refusal
        if not refusal and not call.may(Operation.READ, ResourceType.TOPIC, name):
            of_topic = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        for one in topic.partitions:
            if call.is_turn_over():
                await call.next_turn()
            if of_topic or not 0 <= one.partition_index < count:
                code = of_topic or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                codes[name, one.partition_index] = code
                continue
            offsets[name, one.partition_index] = pb.OffsetToCommit(
                topic=name,
                partition=one.partition_index,
                offset=one.committed_offset,
                leader_epoch=one.committed_leader_epoch if has_leader_epoch else -1,
                metadata=one.committed_metadata or "",
                topic_id=known[name].topic_id,
            )
    return codes, list(offsets.values())


def _first_code(answer: pb.OffsetCommitResponse) -> int:
    """Return the first error code of the answer; 0: it has none. For requests with one code: a coordinator that fails
    gives each partition the same error."""
    return next((one.error_code for one in answer.partitions if one.error_code), 0)


async def _codes_of(
    call: Call, answer: pb.OffsetCommitResponse | ErrorCode, offsets: Iterable[pb.OffsetToCommit]
) -> dict[TopicPartition, int]:
    """Return the error code of each partition of the commit. An answer that is an ErrorCode is the code of every
    partition."""
    default = answer if isinstance(answer, ErrorCode) else ErrorCode.UNKNOWN_SERVER_ERROR
    codes: dict[TopicPartition, int] = {}
    for one in offsets:
        codes[one.topic, one.partition] = default
        if call.is_turn_over():
            await call.next_turn()
    for result in () if isinstance(answer, ErrorCode) else answer.partitions:
        codes[result.topic, result.partition] = result.error_code
        if call.is_turn_over():
            await call.next_turn()
    return codes


async def _coded(
    call: Call,
    partition_type: _CodedType[_CodedT],
    name: str | None,
    topic: _Topic,
    codes: Mapping[TopicPartition, int],
    without_name: ErrorCode = ErrorCode.UNKNOWN_TOPIC_ID,
) -> tuple[_CodedT, ...]:
    found = []
    for one in topic.partitions:
        index = one.partition_index
        code = without_name if name is None else codes[name, index]
        found.append(partition_type(partition_index=index, error_code=code))
        if call.is_turn_over():
            await call.next_turn()
    return tuple(found)


async def add_offsets_to_txn(call: AddOffsetsToTxnCall) -> kafka.AddOffsetsToTxnResponse:
    """Answer AddOffsetsToTxn of a TV1 producer: add the group's partition of `__consumer_offsets` to the
    transaction."""
    request = call.request
    code: int = commit_refusal(call, request.transactional_id, request.group_id)
    if not code and not request.transactional_id:
        code = ErrorCode.INVALID_REQUEST
    if not code:
        forwarded = coordinator_pb2.AddOffsetsToTxnRequest(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            group_id=request.group_id,
            origin=call.origin(request.transactional_id),
        )
        try:
            answer = await call_shard(
                call.cluster,
                TRANSACTION_COORDINATORS,
                request.transactional_id,
                lambda coordinator: coordinator.AddOffsetsToTxn(forwarded),
                is_wanted=call.is_wanted,
            )
            code = answer.error_code
            if answer.HasField("delayed_by"):
                call.note_delayed(request.transactional_id, answer.delayed_by)
        except PEER_FAILURES:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return call.types.AddOffsetsToTxnResponse(error_code=code)


# ---------------------------------------------------------------------------------------------------- removal


async def offset_delete(call: OffsetDeleteCall) -> kafka.OffsetDeleteResponse:
    request = call.request
    image = call.cluster.image
    codes: dict[TopicPartition, int] = {}
    existing: list[TopicPartition] = []
    answer: pb.OffsetDeleteResponse | ErrorCode = refused(call, request.group_id, Operation.DELETE)
    for topic in () if answer else request.topics:
        count = len(image.topics[topic.name].partitions) if topic.name in image.topics else 0
        may_read = call.may(Operation.READ, ResourceType.TOPIC, topic.name)
        for one in topic.partitions:
            key = (topic.name, one.partition_index)
            if not may_read:
                codes[key] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif 0 <= one.partition_index < count:
                existing.append(key)
            else:
                codes[key] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if not answer:
        forwarded = pb.OffsetDeleteRequest(
            group_id=request.group_id,
            topics=[
                types_pb2.TopicPartitions(topic=name, partitions=partitions)
                for name, partitions in grouped(existing).items()
            ],
        )
        answer = await ask_coordinator(
            call,
            forwarded,
            lambda coordinator: coordinator.OffsetDelete,
            # The first copy, held up on its way, would delete what was committed since.
            repeatable=Repeatable.UNLESS_DONE,
        )
    types = call.types
    if isinstance(answer, ErrorCode) or answer.error_code:
        return types.OffsetDeleteResponse(error_code=code_of(answer), topics=())
    codes.update(dict.fromkeys(existing, ErrorCode.NONE))
    codes.update({(one.topic, one.partition): one.error_code for one in answer.partitions})
    return types.OffsetDeleteResponse(
        error_code=0,
        topics=tuple(
            types.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    types.OffsetDeleteResponsePartition(
                        partition_index=one.partition_index,
                        error_code=codes[topic.name, one.partition_index],
                    )
                    for one in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
