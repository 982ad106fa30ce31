"""The simulated `grpc.aio` keeps the promises that the real one keeps: the same contracts hold over both."""

import asyncio

import pytest
from tests.contracts import test_stubs
from tests.contracts.controller_stub import ControllerStubContract, DyingControllerContract
from tests.contracts.grpc_calls import GrpcContract
from tests.contracts.plain_grpc import PlainGrpcContract
from tests.contracts.session_storm import SessionStormContract
from tests.contracts.sessions import SessionContract
from tests.contracts.stub import ScriptedStorage
from tests.integration.rpc.scripted_controller import Served
from tests.simulation.simulated_grpc import SimulatedGrpc

from oncelog.rpc.contract import STORAGE
from oncelog.rpc.sessions import SessionLimits


@pytest.fixture(params=[0, 1], ids=["calm", "wild"], autouse=True)
def medium(request):
    made = SimulatedGrpc(request.param)
    if request.instance is not None:
        request.instance.medium = made
    return made


class TestGrpc(GrpcContract):
    pass


class TestSessionStub(test_stubs.TestSessionStub):
    def run(self, scenario):
        self.medium.in_world(scenario)


class TestSessionStubWithTightLimits(test_stubs.TestSessionStubWithTightLimits):
    def run(self, scenario):
        self.medium.in_world(scenario)


class TestSessions(SessionContract):
    pass


class TestPlainGrpc(PlainGrpcContract):
    pass


class TestControllerStub(ControllerStubContract):
    pass


class TestDyingController(DyingControllerContract):
    pass


class TestSessionStorm(SessionStormContract):
    pass


async def test_whoever_does_not_speak_grpc_is_cut_off(medium):
    async with Served(ScriptedStorage(), STORAGE) as served:
        host, port = served.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        assert await reader.readexactly(1)
        writer.write(b"GET / HTTP/1.1")
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)


async def test_whoever_says_nothing_is_cut_off_by_the_keepalive(medium):
    limits = SessionLimits(keepalive_ms=300, keepalive_timeout_ms=300)
    async with Served(ScriptedStorage(), STORAGE, limits) as served:
        host, port = served.address.split(":")
        reader, _ = await asyncio.open_connection(host, int(port))
        with pytest.raises(ConnectionResetError):
            await reader.read(-1)
