"""Every role in one process, for unmodified clients."""

import asyncio

import uvloop

from oncelog.process.sources import Sources
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings


def against_oncelog(tmp_path, client):
    """Runs `client(bootstrap)` in a thread, against a fresh oncelog."""

    async def scenario():
        settings = EmbeddedSettings(port=0, gateway_port=0, data=tmp_path)
        async with embedded_roles(settings, tmp_path, Sources()) as addresses:
            return await asyncio.to_thread(client, addresses.bootstrap)

    return uvloop.run(scenario())
