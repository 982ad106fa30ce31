"""Fetch sessions (KIP-227): the listener remembers what a client reads, so requests and answers contain only changes.

```
 full request, epoch 0 ──▶ answered whole ──▶ session, epoch 1
 request of epoch n ──▶ changes are taken ──▶ what is news is answered ──▶ epoch n + 1
```

A session belongs to the connection that opened it, and a connection has one (ADR 0042). A client whose session is gone
is told FETCH_SESSION_ID_NOT_FOUND, and names everything again. The sessions of all clients are bounded in number and in
partitions.
"""

from collections.abc import Callable, Hashable
from typing import Final
from uuid import UUID

from oncelog.errors import ErrorCode

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
"""The session epoch of a client that wants no session, and closes the one that it has."""
EVICTABLE_AFTER_MS: Final = 120_000
_UNKNOWN: Final = -1
SESSION_ID_MAX: Final = 2**31 - 1

Key = tuple[Hashable, int]
"""A partition as its client names it: by the topic's id, or by its name."""


class WantedPartition:
    """One partition in a client's fetch: the offset and size it asked for, and the offsets that it was last told."""

    __slots__ = (
        "fetch_offset",
        "high_watermark",
        "leader_epoch",
        "log_start_offset",
        "made",
        "max_bytes",
        "partition",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str | None, topic_id: UUID | None, partition: int) -> None:
        self.topic = topic
        """The name of the topic; None: no topic is known that has the id."""
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = self.max_bytes = 0
        self.leader_epoch = _UNKNOWN
        self.high_watermark = self.log_start_offset = _UNKNOWN
        self.made: object = None
        """The request to the leader that was made of these fields; None: a field has changed since, or none was
        made."""

    def is_news(
        self, error_code: int, high_watermark: int, log_start_offset: int, *, has_records: bool
    ) -> bool:
        """True if the answer holds records, an error or offsets that the client was not told before. The call stores
        them as told."""
        is_known = (high_watermark, log_start_offset) == (
            self.high_watermark,
            self.log_start_offset,
        )
        if error_code or not is_known:
            self.made = None
        self.log_start_offset = log_start_offset
        # Behind an error it is told of what follows, whatever that is.
        self.high_watermark = _UNKNOWN if error_code else high_watermark
        return bool(error_code) or has_records or not is_known


class FetchSession:
    __slots__ = ("counted", "created_ms", "epoch", "id", "partitions", "used_ms", "uses_topic_ids")

    def __init__(
        self,
        session_id: int,
        partitions: dict[Key, WantedPartition],
        now_ms: float,
        *,
        uses_topic_ids: bool,
    ) -> None:
        self.id = session_id
        self.partitions = partitions
        """The partitions in the order in which they are read: one that had records goes to the end."""
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        """The epoch that the next request must have."""
        self.counted = len(partitions)
        self.created_ms = self.used_ms = now_ms

    def to_the_end(self, key: Key) -> None:
        self.partitions[key] = self.partitions.pop(key)


class FetchSessions:
    """The fetch sessions of all connections, bounded by number and by partitions."""

    def __init__(
        self,
        sessions_max: int,
        partitions_max: int,
        new_id: Callable[[], int],
    ) -> None:
        self._sessions_max = sessions_max
        self._partitions_max = partitions_max
        self._new_id = new_id
        self._by_connection: dict[int, FetchSession] = {}
        """The session of each connection, in the order of their last use."""
        self.partition_count = 0
        self.eviction_count = 0

    def __len__(self) -> int:
        return len(self._by_connection)

    def find(
        self,
        connection: int,
        session_id: int,
        session_epoch: int,
        now_ms: float,
        *,
        uses_topic_ids: bool,
    ) -> FetchSession | ErrorCode:
        """Return the connection's session for this id, and advance its epoch. Return an error code if id or epoch do
        not fit, or if the session names topics in the other way (by id or by name)."""
        session = self._by_connection.get(connection)
        if session is None or session.id != session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.uses_topic_ids != uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        session.epoch = 1 if session_epoch == SESSION_ID_MAX else session_epoch + 1
        session.used_ms = now_ms
        self._by_connection[connection] = self._by_connection.pop(connection)
        return session

    def is_kept(self, connection: int, session: FetchSession, now_ms: float) -> bool:
        """Count the session's partitions again after the request changed them. False: the session has none, or there is
        no room, and it is closed."""
        if self._by_connection.get(connection) is not session:
            return False
        self.close(connection)
        session.counted = len(session.partitions)
        return self._kept(connection, session, now_ms)

    def open(
        self,
        connection: int,
        partitions: dict[Key, WantedPartition],
        now_ms: float,
        *,
        uses_topic_ids: bool,
    ) -> int:
        """Open a new session for the connection and return its id; NO_SESSION if there is no room."""
        self.close(connection)
        session = FetchSession(self._new_id(), partitions, now_ms, uses_topic_ids=uses_topic_ids)
        return session.id if self._kept(connection, session, now_ms) else NO_SESSION

    def close(self, connection: int) -> None:
        """Close the connection's session, if it has one."""
        session = self._by_connection.pop(connection, None)
        if session is not None:
            self.partition_count -= session.counted

    def _kept(self, connection: int, session: FetchSession, now_ms: float) -> bool:
        if not session.counted or session.counted > self._partitions_max:
            return False
        while (
            len(self._by_connection) >= self._sessions_max
            or self.partition_count + session.counted > self._partitions_max
        ):
            evicted = self._evictable(session.counted, now_ms)
            if evicted is None:
                return False
            self.close(evicted)
            self.eviction_count += 1
        self._by_connection[connection] = session
        self.partition_count += session.counted
        return True

    def _evictable(self, partition_count: int, now_ms: float) -> int | None:
        """Return the connection whose session may be closed to make room for one of `partition_count` partitions; None:
        no session may.

        A session that is no longer used goes first, then a smaller one that is not new. So the sessions that save most
        stay.
        """
        oldest_ms = now_ms - EVICTABLE_AFTER_MS
        connection, stalest = next(iter(self._by_connection.items()), (0, None))
        if stalest is None:
            return None
        if stalest.used_ms < oldest_ms:
            return connection
        old = [one for one in self._by_connection.items() if one[1].created_ms < oldest_ms]
        connection, smallest = min(old, key=lambda one: one[1].counted, default=(0, None))
        return connection if smallest is not None and smallest.counted < partition_count else None
