"""A follower: its fetch requests to the leader, and its step after each answer (KIP-101, KIP-227, KIP-595).

```
FollowerSession   positions that changed ──▶ request;   answer ──▶ the replica at whose position it begins
FollowedLog       answer + log ──▶ Append │ Truncate │ CutEpochs │ StartOver │ None
```

Pure: the caller sends, writes and waits. Times are seconds of a monotonic clock.
"""

from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.messages import PartitionAnswer, PartitionTold, ReplicaAsk
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Divergence

NO_SESSION: Final = 0
_BACKOFF_MAX_S: Final = 1.0


class Position(NamedTuple):
    """The reach of a follower's log, as its fetch request tells the leader: its end, its last leader epoch and its
    start.
    """

    log_end_offset: int
    last_leader_epoch: int
    log_start_offset: int


class Append(NamedTuple):
    """A follower's step: write the records that came, if any, and take over the leader's log start and high
    watermark.
    """


class StartOver(NamedTuple):
    """A follower's step: drop the whole log, and begin an empty one at `offset`."""

    offset: int


class Truncate(NamedTuple):
    """A follower's step: drop the batch that holds `offset` and all batches behind it."""

    offset: int


class CutEpochs(NamedTuple):
    """A follower's step: drop the newest leader epoch, which the leader does not have. It has no record here."""

    offset: int


Step = Append | StartOver | Truncate | CutEpochs


def step_of(log: LogState, leader_epoch: int, answer: PartitionAnswer) -> Step | None:
    """Return what a follower must do to its log after a leader's answer to its fetch. None: the answer is of another
    leader epoch than `leader_epoch`.
    """
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
    """Return the step that cuts a log which diverged from the leader's: back to the last offset that both have in
    common.

    `shared` is what the leader's answer says about that. Another answer may lead further back.
    """
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
    """Take over the leader's log start. Return True if the follower's log start moved.

    Only a leader decides about retention and DeleteRecords. The files go with the next look at retention.
    """
    if log_start_offset <= log.log_start_offset:
        return False
    log.advance_log_start(log_start_offset)
    log.leader_epochs.truncate_to_start(log_start_offset)
    return True


def cut_epochs(log: LogState, offset: int) -> None:
    """Drop the leader epochs that begin at the log's end: no batch of them is left after the log was cut at `offset`.
    Raises KafkaError if there are none.
    """
    if not log.leader_epochs.truncate_from(log.log_end_offset):
        raise KafkaError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"nothing to cut at {offset}")


class FollowedLog:
    """The follower's side of one partition, in one leader epoch: its position, and its step after each answer.

    `oncelog_storage.follower.FollowerReplica` also writes its log.
    """

    def __init__(self, hosted: PartitionReplica) -> None:
        self._leadership = hosted.leadership
        self._partition = hosted

    @property
    def position(self) -> Position:
        """The position of the log, for the next request."""
        log = self._partition.log
        return Position(log.log_end_offset, log.leader_epochs.latest, log.log_start_offset)

    @property
    def is_failed(self) -> bool:
        return self._partition.offline is not None

    @property
    def is_durable(self) -> bool:
        """True if the log is written up to its end, and synced where the topic or the node wants that. Only then does
        the follower send its position, which the leader counts.

        A sync can take longer than anybody waits for it, and leaders can change during it.
        """
        return self._partition.local_end >= self._partition.log.log_end_offset

    @property
    def has_same_leader(self) -> bool:
        return self._partition.leadership[:3] == self._leadership[:3]

    def fill(self, part: PartitionTold) -> None:
        log = self._partition.log
        part.topic, part.partition = log.partition
        part.fetch_offset = log.log_end_offset
        part.current_leader_epoch = self._leadership.leader_epoch
        part.last_fetched_leader_epoch = log.leader_epochs.latest
        part.log_start_offset = log.log_start_offset

    def step(self, part: PartitionAnswer) -> Step | None:
        """Return what this follower must do to its log after an answer. The leader must still be the same."""
        return step_of(self._partition.log, self._leadership.leader_epoch, part)

    def appended(self, part: PartitionAnswer) -> bool:
        """Take over the leader's log start and high watermark, after the records were written.

        True if the log start moved.
        """
        is_start_moved = take_log_start(self._partition.log, part.log_start_offset)
        self._partition.follow_high_watermark(part.high_watermark)
        return is_start_moved


class Replica(Protocol):
    """A partition that this node follows, as the fetch session with its leader's node uses it."""

    @property
    def position(self) -> Position: ...

    @property
    def is_failed(self) -> bool: ...

    @property
    def is_durable(self) -> bool:
        """True if the position of the log outlasts a crash. Only then is it sent to the leader, which counts it."""
        ...

    def fill(self, part: PartitionTold) -> None:
        """Write the position of this replica's log into a partition of a request."""
        ...


ReplicaT = TypeVar("ReplicaT", bound=Replica)


class Ask(NamedTuple, Generic[ReplicaT]):
    """The next fetch request of a follower's session: the partitions that it names, and those it follows no more."""

    session_id: int
    session_epoch: int
    replicas: dict[Partition, ReplicaT]
    forgotten: tuple[Partition, ...]
    is_retrying: bool
    """True if a partition was refused. Mostly one of the two nodes has not seen the newest metadata yet."""

    def fill(self, request: ReplicaAsk, backoff_ms: int) -> None:
        """Fill `request`. Its `max_wait_ms` is how long the leader may wait.

        While a refused partition is retried, that time is at most `backoff_ms`.
        """
        if self.is_retrying:
            request.max_wait_ms = min(request.max_wait_ms, backoff_ms)
        request.session_id, request.session_epoch = self.session_id, self.session_epoch
        for replica in self.replicas.values():
            replica.fill(request.partitions.add())
        for partition in self.forgotten:
            named = request.forgotten.add()
            named.topic, named.partition = partition


class FollowerSession(Generic[ReplicaT]):
    """The fetch session (KIP-227) that this node has with another node, for all partitions that it follows there.

    Any failure ends it; the next request opens a new one.
    """

    def __init__(self, backoff_s: float) -> None:
        self._backoff_s = backoff_s
        self._followed: dict[Partition, ReplicaT] = {}
        # The position that the session was told last, and of which replica: what comes, begins there.
        self._asked: dict[Partition, tuple[ReplicaT, Position]] = {}
        # Whose position the session does not know; and those that were refused, with the time to ask again.
        self._changed: dict[Partition, None] = {}
        self._refused: dict[Partition, float] = {}
        self._forgotten: dict[Partition, None] = {}
        self._session_id = NO_SESSION
        self._session_epoch = -1
        self._failure_backoff_s = 0.0

    @property
    def is_empty(self) -> bool:
        return not self._followed

    def follow(self, partition: Partition, replica: ReplicaT) -> None:
        self._followed[partition] = replica
        self._refused.pop(partition, None)
        self._changed[partition] = None
        self._forgotten.pop(partition, None)

    def unfollow(self, partition: Partition) -> None:
        if self._followed.pop(partition, None) is not None:
            self._changed.pop(partition, None)
            self._refused.pop(partition, None)
            self._asked.pop(partition, None)
            self._forgotten[partition] = None

    def end(self) -> None:
        """Forget the session with the leader's node, because a request failed or its response is unknown. The next
        request opens a new one.
        """
        self._session_id, self._session_epoch = NO_SESSION, -1

    def succeeded(self) -> None:
        self._failure_backoff_s = 0.0

    def failed(self) -> float:
        """End the session, because a fetch request failed. Return the pause before the next one, in seconds."""
        self.end()
        doubled = max(self._failure_backoff_s * 2, self._backoff_s)
        self._failure_backoff_s = min(doubled, _BACKOFF_MAX_S)
        return self._failure_backoff_s

    def next_request(self, now_s: float) -> Ask[ReplicaT]:
        """Return the next request.

        It names the partitions whose position changed since the last one; a new session names all.
        """
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

    def _may_be_named(self, partition: Partition) -> bool:
        replica = self._followed[partition]
        return replica.is_failed or replica.is_durable

    def continue_session(self, session_id: int) -> None:
        self._session_id = session_id

    def receiver(
        self, partition: Partition, error_code: int, now_s: float
    ) -> tuple[ReplicaT, Position] | None:
        """Return (the replica that takes one partition's answer, its position now); None if no replica may take it.

        That is so if the leader refused the partition, it is not followed any more, or its log changed since the
        request. The partition is then in a later request, if it is still followed.
        """
        replica = self._followed.get(partition)
        if replica is None:
            return None
        if error_code and error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            self.refuse(partition, now_s)
            return None
        before = replica.position
        if self._asked.get(partition) != (replica, before):
            # The replica was emptied, cut or opened again meanwhile. These records would leave a hole behind its end.
            self._changed[partition] = None
            return None
        return replica, before

    def is_received_by(self, partition: Partition, replica: ReplicaT) -> bool:
        """True if the partition's records still go to this replica. False: it is followed no more, or by a newer
        replica object.
        """
        return self._followed.get(partition) is replica

    def took(self, partition: Partition, replica: ReplicaT, before: Position) -> None:
        """Name the partition in the next request, if the answer that was applied changed the replica's position."""
        if self.is_received_by(partition, replica) and replica.position != before:
            self._changed[partition] = None

    def refuse(self, partition: Partition, now_s: float) -> None:
        """Leave a partition that the leader's node refused to serve out of fetch requests, until a pause is over."""
        self._refused[partition] = now_s + self._backoff_s
