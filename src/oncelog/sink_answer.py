"""The coordinator's answers to the requests by which Spark writes a micro-batch into a sink."""

from enum import IntEnum


class SinkAnswer(IntEnum):
    """The coordinator's answer to a Spark sink's request: accepted, skipped, fenced and so on.

    The numbers are those of `SinkAnswer` in coordinator.proto, which explains each.
    """

    OK = 0
    SKIP = 1
    ALREADY = 2
    ALREADY_OTHER = 3
    FENCED = 4
    QUERY_CHANGED = 5
    REPLAY_REFUSED = 6
