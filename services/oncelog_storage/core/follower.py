"""A follower: what it asks its leader for, and what an answer makes it do (KIP-101, KIP-227, KIP-595).

```
FollowerSession   positions that changed ──▶ request;   answer ──▶ the replica at whose position it begins
FollowedLog       answer + log ──▶ Append │ Truncate │ CutEpochs │ StartOver │ None
```

Pure: the shell sends, writes and waits. Times are seconds of a monotonic clock.
"""

from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition as PartitionName
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.messages import PartitionAnswer, PartitionTold, ReplicaAsk
from oncelog_storage.core.partition import Partition
from oncelog_storage.core.partition_values import Divergence

NO_SESSION: Final = 0
_BACKOFF_MAX_S: Final = 1.0


class Position(NamedTuple):
    """Where a follower's log stands: what a request says of it."""

    log_end_offset: int
    last_leader_epoch: int
    log_start_offset: int


class Append(NamedTuple):
    """Write what came, if anything; then the leader's log start and high watermark count."""


class StartOver(NamedTuple):
    """Drop everything and begin, empty, at `offset`."""

    offset: int


class Truncate(NamedTuple):
    """Drop the batch that holds `offset` and all behind it."""

    offset: int


class CutEpochs(NamedTuple):
    """A leader epoch without a record stands in the way: drop it, not a record."""

    offset: int


Step = Append | StartOver | Truncate | CutEpochs


def step_of(log: LogState, leader_epoch: int, answer: PartitionAnswer) -> Step | None:
    """What a follower of the leader in `leader_epoch` does. None: the answer is of another leader epoch."""
    if answer.error_code:
        # The leader's log does not reach the offset that was asked for.
        return StartOver(answer.log_start_offset)
    if answer.leader_epoch != leader_epoch:
        return None
    if answer.diverging:
        shared = Divergence(answer.diverging_leader_epoch, answer.diverging_end_offset)
        return _truncation(log, shared)
    if answer.log_start_offset > log.log_end_offset:
        return StartOver(answer.log_start_offset)
    return Append()


def _truncation(log: LogState, shared: Divergence) -> Step:
    """Back to where the two histories were one, as far as this answer tells."""
    own_epoch, own_end = log.leader_epochs.end_offset_for(shared.leader_epoch, log.log_end_offset)
    if own_epoch < 0:
        offset = shared.end_offset
    elif own_epoch == shared.leader_epoch:
        offset = min(own_end, shared.end_offset)
    else:
        offset = own_end
    if offset < log.log_start_offset:
        return StartOver(shared.end_offset)
    if offset >= log.log_end_offset:
        return CutEpochs(offset)
    return Truncate(offset)


def take_log_start(log: LogState, log_start_offset: int) -> bool:
    """Retention and DeleteRecords are the leader's to decide; the files go with the next look at retention.

    Returns whether the log start moved."""
    if log_start_offset <= log.log_start_offset:
        return False
    log.advance_log_start(log_start_offset)
    log.leader_epochs.truncate_to_start(log_start_offset)
    return True


def cut_epochs(log: LogState, offset: int) -> None:
    """Raises KafkaError: nothing stands in the way."""
    if not log.leader_epochs.truncate_from(log.log_end_offset):
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"nothing to cut at {offset}")


class FollowedLog:
    """A partition that is followed, in one leader epoch. `oncelog_storage.follower.FollowerReplica` is one that
    writes."""

    def __init__(self, hosted: Partition) -> None:
        self._leadership = hosted.leadership
        self._partition = hosted

    @property
    def position(self) -> Position:
        """What the next request says of it."""
        log = self._partition.state
        return Position(log.log_end_offset, log.leader_epochs.latest, log.log_start_offset)

    @property
    def is_failed(self) -> bool:
        return self._partition.offline is not None

    @property
    def is_durable(self) -> bool:
        """A sync can take longer than anybody waits for it, and leaders can change during it. Until it is done the
        position is told to nobody: the leader would count it for the high watermark."""
        return self._partition.local_end >= self._partition.state.log_end_offset

    @property
    def has_same_leader(self) -> bool:
        return self._partition.leadership[:3] == self._leadership[:3]

    def fill(self, part: PartitionTold) -> None:
        log = self._partition.state
        part.topic, part.partition = log.partition
        part.fetch_offset = log.log_end_offset
        part.current_leader_epoch = self._leadership.leader_epoch
        part.last_fetched_leader_epoch = log.leader_epochs.latest
        part.log_start_offset = log.log_start_offset

    def step(self, part: PartitionAnswer) -> Step | None:
        """Of an answer that came while the leader is the same."""
        return step_of(self._partition.state, self._leadership.leader_epoch, part)

    def appended(self, part: PartitionAnswer) -> bool:
        """What came with the records counts now. Returns whether the log start moved."""
        is_start_moved = take_log_start(self._partition.state, part.log_start_offset)
        self._partition.follow_high_watermark(part.high_watermark)
        return is_start_moved


class Replica(Protocol):
    """A followed partition, as a session sees it."""

    @property
    def position(self) -> Position: ...

    @property
    def is_failed(self) -> bool: ...

    @property
    def is_durable(self) -> bool:
        """Its position outlasts a crash. Until then it is told to nobody: the leader would count it."""
        ...

    def fill(self, part: PartitionTold) -> None:
        """Say in a request where it stands."""
        ...


ReplicaT = TypeVar("ReplicaT", bound=Replica)


class Ask(NamedTuple, Generic[ReplicaT]):
    """The next request of a session."""

    session_id: int
    session_epoch: int
    replicas: dict[PartitionName, ReplicaT]
    forgotten: tuple[PartitionName, ...]
    is_retrying: bool
    """A partition was refused: mostly one of the two nodes has not seen the newest metadata yet."""

    def fill(self, request: ReplicaAsk, backoff_ms: int) -> None:
        """`request.max_wait_ms` is how long the leader may wait; soon, but not at once, while one is retried."""
        if self.is_retrying:
            request.max_wait_ms = min(request.max_wait_ms, backoff_ms)
        request.session_id, request.session_epoch = self.session_id, self.session_epoch
        for replica in self.replicas.values():
            replica.fill(request.partitions.add())
        for partition in self.forgotten:
            named = request.forgotten.add()
            named.topic, named.partition = partition


class FollowerSession(Generic[ReplicaT]):
    """The fetch session with one leader's node. Any failure ends it; the next request opens a new one."""

    def __init__(self, backoff_s: float) -> None:
        self._backoff_s = backoff_s
        self._followed: dict[PartitionName, ReplicaT] = {}
        # The position that the session was told last, and of which replica: what comes, begins there.
        self._asked: dict[PartitionName, tuple[ReplicaT, Position]] = {}
        # Whose position the session does not know; and those that were refused, with the time to ask again.
        self._changed: dict[PartitionName, None] = {}
        self._refused: dict[PartitionName, float] = {}
        self._forgotten: dict[PartitionName, None] = {}
        self._session_id = NO_SESSION
        self._session_epoch = -1
        self._failure_backoff_s = 0.0

    @property
    def is_empty(self) -> bool:
        return not self._followed

    def follow(self, partition: PartitionName, replica: ReplicaT) -> None:
        self._followed[partition] = replica
        self._refused.pop(partition, None)
        self._changed[partition] = None
        self._forgotten.pop(partition, None)

    def unfollow(self, partition: PartitionName) -> None:
        if self._followed.pop(partition, None) is not None:
            self._changed.pop(partition, None)
            self._refused.pop(partition, None)
            self._asked.pop(partition, None)
            self._forgotten[partition] = None

    def end(self) -> None:
        """A request failed, or its answer is unknown."""
        self._session_id, self._session_epoch = NO_SESSION, -1

    def succeeded(self) -> None:
        self._failure_backoff_s = 0.0

    def failed(self) -> float:
        """A round failed, and another is tried after a pause of these seconds."""
        self.end()
        doubled = max(self._failure_backoff_s * 2, self._backoff_s)
        self._failure_backoff_s = min(doubled, _BACKOFF_MAX_S)
        return self._failure_backoff_s

    def next_request(self, now_s: float) -> Ask[ReplicaT]:
        """Names the partitions whose position changed since the last request; all of them in a new session."""
        self._session_epoch += 1
        is_new = self._session_epoch == 0
        if is_new:
            self._changed = {each: None for each in self._followed if each not in self._refused}
            self._forgotten.clear()
        for partition in [each for each, due in self._refused.items() if due <= now_s]:
            del self._refused[partition]
            self._changed[partition] = None
        for partition in [each for each in self._changed if not self._may_be_named(each)]:
            del self._changed[partition]
            self.refuse(partition, now_s)
        replicas = {each: self._followed[each] for each in self._changed}
        replicas = {each: found for each, found in replicas.items() if not found.is_failed}
        for partition, replica in replicas.items():
            self._asked[partition] = replica, replica.position
        session_id = NO_SESSION if is_new else self._session_id
        forgotten = tuple(self._forgotten)
        self._changed = {}
        self._forgotten.clear()
        return Ask(session_id, self._session_epoch, replicas, forgotten, bool(self._refused))

    def _may_be_named(self, partition: PartitionName) -> bool:
        replica = self._followed[partition]
        return replica.is_failed or replica.is_durable

    def answered(self, session_id: int) -> None:
        self._session_id = session_id

    def receiver(
        self, partition: PartitionName, error_code: int, now_s: float
    ) -> tuple[ReplicaT, Position] | None:
        """Who takes this part of an answer, and its position before. None: nobody; it is asked for again if need be."""
        replica = self._followed.get(partition)
        if replica is None:
            return None
        if error_code and error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self.refuse(partition, now_s)
            return None
        before = replica.position
        if self._asked.get(partition) != (replica, before):
            # It was emptied, cut or opened again meanwhile: behind its end now, these records would leave a hole.
            self._changed[partition] = None
            return None
        return replica, before

    def is_received_by(self, partition: PartitionName, replica: ReplicaT) -> bool:
        """The partition is still followed by this replica."""
        return self._followed.get(partition) is replica

    def took(self, partition: PartitionName, replica: ReplicaT, before: Position) -> None:
        """The answer has been applied: a position that changed is told."""
        if self.is_received_by(partition, replica) and replica.position != before:
            self._changed[partition] = None

    def refuse(self, partition: PartitionName, now_s: float) -> None:
        """Ask again after a pause."""
        self._refused[partition] = now_s + self._backoff_s
