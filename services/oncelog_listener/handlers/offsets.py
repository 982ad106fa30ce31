"""Offsets of partitions: ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from collections.abc import Sequence
from typing import Any, Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import INTERNAL_TOPICS
from oncelog.protocol.versions import LIST_OFFSETS
from oncelog.security.acl import Operation
from oncelog_listener.call import Call, CloseConnection
from oncelog_listener.cluster import (
    NO_THROTTLE,
    TopicPartition,
    Unanswered,
    milliseconds,
    wire_error,
)
from oncelog_listener.core.error_versions import error_for_version
from oncelog_listener.topic_access import take_refused

_LATEST: Final = -1
_EARLIEST: Final = -2
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_LEADER_EPOCH_FROM: Final = 4
_HIGH_WATERMARK: Final = -1
"""In place of an offset: DeleteRecords of everything."""


async def list_offsets(call: Call) -> Any:
    request = call.request
    isolation_level: Any = request.isolation_level if call.version >= 2 else 0
    if isolation_level not in (types_pb2.READ_UNCOMMITTED, types_pb2.READ_COMMITTED):
        raise CloseConnection(f"isolation level {isolation_level} is neither 0 nor 1")
    items: dict[TopicPartition, Any] = {}
    answers: dict[TopicPartition, Any] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if wanted.timestamp < _LATEST_TIERED:
                answers[key] = Unanswered(ErrorCode.UNSUPPORTED_VERSION, "")
            elif wanted.timestamp == _LATEST_TIERED:
                answers[key] = Unanswered(ErrorCode.NONE, "")
            else:
                items[key] = pb.ListOffsetsPartition(
                    topic=topic.name,
                    partition=wanted.partition_index,
                    # Without a remote store the local log is all there is.
                    timestamp_ms=_EARLIEST
                    if wanted.timestamp == _EARLIEST_LOCAL
                    else wanted.timestamp,
                    current_leader_epoch=wanted.current_leader_epoch
                    if call.version >= _LEADER_EPOCH_FROM
                    else -1,
                )
    answers.update(take_refused(call, Operation.DESCRIBE, items))

    async def ask(storage: Any, partitions: list[Any]) -> Sequence[Any]:
        answer = await call.cluster.ask(
            storage.ListOffsets(
                pb.ListOffsetsRequest(isolation_level=isolation_level, partitions=partitions)
            )
        )
        found: Sequence[Any] = answer.partitions
        return found

    answers.update(await call.cluster.ask_leaders(items, ask))
    types = call.types
    return types.ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            types.ListOffsetsTopicResponse(
                name=topic.name,
                partitions=tuple(
                    _listed(
                        call, wanted.partition_index, answers[topic.name, wanted.partition_index]
                    )
                    for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _listed(call: Call, partition: int, answer: Any) -> Any:
    failed = answer.error_code or isinstance(answer, Unanswered)
    error_code = error_for_version(LIST_OFFSETS, call.version, answer.error_code)
    return call.types.ListOffsetsPartitionResponse(
        partition_index=partition,
        error_code=wire_error(error_code),
        timestamp=-1 if failed else answer.timestamp_ms,
        offset=-1 if failed else answer.offset,
        leader_epoch=-1 if failed else answer.leader_epoch,
    )


async def offset_for_leader_epoch(call: Call) -> Any:
    request = call.request
    items = {
        (topic.topic, wanted.partition): pb.OffsetsForLeaderEpochRequest.Partition(
            topic=topic.topic,
            partition=wanted.partition,
            current_leader_epoch=wanted.current_leader_epoch,
            leader_epoch=wanted.leader_epoch,
        )
        for topic in request.topics
        for wanted in topic.partitions
    }
    refused = take_refused(call, Operation.DESCRIBE, items)

    async def ask(storage: Any, partitions: list[Any]) -> Sequence[Any]:
        answer = await call.cluster.ask(
            storage.OffsetsForLeaderEpoch(pb.OffsetsForLeaderEpochRequest(partitions=partitions))
        )
        found: Sequence[Any] = answer.partitions
        return found

    answers = refused | await call.cluster.ask_leaders(items, ask)
    types = call.types
    return types.OffsetForLeaderEpochResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            types.OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=tuple(
                    _epoch_end(types, wanted.partition, answers[topic.topic, wanted.partition])
                    for wanted in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _epoch_end(types: Any, partition: int, answer: Any) -> Any:
    failed = bool(answer.error_code)
    return types.EpochEndOffset(
        error_code=wire_error(answer.error_code),
        partition=partition,
        leader_epoch=-1 if failed else answer.leader_epoch,
        end_offset=-1 if failed else answer.end_offset,
    )


async def delete_records(call: Call) -> Any:
    request = call.request
    items: dict[TopicPartition, Any] = {}
    answers: dict[TopicPartition, Any] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            key = (topic.name, wanted.partition_index)
            if topic.name in INTERNAL_TOPICS:
                answers[key] = Unanswered(ErrorCode.INVALID_TOPIC_EXCEPTION, "")
                continue
            items[key] = pb.DeleteRecordsRequest.Partition(
                topic=topic.name, partition=wanted.partition_index, before_offset=wanted.offset
            )
    answers.update(take_refused(call, Operation.DELETE, items))
    to_the_end = [key for key, item in items.items() if item.before_offset == _HIGH_WATERMARK]
    for key, end in (await _high_watermarks(call, to_the_end)).items():
        if end.error_code:
            # Of a leader that is too new to know the end, an admin client knows this code only.
            is_new = end.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
            code = ErrorCode.LEADER_NOT_AVAILABLE if is_new else error_code_of(end.error_code)
            answers[key] = Unanswered(code, "")
            del items[key]
        else:
            items[key].before_offset = end.offset

    async def ask(storage: Any, partitions: list[Any]) -> Sequence[Any]:
        answer = await call.cluster.ask(
            storage.DeleteRecords(
                pb.DeleteRecordsRequest(
                    partitions=partitions, timeout_ms=milliseconds(request.timeout)
                )
            )
        )
        found: Sequence[Any] = answer.partitions
        return found

    answers.update(await call.cluster.ask_leaders(items, ask))
    types = call.types
    return types.DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            types.DeleteRecordsTopicResult(
                name=topic.name,
                partitions=tuple(
                    types.DeleteRecordsPartitionResult(
                        partition_index=wanted.partition_index,
                        low_watermark=-1 if answer.error_code else answer.low_watermark,
                        error_code=wire_error(answer.error_code),
                    )
                    for wanted in topic.partitions
                    for answer in (answers[topic.name, wanted.partition_index],)
                ),
            )
            for topic in request.topics
        ),
    )


async def _high_watermarks(call: Call, keys: Sequence[TopicPartition]) -> dict[TopicPartition, Any]:
    """Where "all that is there" ends, found out once: a copy of the request that is held up on its way, while the
    repetition is answered, must not delete what was written since."""

    async def ask(storage: Any, partitions: list[Any]) -> Sequence[Any]:
        answer = await call.cluster.ask(
            storage.ListOffsets(pb.ListOffsetsRequest(partitions=partitions))
        )
        found: Sequence[Any] = answer.partitions
        return found

    items = {
        (topic, partition): pb.ListOffsetsPartition(
            topic=topic, partition=partition, timestamp_ms=_LATEST, current_leader_epoch=-1
        )
        for topic, partition in keys
    }
    return await call.cluster.ask_leaders(items, ask)
