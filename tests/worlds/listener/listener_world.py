"""A listener's surroundings: the roles it calls, the image it reads, and a socket to reach it by."""

import asyncio
from contextlib import asynccontextmanager

from tests.worlds.listener.fake_group_coordinator import FakeGroupCoordinator
from tests.worlds.listener.fake_roles import FakeController, FakeCoordinator, FakeStorage
from tests.worlds.listener.listener_image import NODE_ID, follower
from tests.worlds.listener.wire_client import WireClient

from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog_listener.cluster import Cluster
from oncelog_listener.settings import ListenerSettings
from oncelog_listener.wiring import build_listener

_SETTINGS = ListenerSettings(port=0, repeat_max_ms=0)
"""Of most worlds. Reading the environment takes longer than a request does."""


class World:
    """A listener's surroundings."""

    def __init__(self, *topics, shards=50, transaction_version=2, **settings):
        self.metadata = follower(*topics, shards=shards, transaction_version=transaction_version)
        self.storage = FakeStorage()
        self.coordinator = FakeCoordinator()
        self.groups = FakeGroupCoordinator()
        self.controller = FakeController(self.metadata)
        # What does not get better is not waited for, unless a test is about that.
        self.settings = _SETTINGS
        if settings:
            self.settings = ListenerSettings(**({"port": 0, "repeat_max_ms": 0} | settings))
        self.directory = LocalDirectory(
            storage=DirectStub(self.storage),
            coordinator=DirectStub(self.coordinator),
            group_coordinator=DirectStub(self.groups),
            marker_sender=None,
            controller=DirectStub(self.controller),
        )

    @property
    def cluster(self):
        return Cluster(self.settings, NODE_ID, self.metadata, self.directory)

    @asynccontextmanager
    async def listening(self, node_id=NODE_ID):
        role = build_listener(self.settings, node_id, self.metadata, self.directory)
        await role.start()
        try:
            yield role
        finally:
            await role.stop()

    @asynccontextmanager
    async def connected(self):
        """The listener, and a client of it."""
        async with self.listening() as role:
            yield role, await WireClient.connect(role.port)


async def eventually(condition, timeout_s=30.0):
    """Wait until it holds; fails the test when it never does."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (what it looks at sets no event)
            await asyncio.sleep(0.005)
