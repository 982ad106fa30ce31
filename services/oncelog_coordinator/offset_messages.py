"""Converts protobuf messages about committed offsets: requests into the values that the group coordinator's state
machine takes, and its answers into responses.
"""

from collections.abc import Iterable

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_coordinator.core.group_events import CommitAnswer, OffsetToCommit

OfMember = (
    pb.JoinGroupRequest
    | pb.SyncGroupRequest
    | pb.GroupHeartbeatRequest
    | pb.LeaveGroupRequest.Member
    | pb.OffsetCommitRequest
    | pb.TxnOffsetCommitRequest
)


def instance_id(message: OfMember) -> str | None:
    return message.group_instance_id if message.HasField("group_instance_id") else None


def offsets_to_commit(
    request: pb.OffsetCommitRequest | pb.TxnOffsetCommitRequest,
) -> tuple[OffsetToCommit, ...]:
    return tuple(
        OffsetToCommit(
            Partition(each.topic, each.partition),
            each.offset,
            each.leader_epoch,
            each.metadata,
            each.topic_id,
        )
        for each in request.offsets
    )


def commit_codes(
    answer: CommitAnswer, offsets: tuple[OffsetToCommit, ...]
) -> list[types_pb2.PartitionError]:
    """Return the error code of each partition for the response to a commit.

    Kafka's response has none for the whole request. If the whole request was refused, each partition gets that code.
    """
    if answer.error_code is ErrorCode.NONE:
        return partition_errors(answer.partitions)
    return partition_errors((each.partition, answer.error_code) for each in offsets)


def partition_errors(
    codes: Iterable[tuple[Partition, ErrorCode]],
) -> list[types_pb2.PartitionError]:
    return [
        types_pb2.PartitionError(topic=topic, partition=partition, error_code=error_code)
        for (topic, partition), error_code in codes
    ]


def partitions_of(topics: Iterable[types_pb2.TopicPartitions]) -> Iterable[Partition]:
    return (Partition(each.topic, number) for each in topics for number in each.partitions)
