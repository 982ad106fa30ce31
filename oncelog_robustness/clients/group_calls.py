"""The requests of a group member to its coordinator, in both group protocols. Each is sent once and is not
repeated.

A client library sends only what is right; here a test can send anything. KafkaError has the error of the
coordinator's response. Lost means that nobody knows whether the request was carried out.
"""

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, NamedTuple

from oncelog.protocol import versions
from oncelog_robustness.clients.membership import Membership
from oncelog_robustness.clients.wire import GROUP, Brokers, by_topic, check, types_of
from oncelog_robustness.history import Partition

CONSUMER_TYPE: Final = "consumer"
JOINS, LEAVES, LEAVES_FOR_A_WHILE = 0, -1, -2
"""Member epochs with a special meaning (KIP-848): join, leave, and leave for a while."""
FETCH_AS_MEMBER_VERSION: Final = 9
"""The first version of OffsetFetch whose request names the member that sends it."""


class Joined(NamedTuple):
    """The response to a JoinGroup of the classic group protocol."""

    generation: int
    member_id: str
    is_leader: bool
    members: tuple[str, ...]
    """The member ids of the generation, if this member is the leader, which must assign partitions to them. For any
    other member it is empty."""
    protocol: str
    must_assign: bool


class HeartbeatAnswer(NamedTuple):
    """The response to a heartbeat of the consumer protocol (KIP-848)."""

    member_id: str
    epoch: int
    interval_ms: int
    assigned: frozenset[Partition] | None
    """The partitions that the member may have; None if that has not changed."""


@dataclass(slots=True)
class Said:
    """The content of a heartbeat of the consumer protocol (KIP-848). A field that is None is left out: it has not
    changed since the last heartbeat."""

    epoch: int
    topics: tuple[str, ...] | None = None
    owned: frozenset[Partition] | None = None
    rebalance_timeout_ms: int = -1
    assignor: str | None = None


class GroupCalls:
    """The requests about one group, to the coordinator of that group."""

    def __init__(self, brokers: Brokers, group: str) -> None:
        self.brokers = brokers
        self.group = group
        self._topic_ids: dict[str, uuid.UUID] = {}

    async def call_coordinator(self, api_key: int, request: Any, version: int | None = None) -> Any:
        """Send any request to the group's coordinator, once, and return the response. Raises Lost, Unreachable, or
        KafkaError when there is no coordinator."""
        coordinator = await self.brokers.coordinator_of(GROUP, self.group)
        return await self.brokers.call(coordinator, api_key, request, version)

    # -------------------------------------------------------------------------------------- the classic protocol

    async def join(
        self,
        member_id: str,
        instance_id: str | None,
        protocols: Mapping[str, bytes],
        timeouts_ms: tuple[int, int],
    ) -> Joined:
        """Send a JoinGroup and return the response. `protocols` are the assignors, each with the member's subscription.
        `timeouts_ms` are the session timeout and the rebalance timeout.

        Raises KafkaError. With MEMBER_ID_REQUIRED its message is the member id with which the client must ask
        again.
        """
        types = types_of(versions.JOIN_GROUP)
        session_ms, rebalance_ms = timeouts_ms
        request = types.JoinGroupRequest(
            group_id=self.group,
            session_timeout=timedelta(milliseconds=session_ms),
            rebalance_timeout=timedelta(milliseconds=rebalance_ms),
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type=CONSUMER_TYPE,
            protocols=tuple(
                types.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in protocols.items()
            ),
        )
        answer = await self.call_coordinator(versions.JOIN_GROUP, request)
        check(answer.error_code.value, answer.member_id)
        is_leader = answer.leader == answer.member_id
        return Joined(
            generation=int(answer.generation_id),
            member_id=answer.member_id,
            is_leader=is_leader,
            members=tuple(one.member_id for one in answer.members),
            protocol=answer.protocol_name or "",
            must_assign=is_leader and not answer.skip_assignment,
        )

    async def sync(self, me: Membership, protocol: str, assignments: Mapping[str, bytes]) -> bytes:
        types = types_of(versions.SYNC_GROUP)
        request = types.SyncGroupRequest(
            group_id=self.group,
            generation_id=me.generation,
            member_id=me.member_id,
            group_instance_id=me.instance_id,
            protocol_type=CONSUMER_TYPE,
            protocol_name=protocol,
            assignments=tuple(
                types.SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ),
        )
        answer = await self.call_coordinator(versions.SYNC_GROUP, request)
        check(answer.error_code.value, "SyncGroup")
        assignment: bytes = answer.assignment
        return assignment

    async def heartbeat(self, me: Membership) -> None:
        request = types_of(versions.HEARTBEAT).HeartbeatRequest(
            group_id=self.group,
            generation_id=me.generation,
            member_id=me.member_id,
            group_instance_id=me.instance_id,
        )
        answer = await self.call_coordinator(versions.HEARTBEAT, request)
        check(answer.error_code.value, "Heartbeat")

    async def leave(self, member_id: str, instance_id: str | None) -> None:
        types = types_of(versions.LEAVE_GROUP)
        leaving = types.MemberIdentity(member_id=member_id, group_instance_id=instance_id)
        request = types.LeaveGroupRequest(group_id=self.group, members=(leaving,))
        answer = await self.call_coordinator(versions.LEAVE_GROUP, request)
        check(answer.error_code.value, "LeaveGroup")
        for one in answer.members:
            check(one.error_code.value, "LeaveGroup")

    # ------------------------------------------------------------------------------------- the consumer protocol

    async def say(self, member_id: str, instance_id: str | None, said: Said) -> HeartbeatAnswer:
        """Send a heartbeat of the consumer protocol and return the response. Raises KafkaError with the
        coordinator's error, or if a topic that the heartbeat names does not exist."""
        types = types_of(versions.CONSUMER_GROUP_HEARTBEAT)
        owned_of = None if said.owned is None else by_topic(sorted(said.owned))
        for topic in (*(said.topics or ()), *(owned_of or ())):
            if topic not in self._topic_ids:
                self._topic_ids[topic] = await self.brokers.topic_id(topic)
        owned = None
        if owned_of is not None:
            owned = tuple(
                types.TopicPartitions(topic_id=self._topic_ids[topic], partitions=tuple(numbers))
                for topic, numbers in owned_of.items()
            )
        request = types.ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member_id,
            member_epoch=said.epoch,
            instance_id=instance_id,
            rack_id=None,
            rebalance_timeout=timedelta(milliseconds=said.rebalance_timeout_ms),
            subscribed_topic_names=said.topics,
            server_assignor=said.assignor,
            topic_partitions=owned,
        )
        answer = await self.call_coordinator(versions.CONSUMER_GROUP_HEARTBEAT, request)
        check(answer.error_code.value, answer.error_message or "")
        return HeartbeatAnswer(
            member_id=answer.member_id or member_id,
            epoch=int(answer.member_epoch),
            interval_ms=int(answer.heartbeat_interval / timedelta(milliseconds=1)),
            assigned=None if answer.assignment is None else self._named(answer.assignment),
        )

    def _named(self, assignment: Any) -> frozenset[Partition]:
        """Return the assigned partitions with their topics' names. The response has ids of topics; topics that no
        heartbeat of this client named are left out."""
        names = {topic_id: topic for topic, topic_id in self._topic_ids.items()}
        return frozenset(
            (names[one.topic_id], int(number))
            for one in assignment.topic_partitions
            if one.topic_id in names
            for number in one.partitions
        )

    # --------------------------------------------------------------------------------------------------- offsets

    async def commit(self, me: Membership, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets as this member. Raises KafkaError with the first error among the partitions."""
        types = types_of(versions.OFFSET_COMMIT)
        request = types.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=me.generation,
            member_id=me.member_id,
            group_instance_id=me.instance_id,
            topics=tuple(
                types.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=tuple(
                        types.OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[(topic, number)],
                            committed_metadata="",
                        )
                        for number in numbers
                    ),
                )
                for topic, numbers in by_topic(list(offsets)).items()
            ),
        )
        answer = await self.call_coordinator(versions.OFFSET_COMMIT, request)
        for topic in answer.topics:
            for one in topic.partitions:
                check(one.error_code.value, f"OffsetCommit {topic.name} {one.partition_index}")

    async def committed_to(
        self, me: Membership, partitions: Sequence[Partition]
    ) -> dict[Partition, int]:
        """Return the group's committed offset of each partition, -1 where it has none, fetched in the name of a
        member (KIP-848). Raises KafkaError also while a transaction's offset is pending."""
        types = types_of(versions.OFFSET_FETCH, FETCH_AS_MEMBER_VERSION)
        group_request = types.OffsetFetchRequestGroup(
            group_id=self.group,
            member_id=me.member_id,
            member_epoch=me.generation,
            topics=tuple(
                types.OffsetFetchRequestTopics(name=topic, partition_indexes=tuple(numbers))
                for topic, numbers in by_topic(partitions).items()
            ),
        )
        request = types.OffsetFetchRequest(groups=(group_request,), require_stable=True)
        answer = await self.call_coordinator(
            versions.OFFSET_FETCH, request, FETCH_AS_MEMBER_VERSION
        )
        (group,) = answer.groups
        check(group.error_code.value, f"offsets of {self.group}")
        found: dict[Partition, int] = {}
        for topic in group.topics:
            for one in topic.partitions:
                check(one.error_code.value, f"offset of {self.group} in {topic.name}")
                found[(str(topic.name), int(one.partition_index))] = int(one.committed_offset)
        return found

    async def delete_offset(self, partition: Partition) -> None:
        types = types_of(versions.OFFSET_DELETE)
        topic, number = partition
        wanted = types.OffsetDeleteRequestPartition(partition_index=number)
        request = types.OffsetDeleteRequest(
            group_id=self.group,
            topics=(types.OffsetDeleteRequestTopic(name=topic, partitions=(wanted,)),),
        )
        answer = await self.call_coordinator(versions.OFFSET_DELETE, request)
        check(answer.error_code.value, "OffsetDelete")
        for one in answer.topics:
            for result in one.partitions:
                check(result.error_code.value, f"OffsetDelete {partition}")

    async def delete(self) -> None:
        request = types_of(versions.DELETE_GROUPS).DeleteGroupsRequest(groups_names=(self.group,))
        answer = await self.call_coordinator(versions.DELETE_GROUPS, request)
        check(answer.results[0].error_code.value, "DeleteGroups")

    # ----------------------------------------------------------------------------------------------------- views

    async def members(self) -> Collection[str]:
        """Return the member ids of the group, whichever of the two group protocols they speak, by DescribeGroups
        and ConsumerGroupDescribe."""
        types = types_of(versions.DESCRIBE_GROUPS)
        request = types.DescribeGroupsRequest(
            groups=(self.group,), include_authorized_operations=False
        )
        answer = await self.call_coordinator(versions.DESCRIBE_GROUPS, request)
        found = [one.member_id for one in answer.groups[0].members]
        types = types_of(versions.CONSUMER_GROUP_DESCRIBE)
        request = types.ConsumerGroupDescribeRequest(
            group_ids=(self.group,), include_authorized_operations=False
        )
        answer = await self.call_coordinator(versions.CONSUMER_GROUP_DESCRIBE, request)
        return [*found, *(one.member_id for one in answer.groups[0].members)]

    async def listed(self, kinds: Sequence[str]) -> Collection[str]:
        """Return the ids of all groups in the cluster whose type is one of `kinds`, such as `classic`. All groups,
        if `kinds` is empty."""
        request = types_of(versions.LIST_GROUPS).ListGroupsRequest(
            states_filter=(), types_filter=tuple(kinds)
        )
        answer = await self.brokers.call_any(versions.LIST_GROUPS, request)
        check(answer.error_code.value, "ListGroups")
        return [one.group_id for one in answer.groups]
