"""The adapters that run in the simulator keep their contract there, against the simulated cluster."""

import asyncio
import logging
import shutil
import struct
import tempfile
from pathlib import Path

import pytest
from oncelog_robustness.clients.libraries import LIBRARIES, SIMULATED
from oncelog_robustness.scenario import Shape
from oncelog_robustness.simulator import seams
from oncelog_robustness.simulator.cluster import KAFKA_PORT, SimCluster
from oncelog_robustness.simulator.database import SimDatabase
from oncelog_robustness.simulator.disk import SimDisks
from oncelog_robustness.simulator.grpc_network import install_grpc
from oncelog_robustness.simulator.network import SimNetwork
from oncelog_robustness.simulator.tcp import install_tcp
from oncelog_robustness.simulator.world import World
from tests.contracts.robustness_clients import ClientContract, Place
from tests.simulation.forked import run_forked

SHARED_MEMORY = Path("/dev/shm")
SHAPE = Shape(controllers=1, storage=1, coordinators=1, marker_senders=1, listeners=1)
START_TIMEOUT_S = 60


class SimulatedPlace(Place):
    """Between clients and the only listener stands a process that reads frames and loses answers."""

    def __init__(self, clients, prefix, listener):
        super().__init__(clients, prefix)
        self._listener = listener
        self._lost = {}

    def lose_answers(self, api_key, times):
        self._lost[api_key] = times

    async def stand_between(self, reader, writer):
        to_server = await asyncio.open_connection(self._listener, KAFKA_PORT)
        doomed = set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._requests(reader, to_server[1], doomed))
                group.create_task(self._answers(to_server[0], writer, doomed))
        except* (OSError, EOFError):
            pass
        for one in (writer, to_server[1]):
            one.close()

    async def _requests(self, reader, writer, doomed):
        while True:
            frame = await _frame(reader)
            api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
            if self._lost.get(api_key, 0) > 0:
                self._lost[api_key] -= 1
                doomed.add(correlation_id)
            writer.write(frame)

    async def _answers(self, reader, writer, doomed):
        while True:
            frame = await _frame(reader)
            if struct.unpack_from(">i", frame, 4)[0] in doomed:
                raise EOFError
            writer.write(frame)


async def _frame(reader):
    head = await reader.readexactly(4)
    return head + await reader.readexactly(struct.unpack(">i", head)[0])


def simulate(library, scenario):
    """In a process of its own: a cluster, the proxy, and the scenario on a host of its own. Returns the digest."""
    parent = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    root = Path(tempfile.mkdtemp(prefix="oncelog-test-", dir=parent))
    try:
        return run_forked(_simulate, root, library, scenario)
    finally:
        shutil.rmtree(root)


def _simulate(root, library, scenario):
    world = World(7)
    asyncio.set_event_loop(world.loop)
    seams.replace_clock_and_randomness(world)
    network = SimNetwork(world)
    world.loop.network = network
    install_tcp(network)
    install_grpc(network)
    seams.replace_what_aiokafka_takes_from_c()
    disks, database = SimDisks(world, root), SimDatabase(world, root)
    disks.install()
    database.install()
    logging.disable(logging.ERROR)

    def settings(member):
        found = {
            "ONCELOG_CONTROLLER_DATABASE_URL": database.url,
            "ONCELOG_CONTROLLER_BOOTSTRAP_STORAGE_NODES": "1",
        }
        if member.role == "storage":
            found["ONCELOG_STORAGE_DATA_DIR"] = str(disks.folder(member.name))
        if member.role == "listener":
            found["ONCELOG_LISTENER_ADVERTISED_HOST"] = network.address_of("proxy")
            found["ONCELOG_LISTENER_ADVERTISED_PORT"] = str(KAFKA_PORT)
        return found

    cluster = SimCluster(world, SHAPE, settings, network.address_of)

    async def conduct():
        async with asyncio.timeout(START_TIMEOUT_S):
            await cluster.start()
        clients = LIBRARIES[library]([f"{network.address_of('proxy')}:{KAFKA_PORT}"])
        place = SimulatedPlace(clients, library, network.address_of("listener-1"))
        proxy, client = world.new_process("proxy"), world.new_process("client")
        serving = asyncio.start_server(place.stand_between, "0.0.0.0", KAFKA_PORT)
        await proxy.spawn(serving, "serve")
        await client.spawn(scenario(place), "scenario")

    world.loop.run_until_complete(conduct())
    return world.trace_log.digest, world.loop.time()


@pytest.mark.parametrize("library", SIMULATED)
class TestClientsInTheSimulator(ClientContract):
    @pytest.fixture(autouse=True)
    def _library(self, library):
        self.library = library

    def run(self, scenario):
        simulate(self.library, scenario)
