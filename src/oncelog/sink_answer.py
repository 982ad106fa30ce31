"""What a coordinator answers about an attempt of a Spark sink."""

from enum import IntEnum


class SinkAnswer(IntEnum):
    """The numbers are those of `SinkAnswer` in coordinator.proto, where each is explained."""

    OK = 0
    SKIP = 1
    ALREADY = 2
    ALREADY_OTHER = 3
    FENCED = 4
    QUERY_CHANGED = 5
    REPLAY_REFUSED = 6
