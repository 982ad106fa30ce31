"""The consumer protocol (KIP-848) in protobuf: requests become events of the group machine; its answers and groups
become messages.
"""

from collections.abc import Callable, Iterable

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.protocol.consumer_protocol import encode_assignment
from oncelog_coordinator.core.consumer_assignors import preferred_assignor
from oncelog_coordinator.core.consumer_group import CONSUMER, ConsumerGroup, Slots, Topics
from oncelog_coordinator.core.group_events import ConsumerHeartbeat, ConsumerHeartbeatAnswer

TopicName = Callable[[bytes], str | None]


def heartbeat_event(
    request_id: int, request: pb.ConsumerGroupHeartbeatRequest, shapes: Topics, topics_version: int
) -> ConsumerHeartbeat:
    def optional(field: str) -> str | None:
        return getattr(request, field) if request.HasField(field) else None

    return ConsumerHeartbeat(
        request_id,
        request.group_id,
        request.member_id,
        request.member_epoch,
        shapes,
        optional("instance_id"),
        optional("rack_id"),
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        tuple(request.subscribed_topic_names) if request.subscription_present else None,
        optional("subscribed_topic_regex"),
        optional("server_assignor"),
        _slots(request.owned) if request.owned_present else None,
        topics_version,
    )


def heartbeat_response(answer: ConsumerHeartbeatAnswer) -> pb.ConsumerGroupHeartbeatResponse:
    return pb.ConsumerGroupHeartbeatResponse(
        error_code=answer.error_code,
        error_message=answer.message,
        member_id=answer.member_id,
        member_epoch=answer.member_epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment_present=answer.assigned is not None,
        assignment=_topics(answer.assigned or ()),
    )


def described_group(group: ConsumerGroup, topic_name: TopicName) -> pb.DescribeGroupsResponse.Group:
    return pb.DescribeGroupsResponse.Group(
        group_id=group.group_id,
        group_type=CONSUMER,
        state=group.state.value,
        protocol_type=CONSUMER,
        protocol_name=preferred_assignor(group),
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        members=[
            pb.DescribeGroupsResponse.Member(
                member_id=member.member_id,
                group_instance_id=member.subscription.instance_id,
                client_id=member.subscription.client_id,
                client_host=member.subscription.client_host,
                assignment=_classic_assignment(member.current.assigned, topic_name),
                member_epoch=member.current.epoch,
                rack_id=member.subscription.rack_id,
                subscribed_topic_names=member.subscription.topics,
                subscribed_topic_regex=member.subscription.pattern or None,
                assigned=_topics(member.current.assigned),
                target=_topics(group.targets.get(member.member_id, ())),
                is_classic=member.is_classic,
            )
            for member in group.members.values()
        ],
    )


def _slots(topics: Iterable[pb.TopicIdPartitions]) -> Slots:
    return frozenset((each.topic_id, number) for each in topics for number in each.partitions)


def _topics(slots: Iterable[tuple[bytes, int]]) -> list[pb.TopicIdPartitions]:
    found: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(slots):
        found.setdefault(topic_id, []).append(partition)
    return [
        pb.TopicIdPartitions(topic_id=topic_id, partitions=partitions)
        for topic_id, partitions in found.items()
    ]


def _classic_assignment(slots: Slots, topic_name: TopicName) -> bytes:
    """Return these partitions in version 0 of the bytes that classic assignors write. A topic that is gone is left
    out.
    """
    named = [(topic_name(topic_id), number) for topic_id, number in sorted(slots)]
    return encode_assignment([(name, number) for name, number in named if name is not None], 0)
