"""A node and its controllers: registration, heartbeats, failover of the controller, draining, being replaced."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from tests.integration.rpc.scripted_controller import (
    DEADLINE_S,
    Cluster,
    ScriptedController,
    Served,
)

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.errors import ErrorCode, OncelogError
from oncelog.rpc.node import Node
from oncelog.rpc.node_settings import NodeSettings
from oncelog.rpc.sessions import PeerUnavailable


def settings(*controllers, **given):
    addresses = ",".join(controller.address for controller in controllers)
    return NodeSettings(node_id=7, port=0, controllers=addresses, **given)


@asynccontextmanager
async def started(node):
    async with asyncio.timeout(DEADLINE_S):
        await node.start()
    try:
        yield node
    finally:
        await node.stop()


@asynccontextmanager
async def two_controllers():
    cluster = Cluster()
    async with (
        Served(ScriptedController(cluster, 1)) as first,
        Served(ScriptedController(cluster, 2, active=False)) as second,
    ):
        yield cluster, first, second


@asynccontextmanager
async def living_node(**given):
    """The two controllers' cluster and a node that the first of them counts as living."""
    async with (
        two_controllers() as (cluster, first, second),
        started(storage_node(first, second, **given)) as node,
    ):
        await node.ready()
        await cluster.until(lambda: living(cluster))
        yield cluster, first, second, node


def storage_node(*controllers, **given):
    return Node(settings(*controllers, **given), [pb.ROLE_STORAGE])


def living(cluster):
    return 7 in cluster.nodes and not cluster.nodes[7].fenced


async def in_image(node, holds):
    await node.metadata.wait_for(holds, DEADLINE_S)


async def test_a_node_lives_from_its_first_heartbeat():
    async with two_controllers() as (cluster, first, second):
        node = storage_node(second, first, rack="r1")
        node.advertise_kafka("kafka.example", 9093)
        async with started(node):
            assert node.node_epoch == 1
            known = node.metadata.image.nodes[7]
            assert known.fenced
            assert known.rpc_address == node.rpc_address
            assert (known.kafka_host, known.kafka_port, known.rack) == (
                "kafka.example",
                9093,
                "r1",
            )
            assert not cluster.beats
            await node.ready()
            await in_image(node, lambda image: not image.nodes[7].fenced)
            assert cluster.beats[0][1].node_epoch == 1


async def test_a_node_is_ready_when_it_has_what_it_missed():
    async with two_controllers() as (cluster, first, second):
        node, whole = storage_node(first, second), asyncio.Event()
        async with started(node):
            await node.ready(whole.wait)
            await cluster.until(lambda: living(cluster))
            assert not node.server.is_ready
            whole.set()
            async with asyncio.timeout(DEADLINE_S):
                while not node.server.is_ready:  # noqa: ASYNC110
                    await asyncio.sleep(0.005)


async def test_a_node_that_is_not_yet_ready_can_be_drained():
    async with two_controllers() as (cluster, first, second):
        node, whole = storage_node(first, second), asyncio.Event()
        async with started(node):
            await node.ready(whole.wait)
            await cluster.until(lambda: living(cluster))
            cluster.drained.add(7)
            assert await node.drain(DEADLINE_S)
            whole.set()
            assert not node.server.is_ready


async def test_a_node_waits_for_a_controller():
    cluster = Cluster()
    served = Served(ScriptedController(cluster, 1))
    await served.start()
    await served.stop()
    node = storage_node(served)
    start = asyncio.create_task(node.start())
    try:
        done, _ = await asyncio.wait((start,), timeout=0.2)
        assert not done
        async with served:
            async with asyncio.timeout(DEADLINE_S):
                await start
            assert node.node_epoch == 1
            await node.stop()
    finally:
        start.cancel()


async def test_registration_waits_for_the_end_of_the_other_session():
    async with two_controllers() as (_, first, second):
        duplicate = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        first.servicer.register_codes = [duplicate, duplicate, ErrorCode.NOT_CONTROLLER]
        async with started(storage_node(first, second)) as node:
            assert node.node_epoch == 1
            assert not first.servicer.register_codes


async def test_a_refused_registration_is_told():
    async with two_controllers() as (_, first, second):
        first.servicer.register_codes = [ErrorCode.INVALID_REGISTRATION]
        with pytest.raises(OncelogError, match="refuses node 7: INVALID_REGISTRATION"):
            await storage_node(first, second).start()


@pytest.mark.parametrize("how", ["stops", "loses its lease"])
async def test_the_node_follows_the_active_controller(how):
    async with living_node() as (cluster, first, second, node):
        first.servicer.active = False
        second.servicer.active = True
        if how == "stops":
            await first.stop()
        await cluster.until(lambda: cluster.beats[-1][0] == 2)
        await cluster.change(pb.Node(node_id=8))
        await in_image(node, lambda image: 8 in image.nodes)
        assert node.node_epoch == 1
        if how == "stops":
            await first.start()


async def test_a_controller_that_tells_a_wrong_address_is_followed():
    async with living_node() as (cluster, first, second, _):
        second.servicer.rpc_address = "127.0.0.1:1"
        second.servicer.active = True
        await first.stop()
        await cluster.until(lambda: any(node_id == 2 for node_id, _ in cluster.beats))
        assert living(cluster)


async def test_a_node_that_is_not_known_any_more_registers_again():
    async with living_node() as (cluster, _first, _second, node):
        del cluster.nodes[7], cluster.incarnations[7]
        await cluster.until(lambda: living(cluster))
        assert node.node_epoch == 2
        await cluster.until(lambda: cluster.beats[-1][1].node_epoch == 2)


async def test_a_replaced_node_cannot_go_on():
    async with living_node() as (_cluster, first, _second, node):
        first.servicer.heartbeat_codes = [ErrorCode.STALE_BROKER_EPOCH]
        async with asyncio.timeout(DEADLINE_S):
            failure = await node.failure()
        assert "a newer process has taken node id 7" in str(failure)


@pytest.mark.parametrize("told", ["with a heartbeat", "as it registers again"])
async def test_a_node_of_another_history_cannot_go_on(told):
    async with living_node() as (_cluster, first, _second, node):
        first.servicer.register_codes = [ErrorCode.KAFKA_STORAGE_ERROR]
        first.servicer.heartbeat_codes = [
            ErrorCode.KAFKA_STORAGE_ERROR
            if told == "with a heartbeat"
            else ErrorCode.BROKER_ID_NOT_REGISTERED
        ]
        async with asyncio.timeout(DEADLINE_S):
            failure = await node.failure()
        assert "must end: KAFKA_STORAGE_ERROR" in str(failure)


async def test_the_image_stays_while_no_controller_answers():
    async with living_node() as (cluster, first, _second, node):
        await first.stop()
        image = node.metadata.image
        assert 7 in image.nodes
        await cluster.change(pb.Node(node_id=8))
        await first.start()
        await in_image(node, lambda image: 8 in image.nodes)
        assert image.nodes[7].rpc_address == node.rpc_address


async def test_draining_ends_when_nothing_is_left_on_the_node():
    async with living_node() as (cluster, _first, _second, node):
        drain = asyncio.create_task(node.drain(DEADLINE_S))
        await cluster.until(lambda: cluster.beats[-1][1].want_drain)
        assert not drain.done()
        cluster.drained.add(7)
        assert await drain


async def test_draining_gives_up_when_no_controller_is_left():
    async with living_node(drain_silence_ms=200) as (_cluster, first, _second, node):
        await first.stop()
        async with asyncio.timeout(DEADLINE_S):
            assert not await node.drain(10 * DEADLINE_S)
        await first.start()


async def test_draining_goes_on_while_a_controller_cannot_write():
    """Its database may be back in a moment."""
    async with living_node(drain_silence_ms=1500) as (cluster, first, _second, node):
        first.servicer.heartbeat_codes += [ErrorCode.REQUEST_TIMED_OUT] * 1000
        drain = asyncio.create_task(node.drain(DEADLINE_S))
        done, _ = await asyncio.wait((drain,), timeout=3)
        assert not done
        cluster.drained.add(7)
        first.servicer.heartbeat_codes.clear()
        assert await drain


async def test_an_address_in_use_is_told_with_the_way_out():
    async with two_controllers() as (_, first, second):
        port = int(first.address.rpartition(":")[2])
        node = Node(
            NodeSettings(node_id=7, port=port, controllers=second.address), [pb.ROLE_STORAGE]
        )
        with pytest.raises(OncelogError, match=rf"127.0.0.1:{port}.*ONCELOG_NODE_PORT"):
            await node.start()


class LosesItsController(Node):
    """Whose heartbeat fails in the moment that a test chooses."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.lost = asyncio.get_running_loop().create_future()

    async def _beat(self, streams) -> None:
        await self.lost


@pytest.mark.parametrize("turns", range(6))
async def test_a_node_that_loses_its_controller_as_it_stops_stops(turns):
    async with two_controllers() as (_, first, second):
        node = LosesItsController(settings(first, second), [pb.ROLE_STORAGE])
        async with asyncio.timeout(DEADLINE_S):
            await node.start()
            node.lost.set_exception(PeerUnavailable("no answer to a heartbeat"))
            for _ in range(turns):
                await asyncio.sleep(0)
            assert await node.stop() is None
