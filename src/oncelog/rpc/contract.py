"""The services of `proto/` as data: the methods that a process can serve and call.

They are read from the descriptors of the generated messages, so this needs no gRPC and never disagrees with the
contract.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from google.protobuf.descriptor import FileDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from oncelog.api.v1 import (
    controller_pb2,
    coordinator_pb2,
    groups_pb2,
    marker_sender_pb2,
    peer_pb2,
    process_pb2,
    storage_pb2,
)

CONTROLLER = "Controller"
STORAGE = "Storage"
TRANSACTION_COORDINATOR = "TransactionCoordinator"
GROUP_COORDINATOR = "GroupCoordinator"
MARKER_SENDER = "MarkerSender"
PEER = "Peer"
PROCESS = "Process"

Response: TypeAlias = Any
"""A response of a method that is found by its name. The protocols of `oncelog.rpc.stubs` say of which class it is."""

UnaryCall = Callable[..., Coroutine[object, object, Response]]
"""A unary method of a stub that finds its methods by name."""


@dataclass(frozen=True, slots=True)
class Method:
    """One method of a gRPC service: its path, and how its messages are read."""

    name: str
    path: str
    """The method's path as gRPC writes it: /oncelog.api.v1.Storage/Produce."""
    request_from_string: Callable[[bytes], Message]
    response_from_string: Callable[[bytes], Message]
    takes_stream: bool
    answers_stream: bool

    @property
    def is_unary(self) -> bool:
        return not self.takes_stream and not self.answers_stream


@dataclass(frozen=True, slots=True)
class Service:
    """One gRPC service of `proto/`, with its methods by name."""

    full_name: str
    methods: Mapping[str, Method]


def _method(service: ServiceDescriptor, method: MethodDescriptor) -> Method:
    request = GetMessageClass(method.input_type)
    response = GetMessageClass(method.output_type)
    return Method(
        name=method.name,
        path=f"/{service.full_name}/{method.name}",
        request_from_string=request.FromString,
        response_from_string=response.FromString,
        takes_stream=method.client_streaming,
        answers_stream=method.server_streaming,
    )


def _service(file: FileDescriptor, name: str) -> Service:
    described = file.services_by_name[name]
    methods = {method.name: _method(described, method) for method in described.methods}
    return Service(described.full_name, methods)


SERVICES: Mapping[str, Service] = {
    CONTROLLER: _service(controller_pb2.DESCRIPTOR, CONTROLLER),
    STORAGE: _service(storage_pb2.DESCRIPTOR, STORAGE),
    TRANSACTION_COORDINATOR: _service(coordinator_pb2.DESCRIPTOR, TRANSACTION_COORDINATOR),
    GROUP_COORDINATOR: _service(groups_pb2.DESCRIPTOR, GROUP_COORDINATOR),
    MARKER_SENDER: _service(marker_sender_pb2.DESCRIPTOR, MARKER_SENDER),
    PEER: _service(peer_pb2.DESCRIPTOR, PEER),
    PROCESS: _service(process_pb2.DESCRIPTOR, PROCESS),
}
