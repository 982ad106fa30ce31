"""`tests.contracts.plain_grpc` holds over gRPC itself."""

from tests.contracts.plain_grpc import PlainGrpcContract
from tests.integration.rpc.grpc_medium import Grpc


class TestPlainGrpc(PlainGrpcContract):
    medium = Grpc
