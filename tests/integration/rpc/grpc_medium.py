"""The medium of the contracts of calls that is the real one: gRPC over loopback, processes of the operating system."""

import asyncio

from tests.integration.rpc.peer_process import peer_process

LIMIT_S = 100


class Grpc:
    peer_process = staticmethod(peer_process)

    @staticmethod
    def in_world(scenario):
        async def bounded():
            async with asyncio.timeout(LIMIT_S):
                await scenario()

        asyncio.run(bounded())
