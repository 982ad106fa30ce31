"""The medium of the contracts of calls that is the real one: gRPC over loopback, processes of the operating system."""

import asyncio
from contextlib import asynccontextmanager

import grpc.aio
from tests.integration.rpc.peer_process import peer_process

LIMIT_S = 100
EVENT_S = 0.1


class Grpc:
    peer_process = staticmethod(peer_process)

    @staticmethod
    def in_world(scenario):
        async def bounded():
            async with asyncio.timeout(LIMIT_S), events():
                await scenario()

        asyncio.run(bounded())


@asynccontextmanager
async def events():
    """Calls of their own, now and then.

    A process has one queue of gRPC's events, for all loops. An event of a loop that is closed, of a test before, ends
    the look through it with an error; those behind it wait until there is another event. A service always has one.
    """
    server = grpc.aio.server()
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        making = asyncio.create_task(_make_events(channel))
        try:
            yield
        finally:
            making.cancel()
            await asyncio.wait([making])
            await server.stop(0)


async def _make_events(channel):
    """None is waited for: it may be the one that waits. The server refuses each, which is an event as well."""
    calls = []
    try:
        while True:
            calls = [call for call in calls if not call.done()]
            calls.append(channel.unary_unary("/t/none")(b""))
            await asyncio.sleep(EVENT_S)
    finally:
        for call in calls:
            call.cancel()
