"""Nodes and a real controller: a killed process is fenced by its broken stream, a frozen one by its silence."""

import asyncio
import signal
from contextlib import asynccontextmanager

import pytest
from tests.integration.rpc.peer_process import node_process
from tests.integration.rpc.scripted_controller import DEADLINE_S, Served

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc.node import Node
from oncelog.rpc.node_settings import NodeSettings
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.wiring import build_controller

OBSERVER, OTHER = 7, 8


@asynccontextmanager
async def controller(tmp_path, **settings):
    role = build_controller(
        ControllerSettings(database_url=f"sqlite:///{tmp_path / 'controller.db'}", **settings)
    )
    await role.start()
    try:
        async with Served(role.servicer) as served:
            yield served
    finally:
        await role.stop()


@asynccontextmanager
async def living_node(served, node_id=OBSERVER):
    settings = NodeSettings(node_id=node_id, port=0, controllers=served.address)
    node = Node(settings, [pb.ROLE_STORAGE, pb.ROLE_COORDINATOR])
    async with asyncio.timeout(DEADLINE_S):
        await node.start()
    try:
        await node.ready()
        await until(node, lambda image: not image.nodes[node_id].fenced)
        yield node
    finally:
        await node.stop()


async def until(node, holds):
    await node.metadata.wait_for(holds, DEADLINE_S)


@pytest.mark.parametrize(
    ("number", "settings"),
    [
        # What did not happen would take ten minutes.
        (signal.SIGKILL, {"session_grace_ms": 50, "session_timeout_ms": 600_000}),
        (signal.SIGSTOP, {"session_grace_ms": 600_000, "session_timeout_ms": 1000}),
    ],
)
async def test_a_process_that_is_gone_is_fenced(number, settings, tmp_path):
    async with (
        controller(tmp_path, **settings) as served,
        living_node(served) as node,
        node_process(OTHER, served.address) as other,
    ):
        await until(node, lambda image: OTHER in image.nodes and not image.nodes[OTHER].fenced)
        other.send_signal(number)
        await until(node, lambda image: image.nodes[OTHER].fenced)
        assert not node.metadata.image.nodes[OBSERVER].fenced
        if number == signal.SIGSTOP:
            other.send_signal(signal.SIGCONT)
            await until(node, lambda image: not image.nodes[OTHER].fenced)


async def test_a_restarted_process_takes_the_place_of_the_old_one(tmp_path):
    async with (
        controller(tmp_path, session_grace_ms=200) as served,
        living_node(served) as node,
        node_process(OTHER, served.address) as before,
    ):
        await until(node, lambda image: OTHER in image.nodes)
        node_epoch = node.metadata.image.nodes[OTHER].node_epoch
        before.kill()
        async with node_process(OTHER, served.address):
            await until(
                node,
                lambda image: (
                    image.nodes[OTHER].node_epoch > node_epoch and not image.nodes[OTHER].fenced
                ),
            )


async def test_a_drained_node_gives_its_shards_to_those_that_stay(tmp_path):
    async with controller(tmp_path) as served, living_node(served) as node:
        await until(node, lambda image: bool(image.shards))
        async with living_node(served, OTHER) as other:
            await until(node, lambda image: OTHER in image.nodes)
            assert await node.drain(DEADLINE_S)
            await until(
                other,
                lambda image: {shard.coordinator for shard in image.shards.values()} == {OTHER},
            )
            await node.stop()
            assert await other.drain(DEADLINE_S)


@asynccontextmanager
async def nameless_node(served):
    """A node that was given its id, and has not started."""
    settings = NodeSettings(node_id=0, port=0, controllers=served.address)
    node = Node(settings, [pb.ROLE_MARKER_SENDER])
    try:
        async with asyncio.timeout(DEADLINE_S):
            await node.claim()
        yield node
    finally:
        await node.stop()


async def test_a_node_has_its_given_id_before_anything_is_built(tmp_path):
    async with (
        controller(tmp_path) as served,
        nameless_node(served) as first,
        nameless_node(served) as second,
    ):
        assert second.node_id == first.node_id + 1 > 1001
        metadata = second.metadata
        async with asyncio.timeout(DEADLINE_S):
            await second.start()
        await second.ready()
        await until(second, lambda image: not image.nodes[second.node_id].fenced)
        assert second.metadata is metadata
        assert metadata.image.nodes[second.node_id].rpc_address == second.rpc_address
        assert metadata.image.nodes[first.node_id].fenced


@pytest.mark.parametrize("when", ["before its first image", "before its first heartbeat"])
async def test_a_node_forgotten_while_it_starts_is_registered_again(when, tmp_path):
    async with (
        controller(tmp_path, session_timeout_ms=500) as served,
        living_node(served) as observer,
        nameless_node(served) as node,
    ):
        node_id = node.node_id
        await until(observer, lambda image: node_id in image.nodes)
        node_epoch = observer.metadata.image.nodes[node_id].node_epoch
        if when == "before its first image":
            await until(observer, lambda image: node_id not in image.nodes)
        async with asyncio.timeout(DEADLINE_S):
            await node.start()
        if when == "before its first heartbeat":
            await until(observer, lambda image: node_id not in image.nodes)
        await node.ready()
        await until(
            observer,
            lambda image: node_id in image.nodes and not image.nodes[node_id].fenced,
        )
        assert node.node_id == node_id
        assert observer.metadata.image.nodes[node_id].node_epoch > node_epoch
