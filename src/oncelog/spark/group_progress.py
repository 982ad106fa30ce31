"""The progress of a stream, shown as the offsets of a consumer group: `kafka.group.id`.

The checkpoint holds the offsets from which a query goes on. The group is for people: the console, `oncelog groups` and
every other tool show with it how far the query has read. No query reads the group's offsets back. So a failure costs a
line in the log; the query ends only where the group is not its own to use.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from oncelog.client.cluster import Cluster
from oncelog.errors import ErrorCode, KafkaError, OncelogError
from oncelog.spark.connecting import cluster_of
from oncelog.spark.offsets import OffsetVector
from oncelog.spark.options import SourceOptions

TIMEOUT_MS: Final = 3_000
"""Milliseconds that a micro-batch waits for a group at most, give or take one call of a third of that time."""
PAUSE_S: Final = 30.0
"""Seconds after a failure until the group is asked again: a coordinator that stands still must not hold up each
batch."""

_HAS_MEMBERS: Final = (
    "consumers of another program are members of that group: choose a name of its own"
)
_NOT_OURS: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID: _HAS_MEMBERS,
    ErrorCode.ILLEGAL_GENERATION: _HAS_MEMBERS,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "grant READ on that group to the query's user, or leave the option out",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant READ on the topic to the query's user",
    ErrorCode.INVALID_GROUP_ID: "choose another name",
}


class GroupProgress:
    """Commits the offsets that a stream has read to a consumer group, for people to see. It uses connections of its own
    with shorter time limits."""

    def __init__(self, options: SourceOptions, clock: Callable[[], float] = time.monotonic) -> None:
        assert options.group_id is not None
        self._options = options
        self._group_id = options.group_id
        self._clock = clock
        self._cluster: Cluster | None = None
        self._shown: OffsetVector = {}
        self._paused_until = 0.0

    def show(self, offsets: OffsetVector, warn: Callable[[str], None]) -> None:
        """Commit those of the offsets that have changed. Raises OncelogError if the query may not use this group, for
        example because it has members."""
        changed = {key: at for key, at in offsets.items() if self._shown.get(key) != at}
        if not changed or self._clock() < self._paused_until:
            return
        try:
            self._connected().commit_offsets(self._group_id, changed, TIMEOUT_MS)
        except OncelogError as error:
            self.close()
            code = error.error_code if isinstance(error, KafkaError) else ErrorCode.NONE
            if way_out := _NOT_OURS.get(code):
                raise OncelogError(
                    f"option kafka.group.id is {self._group_id!r}: {error}. {way_out}"
                ) from error
            self._paused_until = self._clock() + PAUSE_S
            warn(f"group {self._group_id!r} does not show what is read: {error}")
        else:
            self._shown.update(changed)

    def close(self) -> None:
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = cluster_of(self._options)
            self._cluster.settings = replace(
                self._cluster.settings,
                bootstrap_timeout_ms=TIMEOUT_MS,
                request_timeout_ms=TIMEOUT_MS // 3,
                call_timeout_ms=TIMEOUT_MS,
            )
        return self._cluster
