"""The contracts of calls hold over gRPC itself, between processes of the operating system."""

from tests.contracts.controller_stub import ControllerStubContract, DyingControllerContract
from tests.contracts.grpc_calls import GrpcContract
from tests.contracts.plain_grpc import PlainGrpcContract
from tests.contracts.session_storm import SessionStormContract
from tests.contracts.sessions import SessionContract
from tests.integration.rpc.grpc_medium import Grpc


class TestGrpc(GrpcContract):
    medium = Grpc


class TestPlainGrpc(PlainGrpcContract):
    medium = Grpc


class TestSession(SessionContract):
    medium = Grpc


class TestSessionStorm(SessionStormContract):
    medium = Grpc


class TestControllerStub(ControllerStubContract):
    medium = Grpc


class TestDyingController(DyingControllerContract):
    medium = Grpc
