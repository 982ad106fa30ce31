"""What is no request, or a handler that fails, costs its own connection and no other."""

import asyncio
import contextlib
import logging
import random
import struct

import pytest
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_world import World, eventually
from tests.worlds.listener.wire_client import WireClient, is_alive

from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.versions import APIS

PRODUCE, METADATA, END_TXN = 0, 3, 26


@pytest.mark.parametrize(
    "frame",
    [
        framed([b""]),
        framed([b"\0"]),
        struct.pack(">i", -5),
        struct.pack(">i", 2**31 - 1),
        framed([struct.pack(">hhi", 999, 0, 1) + b"\xff\xff"]),
        framed([struct.pack(">hhi", -7, 0, 1) + b"\xff\xff"]),
        framed([struct.pack(">hhi", METADATA, 99, 1) + b"\xff\xff"]),
        framed([struct.pack(">hhi", METADATA, -1, 1) + b"\xff\xff"]),
        framed([struct.pack(">hhi", PRODUCE, 2, 1) + b"\xff\xff" + bytes(40)]),
        framed([struct.pack(">hhi", PRODUCE, 7, 1) + b"\x7f\xff" + bytes(40)]),
        framed([struct.pack(">hhi", METADATA, 9, 1) + b"\xff\xff\xff\xff\xff\xff\x0f"]),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),
    ],
)
async def test_what_is_no_request_closes_its_connection_with_one_line(frame, caplog):
    caplog.set_level(logging.WARNING, "oncelog.listener")
    async with World(topic("orders", 1)).listening() as role:
        client = await WireClient.connect(role.port)
        client.writer.write(frame)
        assert await client.is_closed_by_peer()
        assert sum(role.counters.request_failures.values()) == 1
        assert await is_alive(role)
    (record,) = caplog.records
    assert record.getMessage().startswith("127.0.0.1:")
    assert "api key" in record.getMessage()


@pytest.fixture
def quiet():
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


async def answered_and_closed(role, data):
    client = await WireClient.connect(role.port)
    client.writer.write(data)
    client.writer.write_eof()
    with contextlib.suppress(ConnectionResetError):
        await asyncio.wait_for(client.reader.read(), 30)
    client.close()


async def is_well(role):
    assert await is_alive(role)
    await eventually(lambda: role.counters.connections_open == 0)
    assert role.queued_bytes == 0


@pytest.mark.usefixtures("quiet")
async def test_no_key_and_no_version_hurts():
    """Every key a frame can name, at versions in and out of its range, with an empty body."""
    async with World(topic("orders", 1)).listening() as role:
        for key in [*range(-2, 100), 20_000, 20_005, 20_006, 32_767, -32_768]:
            for version in (-1, 0, 1, 50):
                frame = framed([struct.pack(">hhi", key, version, 5) + b"\xff\xff\0"])
                await answered_and_closed(role, frame)
        await is_well(role)


@pytest.mark.usefixtures("quiet")
async def test_random_bytes_leave_the_listener_well():
    chance = random.Random(20_240)

    def noise():
        if chance.random() < 0.3:
            return chance.randbytes(chance.randrange(1, 300))
        api = chance.choice(list(APIS.values()))
        version = chance.randrange(api.served_min, api.max_version + 1)
        head = write_request_head(api.key, version, 1, "x", api.is_flexible(version))
        frame = framed([head, chance.randbytes(chance.randrange(0, 100))])
        return frame[: chance.randrange(1, len(frame) + 1)]

    async with World(topic("orders", 1)).listening() as role:
        for _ in range(300):
            await answered_and_closed(role, noise())
        await is_well(role)


async def test_a_failing_handler_ends_its_connection_and_no_other(world, caplog):
    world.coordinator.canned["EndTxn"] = AssertionError("we are wrong")
    async with world.connected() as (role, client):
        client.send(
            END_TXN, 1, transactional_id="t", producer_id=1, producer_epoch=0, committed=True
        )
        assert await client.is_closed_by_peer()
        assert role.counters.request_failures == {"EndTxn": 1}
        assert await is_alive(role)
    assert "we are wrong" in caplog.text
