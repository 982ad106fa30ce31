"""A listener that is about to stop sends its clients to the others, before it closes their connections."""

import asyncio

import pytest
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import produce_request
from tests.worlds.listener.listener_world import World
from tests.worlds.listener.wire_client import WireClient

from oncelog.api.v1 import controller_pb2
from oncelog.errors import ErrorCode

PRODUCE, METADATA, FIND_COORDINATOR, END_TXN = 0, 3, 10, 26


def _node(node_id, port):
    return controller_pb2.Node(
        node_id=node_id,
        roles=[controller_pb2.ROLE_LISTENER],
        kafka_host="127.0.0.1",
        kafka_port=port,
        node_epoch=node_id,
    )


async def ended(client):
    answer = await client.call(
        END_TXN, 1, transactional_id="pay", producer_id=7, producer_epoch=0, committed=True
    )
    return answer.error_code


@pytest.fixture
async def leaving():
    """A listener, and what another one and a drain do to it."""
    world = World(topic("orders", 1))
    async with world.listening() as role:
        nodes = world.metadata.image.nodes
        nodes[1] = _node(1, role.port)
        client = await WireClient.connect(role.port)

        def leave(*, others):
            if others:
                nodes[2] = _node(2, role.port + 1)
            nodes[1].draining = True

        yield client, leave, role


async def test_a_client_of_a_coordinator_that_stops_looks_for_another(leaving):
    client, leave, _ = leaving
    before = await ended(client)
    assert before != ErrorCode.COORDINATOR_NOT_AVAILABLE
    leave(others=True)
    assert await ended(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    place = await client.call(FIND_COORDINATOR, 2, key="pay", key_type=1)
    assert (place.error_code, place.node_id) == (0, 2)


async def test_a_producer_of_a_listener_that_stops_asks_for_metadata(leaving):
    client, leave, _ = leaving
    leave(others=True)
    answer = await client.call(PRODUCE, 9, request=produce_request(9))
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    found = await client.call(METADATA, 1, topics=())
    assert [one.node_id for one in found.brokers] == [2]


async def test_the_only_listener_serves_until_it_stops(leaving):
    client, leave, _ = leaving
    before = await ended(client)
    leave(others=False)
    assert await ended(client) == before


async def test_a_stop_waits_for_clients_to_be_sent_away(leaving):
    client, leave, role = leaving
    leave(others=True)
    stopping = asyncio.create_task(role.stop())
    assert await ended(client) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert not stopping.done()
    client.writer.close()
    await asyncio.wait_for(stopping, 30)
