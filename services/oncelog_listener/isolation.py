"""The isolation level of a Fetch or ListOffsets request, turned into the enum of the RPC contracts."""

from collections.abc import Mapping
from typing import Final

from oncelog.api.v1 import types_pb2
from oncelog_listener.call import CloseConnection

_LEVELS: Final[Mapping[int, types_pb2.IsolationLevel]] = {
    0: types_pb2.READ_UNCOMMITTED,
    1: types_pb2.READ_COMMITTED,
}


def isolation_of(level: int) -> types_pb2.IsolationLevel:
    """Return the isolation level with Kafka's number. Raises CloseConnection for another number: no response has an
    error for that."""
    found = _LEVELS.get(level)
    if found is None:
        raise CloseConnection(f"isolation level {level} is neither 0 nor 1")
    return found
