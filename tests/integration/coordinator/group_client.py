"""What consumers and producers ask of a group's coordinator, as a listener would call it."""

from contextlib import asynccontextmanager

from tests.integration.coordinator.whole_log import whole_log

from oncelog.api.v1 import coordinator_pb2, storage_pb2, types_pb2
from oncelog.api.v1 import groups_pb2 as pb
from oncelog.ids import shard_of

SHARD_COUNT = 50
TOPIC = "orders"


@asynccontextmanager
async def group_on(folder, group_id="readers", **settings):
    """Every role on this folder, and a client of the group."""
    async with whole_log(folder, **{"group_initial_rebalance_delay_ms": 0} | settings) as log:
        yield log, GroupClient(log, group_id)


class GroupClient:
    def __init__(self, log, group_id="readers"):
        self.log = log
        self.group_id = group_id
        self.groups = log.role.group_servicer
        self.shard = shard_of(group_id, SHARD_COUNT)

    async def join(self, member_id="", instance_id=None, session_timeout_ms=30_000):
        while True:
            answer = await self.groups.JoinGroup(
                pb.JoinGroupRequest(
                    group_id=self.group_id,
                    member_id=member_id,
                    group_instance_id=instance_id,
                    client_id="test",
                    client_host="/127.0.0.1",
                    session_timeout_ms=session_timeout_ms,
                    rebalance_timeout_ms=60_000,
                    protocol_type="consumer",
                    protocols=[pb.GroupProtocol(name="range", metadata=subscription(TOPIC))],
                    requires_known_member_id=instance_id is None,
                    supports_skipping_assignment=True,
                ),
                None,
            )
            if answer.error_code != 79:
                assert answer.error_code == 0, answer
                return answer
            member_id = answer.member_id

    async def sync(self, joined, assignments=None):
        return await self.groups.SyncGroup(
            pb.SyncGroupRequest(
                group_id=self.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
                protocol_type=joined.protocol_type,
                protocol_name=joined.protocol_name,
                assignments=[
                    pb.SyncGroupRequest.Assignment(member_id=member_id, assignment=assignment)
                    for member_id, assignment in (assignments or {}).items()
                ],
            ),
            None,
        )

    async def heartbeat(self, joined):
        answer = await self.groups.GroupHeartbeat(
            pb.GroupHeartbeatRequest(
                group_id=self.group_id,
                generation_id=joined.generation_id,
                member_id=joined.member_id,
            ),
            None,
        )
        return answer.error_code

    async def leave(self, joined):
        answer = await self.groups.LeaveGroup(
            pb.LeaveGroupRequest(
                group_id=self.group_id,
                members=[pb.LeaveGroupRequest.Member(member_id=joined.member_id)],
            ),
            None,
        )
        return [answer.error_code or member.error_code for member in answer.members]

    async def commit(self, joined, offset, generation=None):
        return await self._commit(
            joined.generation_id if generation is None else generation, joined.member_id, offset
        )

    async def commit_alone(self, offset, request=0, coordinator_epoch=None):
        """As the request of this number on a connection, 0: nobody counts; sent to the shard's owner of this epoch."""
        return await self._commit(-1, "", offset, request, coordinator_epoch)

    async def _commit(self, generation, member_id, offset, request=0, coordinator_epoch=None):
        answer = await self.groups.OffsetCommit(
            pb.OffsetCommitRequest(
                group_id=self.group_id,
                generation_id=generation,
                member_id=member_id,
                offsets=[pb.OffsetToCommit(topic=TOPIC, offset=offset, leader_epoch=-1)],
                origin=origin(request, coordinator_epoch),
            ),
            None,
        )
        return [each.error_code for each in answer.partitions]

    async def fetch(self, require_stable=False):
        answer = await self.groups.OffsetFetch(
            pb.OffsetFetchRequest(
                groups=[
                    pb.OffsetFetchRequest.Group(
                        group_id=self.group_id,
                        topics=[types_pb2.TopicPartitions(topic=TOPIC, partitions=[0])],
                    )
                ],
                require_stable=require_stable,
            ),
            None,
        )
        (group,) = answer.groups
        assert group.error_code == 0, group
        return [(each.offset, each.error_code) for each in group.offsets]

    async def add_offsets(self, name, identity):
        answer = await self.log.client.servicer.AddOffsetsToTxn(
            coordinator_pb2.AddOffsetsToTxnRequest(
                transactional_id=name,
                producer_id=identity[0],
                producer_epoch=identity[1],
                group_id=self.group_id,
            ),
            None,
        )
        return answer.error_code

    async def commit_in_transaction(
        self, name, identity, offset, version=0, member=None, request=0
    ):
        answer = await self.groups.TxnOffsetCommit(
            pb.TxnOffsetCommitRequest(
                transactional_id=name,
                producer_id=identity[0],
                producer_epoch=identity[1],
                group_id=self.group_id,
                generation_id=-1 if member is None else member.generation_id,
                member_id="" if member is None else member.member_id,
                offsets=[pb.OffsetToCommit(topic=TOPIC, offset=offset, leader_epoch=-1)],
                client_transaction_version=version,
                origin=origin(request),
            ),
            None,
        )
        return [each.error_code for each in answer.partitions]

    async def describe(self):
        answer = await self.groups.DescribeGroups(
            pb.DescribeGroupsRequest(group_ids=[self.group_id]), None
        )
        return answer.groups[0]

    async def list(self, *states):
        answer = await self.groups.ListGroups(pb.ListGroupsRequest(state_filters=states), None)
        assert answer.error_code == 0, answer
        return list(answer.groups)

    async def delete(self):
        answer = await self.groups.DeleteGroups(
            pb.DeleteGroupsRequest(group_ids=[self.group_id]), None
        )
        return answer.results[0].error_code

    async def marker_to_storage(self):
        answer = await self.log.storage.WriteTxnMarkers(
            storage_pb2.WriteTxnMarkersRequest(
                markers=[
                    storage_pb2.TxnMarker(
                        producer_id=1,
                        producer_epoch=0,
                        commit=True,
                        partitions=[
                            types_pb2.TopicPartition(
                                topic="__consumer_offsets", partition=self.shard
                            )
                        ],
                    )
                ]
            )
        )
        return answer.results[0].partitions[0].error_code


def origin(request, coordinator_epoch=None):
    if not request:
        return None
    return types_pb2.RequestOrigin(
        listener=5, connection=1, request=request, coordinator_epoch=coordinator_epoch
    )


def subscription(*topics):
    """A consumer's subscription, version 0, as the clients encode it."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\0\0" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"
