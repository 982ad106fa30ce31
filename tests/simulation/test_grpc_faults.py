"""Sessions over the simulated gRPC when the network or the other process fails."""

import asyncio

import pytest
from oncelog_robustness.simulator import seams
from tests.contracts.stub import ScriptedStorage, length_of, produce
from tests.simulation.forked import run_forked
from tests.simulation.simulated_grpc import SimulatedGrpc

from oncelog.rpc.contract import STORAGE
from oncelog.rpc.server import RpcServer
from oncelog.rpc.session_client import PeerSession, SessionStub
from oncelog.rpc.sessions import PeerUnavailable, SessionLimits

PORT = 9090
LIMITS = SessionLimits(keepalive_ms=2000, keepalive_timeout_ms=1000)


class Peers:
    """Storage on the host `server`, and a session to it on the host `client`."""

    def __init__(self, seed=1, wildness=0):
        self._medium = SimulatedGrpc(wildness, seed)
        self.servicer = ScriptedStorage()

    def in_world(self, scenario):
        async def inside():
            await self._start(self._medium.network)
            await scenario()

        return self._medium.in_world(inside)

    @property
    def now(self):
        return self.network.loop.time()

    async def _start(self, network):
        self.network = network
        self.server = network.world.new_process("server")
        self.client = network.world.new_process("client")
        await self.server.spawn(self._serve(), "serve")
        self.session = await self.client.spawn(self._open(), "open")
        self.stub = SessionStub(self.session, STORAGE)

    async def _serve(self):
        self.rpc = RpcServer("0.0.0.0", PORT, LIMITS)
        self.rpc.served.add(STORAGE, self.servicer)
        await self.rpc.start()

    async def _open(self):
        return PeerSession(f"{self.network.address_of('server')}:{PORT}", LIMITS)

    def call(self, what="", length=0, timeout=None):
        call = self.stub.Produce(produce(what, length), timeout=timeout)
        return self.client.spawn(call, "call")

    async def until_answered(self):
        async with asyncio.timeout(60):
            while True:
                try:
                    return length_of(await self.call(length=7))
                except PeerUnavailable:
                    await asyncio.sleep(0.05)


@pytest.fixture
def peers():
    return Peers()


async def test_a_call_through_a_short_partition_is_late_and_not_lost(peers):
    await peers.call()
    undo = peers.network.partition(["client"], ["server"])
    call = peers.call(length=5)
    await asyncio.sleep(1)
    assert not call.done()
    assert peers.servicer.begun == 1
    undo()
    assert length_of(await call) == 5
    assert peers.now < 5


@pytest.mark.parametrize("hosts", [("client", "server"), ("server", "client")])
@pytest.mark.parametrize("one_way", [False, True])
async def test_a_partition_is_noticed_by_the_keepalive_on_both_sides(peers, hosts, one_way):
    waits = peers.call("waits")
    await asyncio.sleep(0.1)
    assert peers.servicer.in_flight == 1
    peers.network.partition([hosts[0]], [hosts[1]], one_way=one_way)
    began = peers.now
    # The side that notices it sends a reset, which the other side may still receive.
    with pytest.raises(PeerUnavailable, match=r"keepalive watchdog|reset by peer") as failure:
        await waits
    assert failure.value.was_sent
    assert 1 < peers.now - began < 4
    await asyncio.sleep(4)
    assert peers.servicer.cancelled == 1
    with pytest.raises(PeerUnavailable) as failure:
        await peers.call()
    assert not failure.value.was_sent
    peers.network.heal_all()
    assert await peers.until_answered() == 7


async def test_a_frozen_peer_is_noticed_and_goes_on_where_nobody_waits(peers):
    await peers.call()
    peers.server.pause()
    with pytest.raises(PeerUnavailable, match="keepalive"):
        await peers.call()
    peers.server.resume()
    await asyncio.sleep(1)
    # What was in the kernel of the frozen process is a call like any other.
    assert peers.servicer.begun == 2
    assert peers.servicer.in_flight == 0
    assert await peers.until_answered() == 7


async def test_a_killed_peer_is_noticed_at_once(peers):
    waits = peers.call("waits")
    await asyncio.sleep(0.1)
    began = peers.now
    peers.server.end()
    with pytest.raises(PeerUnavailable, match="Socket closed"):
        await waits
    assert peers.now - began < 0.01
    # Nothing of a killed process runs: its handler was never told.
    assert peers.servicer.cancelled == 0


async def test_a_reset_fails_what_is_in_flight_on_both_sides(peers):
    waits = peers.call("waits")
    await asyncio.sleep(0.1)
    peers.network.reset("client")
    with pytest.raises(PeerUnavailable, match="Connection reset by peer"):
        await waits
    await asyncio.sleep(0.1)
    assert peers.servicer.cancelled == 1
    assert await peers.until_answered() == 7


async def test_a_ghost_call_is_executed_after_it_was_said_to_fail(peers):
    await peers.call()
    peers.network.ghost("client", gather_s=0.1, late_s=1)
    await asyncio.sleep(0.05)
    with pytest.raises(PeerUnavailable) as failure:
        await peers.call(length=5)
    assert failure.value.was_sent
    assert peers.servicer.begun == 1
    assert await peers.until_answered() == 7
    assert peers.servicer.begun == 2
    await asyncio.sleep(2)
    assert peers.servicer.begun == 3


async def test_an_idle_connection_is_kept_alive(peers):
    waits = peers.call("until told", 3)
    await asyncio.sleep(100)
    peers.server.context().run(peers.servicer.told.set)
    assert length_of(await waits) == 3
    assert peers.network.world.trace_log.counts["net"] > 2 * 100 / 2


def digest(seed):
    """Of two hundred calls in a wild network with resets."""
    peers = Peers(seed, wildness=1)

    async def scenario():
        seams.replace_clock_and_randomness(peers.network.world)
        calls = []
        for number in range(200):
            calls.append(peers.call("turns", number))
            await asyncio.sleep(0.01)
            if number % 50 == 20:
                peers.network.reset("server")
        await asyncio.gather(*calls, return_exceptions=True)
        assert await peers.until_answered() == 7

    return peers.in_world(scenario).trace_log.digest


def test_a_seed_is_the_same_run_every_time():
    first, second, other = (run_forked(digest, seed) for seed in (1, 1, 2))
    assert first == second != other
