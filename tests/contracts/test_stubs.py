"""Direct calls and sessions obey one contract."""

from contextlib import asynccontextmanager

import pytest
from tests.contracts.stub import ScriptedStorage, StubContract, produce

from oncelog.rpc.contract import STORAGE
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.server import RpcServer
from oncelog.rpc.session_client import PeerSession, SessionStub
from oncelog.rpc.sessions import PeerUnavailable, SessionLimits


class TestDirectStub(StubContract):
    @asynccontextmanager
    async def world(self):
        servicer = ScriptedStorage()
        yield DirectStub(servicer), servicer


class TestSessionStub(StubContract):
    LIMITS = SessionLimits()

    @asynccontextmanager
    async def world(self):
        servicer = ScriptedStorage()
        server = RpcServer("127.0.0.1", 0, self.LIMITS)
        server.served.add(STORAGE, servicer)
        await server.start()
        session = PeerSession(f"127.0.0.1:{server.port}", self.LIMITS)
        try:
            yield SessionStub(session, STORAGE), servicer
        finally:
            await session.close()
            await server.stop(0.1)

    async def test_a_bug_says_which_method_failed(self):
        with pytest.raises(PeerUnavailable, match=r"INTERNAL.*Storage/Produce.*not this way"):
            await self.stub.Produce(produce("a bug"))


class TestSessionStubWithTightLimits(TestSessionStub):
    """Every wait for room, every split of a frame."""

    LIMITS = SessionLimits(calls_max=2, bytes_max=100, frame_bytes=1)
