"""The medium of the contracts of calls that is simulated: `grpc.aio` is replaced while a scenario runs."""

import asyncio
import random
from contextlib import asynccontextmanager, contextmanager
from signal import SIGSTOP

import grpc.aio
from oncelog_robustness.simulator.grpc_network import install_grpc
from oncelog_robustness.simulator.network import SimNetwork, drawn_profile
from oncelog_robustness.simulator.tcp import SimTcp
from oncelog_robustness.simulator.world import World
from tests.contracts.stub import ScriptedStorage
from tests.simulation.small_net import keep_for_ever

from oncelog.rpc.contract import STORAGE
from oncelog.rpc.server import RpcServer
from oncelog.rpc.sessions import SessionLimits

LIMIT_S = 1000
PORT = 9090


class SimulatedGrpc:
    """`wildness` is that of the network."""

    def __init__(self, wildness, seed=1):
        self._wildness = wildness
        self._seed = seed
        self.network = None

    def in_world(self, scenario):
        """Returns its world."""

        async def bounded():
            async with asyncio.timeout(LIMIT_S):
                await scenario()

        world = World(self._seed)
        network = self.network = SimNetwork(world, drawn_profile(world, self._wildness))
        world.loop.network = SimTcp(network)
        with _installed(network):
            random.seed(self._seed)  # Pauses between attempts draw from it.
            try:
                world.loop.run_until_complete(bounded())
            finally:
                keep_for_ever(world)
        return world

    @asynccontextmanager
    async def peer_process(self):
        """Yields a simulated process that serves Storage, and its address."""
        process = self.network.world.new_process("peer")

        async def serve():
            server = RpcServer("0.0.0.0", PORT, SessionLimits())
            server.served.add(STORAGE, ScriptedStorage())
            await server.start()

        await process.spawn(serve(), "serve")
        try:
            yield _Peer(process), f"{self.network.address_of('peer')}:{PORT}"
        finally:
            process.end()


class _Peer:
    def __init__(self, process):
        self._process = process

    def kill(self):
        self._process.end()

    def send_signal(self, number):
        assert number == SIGSTOP
        self._process.pause()


@contextmanager
def _installed(network):
    real = grpc.aio.insecure_channel, grpc.aio.server
    install_grpc(network)
    try:
        yield
    finally:
        grpc.aio.insecure_channel, grpc.aio.server = real
