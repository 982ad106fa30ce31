"""The simulated network keeps the promises of TCP, and breaks them where a fault says so."""

import asyncio
from contextlib import suppress

import pytest
from robustness.simulator.network import CALM, NetworkProfile, SimNetwork
from robustness.simulator.world import World

PORT = 9092


class Net:
    """Two processes, `client` and `server`, and what tests do with them."""

    def __init__(self, seed=1, profile=CALM):
        self.world = World(seed)
        self.network = SimNetwork(self.world, profile)
        self.world.loop.network = self.network
        self.client = self.world.new_process("client")
        self.server = self.world.new_process("server")
        self.heard = {}
        """By connection, in their order: the bytes that the server received, and how it ended."""

    def run(self, scenario):
        async def bounded():
            async with asyncio.timeout(600):
                return await scenario()

        return self.world.loop.run_until_complete(bounded())

    async def serve(self, handle):
        await self.server.spawn(asyncio.start_server(handle, "0.0.0.0", PORT), "serve")

    async def serve_listening(self):
        async def listen(reader, writer):
            told = self.heard[writer.get_extra_info("peername")] = bytearray()
            try:
                while data := await reader.read(1000):
                    told += data
                told += b"."
            except ConnectionResetError:
                told += b"!"
            writer.close()

        await self.serve(listen)

    async def connect(self):
        return await self.client.spawn(asyncio.open_connection("server", PORT), "connect")

    @property
    def told(self):
        return [bytes(one) for one in self.heard.values()]


async def echo(reader, writer):
    with suppress(OSError):
        while data := await reader.read(1000):
            writer.write(data)
    writer.close()


def test_bytes_arrive_in_order_and_whole_however_they_are_cut():
    net = Net(profile=NetworkProfile(split_probability=0.5, merge_probability=0.5))

    async def scenario():
        await net.serve(echo)
        reader, writer = await net.connect()
        sent = [bytes([n % 256]) * (n % 40 + 1) for n in range(500)]
        for piece in sent:
            writer.write(piece)
        writer.write_eof()
        assert await reader.read(-1) == b"".join(sent)

    net.run(scenario)


def test_nobody_listens():
    net = Net()

    async def scenario():
        with pytest.raises(ConnectionRefusedError, match="Connect call failed"):
            await net.connect()

    net.run(scenario)


def test_a_killed_process_ends_its_connections_and_listens_no_more():
    net = Net()

    async def scenario():
        await net.serve(echo)
        reader, _ = await net.connect()
        net.server.end()
        assert await reader.read(1) == b""
        with pytest.raises(ConnectionRefusedError):
            await net.connect()

    net.run(scenario)
