"""`tests.contracts.grpc_calls` says of gRPC what is true of gRPC."""

from tests.contracts.grpc_calls import GrpcContract
from tests.integration.rpc.grpc_medium import Grpc


class TestGrpc(GrpcContract):
    medium = Grpc
