"""The offsets of partitions: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, repeat
from typing import TYPE_CHECKING, Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import INTERNAL_TOPICS
from oncelog.rpc.stubs import StorageStub
from oncelog.security.acl import Operation
from oncelog_listener.call import Call
from oncelog_listener.cluster import (
    ApiError,
    TopicPartition,
    grouped,
    milliseconds,
)
from oncelog_listener.isolation import isolation_of
from oncelog_listener.topic_access import TOPIC_REFUSED, refused_topics, take_refused

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka
    from oncelog_listener.kafka_calls import (
        DeleteRecordsCall,
        ListOffsetsCall,
        OffsetForLeaderEpochCall,
    )

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_MEANT_FROM: Final[Mapping[int, int]] = {
    _EARLIEST: 1,
    _LATEST: 1,
    _MAX_TIMESTAMP: 7,
    _EARLIEST_LOCAL: 8,
    _LATEST_TIERED: 9,
    _EARLIEST_PENDING_UPLOAD: 11,
}
"""The special timestamps of ListOffsets, each with the first version in which it has its meaning."""
_OF_A_REMOTE_STORE: Final = (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD)
_LEADER_EPOCH_FROM: Final = 4
_NO_VERSION: Final = 1 << 15
_EpochAsked = pb.OffsetsForLeaderEpochRequest.Partition
_EpochEnd = pb.OffsetsForLeaderEpochResponse.Partition
_HIGH_WATERMARK: Final = -1
"""The offset in DeleteRecords that means: delete all records that are there."""


async def list_offsets(call: ListOffsetsCall) -> kafka.ListOffsetsResponse:
    request = call.request
    isolation_level = isolation_of(request.isolation_level if call.version >= 2 else 0)
    items: dict[TopicPartition, pb.ListOffsetsPartition] = {}
    answers: dict[TopicPartition, pb.ListedOffset | ApiError] = {}
    refused = refused_topics(call, Operation.DESCRIBE, (topic.name for topic in request.topics))
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if topic.name in refused:
                answers[key] = TOPIC_REFUSED
            elif key in items or key in answers:
                items.pop(key, None)
                answers[key] = ApiError(ErrorCode.INVALID_REQUEST, "named twice")
            elif wanted.timestamp < 0 and call.version < _MEANT_FROM.get(
                wanted.timestamp, _NO_VERSION
            ):
                answers[key] = ApiError(ErrorCode.UNSUPPORTED_VERSION, "")
            elif wanted.timestamp in _OF_A_REMOTE_STORE:
                answers[key] = ApiError(ErrorCode.NONE, "")
            else:
                items[key] = pb.ListOffsetsPartition(
                    topic=topic.name,
                    partition=wanted.partition_index,
                    # The local log is everything, because there is no remote store.
                    timestamp_ms=_EARLIEST
                    if wanted.timestamp == _EARLIEST_LOCAL
                    else wanted.timestamp,
                    current_leader_epoch=wanted.current_leader_epoch
                    if call.version >= _LEADER_EPOCH_FROM
                    else -1,
                )
    # Each once: also one that was named twice.
    named = dict.fromkeys(
        (topic.name, wanted.partition_index)
        for topic in request.topics
        for wanted in topic.partitions
    )
    answers.update(await _listed_offsets(call, items, isolation_level))
    types = call.types
    return types.ListOffsetsResponse(
        topics=tuple(
            types.ListOffsetsTopicResponse(
                name=topic,
                partitions=tuple(_listed(call, one, answers[topic, one]) for one in partitions),
            )
            for topic, partitions in grouped(list(named)).items()
        ),
    )


def _listed(
    call: ListOffsetsCall, partition: int, answer: pb.ListedOffset | ApiError
) -> kafka.ListOffsetsResponseTypes.ListOffsetsPartitionResponse:
    found = None if isinstance(answer, ApiError) or answer.error_code else answer
    return call.types.ListOffsetsPartitionResponse(
        partition_index=partition,
        error_code=answer.error_code,
        timestamp=-1 if found is None else found.timestamp_ms,
        offset=-1 if found is None else found.offset,
        leader_epoch=-1 if found is None else found.leader_epoch,
    )


async def offset_for_leader_epoch(
    call: OffsetForLeaderEpochCall,
) -> kafka.OffsetForLeaderEpochResponse:
    """Answer OffsetForLeaderEpoch: the end offset of each leader epoch asked for. Each question is answered, also
    several about one partition, as in Kafka."""
    request = call.request
    items: dict[TopicPartition, list[_EpochAsked]] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            asked = _EpochAsked(
                topic=topic.topic,
                partition=wanted.partition,
                current_leader_epoch=wanted.current_leader_epoch,
                leader_epoch=wanted.leader_epoch,
            )
            items.setdefault((topic.topic, wanted.partition), []).append(asked)
    # Kafka's followers ask this of each other. They may of every topic.
    is_follower = call.may_cluster(Operation.CLUSTER_ACTION, is_logged=False)
    refused = {} if is_follower else take_refused(call, Operation.DESCRIBE, items)

    async def ask(storage: StorageStub, some: list[list[_EpochAsked]]) -> list[_EpochEnds]:
        partitions = [one for asked in some for one in asked]
        wanted = pb.OffsetsForLeaderEpochRequest(partitions=partitions)
        found = (
            await call.cluster.answer_in_time(storage.OffsetsForLeaderEpoch(wanted))
        ).partitions
        if len(found) != len(partitions):
            return []
        rows = iter(found)
        return [_EpochEnds(list(islice(rows, len(asked)))) for asked in some]

    answers = refused | await call.cluster.ask_leaders(items, ask)
    ends: dict[TopicPartition, Iterator[_EpochEnd | ApiError]] = {
        key: iter(answer.rows if isinstance(answer, _EpochEnds) else repeat(answer))
        for key, answer in answers.items()
    }
    types = call.types
    return types.OffsetForLeaderEpochResponse(
        topics=tuple(
            types.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _epoch_end(types, wanted.partition, next(ends[topic.topic, wanted.partition]))
                    for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


class _EpochEnds:
    """A leader's answers about the epochs of one partition, in the order of the questions."""

    def __init__(self, rows: Sequence[_EpochEnd]) -> None:
        self.rows = rows
        self.topic, self.partition = rows[0].topic, rows[0].partition
        self.error_code = max(row.error_code for row in rows)


def _epoch_end(
    types: kafka.OffsetForLeaderEpochResponseTypes, partition: int, answer: _EpochEnd | ApiError
) -> kafka.OffsetForLeaderEpochResponseTypes.EpochEndOffset:
    found = None if isinstance(answer, ApiError) or answer.error_code else answer
    return types.EpochEndOffset(
        error_code=answer.error_code,
        partition=partition,
        leader_epoch=-1 if found is None else found.leader_epoch,
        end_offset=-1 if found is None else found.end_offset,
    )


async def delete_records(call: DeleteRecordsCall) -> kafka.DeleteRecordsResponse:
    request = call.request
    items: dict[TopicPartition, pb.DeleteRecordsRequest.Partition] = {}
    answers: dict[TopicPartition, pb.DeleteRecordsResponse.Partition | ApiError] = {}
    refused = refused_topics(call, Operation.DELETE, (topic.name for topic in request.topics))
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if topic.name in refused:
                answers[key] = TOPIC_REFUSED
                continue
            if topic.name in INTERNAL_TOPICS:
                answers[key] = ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, "")
                continue
            items[key] = pb.DeleteRecordsRequest.Partition(
                topic=topic.name, partition=wanted.partition_index, before_offset=wanted.offset
            )
    to_the_end = [key for key, item in items.items() if item.before_offset == _HIGH_WATERMARK]
    for key, end in (await _high_watermarks(call, to_the_end)).items():
        if isinstance(end, ApiError) or end.error_code:
            # A new leader may not know the end yet. An admin client understands only this code for that.
            is_new = end.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            code = ErrorCode.LEADER_NOT_AVAILABLE if is_new else error_code_of(end.error_code)
            answers[key] = ApiError(code, "")
            del items[key]
        else:
            items[key].before_offset = end.offset
    timeout_ms = milliseconds(request.timeout)
    found = await call.cluster.rows_of_leaders(
        items,
        lambda storage: storage.DeleteRecords,
        lambda partitions: pb.DeleteRecordsRequest(partitions=partitions, timeout_ms=timeout_ms),
    )
    answers.update(found)
    types = call.types
    return types.DeleteRecordsResponse(
        topics=tuple(
            types.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    types.DeleteRecordsPartitionResult(
                        partition_index=wanted.partition_index,
                        low_watermark=-1
                        if isinstance(answer, ApiError) or answer.error_code
                        else answer.low_watermark,
                        error_code=answer.error_code,
                    )
                    for wanted in topic.partitions
                    for answer in (answers[topic.name, wanted.partition_index],)
                ),
            )
            for topic in request.topics
        ),
    )


async def _high_watermarks(
    call: Call, keys: Sequence[TopicPartition]
) -> dict[TopicPartition, pb.ListedOffset | ApiError]:
    """Return the high watermark of each partition, for a DeleteRecords that asks to delete all (-1).

    They are looked up once, and a repetition uses the same offsets. So a copy that was held up on its way cannot delete
    what was written since.
    """
    items = {
        (topic, partition): pb.ListOffsetsPartition(
            topic=topic, partition=partition, timestamp_ms=_LATEST, current_leader_epoch=-1
        )
        for topic, partition in keys
    }
    return await _listed_offsets(call, items)


async def _listed_offsets(
    call: Call,
    items: Mapping[TopicPartition, pb.ListOffsetsPartition],
    isolation_level: types_pb2.IsolationLevel = types_pb2.READ_UNCOMMITTED,
) -> dict[TopicPartition, pb.ListedOffset | ApiError]:
    return await call.cluster.rows_of_leaders(
        items,
        lambda storage: storage.ListOffsets,
        lambda partitions: pb.ListOffsetsRequest(
            isolation_level=isolation_level, partitions=partitions
        ),
    )
