"""The adapters that run in the simulator keep their contract there, against the simulated cluster."""

import asyncio
import logging
import struct

import pytest
from oncelog_robustness.clients.libraries import LIBRARIES, SIMULATED
from oncelog_robustness.simulator.cluster import KAFKA_PORT
from tests.contracts.robustness_clients import ClientContract, Place
from tests.simulation.small_cluster import SmallCluster, result_of

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


class BehindAProxy(SmallCluster):
    def settings_of(self, member):
        settings = super().settings_of(member)
        settings["ONCELOG_CONTROLLER_BOOTSTRAP_STORAGE_NODES"] = "1"
        if member.role == "listener":
            settings["ONCELOG_LISTENER_ADVERTISED_HOST"] = self.network.address_of("proxy")
            settings["ONCELOG_LISTENER_ADVERTISED_PORT"] = str(KAFKA_PORT)
        return settings

    async def conduct(self, library, scenario):
        """The scenario on a host of its own."""
        async with asyncio.timeout(START_TIMEOUT_S):
            await self.cluster.start()
        address_of, world = self.network.address_of, self.world
        clients = LIBRARIES[library]([f"{address_of('proxy')}:{KAFKA_PORT}"])
        place = SimulatedPlace(clients, library, address_of("listener-1"))
        serving = asyncio.start_server(place.stand_between, "0.0.0.0", KAFKA_PORT)
        await world.new_process("proxy").spawn(serving, "serve")
        await world.new_process("client").spawn(scenario(place), "scenario")


def simulate(root, library, scenario):
    small = BehindAProxy(root, seed=7)
    logging.disable(logging.ERROR)
    small.world.loop.run_until_complete(small.conduct(library, scenario))


@pytest.mark.parametrize("library", SIMULATED)
class TestClientsInTheSimulator(ClientContract):
    @pytest.fixture(autouse=True)
    def _library(self, library):
        self.library = library

    def run(self, scenario):
        result_of(simulate, self.library, scenario)
