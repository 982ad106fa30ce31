"""A group coordinator behind a listener that answers with one member and remembers what is committed."""

# ruff: noqa: N802 (the methods' names are the contract's)

from tests.worlds.listener.fake_roles import FakeRole, FakeStorage
from tests.worlds.listener.listener_image import topic

from oncelog.api.v1 import groups_pb2


class FakeGroupCoordinator(FakeRole):
    """Of one group per id, with one member; what is committed is remembered."""

    WITH_A_GATE = ("JoinGroup",)

    def __init__(self):
        super().__init__()
        self.offsets = {}
        self.gate = None
        self.joins_waiting = 0

    WriteTxnMarkers = FakeStorage.WriteTxnMarkers

    async def JoinGroup(self, request, context):
        canned = self.take("JoinGroup", request)
        if self.gate is not None:
            self.joins_waiting += 1
            await self.gate.wait()
            self.joins_waiting -= 1
        if canned is not None:
            return canned
        response = groups_pb2.JoinGroupResponse(
            generation_id=3,
            protocol_type=request.protocol_type,
            protocol_name=request.protocols[0].name if request.protocols else "",
            leader="m-1",
            member_id="m-1",
        )
        response.members.add(member_id="m-1", metadata=b"one")
        response.members.add(member_id="m-2", group_instance_id="fixed", metadata=b"two")
        return response

    async def SyncGroup(self, request, context):
        return groups_pb2.SyncGroupResponse(
            protocol_type="consumer", protocol_name="range", assignment=b"mine"
        )

    async def GroupHeartbeat(self, request, context):
        return groups_pb2.GroupHeartbeatResponse()

    async def ConsumerGroupHeartbeat(self, request, context):
        response = groups_pb2.ConsumerGroupHeartbeatResponse(
            member_id=request.member_id,
            member_epoch=3,
            heartbeat_interval_ms=5_000,
            assignment_present=True,
        )
        response.assignment.add(topic_id=topic("orders", 1).topic_id, partitions=[0])
        return response

    async def LeaveGroup(self, request, context):
        response = groups_pb2.LeaveGroupResponse()
        for one in request.members:
            left = response.members.add(member_id=one.member_id)
            if one.HasField("group_instance_id"):
                left.group_instance_id = one.group_instance_id
        return response

    async def OffsetCommit(self, request, context):
        return self._committed(request)

    async def TxnOffsetCommit(self, request, context):
        return self._committed(request)

    def _committed(self, request):
        response = groups_pb2.OffsetCommitResponse()
        for one in request.offsets:
            self.offsets[request.group_id, one.topic, one.partition] = one
            response.partitions.add(topic=one.topic, partition=one.partition)
        return response

    async def OffsetFetch(self, request, context):
        response = groups_pb2.OffsetFetchResponse()
        for wanted in request.groups:
            group = response.groups.add(group_id=wanted.group_id)
            named = {(one.topic, number) for one in wanted.topics for number in one.partitions}
            for (group_id, topic_name, number), one in self.offsets.items():
                key = (topic_name, number)
                if group_id == wanted.group_id and (wanted.all_topics or key in named):
                    group.offsets.add(
                        topic=topic_name,
                        partition=number,
                        offset=one.offset,
                        leader_epoch=one.leader_epoch,
                        metadata=one.metadata,
                    )
                    named.discard(key)
            for topic_name, number in sorted(named):
                group.offsets.add(topic=topic_name, partition=number, offset=-1, leader_epoch=-1)
        return response

    async def OffsetDelete(self, request, context):
        response = groups_pb2.OffsetDeleteResponse()
        for one in request.topics:
            for number in one.partitions:
                response.partitions.add(topic=one.topic, partition=number)
        return response

    async def DescribeGroups(self, request, context):
        response = groups_pb2.DescribeGroupsResponse()
        for group_id in request.group_ids:
            group = response.groups.add(
                group_id=group_id, state="Stable", protocol_type="consumer", protocol_name="range"
            )
            group.members.add(
                member_id="m-1",
                client_id="app",
                client_host="/127.0.0.1",
                metadata=b"one",
                assignment=b"mine",
            )
        return response

    async def ListGroups(self, request, context):
        response = groups_pb2.ListGroupsResponse()
        response.groups.add(
            group_id="billing", protocol_type="consumer", state="Stable", group_type="classic"
        )
        return response

    async def DeleteGroups(self, request, context):
        response = groups_pb2.DeleteGroupsResponse()
        for group_id in request.group_ids:
            response.results.add(group_id=group_id)
        return response
