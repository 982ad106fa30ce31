"""A listener trusts a peer as long as connections to it last; that something accepts them is not enough."""

import asyncio
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from oncelog.api.v1 import controller_pb2 as pb
from oncelog_listener.peer_watch import PeerWatch
from oncelog_listener.settings import ListenerSettings

PEER = 2
DEADLINE_S = 90


class Suspects(set):
    """Notes who was suspected, and who was cleared."""

    def __init__(self, *members):
        super().__init__(*members)
        self.suspected = []
        self.cleared = []

    def add(self, member):
        self.suspected.append(member)
        super().add(member)

    def discard(self, member):
        self.cleared.append(member)
        super().discard(member)


class Door:
    """What a proxy before the peer does: it accepts, and keeps the connection only if the peer lives."""

    def __init__(self):
        self.peer_lives = True
        self.accepted = 0
        self.ended_by_others = 0
        self._kept = []

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.close()

    def close(self):
        self._server.close()
        self.hang_up()

    def close_quietly(self):
        """Take nobody more in, and let those inside stay."""
        self._server.close()

    async def _accept(self, reader, writer):
        self.accepted += 1
        self._kept.append(writer)
        if not self.peer_lives:
            self.hang_up()
        if not await reader.read(1) and writer in self._kept:
            self.ended_by_others += 1

    def hang_up(self):
        while self._kept:
            self._kept.pop().transport.abort()


async def until(condition):
    async with asyncio.timeout(DEADLINE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


@asynccontextmanager
async def watched(door, **settings):
    """The cluster of a listener that watches the peer behind this door, which it has reached."""
    node = pb.Node(
        node_id=PEER,
        roles=[pb.ROLE_LISTENER],
        kafka_host="127.0.0.1",
        kafka_port=door.port,
    )
    cluster = SimpleNamespace(
        node_id=1,
        settings=ListenerSettings(**settings),
        image=SimpleNamespace(nodes={PEER: node}),
        metadata=SimpleNamespace(on_change=lambda changed: lambda: None),
        suspects=Suspects([PEER]),
        departed={},
    )
    watch = PeerWatch(cluster)
    watch.start()
    await until(lambda: PEER not in cluster.suspects)
    yield cluster
    await watch.stop()


async def test_a_door_with_nobody_behind_it_clears_no_suspect():
    async with Door() as door, watched(door) as cluster:
        door.peer_lives = False
        cluster.suspects.cleared.clear()
        door.hang_up()
        await until(lambda: PEER in cluster.suspects)
        assert list(cluster.departed) == [PEER]
        tried = door.accepted
        await until(lambda: door.accepted > tried + 3)
        assert cluster.suspects.cleared == []

        door.peer_lives = True
        await until(lambda: PEER not in cluster.suspects)


async def test_a_peer_that_closes_an_idle_connection_is_no_suspect():
    async with Door() as door, watched(door) as cluster:
        for _ in range(3):
            cluster.suspects.cleared.clear()
            door.hang_up()
            await until(lambda: cluster.suspects.cleared)
        assert cluster.suspects.suspected == []
        assert cluster.departed == {}


async def test_a_peer_that_is_gone_is_a_suspect():
    async with Door() as door, watched(door) as cluster:
        door.close()
        await until(lambda: PEER in cluster.suspects)
        assert cluster.suspects.suspected == [PEER]
        assert list(cluster.departed) == [PEER]


@pytest.mark.parametrize(
    "settings",
    [
        {"connection_idle_max_ms": 800},
        {"listeners": "SSL://127.0.0.1:9093", "authentication_timeout_ms": 800},
        {"listeners": "SASL_PLAINTEXT://127.0.0.1:9093", "authentication_timeout_ms": 800},
    ],
)
async def test_a_watch_renews_its_connection_before_the_peer_ends_it(settings):
    async with Door() as door, watched(door, **settings) as cluster:
        await until(lambda: door.accepted > 2)
        assert door.ended_by_others == door.accepted - 1
        assert cluster.suspects.suspected == []


async def test_a_peer_that_dies_amid_a_renewal_is_a_suspect():
    async with Door() as door, watched(door, connection_idle_max_ms=800) as cluster:
        door.close_quietly()
        await until(lambda: PEER in cluster.suspects)
        assert cluster.suspects.suspected == [PEER]
