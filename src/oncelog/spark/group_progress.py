"""A stream's reading, shown as a consumer group: `kafka.group.id`.

The checkpoint holds the offsets from which a query goes on. The group is for people: the console, `oncelog groups` and
every other tool show with it how far the query has read. Nobody reads it back. So a failure costs a line in the log;
the query ends only where the group is not its own to use.
"""

from collections.abc import Callable
from typing import Final

from oncelog.client.cluster import Cluster
from oncelog.errors import ErrorCode, KafkaError, OncelogError
from oncelog.spark.offsets import OffsetVector

TIMEOUT_MS: Final = 5_000
"""Longer than a coordinator's change usually takes. A micro-batch waits for so long at most."""

_NOT_OURS: Final = {
    ErrorCode.UNKNOWN_MEMBER_ID: "consumers of another program are members of that group: choose a name of its own",
    ErrorCode.ILLEGAL_GENERATION: "consumers of another program are members of that group: choose a name of its own",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "grant READ on that group to the query's user, or leave the option out",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "grant READ on the topic to the query's user",
    ErrorCode.INVALID_GROUP_ID: "choose another name",
}


class GroupProgress:
    """Commits what a stream has read to a group, when it has changed."""

    def __init__(self, group_id: str) -> None:
        self._group_id = group_id
        self._shown: OffsetVector = {}

    def show(self, cluster: Cluster, offsets: OffsetVector, warn: Callable[[str], None]) -> None:
        """Raises OncelogError where the group cannot be this query's."""
        changed = {key: at for key, at in offsets.items() if self._shown.get(key) != at}
        if not changed:
            return
        self._shown = dict(offsets)
        try:
            cluster.commit_offsets(self._group_id, changed, TIMEOUT_MS)
        except KafkaError as error:
            if way_out := _NOT_OURS.get(error.error_code):
                raise OncelogError(
                    f"option kafka.group.id is {self._group_id!r}: {error.message}. {way_out}"
                ) from error
            warn(f"group {self._group_id!r} does not show what is read: {error}")
