"""The consumer's requests as Kafka's messages, and the answers as values of the core.

A Fetch names a topic by its id where both sides know one: then a topic that was made again is another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from oncelog.client.core.addresses import Address
from oncelog.client.core.cluster_view import Leader, Node
from oncelog.client.core.consumer_settings import ConsumerSettings
from oncelog.client.core.fetch_session import Asked
from oncelog.client.core.membership import Heartbeat, HeartbeatAnswer, Target
from oncelog.client.core.partition_state import (
    Fetch,
    FetchAnswer,
    FetchPart,
    Lookup,
    Validation,
)
from oncelog.client.core.spoken import BY_NAME_MAX
from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.core.visibility import AbortedTransaction
from oncelog.errors import ErrorCode, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

    _Fetched = kafka.FetchResponseTypes.PartitionData

CONSUMER_REPLICA = -1
_LEFT_OUT = FetchAnswer(ErrorCode.NETWORK_EXCEPTION)


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found


# ---------------------------------------------------------------------------------------------- Fetch


def fetch_version_max(fetch: Fetch) -> int | None:
    """Return the newest version of Fetch to use; None: any. Without topic ids it is the last version with names."""
    has_ids = all(part.topic_id for part in fetch.parts)
    return None if has_ids else BY_NAME_MAX[versions.FETCH]


def fetch_request(
    types: kafka.FetchRequestTypes, settings: ConsumerSettings, max_bytes: int, asked: Asked
) -> kafka.FetchRequest:
    topics: dict[tuple[str, bytes], list[kafka.FetchRequestTypes.FetchPartition]] = {}
    for part in asked.parts:
        one = types.FetchPartition(
            partition=part.partition.partition,
            current_leader_epoch=part.leader_epoch,
            fetch_offset=part.offset,
            partition_max_bytes=part.max_bytes,
        )
        topics.setdefault((part.partition.topic, part.topic_id), []).append(one)
    forgotten: dict[tuple[str, bytes], list[int]] = {}
    for part in asked.forgotten:
        key = (part.partition.topic, part.topic_id)
        forgotten.setdefault(key, []).append(part.partition.partition)
    return types.FetchRequest(
        max_wait=timedelta(milliseconds=settings.fetch_max_wait_ms),
        min_bytes=settings.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=settings.isolation,
        session_id=asked.session_id,
        session_epoch=asked.epoch,
        topics=tuple(
            types.FetchTopic(topic=name, topic_id=_uuid(topic_id), partitions=tuple(parts))
            for (name, topic_id), parts in topics.items()
        ),
        forgotten_topics_data=tuple(
            types.ForgottenTopic(topic=name, topic_id=_uuid(topic_id), partitions=tuple(numbers))
            for (name, topic_id), numbers in forgotten.items()
        ),
        rack_id=settings.client_rack,
    )


def _uuid(topic_id: bytes) -> UUID | None:
    return UUID(bytes=topic_id) if topic_id else None


def fetched_partitions(response: kafka.FetchResponse, fetch: Fetch) -> dict[Partition, _Fetched]:
    """Return the parts of a Fetch answer by partition."""
    names = _names(fetch)
    return {
        Partition(_name(topic, names), one.partition_index): one
        for topic in response.responses
        for one in topic.partitions
    }


def fetch_answers(
    error: ErrorCode, told: Mapping[Partition, _Fetched], fetch: Fetch, asked: Asked
) -> list[tuple[FetchPart, FetchAnswer | None]]:
    """Return each part of the fetch with its answer; None: the session has nothing new for the partition.

    An answer outside of a session contains all partitions; one that is missing is asked for again.
    """
    otherwise = _LEFT_OUT if asked.is_whole else None
    if error is not ErrorCode.NONE:
        otherwise = FetchAnswer(error)
    return [
        (part, otherwise if (one := told.get(part.partition)) is None else _fetch_answer(one))
        for part in fetch.parts
    ]


def _fetch_answer(one: _Fetched) -> FetchAnswer:
    return FetchAnswer(
        error_code_of(one.error_code),
        one.records or b"",
        tuple(
            AbortedTransaction(aborted.producer_id, aborted.first_offset)
            for aborted in one.aborted_transactions or ()
        ),
        one.high_watermark,
        one.last_stable_offset,
        one.log_start_offset,
        one.preferred_read_replica,
    )


def _names(fetch: Fetch) -> dict[bytes, str]:
    """Return topic id → name, for the topics of the fetch."""
    return {part.topic_id: part.partition.topic for part in fetch.parts if part.topic_id}


def _name(
    topic: kafka.FetchResponseTypes.FetchableTopicResponse, names: Mapping[bytes, str]
) -> str:
    """Return the name of a topic in an answer, which has its name or its id."""
    if hasattr(topic, "topic"):
        return topic.topic
    return names.get(topic.topic_id.bytes, "") if topic.topic_id is not None else ""


def fetch_leaders(
    response: kafka.FetchResponse, told: Mapping[Partition, _Fetched]
) -> list[tuple[Partition, Leader, Node | None]]:
    """Return the newer leaders that a Fetch answer names (KIP-951), each with its node. None: the answer does not have
    the node's address."""
    nodes = {
        one.node_id: Node(one.node_id, Address(one.host, one.port), one.rack)
        for one in (response.node_endpoints if hasattr(response, "node_endpoints") else ())
    }
    return [
        (
            partition,
            Leader(one.current_leader.leader_id, one.current_leader.leader_epoch),
            nodes.get(one.current_leader.leader_id),
        )
        for partition, one in told.items()
        if one.current_leader.leader_id >= 0
    ]


# ---------------------------------------------------------------------------------------------- offsets of the log


def list_offsets_request(
    types: kafka.ListOffsetsRequestTypes,
    isolation: int,
    wanted: Sequence[tuple[Partition, int, int]],
    timeout_ms: int,
) -> kafka.ListOffsetsRequest:
    """Return a ListOffsets request. `wanted`: partition, timestamp in ms, leader's epoch."""
    topics: dict[str, list[kafka.ListOffsetsRequestTypes.ListOffsetsPartition]] = {}
    for partition, timestamp_ms, leader_epoch in wanted:
        one = types.ListOffsetsPartition(
            partition_index=partition.partition,
            current_leader_epoch=leader_epoch,
            timestamp=timestamp_ms,
        )
        topics.setdefault(partition.topic, []).append(one)
    return types.ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA,
        isolation_level=isolation,
        topics=tuple(
            types.ListOffsetsTopic(name=name, partitions=tuple(parts))
            for name, parts in topics.items()
        ),
        timeout=timedelta(milliseconds=timeout_ms),
    )


def listed_offsets(
    response: kafka.ListOffsetsResponse,
) -> dict[Partition, kafka.ListOffsetsResponseTypes.ListOffsetsPartitionResponse]:
    """Return the rows of a ListOffsets answer by partition: `error_code`, `offset`, `timestamp` and `leader_epoch`."""
    return {
        Partition(topic.name, one.partition_index): one
        for topic in response.topics
        for one in topic.partitions
    }


def epochs_request(
    types: kafka.OffsetForLeaderEpochRequestTypes, checks: Sequence[Validation]
) -> kafka.OffsetForLeaderEpochRequest:
    topics: dict[str, list[kafka.OffsetForLeaderEpochRequestTypes.OffsetForLeaderPartition]] = {}
    for check in checks:
        one = types.OffsetForLeaderPartition(
            partition=check.partition.partition,
            current_leader_epoch=check.leader_epoch,
            leader_epoch=check.offset_epoch,
        )
        topics.setdefault(check.partition.topic, []).append(one)
    return types.OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA,
        topics=tuple(
            types.OffsetForLeaderTopic(topic=name, partitions=tuple(parts))
            for name, parts in topics.items()
        ),
    )


def epoch_answers(
    response: kafka.OffsetForLeaderEpochResponse, checks: Sequence[Validation]
) -> list[tuple[Validation, ErrorCode, int, int]]:
    """Return a leader's answer to each validation, which asks where a leader epoch ends in its log: error, epoch, end
    offset.
    """
    found = {
        Partition(topic.topic, one.partition): one
        for topic in response.topics
        for one in topic.partitions
    }
    answers: list[tuple[Validation, ErrorCode, int, int]] = []
    for check in checks:
        one = found.get(check.partition)
        if one is None:
            answers.append((check, ErrorCode.NETWORK_EXCEPTION, -1, -1))
        else:
            code = error_code_of(one.error_code)
            answers.append((check, code, one.leader_epoch, one.end_offset))
    return answers


def lookup_answers(
    response: kafka.ListOffsetsResponse, lookups: Sequence[Lookup]
) -> list[tuple[Lookup, ErrorCode, int, int]]:
    """Return a leader's answer to each lookup of an offset by time: error, offset, epoch."""
    found = listed_offsets(response)
    answers: list[tuple[Lookup, ErrorCode, int, int]] = []
    for look in lookups:
        one = found.get(look.partition)
        if one is None:
            answers.append((look, ErrorCode.NETWORK_EXCEPTION, -1, -1))
        else:
            code = error_code_of(one.error_code)
            answers.append((look, code, one.offset, one.leader_epoch))
    return answers


# ---------------------------------------------------------------------------------------------- offsets of the group


def offset_fetch_request(
    types: kafka.OffsetFetchRequestTypes,
    member: GroupMember,
    partitions: Iterable[Partition] | None,
    require_stable: bool,
) -> kafka.OffsetFetchRequest:
    """Return an OffsetFetch request. `partitions` None: all of the group."""
    topics = None
    if partitions is not None:
        topics = tuple(
            types.OffsetFetchRequestTopics(name=name, partition_indexes=tuple(numbers))
            for name, numbers in by_topic(partitions).items()
        )
    group = types.OffsetFetchRequestGroup(
        group_id=member.group_id,
        member_id=member.member_id or None,
        member_epoch=member.generation,
        topics=topics,
    )
    return types.OffsetFetchRequest(groups=(group,), require_stable=require_stable)


def fetched_offsets(
    response: kafka.OffsetFetchResponse,
) -> tuple[ErrorCode, dict[Partition, OffsetToCommit | None]]:
    """Decode an OffsetFetch answer. Return the worst error in it, and the committed offset of each partition; None:
    none is committed."""
    group = response.groups[0]
    worst = error_code_of(group.error_code)
    found: dict[Partition, OffsetToCommit | None] = {}
    for topic in group.topics:
        for one in topic.partitions:
            code = error_code_of(one.error_code)
            if code is not ErrorCode.NONE:
                worst = code
            found[Partition(topic.name, one.partition_index)] = (
                None
                if one.committed_offset < 0
                else OffsetToCommit(
                    one.committed_offset, one.committed_leader_epoch, one.metadata or ""
                )
            )
    return worst, found


def offset_commit_request(
    types: kafka.OffsetCommitRequestTypes,
    member: GroupMember,
    offsets: Mapping[Partition, OffsetToCommit],
) -> kafka.OffsetCommitRequest:
    topics: dict[str, list[kafka.OffsetCommitRequestTypes.OffsetCommitRequestPartition]] = {}
    for partition, offset in offsets.items():
        one = types.OffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=offset.offset,
            committed_leader_epoch=offset.leader_epoch,
            committed_metadata=offset.metadata,
        )
        topics.setdefault(partition.topic, []).append(one)
    return types.OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        topics=tuple(
            types.OffsetCommitRequestTopic(name=name, partitions=tuple(parts))
            for name, parts in topics.items()
        ),
    )


def commit_codes(response: kafka.OffsetCommitResponse) -> dict[Partition, ErrorCode]:
    return {
        Partition(topic.name, one.partition_index): error_code_of(one.error_code)
        for topic in response.topics
        for one in topic.partitions
    }


# ---------------------------------------------------------------------------------------------- the group's membership


def heartbeat_request(
    types: kafka.ConsumerGroupHeartbeatRequestTypes, group_id: str, member_id: str, beat: Heartbeat
) -> kafka.ConsumerGroupHeartbeatRequest:
    owned = None if beat.owned is None else _topic_partitions(types, beat.owned)
    return types.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=beat.member_epoch,
        instance_id=beat.instance_id,
        rack_id=beat.rack_id,
        rebalance_timeout=timedelta(milliseconds=beat.rebalance_timeout_ms),
        subscribed_topic_names=beat.topics,
        subscribed_topic_regex=beat.pattern,
        server_assignor=beat.assignor,
        topic_partitions=owned,
    )


def _topic_partitions(
    types: kafka.ConsumerGroupHeartbeatRequestTypes, owned: Target
) -> tuple[kafka.ConsumerGroupHeartbeatRequestTypes.TopicPartitions, ...]:
    topics: dict[bytes, list[int]] = {}
    for topic_id, number in sorted(owned):
        topics.setdefault(topic_id, []).append(number)
    return tuple(
        types.TopicPartitions(topic_id=UUID(bytes=topic_id), partitions=tuple(numbers))
        for topic_id, numbers in topics.items()
    )


def heartbeat_answer(response: kafka.ConsumerGroupHeartbeatResponse) -> HeartbeatAnswer:
    target = None
    if response.assignment is not None:
        target = frozenset(
            (topic.topic_id.bytes, number)
            for topic in response.assignment.topic_partitions
            if topic.topic_id is not None
            for number in topic.partitions
        )
    return HeartbeatAnswer(
        error_code_of(response.error_code),
        response.error_message or "",
        response.member_epoch,
        int(response.heartbeat_interval / timedelta(milliseconds=1)),
        target,
    )
