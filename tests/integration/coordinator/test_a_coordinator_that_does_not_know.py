"""A coordinator that lost its shard and does not know it yet: what it answers without writing anything."""

import asyncio
import contextlib
import uuid

import pytest
from tests.integration.coordinator.whole_log import whole_log

from oncelog.api.v1 import controller_pb2, coordinator_pb2
from oncelog.errors import ErrorCode
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import TRANSACTION, MetadataFollower
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.wiring import build_coordinator

ORDERS = ("orders", 0)
OTHER = 2


@pytest.mark.parametrize("commit", [True, False])
async def test_it_takes_the_end_of_the_next_one_for_no_repetition(tmp_path, commit):
    """It knows the transaction before as complete; under TV1 the next one, which its successor let begin, has the same
    epoch. Told that this one is committed, its producer would lose it."""

    async with whole_log(tmp_path) as log:
        follower = MetadataFollower(OTHER, log.controller)
        following = asyncio.create_task(follower.run())
        directory = log.role.group_shards._directory
        other = build_coordinator(CoordinatorSettings(), OTHER, follower, directory)
        first_of = directory.coordinator
        directory.coordinator = lambda node_id: (
            DirectStub(other.servicer) if node_id == OTHER else first_of(node_id)
        )
        node = controller_pb2.Node(node_id=OTHER, roles=[controller_pb2.ROLE_COORDINATOR])
        await log.controller.RegisterNode(
            controller_pb2.RegisterNodeRequest(node=node, incarnation_id=uuid.uuid4().hex)
        )
        await follower.wait_for(lambda image: OTHER in image.nodes)
        await other.start()
        name = next(name for name in map(str, range(1_000)) if owner_of(follower, name) == OTHER)
        succeeding, log.coordinator = log.coordinator, other.servicer
        identity = await log.identity(name)
        assert (await log.add(name, identity, ORDERS)).error_code == 0
        assert (await log.end(name, identity, commit)).error_code == 0
        await log.until_state(name, "CompleteCommit" if commit else "CompleteAbort")
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await log.controller.DrainNode(controller_pb2.DrainNodeRequest(node_id=OTHER))
        await log.follower.wait_for(lambda _: owner_of(log.follower, name) != OTHER)
        log.coordinator = succeeding
        async with asyncio.timeout(5):
            while (await log.add(name, identity, ORDERS)).error_code:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
        answer = await other.servicer.EndTxn(
            coordinator_pb2.EndTxnRequest(
                transactional_id=name,
                producer_id=identity[0],
                producer_epoch=identity[1],
                committed=commit,
            ),
            None,
        )
        assert answer.error_code == ErrorCode.NOT_COORDINATOR
        assert await log.state(name) == "Ongoing"
        assert (await log.end(name, identity, commit)).error_code == 0
        await other.stop()


def owner_of(follower, name):
    return follower.image.shard_for(TRANSACTION, name).coordinator
