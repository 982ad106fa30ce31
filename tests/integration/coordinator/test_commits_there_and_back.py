"""A shard of groups that went to another coordinator and came back, and what was still on its way to the first one."""

import asyncio
import uuid

from tests.integration.coordinator.group_client import GroupClient
from tests.integration.coordinator.whole_log import whole_log

from oncelog.api.v1 import controller_pb2
from oncelog.errors import ErrorCode
from oncelog.rpc.metadata import GROUP
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.wiring import build_coordinator

OTHER = 2


async def test_a_late_commit_does_not_set_back_a_group_that_returned(tmp_path):
    """The listener asked the other coordinator meanwhile, and its client has committed more there. The first copy was
    on a connection that the network held up."""

    async with whole_log(tmp_path, group_initial_rebalance_delay_ms=0) as log:
        shards = log.role.group_shards
        other = build_coordinator(CoordinatorSettings(), OTHER, log.follower, shards._directory)
        node = controller_pb2.Node(node_id=OTHER, roles=[controller_pb2.ROLE_COORDINATOR])
        await log.controller.RegisterNode(
            controller_pb2.RegisterNodeRequest(node=node, incarnation_id=uuid.uuid4().hex)
        )
        await other.start()
        await log.follower.wait_for(lambda image: shards_of(image, OTHER))
        group_id = next(
            name
            for name in map(str, range(1_000))
            if log.follower.image.shard_for(GROUP, name).coordinator == OTHER
        )
        await log.controller.DrainNode(controller_pb2.DrainNodeRequest(node_id=OTHER))
        client = GroupClient(log, group_id)
        await settled(log, client, 1)
        first_epoch = epoch_of(log, client)
        assert await client.commit_alone(10, 5, first_epoch) == [0]
        await log.controller.DrainNode(controller_pb2.DrainNodeRequest(node_id=OTHER, cancel=True))
        client.groups = other.group_servicer
        await settled(log, client, OTHER)
        for offset, request in ((20, 6), (30, 7)):
            assert await client.commit_alone(offset, request, epoch_of(log, client)) == [0]
        await log.controller.DrainNode(controller_pb2.DrainNodeRequest(node_id=OTHER))
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
    async with asyncio.timeout(10):
        while (await client.describe()).error_code in (14, 15, 16):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
