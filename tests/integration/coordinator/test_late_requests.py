"""Ends, commits and heartbeats that were held up on their way, and coordinators that lost their shard (ADR 0018)."""

import asyncio
import contextlib
import uuid

import pytest
from tests.integration.coordinator.group_client import GroupClient
from tests.integration.coordinator.transaction_client import Client
from tests.integration.coordinator.whole_log import whole_log

from oncelog.api.v1 import controller_pb2, types_pb2
from oncelog.api.v1 import groups_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import GROUP, TRANSACTION, MetadataFollower
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.wiring import build_coordinator

ORDERS = ("orders", 0)
OTHER = 2


async def registered(log, follower, directory):
    """A second coordinator, not started yet."""
    node = controller_pb2.Node(node_id=OTHER, roles=[controller_pb2.ROLE_COORDINATOR])
    await log.controller.RegisterNode(
        controller_pb2.RegisterNodeRequest(node=node, incarnation_id=uuid.uuid4().hex)
    )
    return build_coordinator(CoordinatorSettings(), OTHER, follower, directory)


async def drain(log, **fields):
    """Or with `cancel` no longer."""
    await log.controller.DrainNode(controller_pb2.DrainNodeRequest(node_id=OTHER, **fields))


@pytest.mark.parametrize("commit", [True, False])
async def test_it_takes_the_end_of_the_next_one_for_no_repetition(tmp_path, commit):
    """A coordinator lost its shard and does not know it yet. It knows the transaction before as complete; under TV1 the
    next one, which its successor let begin, has the same epoch. Told that this one is committed, its producer would
    lose it."""

    async with whole_log(tmp_path) as log:
        follower = MetadataFollower(OTHER, log.controller)
        following = asyncio.create_task(follower.run())
        directory = log.role.group_shards._directory
        other = await registered(log, follower, directory)
        first_of = directory.coordinator
        directory.coordinator = lambda node_id: (
            DirectStub(other.servicer) if node_id == OTHER else first_of(node_id)
        )
        await follower.wait_for(lambda image: OTHER in image.nodes)
        await other.start()
        name = next(name for name in map(str, range(1_000)) if owner_of(follower, name) == OTHER)
        succeeding, log.client.servicer = log.client.servicer, other.servicer
        identity = await log.identity(name)
        assert (await log.add(name, identity, ORDERS)).error_code == 0
        assert (await log.end(name, identity, commit)).error_code == 0
        await log.until_state(name, "CompleteCommit" if commit else "CompleteAbort")
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await drain(log)
        await log.follower.wait_for(lambda _: owner_of(log.follower, name) != OTHER)
        log.client.servicer = succeeding
        async with asyncio.timeout(30):
            while (await log.add(name, identity, ORDERS)).error_code:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        answer = await Client(other).end(identity, commit, name)
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        assert await log.state(name) == "Ongoing"
        assert (await log.end(name, identity, commit)).error_code == 0
        await other.stop()


def owner_of(follower, name):
    return follower.image.shard_for(TRANSACTION, name).coordinator


async def test_a_late_commit_does_not_set_back_a_group_that_returned(tmp_path):
    """The listener asked the other coordinator meanwhile, and its client has committed more there. The first copy was
    on a connection that the network held up."""

    async with whole_log(tmp_path, group_initial_rebalance_delay_ms=0) as log:
        other = await registered(log, log.follower, log.role.group_shards._directory)
        await other.start()
        await log.follower.wait_for(lambda image: shards_of(image, OTHER))
        group_id = next(
            name
            for name in map(str, range(1_000))
            if log.follower.image.shard_for(GROUP, name).coordinator == OTHER
        )
        await drain(log)
        client = GroupClient(log, group_id)
        await settled(log, client, 1)
        first_epoch = epoch_of(log, client)
        assert await client.commit_alone(10, 5, first_epoch) == [0]
        await drain(log, cancel=True)
        client.groups = other.group_servicer
        await settled(log, client, OTHER)
        for offset, request in ((20, 6), (30, 7)):
            assert await client.commit_alone(offset, request, epoch_of(log, client)) == [0]
        await drain(log)
        client.groups = log.role.group_servicer
        await settled(log, client, 1)
        await other.stop()
        assert await client.commit_alone(20, 6, first_epoch) == [ErrorCode.NOT_COORDINATOR]
        assert await client.fetch() == [(30, 0)]
        assert await client.commit_alone(40, 8, epoch_of(log, client)) == [0]


def shards_of(image, node_id):
    return [shard for shard in image.shards.values() if shard.coordinator == node_id]


def epoch_of(log, client):
    """As a listener knows it now."""
    return log.follower.image.shard_for(GROUP, client.group_id).coordinator_epoch


async def settled(log, client, node_id):
    """The group's shard is loaded there."""
    await log.follower.wait_for(
        lambda image: image.shard_for(GROUP, client.group_id).coordinator == node_id
    )
    async with asyncio.timeout(30):
        while (await client.describe()).error_code in (14, 15, 16):  # noqa: ASYNC110
            await asyncio.sleep(0.005)


class Member:
    """`owned` is what it says that it reads; it gives up what it must only with its next heartbeat."""

    def __init__(self, log, member_id, connection):
        self.log = log
        self.member_id = member_id
        self.connection = connection
        self.epoch = 0
        self.requests = 0
        self.owned = frozenset()

    async def beat(self):
        self.requests += 1
        answer = await self.send(self.requests, self.epoch, self.owned)
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        if answer.assignment_present:
            self.owned = frozenset(
                (one.topic_id, number) for one in answer.assignment for number in one.partitions
            )
        return answer

    async def send(self, request, epoch, owned):
        ids = {topic_id for topic_id, _ in owned}
        return await self.log.role.group_servicer.ConsumerGroupHeartbeat(
            pb.ConsumerGroupHeartbeatRequest(
                group_id="readers",
                member_id=self.member_id,
                member_epoch=epoch,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=["orders"],
                subscription_present=True,
                owned=[
                    pb.TopicIdPartitions(
                        topic_id=each, partitions=[number for id_, number in owned if id_ == each]
                    )
                    for each in ids
                ],
                owned_present=True,
                origin=types_pb2.RequestOrigin(
                    listener=5, connection=self.connection, request=request
                ),
            ),
            None,
        )


async def test_a_late_join_gives_up_nothing_that_its_member_reads(tmp_path):
    """The listener asked again, and the member lives by the second answer. Who joins owns nothing, says the copy; so
    what the member has yet to give up would go to another one at once."""

    async with whole_log(tmp_path) as log:
        first, second = Member(log, "one", 1), Member(log, "two", 2)
        await first.beat()
        copy_of_join = first.requests, 0, frozenset()
        read_by_first = first.owned
        assert len(read_by_first) == 3
        await second.beat()
        assert not second.owned
        for _ in range(2):
            await first.send(*copy_of_join)
            await second.beat()
            assert not second.owned & read_by_first, "which the first one has not given up"
            await first.beat()
        await second.beat()
        assert (len(first.owned), len(second.owned)) == (2, 1)
        assert first.owned | second.owned == read_by_first
