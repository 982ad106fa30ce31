"""Two simulated processes and a network between them, for tests."""

import asyncio

from oncelog_robustness.simulator.network import CALM, SimNetwork
from oncelog_robustness.simulator.tcp import SimTcp
from oncelog_robustness.simulator.world import World

PORT = 9092
_KEPT = []


class SmallNet:
    """Two processes, `client` and `server`, and what tests do with them."""

    def __init__(self, seed=1, profile=CALM):
        self.world = World(seed)
        self.network = SimNetwork(self.world, profile)
        self.world.loop.network = SimTcp(self.network)
        self.client = self.world.new_process("client")
        self.server = self.world.new_process("server")
        self.received = []
        """By connection: the bytes that the server received; "." for their end, "!" for a reset."""

    @property
    def now(self):
        return self.world.loop.time()

    def in_world(self, scenario):
        async def bounded():
            async with asyncio.timeout(600):
                return await scenario()

        loop = self.world.loop
        try:
            return loop.run_until_complete(bounded())
        finally:
            keep_for_ever(self.world)

    async def until(self, holds, within_s=10):
        """In simulated time, which costs nothing."""
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def serve(self, handle, host="0.0.0.0"):
        return await self.server.spawn(asyncio.start_server(handle, host, PORT), "serve")

    async def serve_listening(self):
        async def listen(reader, writer):
            received = bytearray()
            self.received.append(received)
            try:
                while data := await reader.read(1000):
                    received += data
                received += b"."
            except ConnectionResetError:
                received += b"!"
            writer.close()

        await self.serve(listen)

    async def connect(self, host="server"):
        return await self.client.spawn(asyncio.open_connection(host, PORT), "connect")

    async def until_heard(self, expected, within_s=10):
        await self.until(lambda: [bytes(one) for one in self.received] == expected, within_s)


def keep_for_ever(world):
    """What still runs in a world when its test is over must not be finalized: its loop runs no more."""
    tasks = asyncio.all_tasks(world.loop)
    for task in tasks:
        task._log_destroy_pending = False
    _KEPT.append((world, tasks))


async def close_at_end(reader, writer):
    await reader.read(-1)
    writer.close()
