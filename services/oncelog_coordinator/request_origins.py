"""Reads and writes the origins of TV1 requests (ADR 0018)."""

from typing import NamedTuple

from oncelog.api.v1 import coordinator_pb2, groups_pb2, types_pb2
from oncelog_coordinator.core.client import Client
from oncelog_coordinator.core.request_origin import RequestOrigin

StampedRequest = (
    coordinator_pb2.InitProducerIdRequest
    | coordinator_pb2.AddPartitionsToTxnRequest.Transaction
    | coordinator_pb2.AddOffsetsToTxnRequest
    | coordinator_pb2.EndTxnRequest
    | groups_pb2.OffsetCommitRequest
    | groups_pb2.TxnOffsetCommitRequest
    | groups_pb2.ConsumerGroupHeartbeatRequest
)
"""Requests with the number that their listener gave them."""


class RequestOrigins(NamedTuple):
    """For the event."""

    origin: RequestOrigin | None
    refused_origin: RequestOrigin | None
    """Its client was refused for that one, on this connection, and has come again."""
    refused_addition_origin: RequestOrigin | None
    """Of an EndTxn: an addition was refused for that one, on this connection."""


def origins_of(request: StampedRequest, *, is_enabled: bool) -> RequestOrigins:
    """`request` has a `RequestStamp` as its `stamp`, or none."""
    if not is_enabled or not request.HasField("stamp") or not request.stamp.listener:
        return RequestOrigins(None, None, None)
    stamp = request.stamp
    return RequestOrigins(
        _origin(stamp),
        _origin(stamp.delayed_by) if stamp.HasField("delayed_by") else None,
        _origin(stamp.addition_delayed_by) if stamp.HasField("addition_delayed_by") else None,
    )


def client_of(request: StampedRequest) -> Client:
    """Who sent it, as its listener says."""
    stamp = request.stamp
    return Client(stamp.client_id, stamp.client_host)


def request_number(origin: RequestOrigin | None) -> types_pb2.RequestNumber | None:
    """For an answer's `delayed_by`; None leaves it out."""
    return None if origin is None else types_pb2.RequestNumber(**origin._asdict())


def _origin(stamp: types_pb2.RequestStamp | types_pb2.RequestNumber) -> RequestOrigin:
    return RequestOrigin(stamp.listener, stamp.connection, stamp.request)
