"""`tests.contracts.sessions` holds over gRPC itself."""

from tests.contracts.sessions import SessionContract
from tests.integration.rpc.grpc_medium import Grpc


class TestSession(SessionContract):
    medium = Grpc
