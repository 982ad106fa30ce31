"""Reads the stamps of TV1 requests (ADR 0018)."""

from typing import Any, NamedTuple

from oncelog_coordinator.core.stamp import Stamp


class Marks(NamedTuple):
    """For the event."""

    stamp: Stamp | None
    insists: bool


def marks_of(request: Any, *, is_enabled: bool) -> Marks:
    """`request` has a `RequestStamp` as its `stamp`, or none."""
    if not is_enabled or not request.HasField("stamp") or not request.stamp.listener:
        return Marks(None, False)
    asked = request.stamp
    return Marks(Stamp(asked.listener, asked.connection, asked.request), asked.insists)
