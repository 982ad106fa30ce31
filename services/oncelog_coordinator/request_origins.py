"""Reads and writes the origins of TV1 requests (ADR 0018)."""

from typing import Any, NamedTuple

from oncelog.api.v1 import types_pb2
from oncelog_coordinator.core.client import Client
from oncelog_coordinator.core.request_origin import RequestOrigin


class RequestOrigins(NamedTuple):
    """For the event."""

    origin: RequestOrigin | None
    refused_origin: RequestOrigin | None
    """Its client was refused for that one, on this connection, and has come again."""
    refused_addition_origin: RequestOrigin | None
    """Of an EndTxn: an addition was refused for that one, on this connection."""


def origins_of(request: Any, *, is_enabled: bool) -> RequestOrigins:
    """`request` has a `RequestStamp` as its `stamp`, or none."""
    if not is_enabled or not request.HasField("stamp") or not request.stamp.listener:
        return RequestOrigins(None, None, None)
    asked = request.stamp
    return RequestOrigins(
        _origin(asked),
        _origin(asked.delayed_by) if asked.HasField("delayed_by") else None,
        _origin(asked.addition_delayed_by) if asked.HasField("addition_delayed_by") else None,
    )


def client_of(request: Any) -> Client:
    """Who sent it, as its listener says."""
    asked = request.stamp
    return Client(asked.client_id, asked.client_host)


def request_number(origin: RequestOrigin | None) -> Any:
    """For an answer's `delayed_by`; None leaves it out."""
    return None if origin is None else types_pb2.RequestNumber(**origin._asdict())


def _origin(told: Any) -> RequestOrigin:
    return RequestOrigin(told.listener, told.connection, told.request)
