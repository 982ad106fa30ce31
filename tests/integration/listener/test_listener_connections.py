"""What one connection may do to the listener, and what it may not."""

import asyncio
import contextlib
import logging
import random
import socket
import struct
import time
from datetime import timedelta
from types import SimpleNamespace

import pytest
import uvloop
from tests.unit.listener.listener_fakes import WireClient, World, eventually, topic

from oncelog.errors import OncelogError
from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.messages import schema_of
from oncelog.protocol.versions import APIS
from oncelog.record.batch import HEADER, HEADER_BYTES
from oncelog_listener.settings import ListenerSettings
from oncelog_listener.wiring import build_listener

FETCH, PRODUCE, METADATA, API_VERSIONS, END_TXN = 1, 0, 3, 18, 26


def batch(extra=0, attributes=0):
    size = HEADER_BYTES - 12 + extra
    return HEADER.pack(0, size, -1, 2, 0, attributes, 0, 0, 0, -1, -1, -1, 1) + bytes(extra)


def produce_request(version=7, acks=-1, records=None, name="orders", transactional_id=None):
    schema = schema_of(PRODUCE, version)
    types = schema.request_types
    return schema.request(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(seconds=1),
        topic_data=(
            types.TopicProduceData(
                name=name,
                partition_data=(types.PartitionProduceData(index=0, records=records or batch()),),
            ),
        ),
    )


def fetch_request(version=11, max_wait_ms=60_000, offset=0, **fields):
    schema = schema_of(FETCH, version)
    types = schema.request_types
    partition = types.FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=-1
    )
    values = {
        "replica_id": -1,
        "max_wait": timedelta(milliseconds=max_wait_ms),
        "min_bytes": 1,
        "max_bytes": 1 << 20,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": (types.FetchTopic(topic="orders", partitions=(partition,)),),
        "forgotten_topics_data": (),
        "rack_id": "",
    }
    return schema.request(**{**values, **fields})


async def is_alive(role):
    client = await WireClient.connect(role.port)
    answer = await client.call(API_VERSIONS, 0)
    client.close()
    return answer.error_code == 0


def test_pipelined_requests_are_answered_in_order_and_happen_in_order():
    async def scenario():
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

    uvloop.run(scenario())


def test_a_long_poll_holds_up_what_comes_behind_it_and_ends_with_new_data():
    async def scenario():
        world = World(topic("orders", 1))
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            fetch = client.send(FETCH, 11, request=fetch_request())
            versions = client.send(API_VERSIONS, 0)
            await eventually(lambda: world.storage.fetches_waiting == 1)
            assert role.counters.requests == {}
            other = await WireClient.connect(role.port)
            await other.call(PRODUCE, 7, request=produce_request())
            number, answer = await client.receive(fetch)
            assert number == 1
            assert len(answer.responses[0].partitions[0].records) == HEADER_BYTES
            assert (await client.receive(versions))[0] == 2

    uvloop.run(scenario())


def test_a_client_that_leaves_cancels_its_long_poll_and_leaves_nothing_behind():
    async def scenario():
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

    uvloop.run(scenario())


def test_a_produce_goes_on_when_its_client_leaves():
    async def scenario():
        world = World(topic("orders", 1))
        world.storage.gate = asyncio.Event()
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            client.send(PRODUCE, 7, request=produce_request())
            await eventually(lambda: world.storage.asked("Produce"))
            client.writer.transport.abort()
            await eventually(lambda: role.counters.connections_open == 0)
            world.storage.gate.set()
            await eventually(lambda: world.storage.end_offset("orders", 0) == 1)

    uvloop.run(scenario())


def test_acks_0_has_no_answer_and_closes_on_an_error():
    async def scenario():
        world = World(topic("orders", 1))
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            client.send(PRODUCE, 7, request=produce_request(acks=0))
            schema = client.send(API_VERSIONS, 0)
            assert (await client.receive(schema))[0] == 2
            client.send(PRODUCE, 7, request=produce_request(acks=0, name="nowhere"))
            assert await client.is_closed_by_peer()
            assert await is_alive(role)

    uvloop.run(scenario())


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
def test_what_is_no_request_closes_its_connection_with_one_line(frame, caplog):
    async def scenario():
        async with World(topic("orders", 1)).listening() as role:
            client = await WireClient.connect(role.port)
            client.writer.write(frame)
            assert await client.is_closed_by_peer()
            assert sum(role.counters.request_failures.values()) == 1
            assert await is_alive(role)

    with caplog.at_level(logging.WARNING, "oncelog.listener"):
        uvloop.run(scenario())
    (record,) = caplog.records
    assert record.getMessage().startswith("127.0.0.1:")
    assert "api key" in record.getMessage()


def test_no_key_and_no_version_hurts():
    """Every key a frame can name, at versions in and out of its range, with an empty body."""

    async def scenario():
        async with World(topic("orders", 1)).listening() as role:
            keys = [*range(-2, 100), 20_000, 20_005, 20_006, 32_767, -32_768]
            for key in keys:
                for version in (-1, 0, 1, 50):
                    client = await WireClient.connect(role.port)
                    client.writer.write(
                        framed([struct.pack(">hhi", key, version, 5) + b"\xff\xff\0"])
                    )
                    client.writer.write_eof()
                    await asyncio.wait_for(client.reader.read(), 5)
                    client.close()
            assert await is_alive(role)
            await eventually(lambda: role.counters.connections_open == 0)
            assert role.queued_bytes == 0

    logging.disable(logging.WARNING)
    try:
        uvloop.run(scenario())
    finally:
        logging.disable(logging.NOTSET)


def test_random_bytes_and_valid_headers_with_garbage_leave_the_listener_well():
    chance = random.Random(20_240)

    def noise():
        if chance.random() < 0.3:
            return chance.randbytes(chance.randrange(1, 300))
        api = chance.choice(list(APIS.values()))
        version = chance.randrange(api.served_min, api.max_version + 1)
        head = write_request_head(api.key, version, 1, "x", api.is_flexible(version))
        frame = framed([head, chance.randbytes(chance.randrange(0, 100))])
        return frame[: chance.randrange(1, len(frame) + 1)]

    async def scenario():
        async with World(topic("orders", 1)).listening() as role:
            for _ in range(300):
                client = await WireClient.connect(role.port)
                client.writer.write(noise())
                client.writer.write_eof()
                try:
                    await asyncio.wait_for(client.reader.read(), 5)
                except ConnectionResetError:
                    continue
                finally:
                    client.close()
            assert await is_alive(role)
            await eventually(lambda: role.counters.connections_open == 0)
            assert role.queued_bytes == 0

    logging.disable(logging.WARNING)
    try:
        uvloop.run(scenario())
    finally:
        logging.disable(logging.NOTSET)


def test_a_failing_handler_ends_its_connection_and_no_other(caplog):
    async def scenario():
        world = World(topic("orders", 1))
        world.coordinator.canned["EndTxn"] = AssertionError("we are wrong")
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            client.send(
                END_TXN, 1, transactional_id="t", producer_id=1, producer_epoch=0, committed=True
            )
            assert await client.is_closed_by_peer()
            assert role.counters.request_failures == {END_TXN: 1}
            assert await is_alive(role)

    uvloop.run(scenario())
    assert "we are wrong" in caplog.text


def test_half_a_frame_sent_byte_by_byte_does_not_keep_a_connection():
    async def scenario():
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

    uvloop.run(scenario())


def test_a_long_poll_is_not_idle():
    async def scenario():
        world = World(topic("orders", 1), connection_idle_max_ms=100)
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            await client.call(FETCH, 11, request=fetch_request(max_wait_ms=400))
            assert role.counters.connections_idle_closed == 0

    uvloop.run(scenario())


def test_one_connection_too_many_is_closed_at_once():
    async def scenario():
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

    uvloop.run(scenario())


def test_a_connection_with_too_much_waiting_is_not_read_from():
    async def scenario():
        world = World(
            topic("orders", 1), connection_queue_bytes_max=100_000, connection_queue_requests_max=5
        )
        world.storage.gate = asyncio.Event()
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            schemas = []
            for _ in range(200):
                schemas.append(
                    client.send(PRODUCE, 7, request=produce_request(records=batch(50_000)))
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

    uvloop.run(scenario())


def test_halves_of_frames_that_take_all_memory_are_refused():
    async def scenario():
        world = World(topic("orders", 1), queued_bytes_max=200_000)
        async with world.listening() as role:
            clients = [await WireClient.connect(role.port) for _ in range(10)]
            for client in clients:
                client.writer.write(struct.pack(">i", 100_000) + bytes(60_000))
            await eventually(lambda: role.counters.connections_refused >= 6)
            await eventually(lambda: role.queued_bytes <= 200_000)
            assert await is_alive(role)

    uvloop.run(scenario())


def test_a_client_that_does_not_read_its_answers_holds_one_answer_and_not_all():
    async def scenario():
        world = World(topic("orders", 1), connection_idle_max_ms=1_000)
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            await client.call(PRODUCE, 7, request=produce_request(records=batch(4_000_000)))
            client.reader._transport.pause_reading()
            for _ in range(20):
                client.send(FETCH, 11, request=fetch_request(max_bytes=1 << 30))
            await eventually(lambda: role.counters.connections_idle_closed == 1)
            assert len(world.storage.asked("Fetch")) < 6

    uvloop.run(scenario())


def test_answers_that_nobody_takes_make_later_fetches_smaller_and_are_given_back():
    async def scenario():
        world = World(topic("orders", 1), unsent_bytes_max=5_000_000)
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            await client.call(PRODUCE, 7, request=produce_request(records=batch(4_000_000)))
            client.reader._transport.pause_reading()
            client.send(FETCH, 11, request=fetch_request(max_bytes=1 << 30))
            await eventually(lambda: role.unsent.held_bytes > 4_000_000)
            reader = await WireClient.connect(role.port)
            await reader.call(FETCH, 11, request=fetch_request(max_bytes=1 << 30))
            first, second = world.storage.asked("Fetch")
            assert first.max_bytes == 5_000_000
            assert second.max_bytes == 5_000_000 - role.unsent.held_bytes
            client.close()
            await eventually(lambda: role.unsent.held_bytes == 0)

    uvloop.run(scenario())


def test_stopping_answers_the_request_in_progress_and_cuts_long_polls():
    async def scenario():
        world = World(topic("orders", 1))
        world.storage.gate = asyncio.Event()
        async with world.listening() as role:
            producer, fetcher, idle = [await WireClient.connect(role.port) for _ in range(3)]
            await idle.call(API_VERSIONS, 0)
            schema = producer.send(PRODUCE, 7, request=produce_request())
            fetcher.send(FETCH, 11, request=fetch_request())
            await eventually(
                lambda: world.storage.asked("Produce") and world.storage.fetches_waiting
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

    uvloop.run(scenario())


def test_stopping_does_not_wait_forever():
    async def scenario():
        world = World(topic("orders", 1), stop_grace_ms=100)
        world.storage.gate = asyncio.Event()
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            client.send(PRODUCE, 7, request=produce_request())
            await eventually(lambda: world.storage.asked("Produce"))
            await asyncio.wait_for(role.stop(), 5)
            assert await client.is_closed_by_peer()
            assert len(asyncio.all_tasks()) == 1

    uvloop.run(scenario())


def test_a_port_in_use_is_named_with_the_way_out():
    async def scenario():
        world = World()
        async with world.listening() as role:
            second = build_listener(
                ListenerSettings(port=role.port), 1, world.metadata, world.directory
            )
            with pytest.raises(OncelogError, match=f"port {role.port} .* in use.*ONCELOG_PORT"):
                await second.start()
            await second.stop()

    uvloop.run(scenario())


def test_a_host_that_is_not_ours_is_named_with_the_way_out():
    async def scenario():
        world = World()
        settings = ListenerSettings(host="192.0.2.1", port=0)
        with pytest.raises(OncelogError, match=r"192\.0\.2\.1.*ONCELOG_HOST"):
            await build_listener(settings, 1, world.metadata, world.directory).start()

    uvloop.run(scenario())


@pytest.mark.parametrize(
    ("settings", "connect_to", "told"),
    [
        ({}, "127.0.0.1", "127.0.0.1"),
        ({"host": "0.0.0.0"}, "127.0.0.1", "127.0.0.1"),
        ({"host": "0.0.0.0"}, "127.0.0.2", "127.0.0.2"),
        ({"host": "localhost"}, "127.0.0.1", "127.0.0.1"),
        ({"advertised_host": "log.example.org"}, "127.0.0.1", "log.example.org"),
    ],
)
def test_clients_are_told_an_address_that_works_for_their_connection(settings, connect_to, told):
    async def scenario():
        world = World(topic("orders", 1), **settings)
        async with world.listening() as role:
            client = await WireClient.connect(role.port, connect_to)
            (broker,) = (await client.call(METADATA, 1, topics=())).brokers
            assert (broker.host, broker.port, broker.node_id) == (told, role.port, 1)
            place = await client.call(10, 2, key="pay", key_type=1)
            assert (place.host, place.port, place.node_id) == (told, role.port, 1)

    uvloop.run(scenario())


def test_an_advertised_port_is_told():
    async def scenario():
        world = World(topic("orders", 1), advertised_port=19_092)
        async with world.listening() as role:
            client = await WireClient.connect(role.port)
            assert (
                await client.call(
                    METADATA,
                    9,
                    topics=None,
                    include_cluster_authorized_operations=False,
                    include_topic_authorized_operations=False,
                )
            ).brokers[0].port == 19_092

    uvloop.run(scenario())


@pytest.mark.parametrize("run", [uvloop.run, asyncio.run])
def test_what_arrived_while_the_listener_stood_still_is_not_done(run):
    """Its client may have gone to another listener with it, and be in its next transaction by now."""

    async def scenario():
        world = World(topic("orders", 1), stood_still_max_ms=200)
        async with world.listening() as role:
            stale = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", role.port))
            stale.settimeout(5)
            client = WireClient(None, SimpleNamespace(write=stale.sendall))
            await eventually(lambda: role.counters.connections_open == 1)
            client.send(PRODUCE, 7, request=produce_request())
            time.sleep(1.0)  # noqa: ASYNC251 - standing still is the point
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.to_thread(stale.recv, 1) == b""
            stale.close()
            produced = await answered_again(role)
            assert produced.responses[0].partition_responses[0].base_offset == 0

    run(scenario())


async def answered_again(role):
    """Who connects right behind a standstill is sent away and comes again."""
    async with asyncio.timeout(10):
        while True:
            client = await WireClient.connect(role.port)
            try:
                return await client.call(PRODUCE, 7, request=produce_request())
            except (asyncio.IncompleteReadError, ConnectionResetError):
                await asyncio.sleep(0.05)
            finally:
                client.close()
