"""Direct calls and sessions obey one contract."""

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.contracts.stub import ScriptedStorage, StubContract, produce

from oncelog.rpc.contract import SERVICES, STORAGE
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.server import RpcServer
from oncelog.rpc.session_client import PeerSession, SessionStub
from oncelog.rpc.sessions import MethodMissing, PeerUnavailable, SessionLimits


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
        self.session = session
        try:
            yield SessionStub(session, STORAGE), servicer
        finally:
            await session.close()
            await server.stop(0.1)

    async def test_a_bug_says_which_method_failed(self):
        with pytest.raises(PeerUnavailable, match=r"INTERNAL.*Storage/Produce.*not this way"):
            await self.stub.Produce(produce("a bug"))

    async def test_an_older_process_is_told_from_one_that_is_away(self):
        """It serves nothing of that name: the caller can say what has to be upgraded."""
        newer = replace(SERVICES[STORAGE].methods["Produce"], path="/oncelog.api.v1.Storage/Newer")
        stub = SessionStub(self.session, STORAGE)
        stub._methods = {"Produce": newer}
        with pytest.raises(MethodMissing, match=r"UNIMPLEMENTED.*Storage/Newer") as failure:
            await stub.Produce(produce("anything"))
        assert not failure.value.was_sent


class TestSessionStubWithTightLimits(TestSessionStub):
    """Every wait for room, every split of a frame."""

    LIMITS = SessionLimits(calls_max=2, bytes_max=100, frame_bytes=1)
