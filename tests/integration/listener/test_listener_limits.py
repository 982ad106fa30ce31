"""How long a connection may idle, how many there may be, and how much of their bytes is held."""

import asyncio
import struct

from tests.unit.listener.listener_image import topic
from tests.unit.listener.listener_requests import batch, fetch_request, produce_request
from tests.unit.listener.listener_world import World, eventually
from tests.unit.listener.wire_client import WireClient, is_alive

FETCH, PRODUCE, METADATA, API_VERSIONS, END_TXN = 1, 0, 3, 18, 26


async def test_half_a_frame_byte_by_byte_does_not_keep_a_connection():
    world = World(topic("orders", 1), connection_idle_max_ms=200)
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        client.writer.write(struct.pack(">i", 1_000))
        closing = asyncio.ensure_future(client.is_closed_by_peer())
        while not closing.done():
            client.writer.write(b"x")
            await asyncio.wait([closing], timeout=0.02)
        assert closing.result()
        assert role.counters.connections_idle_closed == 1
        await eventually(lambda: role.queued_bytes == 0)


async def test_a_long_poll_is_not_idle():
    world = World(topic("orders", 1), connection_idle_max_ms=100)
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        await client.call(FETCH, 11, request=fetch_request(max_wait_ms=400))
        assert role.counters.connections_idle_closed == 0


async def test_one_connection_too_many_is_closed_at_once():
    world = World(topic("orders", 1), connections_max=2)
    async with world.listening() as role:
        clients = [await WireClient.connect(role.port) for _ in range(2)]
        for client in clients:
            await client.call(API_VERSIONS, 0)
        third = await WireClient.connect(role.port)
        assert await third.is_closed_by_peer()
        assert role.counters.connections_refused == 1
        clients[0].close()
        await eventually(lambda: role.counters.connections_open == 1)
        assert await is_alive(role)


async def test_a_connection_with_too_much_waiting_is_not_read_from():
    world = World(
        topic("orders", 1), connection_queue_bytes_max=100_000, connection_queue_requests_max=5
    )
    world.storage.gate = asyncio.Event()
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        schemas = []
        for _ in range(200):
            schemas.append(
                client.send(PRODUCE, 7, request=produce_request(records=[batch(extra=50_000)]))
            )
        await eventually(lambda: role.queued_bytes > 100_000)
        other = await WireClient.connect(role.port)
        for _ in range(50):
            await other.call(API_VERSIONS, 0)
        assert role.queued_bytes < 1_000_000, "one piece of a stream may come after the pause"
        world.storage.gate.set()
        for schema in schemas:
            await client.receive(schema)
        assert world.storage.end_offset("orders", 0) == 200
        assert role.queued_bytes == 0


async def test_halves_of_frames_that_take_all_memory_are_refused():
    world = World(topic("orders", 1), queued_bytes_max=200_000)
    async with world.listening() as role:
        clients = [await WireClient.connect(role.port) for _ in range(10)]
        for client in clients:
            client.writer.write(struct.pack(">i", 100_000) + bytes(60_000))
        await eventually(lambda: role.counters.connections_refused >= 6)
        await eventually(lambda: role.queued_bytes <= 200_000)
        assert await is_alive(role)


async def test_a_client_that_does_not_read_holds_one_answer():
    world = World(topic("orders", 1), connection_idle_max_ms=1_000)
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        await client.call(PRODUCE, 7, request=produce_request(records=[batch(extra=4_000_000)]))
        client.reader._transport.pause_reading()
        for _ in range(20):
            client.send(FETCH, 11, request=fetch_request(max_bytes=1 << 30))
        await eventually(lambda: role.counters.connections_idle_closed == 1)
        assert len(world.storage.received("Fetch")) < 6


async def test_answers_that_nobody_takes_make_later_fetches_smaller():
    world = World(topic("orders", 1), unsent_bytes_max=5_000_000)
    async with world.listening() as role:
        client = await WireClient.connect(role.port)
        await client.call(PRODUCE, 7, request=produce_request(records=[batch(extra=4_000_000)]))
        client.reader._transport.pause_reading()
        client.send(FETCH, 11, request=fetch_request(max_bytes=1 << 30))
        await eventually(lambda: role.unsent.held_bytes > 4_000_000)
        reader = await WireClient.connect(role.port)
        await reader.call(FETCH, 11, request=fetch_request(max_bytes=1 << 30))
        first, second = world.storage.received("Fetch")
        assert first.max_bytes == 5_000_000
        assert second.max_bytes == 5_000_000 - role.unsent.held_bytes
        client.close()
        await eventually(lambda: role.unsent.held_bytes == 0)
