"""The log of `oncelog up` in this process, without listener and gateway."""

from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from oncelog.process.sources import Sources
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.metadata import MetadataFollower
from oncelog.runtime import SystemClock
from oncelog.telemetry.history import History
from oncelog_server import composition
from oncelog_server.data_folder import DataFolder
from oncelog_server.settings import EmbeddedSettings


class Embedded(NamedTuple):
    controller: DirectStub
    storage: object
    metadata: MetadataFollower


@asynccontextmanager
async def embedded(data):
    """Stopped in order at the end."""
    settings, sources = EmbeddedSettings(data=data), Sources()
    async with AsyncExitStack() as stack:
        stack.enter_context(DataFolder(data, is_ephemeral=False))
        role = await composition._controller(stack, settings, data, sources)
        controller = DirectStub(role.servicer)
        metadata = MetadataFollower(composition.NODE_ID, controller)
        history = composition._history(data)
        configs = composition._configs(settings, data, sources)
        await composition._register(controller, settings, configs, history)
        await composition._follow(stack, metadata)
        history.follow(metadata)
        stack.callback(history.close)
        *_, roles = await composition._start_log(
            stack, data, sources, metadata, controller, History(), SystemClock()
        )
        yield Embedded(controller, roles[0], metadata)
