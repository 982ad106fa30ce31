"""The coordinator's answers about an attempt of a Spark sink."""

from enum import IntEnum


class SinkAnswer(IntEnum):
    """An answer's number, as in `SinkAnswer` of coordinator.proto, which explains each."""

    OK = 0
    SKIP = 1
    ALREADY = 2
    ALREADY_OTHER = 3
    FENCED = 4
    QUERY_CHANGED = 5
    REPLAY_REFUSED = 6
