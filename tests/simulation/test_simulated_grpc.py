"""The simulated `grpc.aio` keeps the promises that the real one keeps: the same contracts hold over both."""

import pytest
from tests.contracts import test_stubs
from tests.contracts.controller_stub import ControllerStubContract
from tests.contracts.grpc_calls import GrpcContract
from tests.contracts.plain_grpc import PlainGrpcContract
from tests.contracts.session_storm import SessionStormContract
from tests.contracts.sessions import SessionContract
from tests.simulation.simulated_grpc import SimulatedGrpc


@pytest.fixture(params=[0, 1], ids=["calm", "wild"], autouse=True)
def medium(request):
    request.instance.medium = SimulatedGrpc(request.param)


class TestGrpc(GrpcContract):
    pass


class TestSessionStub(test_stubs.TestSessionStub):
    def run(self, scenario):
        self.medium.run(scenario)


class TestSessionStubWithTightLimits(test_stubs.TestSessionStubWithTightLimits):
    def run(self, scenario):
        self.medium.run(scenario)


class TestSessions(SessionContract):
    pass


class TestPlainGrpc(PlainGrpcContract):
    pass


class TestControllerStub(ControllerStubContract):
    pass


class TestSessionStorm(SessionStormContract):
    pass
