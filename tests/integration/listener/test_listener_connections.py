"""What happens on one connection: order, long polls, clients that leave, and a listener that stops."""

import asyncio

import pytest
from tests.unit.listener.listener_image import topic
from tests.unit.listener.listener_requests import fetch_request, produce_request
from tests.unit.listener.listener_world import World, eventually
from tests.unit.listener.wire_client import WireClient, is_alive

from oncelog.record.batch import HEADER_BYTES

FETCH, PRODUCE, METADATA, API_VERSIONS, END_TXN = 1, 0, 3, 18, 26


async def test_pipelined_requests_happen_and_are_answered_in_order():
    world = World(topic("orders", 1))
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        schemas = [client.send(PRODUCE, 7, request=produce_request()) for _ in range(20)]
        schemas.append(client.send(METADATA, 1, topics=()))
        answers = [await client.receive(schema) for schema in schemas]
        assert [number for number, _ in answers] == list(range(1, 22))
        offsets = [
            answer.responses[0].partition_responses[0].base_offset for _, answer in answers[:-1]
        ]
        assert offsets == list(range(20))


async def test_a_long_poll_holds_up_what_comes_behind_it():
    world = World(topic("orders", 1))
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        fetch = client.send(FETCH, 11, request=fetch_request())
        versions = client.send(API_VERSIONS, 0)
        await eventually(lambda: world.storage.fetches_waiting == 1)
        assert role.counters.latencies == {}
        other = await WireClient.connect(role.port)
        await other.call(PRODUCE, 7, request=produce_request())
        number, answer = await client.receive(fetch)
        assert number == 1
        assert len(answer.responses[0].partitions[0].records) == HEADER_BYTES
        assert (await client.receive(versions))[0] == 2


async def test_a_client_that_leaves_cancels_its_long_poll():
    world = World(topic("orders", 1))
    async with world.listening() as role:
        before = len(asyncio.all_tasks())
        client = await WireClient.connect(role.port)
        client.send(FETCH, 11, request=fetch_request())
        await eventually(lambda: world.storage.fetches_waiting == 1)
        client.writer.transport.abort()
        await eventually(lambda: world.storage.fetches_waiting == 0)
        await eventually(lambda: len(asyncio.all_tasks()) == before)
        assert role.queued_bytes == 0
        assert role.counters.connections_open == 0


async def test_a_produce_goes_on_when_its_client_leaves():
    world = World(topic("orders", 1))
    world.storage.gate = asyncio.Event()
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        client.send(PRODUCE, 7, request=produce_request())
        await eventually(lambda: world.storage.received("Produce"))
        client.writer.transport.abort()
        await eventually(lambda: role.counters.connections_open == 0)
        world.storage.gate.set()
        await eventually(lambda: world.storage.end_offset("orders", 0) == 1)


async def test_acks_0_has_no_answer_and_closes_on_an_error():
    world = World(topic("orders", 1))
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        client.send(PRODUCE, 7, request=produce_request(acks=0))
        schema = client.send(API_VERSIONS, 0)
        assert (await client.receive(schema))[0] == 2
        client.send(PRODUCE, 7, request=produce_request(acks=0, name="nowhere"))
        assert await client.is_closed_by_peer()
        assert await is_alive(role)


async def test_stopping_answers_what_is_under_way_and_cuts_long_polls():
    world = World(topic("orders", 1))
    world.storage.gate = asyncio.Event()
    async with world.listening() as role:
        producer, fetcher, idle = [await WireClient.connect(role.port) for _ in range(3)]
        await idle.call(API_VERSIONS, 0)
        schema = producer.send(PRODUCE, 7, request=produce_request())
        fetcher.send(FETCH, 11, request=fetch_request())
        await eventually(
            lambda: world.storage.received("Produce") and world.storage.fetches_waiting
        )
        stopping = asyncio.create_task(role.stop())
        assert await idle.is_closed_by_peer()
        assert await fetcher.is_closed_by_peer()
        assert not stopping.done()
        world.storage.gate.set()
        _, answer = await producer.receive(schema)
        assert answer.responses[0].partition_responses[0].error_code == 0
        await asyncio.wait_for(stopping, 5)
        with pytest.raises(ConnectionRefusedError):
            await WireClient.connect(role.port)


async def test_stopping_does_not_wait_forever():
    world = World(topic("orders", 1), stop_grace_ms=100)
    world.storage.gate = asyncio.Event()
    before = asyncio.all_tasks()
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        client.send(PRODUCE, 7, request=produce_request())
        await eventually(lambda: world.storage.received("Produce"))
        await asyncio.wait_for(role.stop(), 5)
        assert await client.is_closed_by_peer()
        assert asyncio.all_tasks() == before
