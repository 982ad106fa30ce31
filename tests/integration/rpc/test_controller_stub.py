"""`tests.contracts.controller_stub` holds over gRPC itself."""

from tests.contracts.controller_stub import ControllerStubContract
from tests.integration.rpc.grpc_medium import Grpc


class TestControllerStub(ControllerStubContract):
    medium = Grpc
