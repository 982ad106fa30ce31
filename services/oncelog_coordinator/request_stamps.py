"""Reads and writes the stamps of TV1 requests (ADR 0018)."""

from typing import Any, NamedTuple

from oncelog.api.v1 import types_pb2
from oncelog_coordinator.core.client import Client
from oncelog_coordinator.core.stamp import Stamp


class Marks(NamedTuple):
    """For the event."""

    stamp: Stamp | None
    told: Stamp | None
    """Its client was refused for that one, on this connection, and has come again."""
    addition_told: Stamp | None
    """Of an EndTxn: an addition was refused for that one, on this connection."""


def marks_of(request: Any, *, is_enabled: bool) -> Marks:
    """`request` has a `RequestStamp` as its `stamp`, or none."""
    if not is_enabled or not request.HasField("stamp") or not request.stamp.listener:
        return Marks(None, None, None)
    asked = request.stamp
    return Marks(
        _stamp(asked),
        _stamp(asked.delayed_by) if asked.HasField("delayed_by") else None,
        _stamp(asked.addition_delayed_by) if asked.HasField("addition_delayed_by") else None,
    )


def client_of(request: Any) -> Client:
    """Who sent it, as its listener says."""
    asked = request.stamp
    return Client(asked.client_id, asked.client_host)


def request_number(stamp: Stamp | None) -> Any:
    """For an answer's `delayed_by`; None leaves it out."""
    return None if stamp is None else types_pb2.RequestNumber(**stamp._asdict())


def _stamp(told: Any) -> Stamp:
    return Stamp(told.listener, told.connection, told.request)
