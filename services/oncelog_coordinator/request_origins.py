"""The origins of TV1 requests (their connection and number), read from protobuf and written into it (ADR 0018)."""

from typing import NamedTuple

from oncelog.api.v1 import coordinator_pb2, groups_pb2, types_pb2
from oncelog_coordinator.core.client import Client
from oncelog_coordinator.core.request_origin import RequestOrigin

RequestWithOrigin = (
    coordinator_pb2.InitProducerIdRequest
    | coordinator_pb2.AddPartitionsToTxnRequest.Transaction
    | coordinator_pb2.AddOffsetsToTxnRequest
    | coordinator_pb2.EndTxnRequest
    | groups_pb2.OffsetCommitRequest
    | groups_pb2.TxnOffsetCommitRequest
    | groups_pb2.ConsumerGroupHeartbeatRequest
)
"""The requests that carry the number that their listener gave them."""


class RequestOrigins(NamedTuple):
    """The origin of a request (its listener, connection and number), and the newest successful requests that earlier
    refusals named.

    The state machine compares them to tell a delayed request from a current one (`core.request_origin`).
    """

    origin: RequestOrigin | None
    refused_origin: RequestOrigin | None
    """The newest successful request, as an earlier refusal of this request named it. The client repeats the request
    now."""
    refused_addition_origin: RequestOrigin | None
    """The newest successful request, as the refusal of an addition on this connection named it. Only an EndTxn states
    it."""


def origins_of(request: RequestWithOrigin, *, is_enabled: bool) -> RequestOrigins:
    """Return where a request came in (listener, connection, number). With it come the newest requests of this client
    that succeeded, as the coordinator named them when it refused an earlier one.

    All are None if the request has no `origin`, or if the check for delayed requests is off.
    """
    if not is_enabled or not request.HasField("origin") or not request.origin.listener:
        return RequestOrigins(None, None, None)
    given = request.origin
    return RequestOrigins(
        _origin(given),
        _origin(given.delayed_by) if given.HasField("delayed_by") else None,
        _origin(given.addition_delayed_by) if given.HasField("addition_delayed_by") else None,
    )


def client_of(request: RequestWithOrigin) -> Client:
    """Return the client that sent the request, as its listener describes it."""
    given = request.origin
    return Client(given.client_id, given.client_host)


def request_number(origin: RequestOrigin | None) -> types_pb2.RequestNumber | None:
    """Return the origin (connection and number) of a request as a protobuf message; None leaves the field out.

    It is for the field `delayed_by` of a response that refuses a delayed request, where it names the newer request.
    """
    return None if origin is None else types_pb2.RequestNumber(**origin._asdict())


def _origin(given: types_pb2.RequestOrigin | types_pb2.RequestNumber) -> RequestOrigin:
    return RequestOrigin(given.listener, given.connection, given.request)
