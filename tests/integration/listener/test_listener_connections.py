"""What happens on one connection: order, long polls, clients that leave, a stop; and bounds of time and bytes."""

import asyncio
import struct

import pytest
from tests.worlds.listener.fake_roles import FakeStorage
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import batch, fetch_request, produce_request
from tests.worlds.listener.listener_world import World, eventually
from tests.worlds.listener.wire_client import WireClient, is_alive

from oncelog.protocol.frames import framed, write_request_head
from oncelog.protocol.messages import schema_of
from oncelog.record.batch import HEADER_BYTES, stamp
from oncelog.rpc.contract import STORAGE
from oncelog.rpc.direct import DirectStub
from oncelog_storage.direct_answers import PartitionsProduced

FETCH, PRODUCE, METADATA, API_VERSIONS = 1, 0, 3, 18


async def test_pipelined_requests_happen_and_are_answered_in_order(world):
    async with world.connected() as (_, client):
        schemas = [client.send(PRODUCE, 7, request=produce_request()) for _ in range(20)]
        schemas.append(client.send(METADATA, 1, topics=()))
        answers = [await client.receive(schema) for schema in schemas]
        assert [number for number, _ in answers] == list(range(1, 22))
        offsets = [
            answer.responses[0].partition_responses[0].base_offset for _, answer in answers[:-1]
        ]
        assert offsets == list(range(20))


class StorageAtOnce(FakeStorage):
    """Answers a producer's batch at once."""

    direct_methods = {"ProduceAtOnce": "produce_at_once"}  # noqa: RUF012

    def produce_at_once(self, request, context):
        (one,) = request.partitions
        offset, log = self.end_offset(one.topic, one.partition), self.log(one.topic, one.partition)
        log.append(stamped(one.records, offset))
        answers = PartitionsProduced()
        answers.add(topic=one.topic, partition=one.partition).base_offset = offset
        return answers


def stamped(records, offset):
    changed = bytearray(records)
    stamp(changed, offset, 0)
    return bytes(changed)


class Recorder:
    """A transport that remembers what is written to it."""

    def __init__(self, transport):
        self.transport = transport
        self.written = []

    def __getattr__(self, name):
        return getattr(self.transport, name)

    def write(self, data):
        self.written.append(len(data))
        self.transport.write(data)


@pytest.mark.parametrize("version", [7, 9])
async def test_answers_at_once_keep_their_place_and_share_a_write(world, version):
    world.storage = StorageAtOnce()
    world.directory.put(STORAGE, DirectStub(world.storage))
    of_a_producer, of_nobody = batch(producer_id=5), batch()
    async with world.connected() as (role, client):
        await client.call(API_VERSIONS, 0)
        (connection,) = role._open
        connection._transport = recorder = Recorder(connection._transport)
        wanted = [of_a_producer] * 3 + [of_nobody] + [of_a_producer] * 2
        schemas = [
            client.send(PRODUCE, version, request=produce_request(version, records=[one]))
            for one in wanted
        ]
        schemas.append(client.send(METADATA, 1, topics=()))
        answers = [await client.receive(schema) for schema in schemas]
        assert [number for number, _ in answers] == list(range(2, 9))
        offsets = [one.responses[0].partition_responses[0].base_offset for _, one in answers[:-1]]
        assert offsets == list(range(6))
        assert len(world.storage.received("Produce")) == 1, "a batch without a sequence"
        assert role.counters.latencies["Produce"].count == 6
        assert len(recorder.written) == 4, "3 at once, 1 awaited, 2 at once, the metadata"


class Noting:
    """A transport that notes something at each write."""

    def __init__(self, transport, note):
        self._transport = transport
        self._note = note
        self.noted = []

    def write(self, data):
        self.noted.append(self._note())
        self._transport.write(data)

    def __getattr__(self, name):
        return getattr(self._transport, name)


async def test_many_small_requests_leave_others_their_turn(world):
    world.storage = StorageAtOnce()
    world.directory.put(STORAGE, DirectStub(world.storage))
    schema = schema_of(PRODUCE, 9)
    asked = schema.write_request(produce_request(9, records=[batch(producer_id=5)]))
    small = [
        framed([write_request_head(PRODUCE, 9, at, "test", True), *asked]) for at in range(900)
    ]
    async with world.connected() as (role, busy):
        await busy.call(API_VERSIONS, 0)
        (connection,) = role._open
        other = await WireClient.connect(role.port)
        await other.call(API_VERSIONS, 0)
        (of_the_other,) = (one for one in role._open if one is not connection)
        done = role.counters.latencies
        of_the_other._transport = noting = Noting(
            of_the_other._transport, lambda: done["Produce"].count
        )
        versions = other.send(API_VERSIONS, 0)
        connection.data_received(b"".join(small))
        await other.receive(versions)
        numbers = [(await busy.receive(schema))[0] for _ in small]
        assert numbers == list(range(900))
        assert noting.noted[0] < 100, "it did not wait for all of them"


async def test_a_long_poll_holds_up_what_comes_behind_it(world):
    async with world.connected() as (role, client):
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


async def test_a_client_that_leaves_cancels_its_long_poll(world):
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


async def test_a_produce_goes_on_when_its_client_leaves(world):
    world.storage.gate = asyncio.Event()
    async with world.connected() as (role, client):
        client.send(PRODUCE, 7, request=produce_request())
        await eventually(lambda: world.storage.received("Produce"))
        client.writer.transport.abort()
        await eventually(lambda: role.counters.connections_open == 0)
        world.storage.gate.set()
        await eventually(lambda: world.storage.end_offset("orders", 0) == 1)


async def test_acks_0_has_no_answer_and_closes_on_an_error(world):
    async with world.connected() as (role, client):
        client.send(PRODUCE, 7, request=produce_request(acks=0))
        schema = client.send(API_VERSIONS, 0)
        assert (await client.receive(schema))[0] == 2
        client.send(PRODUCE, 7, request=produce_request(acks=0, name="nowhere"))
        assert await client.is_closed_by_peer()
        assert await is_alive(role)


async def test_stopping_answers_what_is_under_way_and_cuts_long_polls(world):
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
        await asyncio.wait_for(stopping, 30)
        with pytest.raises(ConnectionRefusedError):
            await WireClient.connect(role.port)


async def test_stopping_does_not_wait_forever():
    world = World(topic("orders", 1), stop_grace_ms=100)
    world.storage.gate = asyncio.Event()
    before = asyncio.all_tasks()
    async with world.connected() as (role, client):
        client.send(PRODUCE, 7, request=produce_request())
        await eventually(lambda: world.storage.received("Produce"))
        await asyncio.wait_for(role.stop(), 30)
        assert await client.is_closed_by_peer()
        assert asyncio.all_tasks() == before


async def test_half_a_frame_byte_by_byte_does_not_keep_a_connection():
    world = World(topic("orders", 1), connection_idle_max_ms=200)
    async with world.connected() as (role, client):
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
    async with world.connected() as (role, client):
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
    async with world.connected() as (role, client):
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
    async with world.connected() as (role, client):
        await client.call(PRODUCE, 7, request=produce_request(records=[batch(extra=4_000_000)]))
        client.reader._transport.pause_reading()
        for _ in range(20):
            client.send(FETCH, 11, request=fetch_request(max_bytes=1 << 30))
        await eventually(lambda: role.counters.connections_idle_closed == 1)
        assert len(world.storage.received("Fetch")) < 6


async def test_answers_that_nobody_takes_make_later_fetches_smaller():
    world = World(topic("orders", 1), unsent_bytes_max=8_000_000)
    greedy = fetch_request(max_bytes=1 << 30, min_bytes=1 << 30, max_wait_ms=0)
    async with world.connected() as (role, client):
        # More than a socket may hold by itself: 4 MiB are the most of Linux' own choice.
        await client.call(PRODUCE, 7, request=produce_request(records=[batch(extra=6_000_000)]))
        client.reader._transport.pause_reading()
        client.send(FETCH, 11, request=greedy)
        await eventually(lambda: role.unsent.held_bytes > 6_000_000)
        reader = await WireClient.connect(role.port)
        await reader.call(FETCH, 11, request=greedy)
        first, second = world.storage.received("Fetch")
        assert first.max_bytes == first.min_bytes == 1_000_000
        assert second.max_bytes == (8_000_000 - role.unsent.held_bytes) // 8
        client.close()
        await eventually(lambda: role.unsent.held_bytes == 0)


async def test_a_connection_is_answered_more_when_it_has_taken():
    """The first answer is small: most that ask and never read are held to that. A reader soon has what it asks for."""
    world = World(topic("orders", 1))
    async with world.connected() as (_, client):
        await client.call(PRODUCE, 7, request=produce_request(records=[batch(extra=100_000)]))
        for _ in range(2):
            await client.call(FETCH, 11, request=fetch_request(max_bytes=10_000_000))
        await client.call(
            FETCH, 11, request=fetch_request(max_bytes=200_000, min_bytes=150_000, max_wait_ms=0)
        )
        first, second, third = world.storage.received("Fetch")
        assert first.max_bytes == 65_536
        assert 400_000 < second.max_bytes < 401_000
        assert (third.max_bytes, third.min_bytes) == (200_000, 150_000)


async def test_a_silent_reader_is_closed_and_a_slow_one_is_not():
    """Where answers take much memory."""
    world = World(topic("orders", 1), unsent_bytes_max=8_000_000, unread_max_ms=1_000)
    async with world.connected() as (role, slow):
        await slow.call(PRODUCE, 7, request=produce_request(records=[batch(extra=12_000_000)]))
        schema = slow.send(FETCH, 11, request=fetch_request())
        slow.reader._transport.pause_reading()
        await eventually(lambda: role.unsent.is_short)
        silent = await WireClient.connect(role.port)
        silent.send(FETCH, 11, request=fetch_request())
        silent.reader._transport.pause_reading()
        while role.counters.connections_idle_closed == 0:
            # A little now and then.
            slow.reader._transport.resume_reading()
            await asyncio.sleep(0.01)
            slow.reader._transport.pause_reading()
            await asyncio.sleep(0.1)
        slow.reader._transport.resume_reading()
        _, answer = await slow.receive(schema)
        assert len(answer.responses[0].partitions[0].records) > 12_000_000
        assert role.counters.connections_idle_closed == 1
