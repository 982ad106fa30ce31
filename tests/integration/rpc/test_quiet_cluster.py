"""What processes say to each other while nobody asks them for anything: as little as keeps them known to be alive."""

import asyncio
from contextlib import asynccontextmanager

from tests.contracts.stub import ScriptedStorage, produce
from tests.integration.rpc.scripted_controller import (
    DEADLINE_S,
    Cluster,
    ScriptedController,
    Served,
)

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.rpc import controller_stub
from oncelog.rpc.contract import STORAGE
from oncelog.rpc.node import BEAT_OF_SESSION, Node
from oncelog.rpc.node_settings import NodeSettings
from oncelog.rpc.session_client import PeerSession, SessionStub
from oncelog.rpc.sessions import SessionLimits

PREFACE_BYTES = 24
SETTINGS_FRAME, PING_FRAME = 4, 6
INITIAL_WINDOW = 4


def frames_of(stream):
    """Type and payload of each whole HTTP/2 frame."""
    position = 0
    while position + 9 <= len(stream):
        end = position + 9 + int.from_bytes(stream[position : position + 3], "big")
        yield stream[position + 3], bytes(stream[position + 9 : end])
        position = end


@asynccontextmanager
async def relay(to_port):
    """A port in front of another, and all that passed it, in both directions."""
    sent, received, tasks = bytearray(), bytearray(), set()

    async def pump(reader, writer, seen):
        while data := await reader.read(65536):
            seen += data
            writer.write(data)
        writer.close()

    async def accept(reader, writer):
        tasks.add(asyncio.current_task())
        there, back = await asyncio.open_connection("127.0.0.1", to_port)
        await asyncio.gather(pump(reader, back, sent), pump(there, writer, received))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1], sent, received
    server.close()
    await asyncio.gather(*tasks, return_exceptions=True)


def windows_of(stream):
    for kind, payload in frames_of(stream):
        for at in range(0, len(payload) if kind == SETTINGS_FRAME else 0, 6):
            if int.from_bytes(payload[at : at + 2], "big") == INITIAL_WINDOW:
                yield int.from_bytes(payload[at + 2 : at + 6], "big")


async def test_no_ping_follows_a_call():
    """Each wakes four threads of gRPC in two processes, again and again for seconds."""
    async with (
        Served(ScriptedStorage(), STORAGE) as served,
        relay(served.server.port) as (port, sent, received),
    ):
        session = PeerSession(f"127.0.0.1:{port}", SessionLimits())
        stub = SessionStub(session, STORAGE)
        for length in (5, 500_000, 5):
            await stub.Produce(produce(length=length), timeout=DEADLINE_S)
        await session.close()
    for stream in (sent[PREFACE_BYTES:], received):
        assert PING_FRAME not in [kind for kind, _ in frames_of(stream)]
        # Nothing finds out how much a long way holds, so both ends let that much be under way.
        assert max(windows_of(stream)) >= 2 * SessionLimits().frame_bytes


async def test_who_has_a_session_is_not_asked_again(monkeypatch):
    monkeypatch.setattr(controller_stub, "ACQUAINTED_EVERY_S", 0.001)
    cluster = Cluster()
    first, second = ScriptedController(cluster, 1), ScriptedController(cluster, 2, active=False)
    async with Served(first) as one, Served(second) as other:
        addresses = f"{one.address},{other.address}"
        node = Node(NodeSettings(node_id=7, port=0, controllers=addresses), [pb.ROLE_STORAGE])
        await node.start()
        await node.ready()
        await cluster.until(lambda: second.described and len(cluster.beats) > 1)
        described, beats = first.described + second.described, len(cluster.beats)
        await cluster.until(lambda: len(cluster.beats) > beats + 3)
        await node.stop()
        assert first.described + second.described == described


def test_two_lost_heartbeats_end_no_session():
    assert 3 * BEAT_OF_SESSION < 1
