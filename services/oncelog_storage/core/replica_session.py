"""One follower's fetch session at the leader's node, and its news for the follower (KIP-227).

```
request: changed positions ──▶ FollowedPartition.moved_to ──▶ its position is compared once with the leader's history
answer:  dirty partitions ◀── news_of: a divergence, records, another log start; a high watermark alone is late news
```

A session costs nothing for partitions in which nothing happens: a request names only those whose position changed, and
an answer only those that have something to say. Pure: the caller reads records, waits and tells the time.
"""

from typing import Final, NamedTuple

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog_storage.core.leader_state import Liveness
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Divergence, FollowerPosition, PositionTaken

_NEVER_SENT: Final = -2
_NOTHING: Final = PositionTaken(None)


class News(NamedTuple):
    """The news about a partition that an answer must tell a follower, besides the leader and high watermark."""

    is_due: bool
    """True if the answer must name the partition even without records."""
    diverging: Divergence | None = None
    read_from: int | None = None
    """Records from this offset on go into the answer; None: there are none."""


class FollowedPartition:
    """One partition of a follower's fetch session, as the leader's node keeps it: what the follower has, and what it
    was sent.
    """

    __slots__ = (
        "current_leader_epoch",
        "diverging",
        "hosted",
        "is_taken",
        "is_told_to_truncate",
        "node_epoch",
        "partition",
        "position",
        "sent_high_watermark",
        "sent_log_start",
        "session",
    )

    def __init__(self, session: "ReplicaSession", partition: Partition) -> None:
        self.session = session
        self.partition = partition
        self.hosted: PartitionReplica | None = None
        """The hosted partition, which calls `mark` when it has news; None before it is watched."""
        self.position = FollowerPosition(0, -1, -1)
        self.current_leader_epoch = -1
        self.node_epoch = -1
        self.is_taken = False
        """True if this position was compared with the leader's history.

        Nothing else is sent to the follower before that.
        """
        self.diverging: Divergence | None = None
        self.is_told_to_truncate = False
        self.sent_high_watermark = self.sent_log_start = _NEVER_SENT

    def mark(self) -> None:
        """Mark the partition as one that may have news, and wake the session."""
        self.session.dirty[self] = None
        self.session.wake()

    def watch(self, hosted: PartitionReplica) -> None:
        if self.hosted is not hosted:
            self.unwatch()
            self.hosted = hosted
            hosted.add_replica_watcher(self.mark)

    def unwatch(self) -> None:
        if self.hosted is not None:
            self.hosted.remove_replica_watcher(self.mark)
            self.hosted = None

    def moved_to(
        self, position: FollowerPosition, current_leader_epoch: int, node_epoch: int
    ) -> None:
        """Store a new position from the follower's request. The next answer compares it with the leader's history."""
        if self.diverging is not None or position.fetch_offset <= self.position.fetch_offset:
            # The follower did not take the high watermark and log start of the last answer.
            self.sent_high_watermark = self.sent_log_start = _NEVER_SENT
        self.position = position
        self.current_leader_epoch = current_leader_epoch
        self.node_epoch = node_epoch
        self.is_taken = self.is_told_to_truncate = False
        self.diverging = None

    def apply_position(self, partition: PartitionReplica, now_s: float) -> PositionTaken:
        """Give the follower's position to the partition's leader, once, and return what it changed there.

        Raises KafkaError(REPLICA_NOT_AVAILABLE).
        """
        session, state = self.session, partition.replicas
        node_id = session.node_id
        if self.is_taken and state is not None and node_id in state.followers:
            return _NOTHING
        taken = partition.take_position(node_id, self.node_epoch, self.position, session, now_s)
        self.is_taken = True
        self.diverging = taken.diverging
        return taken

    def news_of(self, partition: PartitionReplica) -> News:
        """Return what the next answer must tell the follower about the partition: a divergence, records, a log start.

        Raises KafkaError(OFFSET_OUT_OF_RANGE): the follower must begin where this log does.
        """
        log, offset = partition.log, self.position.fetch_offset
        if self.diverging is not None:
            # Told once; nothing else is, until the follower has cut its log and says where it stands then.
            is_due, self.is_told_to_truncate = not self.is_told_to_truncate, True
            self.sent_high_watermark = partition.high_watermark
            return News(is_due, self.diverging)
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        has_records = offset < log.log_end_offset
        is_start_new = self.sent_log_start != log.log_start_offset
        return News(is_start_new, None, offset if has_records else None)


class ReplicaSession(Liveness):
    """The fetch session of one follower with this node. Times are monotonic seconds."""

    __slots__ = (
        "dirty",
        "is_closed",
        "is_late_due",
        "late",
        "node_id",
        "partitions",
        "session_epoch",
        "session_id",
    )

    def __init__(self, session_id: int, node_id: int, now_s: float) -> None:
        super().__init__(now_s)
        self.session_id = session_id
        self.node_id = node_id
        self.session_epoch = 0
        self.partitions: dict[Partition, FollowedPartition] = {}
        self.dirty: dict[FollowedPartition, None] = {}
        """The partitions that may have news."""
        self.late: dict[FollowedPartition, None] = {}
        """The partitions whose only news is a new high watermark. It waits until other news is sent."""
        self.is_late_due = False
        self.is_closed = False

    def wake(self) -> None:
        """Wake the follower's request that waits for news. `replica_sessions`, where requests wait, overrides this."""

    def followed(self, partition: Partition) -> FollowedPartition:
        found = self.partitions.get(partition)
        if found is None:
            found = self.partitions[partition] = FollowedPartition(self, partition)
        return found

    def leave(self, partition: Partition) -> None:
        """Take a partition out of the session, because the follower no longer follows it."""
        followed = self.partitions.pop(partition, None)
        if followed is None:
            return
        state = None if followed.hosted is None else followed.hosted.replicas
        if state is not None and self.node_id in state.followers:
            state.followers[self.node_id].left()
        followed.unwatch()
        self.dirty.pop(followed, None)
        self.late.pop(followed, None)

    def close(self) -> None:
        self.is_closed = True
        self.take_late()
        for followed in self.partitions.values():
            followed.unwatch()
        self.wake()

    def go_on(self, session_id: int, session_epoch: int, now_s: float) -> ErrorCode:
        """Accept the session's next request. Return NONE, or the code for a session that a lost request or answer has
        ended.
        """
        if session_id != self.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session_epoch != self.session_epoch + 1:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self.session_epoch = session_epoch
        self.last_seen = now_s
        return ErrorCode.NONE

    @property
    def has_news(self) -> bool:
        return self.is_closed or self.is_late_due or bool(self.dirty)

    def take_dirty(self) -> tuple[FollowedPartition, ...]:
        dirty, self.dirty = tuple(self.dirty), {}
        return dirty

    def take_late(self) -> tuple[FollowedPartition, ...]:
        late, self.late, self.is_late_due = tuple(self.late), {}, False
        return late

    def is_worth_an_answer(
        self, followed: FollowedPartition, high_watermark: int, *, has_news: bool, is_late: bool
    ) -> bool:
        """True if the partition must be in this answer.

        A new high watermark alone is no hurry, since consumers read from leaders. It waits in `late` until another
        answer is sent or a linger is over; `is_late` says that this is so now. Sent at once, it would double the
        messages of every append.
        """
        if has_news or followed.sent_high_watermark == high_watermark:
            return has_news
        if not is_late:
            self.late[followed] = None
        return is_late

    def said(self, followed: FollowedPartition, high_watermark: int, log_start_offset: int) -> None:
        """Store what an answer without an error has told the follower, so that only changes are told again."""
        followed.sent_high_watermark = high_watermark
        followed.sent_log_start = log_start_offset
        self.late.pop(followed, None)
