"""A listener that stood still: its connections live on, and nothing out of date is begun (`pause_detector.py`)."""

import asyncio
import socket
import struct
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from types import SimpleNamespace

import pytest
from tests.loops import LoopOfATest, UvLoopOfATest
from tests.worlds.listener.listener_image import topic
from tests.worlds.listener.listener_requests import in_words, produce_request
from tests.worlds.listener.listener_world import World, eventually
from tests.worlds.listener.wire_client import WireClient

from oncelog.protocol.frames import read_correlation_id
from oncelog.protocol.versions import APIS
from oncelog.rpc.sessions import PeerUnavailable

PRODUCE, HEARTBEAT, API_VERSIONS, INIT_PRODUCER_ID, END_TXN, TXN_OFFSET_COMMIT = (
    0,
    12,
    18,
    22,
    26,
    28,
)
NOT_AVAILABLE, UNKNOWN_TOPIC_OR_PARTITION = 15, 3
LONGEST_MS = 100
INIT = {
    "transactional_id": "pay",
    "transaction_timeout": timedelta(seconds=60),
    "producer_id": -1,
    "producer_epoch": -1,
}

both_loops = pytest.mark.parametrize(
    "anyio_backend",
    [("asyncio", {"loop_factory": loop}) for loop in (UvLoopOfATest, LoopOfATest)],
    ids=["uvloop", "asyncio"],
)


class BlockingClient:
    """Sends and closes while the event loop does not run."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(5)
        self._writing = WireClient(None, SimpleNamespace(write=self.socket.sendall))

    def send(self, api_key, version, /, **fields):
        return self._writing.send(api_key, version, **fields)

    def send_init(self):
        return self.send(INIT_PRODUCER_ID, 3, **INIT)

    async def receive(self, schema):
        position = 5 if APIS[schema.api_key].response_has_tags(schema.version) else 4
        return schema.read_response(await asyncio.to_thread(self._frame), position)

    def _frame(self):
        (size,) = struct.unpack(">i", self._bytes(4))
        frame = self._bytes(size)
        assert read_correlation_id(frame) > 0
        return frame

    def _bytes(self, count):
        found = b""
        while len(found) < count:
            piece = self.socket.recv(count - len(found))
            assert piece, "the listener closed the connection"
            found += piece
        return found

    def close(self):
        self.socket.close()


@asynccontextmanager
async def connected(role):
    before = role.counters.connections_open
    client = BlockingClient(role.port)
    await eventually(lambda: role.counters.connections_open == before + 1)
    yield client
    client.close()


@asynccontextmanager
async def standing(**settings):
    """A listener's world, the listener, and a client that is connected to it."""
    world = World(topic("orders", 1), stood_still_max_ms=LONGEST_MS, **settings)
    async with world.listening() as role, connected(role) as client:
        yield world, role, client


def stand_still():
    time.sleep(4 * LONGEST_MS / 1000)


@both_loops
async def test_a_client_that_waited_is_answered_on_its_connection():
    async with standing() as (_, role, client), connected(role) as silent:
        schema = client.send(PRODUCE, 7, request=produce_request())
        stand_still()
        produced = await client.receive(schema)
        assert produced.responses[0].partition_responses[0].base_offset == 0
        answered = await silent.receive(silent.send(API_VERSIONS, 0))
        assert answered.error_code == 0


@both_loops
async def test_what_a_client_left_behind_is_not_begun():
    """It may have gone to another listener with it, and be in its next transaction by now."""
    async with standing() as (world, role, client):
        client.send(PRODUCE, 7, request=produce_request())
        client.send_init()
        client.close()
        late = BlockingClient(role.port)
        late.send_init()
        late.close()
        stand_still()
        await eventually(lambda: role.counters.connections_accepted == 2)
        await eventually(lambda: role.counters.connections_open == 0)
        async with connected(role) as probe:
            await probe.receive(probe.send(API_VERSIONS, 0))
    assert not world.storage.received("Produce")
    assert not world.coordinator.received("InitProducerId")


@both_loops
async def test_what_a_late_copy_would_spoil_is_repeated_by_its_client():
    """The end of a connection may be lost, or come late. A request that nobody repeats is not done."""
    async with standing() as (world, _, client):
        schemas = [client.send_init(), client.send_init()]
        stand_still()
        for schema in schemas:
            assert (await client.receive(schema)).error_code == NOT_AVAILABLE
        assert not world.coordinator.received("InitProducerId")
        assert (await client.receive(client.send_init())).error_code == 0


@both_loops
async def test_a_connection_right_behind_a_pause_is_let_in():
    async with standing() as (_, role, _):
        stand_still()
        async with connected(role) as client:
            versions = await client.receive(client.send(API_VERSIONS, 0))
            assert versions.error_code == 0
            assert (await client.receive(client.send_init())).error_code == 0
            assert role.counters.connections_refused == 0


async def test_what_has_an_origin_or_changes_nothing_is_not_refused():
    """KafkaJS repeats no EndTxn, whatever the code; clients take an error for the loss of their coordinator."""
    async with standing() as (world, _, client):
        beat = client.send(HEARTBEAT, 1, group_id="g", generation_id=1, member_id="m")
        ended = client.send(
            END_TXN, 3, transactional_id="pay", producer_id=4, producer_epoch=0, committed=True
        )
        stand_still()
        await client.receive(beat)
        assert (await client.receive(ended)).error_code == 0
        assert world.groups.received("GroupHeartbeat")
        assert world.coordinator.received("EndTxn")


@pytest.mark.parametrize("version", [3, 5])
async def test_a_refused_transactional_commit_has_a_repeatable_code(version):
    words = {"transactional_id": "pay", "producer_id": 4, "group_id": "g", "generation_id": -1}
    request = in_words(TXN_OFFSET_COMMIT, version, **words, name="orders", committed_offset=7)
    async with standing() as (world, _, client):
        schema = client.send(TXN_OFFSET_COMMIT, version, request=request)
        stand_still()
        refused = await client.receive(schema)
        assert refused.topics[0].partitions[0].error_code == UNKNOWN_TOPIC_OR_PARTITION
        assert not world.groups.received("TxnOffsetCommit")
        done = await client.receive(client.send(TXN_OFFSET_COMMIT, version, request=request))
        assert done.topics[0].partitions[0].error_code == 0


async def test_what_was_under_way_is_not_repeated():
    async with standing(repeat_max_ms=5_000) as (world, _, client):
        fails = asyncio.Event()

        async def lost(request, context):
            world.coordinator.take("InitProducerId", request)
            await fails.wait()
            raise PeerUnavailable("the coordinator is gone", was_sent=True)

        world.coordinator.InitProducerId = lost
        schema = client.send_init()
        await eventually(lambda: world.coordinator.received("InitProducerId"))
        stand_still()
        fails.set()
        assert (await client.receive(schema)).error_code == NOT_AVAILABLE
        assert len(world.coordinator.received("InitProducerId")) == 1
