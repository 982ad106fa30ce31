"""`tests.contracts.session_storm` holds over gRPC itself."""

from tests.contracts.session_storm import SessionStormContract
from tests.integration.rpc.grpc_medium import Grpc


class TestSessionStorm(SessionStormContract):
    medium = Grpc
