"""The leader's side of replication: ReplicaFetch with incremental sessions (KIP-227) and a long poll.

```
request: what changed ──▶ a follower's fetch offset is its acknowledgement ──▶ HW may move
answer:  what is dirty ◀── an append, a new HW, log start or leader marks the partition and wakes the session
```

A high watermark alone is no hurry, since consumers read from leaders: it goes with the next answer, or after a linger.
Told at once, it would double the messages of every append.

A session costs nothing for partitions in which nothing happens: a request names only those whose position changed, and
an answer only those that have something to say. What was appended in one turn of the loop goes in one answer. A node
has one session; opening another ends it, and a session that lost a request or an answer is opened anew by its follower.
"""

import asyncio
import contextlib
import itertools
import random
from collections.abc import Callable
from typing import Final

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.rpc.metadata import MetadataFollower
from oncelog_storage.core.leader_state import Liveness
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted import HostedPartitions
from oncelog_storage.isr_proposals import IsrProposals
from oncelog_storage.log import LogSlice
from oncelog_storage.partition import PartitionLeader
from oncelog_storage.settings import StorageSettings

_PARTITION_BYTES_MAX: Final = 1 << 20
_NEVER_SENT: Final = -2


class _Watched:
    """One partition of a session."""

    __slots__ = (
        "current_leader_epoch",
        "diverging",
        "fetch_offset",
        "is_taken",
        "is_told_to_truncate",
        "last_fetched_leader_epoch",
        "leader",
        "log_start_offset",
        "node_epoch",
        "partition",
        "sent_high_watermark",
        "sent_log_start",
        "session",
    )

    def __init__(self, session: "_Session", partition: Partition) -> None:
        self.session = session
        self.partition = partition
        self.leader: PartitionLeader | None = None
        self.fetch_offset = 0
        self.current_leader_epoch = -1
        self.last_fetched_leader_epoch = -1
        self.node_epoch = -1
        self.is_taken = False
        """This position was compared with the leader's history, which must come before anything else is told."""
        self.diverging: tuple[int, int] | None = None
        self.log_start_offset = -1
        self.is_told_to_truncate = False
        self.sent_high_watermark = self.sent_log_start = _NEVER_SENT

    def mark(self) -> None:
        """There may be something to say."""
        session = self.session
        session.dirty[self] = None
        future = session.waiting
        if future is not None and not future.done():
            future.set_result(None)

    def watch(self, leader: PartitionLeader) -> None:
        if self.leader is not leader:
            self.unwatch()
            self.leader = leader
            leader.add_replica_watcher(self.mark)

    def unwatch(self) -> None:
        if self.leader is not None:
            self.leader.remove_replica_watcher(self.mark)
            self.leader = None


class _Session(Liveness):
    """What one follower fetches from this node."""

    __slots__ = (
        "dirty",
        "is_closed",
        "is_late_due",
        "late",
        "late_timer",
        "node_id",
        "partitions",
        "session_epoch",
        "session_id",
        "waiting",
    )

    def __init__(self, session_id: int, node_id: int, now: float) -> None:
        super().__init__(now)
        self.session_id = session_id
        self.node_id = node_id
        self.session_epoch = 0
        self.partitions: dict[Partition, _Watched] = {}
        self.dirty: dict[_Watched, None] = {}
        # Those with nothing but a new high watermark, and until when they wait for company.
        self.late: dict[_Watched, None] = {}
        self.late_timer: asyncio.TimerHandle | None = None
        self.is_late_due = False
        self.waiting: asyncio.Future[None] | None = None
        self.is_closed = False

    def tell_late(self, linger_s: float) -> None:
        """What is late is told when this time has passed, unless an answer leaves before."""
        if self.late_timer is None:
            self.late_timer = asyncio.get_running_loop().call_later(linger_s, self._late_is_due)

    def _late_is_due(self) -> None:
        self.late_timer = None
        self.is_late_due = True
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    def take_late(self) -> tuple[_Watched, ...]:
        late, self.late, self.is_late_due = tuple(self.late), {}, False
        if self.late_timer is not None:
            self.late_timer.cancel()
            self.late_timer = None
        return late

    def close(self) -> None:
        self.is_closed = True
        self.take_late()
        for watched in self.partitions.values():
            watched.unwatch()
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)


class ReplicaSessions:
    def __init__(
        self,
        settings: StorageSettings,
        hosted: HostedPartitions,
        metadata: MetadataFollower,
        proposals: IsrProposals,
    ) -> None:
        self._settings = settings
        self._hosted = hosted
        self._metadata = metadata
        self._proposals = proposals
        self._by_node: dict[int, _Session] = {}
        self.on_log_start: Callable[[PartitionLeader], None] = _nobody_waits
        """Told when a follower's log begins at another offset."""
        # Begins anywhere, so that a session of this node's last process is not taken for one of this.
        self._session_ids = itertools.count(random.SystemRandom().randrange(1, 2**62))
        self._is_stopping = False
        self._last_read: tuple[PartitionLeader | None, tuple[int, int, int], LogSlice] = (
            None,
            (-1, -1, -1),
            LogSlice(b"", -1),
        )

    def stop(self) -> None:
        """Answer whoever waits; nobody waits from now on."""
        self._is_stopping = True
        for session in self._by_node.values():
            session.close()
        self._by_node.clear()

    async def fetch(self, request: pb.ReplicaFetchRequest) -> pb.ReplicaFetchResponse:
        code = self._node_fault(request)
        if code:
            return pb.ReplicaFetchResponse(error_code=code)
        loop = asyncio.get_running_loop()
        session, code = self._session_of(request, loop.time())
        if session is None:
            return pb.ReplicaFetchResponse(error_code=code)
        self._take_positions(session, request, loop.time())
        bytes_max = min(request.max_bytes or 2**31, self._settings.replica_fetch_bytes_max)
        response = self._answer(session, bytes_max)
        deadline = loop.time() + request.max_wait_ms / 1000
        while not response.partitions and not self._is_stopping:
            if not await self._news(session, deadline):
                break
            if session.is_closed:
                return pb.ReplicaFetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            response = self._answer(session, bytes_max)
        response.session_id = session.session_id
        session.last_seen = loop.time()
        return response

    async def _news(self, session: _Session, deadline: float) -> bool:
        """Wait until something in the session is dirty, or for the deadline: then False."""
        loop = asyncio.get_running_loop()
        if loop.time() >= deadline:
            return False
        session.waiting = future = loop.create_future()
        timer = loop.call_at(deadline, _wake, future)
        session.is_waiting = True
        try:
            await future
        finally:
            timer.cancel()
            session.is_waiting = False
            session.last_seen = loop.time()
            if session.waiting is future:
                session.waiting = None
        return session.is_closed or session.is_late_due or bool(session.dirty)

    # Sessions.

    def _node_fault(self, request: pb.ReplicaFetchRequest) -> ErrorCode:
        """An older process of this node must not be counted as an in-sync copy."""
        node = self._metadata.image.nodes.get(request.node_id)
        if node is None or request.node_epoch < node.node_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    def _session_of(
        self, request: pb.ReplicaFetchRequest, now: float
    ) -> tuple[_Session | None, ErrorCode]:
        held = self._by_node.get(request.node_id)
        if request.session_epoch == 0:
            if held is not None:
                held.close()
            session = _Session(next(self._session_ids), request.node_id, now)
            self._by_node[request.node_id] = session
            return session, ErrorCode.NONE
        if held is None or held.session_id != request.session_id:
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if request.session_epoch != held.session_epoch + 1:
            return None, ErrorCode.INVALID_FETCH_SESSION_EPOCH
        held.session_epoch = request.session_epoch
        held.last_seen = now
        return held, ErrorCode.NONE

    def _take_positions(
        self, session: _Session, request: pb.ReplicaFetchRequest, now: float
    ) -> None:
        for each in request.forgotten:
            watched = session.partitions.pop(Partition(each.topic, each.partition), None)
            if watched is not None:
                self._left(watched)
        for part in request.partitions:
            partition = Partition(part.topic, part.partition)
            watched = session.partitions.get(partition)
            if watched is None:
                watched = session.partitions[partition] = _Watched(session, partition)
            if watched.diverging is not None or part.fetch_offset <= watched.fetch_offset:
                # What the last answer told of high watermark and log start was not taken.
                watched.sent_high_watermark = watched.sent_log_start = _NEVER_SENT
            watched.fetch_offset = part.fetch_offset
            watched.current_leader_epoch = part.current_leader_epoch
            watched.last_fetched_leader_epoch = part.last_fetched_leader_epoch
            watched.log_start_offset = part.log_start_offset
            watched.node_epoch = request.node_epoch
            watched.is_taken = watched.is_told_to_truncate = False
            watched.diverging = None
            session.dirty[watched] = None
            with contextlib.suppress(KafkaError):
                # A refusal is told by the answer, which looks again.
                self._take_position(self._led(watched), watched, now)

    def _left(self, watched: _Watched) -> None:
        state = None if watched.leader is None else watched.leader.replicas
        if state is not None and watched.session.node_id in state.followers:
            state.followers[watched.session.node_id].left()
        watched.unwatch()
        watched.session.dirty.pop(watched, None)
        watched.session.late.pop(watched, None)

    def _take_position(self, leader: PartitionLeader, watched: _Watched, now: float) -> None:
        """The follower has everything below its fetch offset, if its history is this one. Raises KafkaError."""
        log, state = leader.log, leader.replicas
        node_id, node_epoch = watched.session.node_id, watched.node_epoch
        if state is None or node_id not in state.followers:
            raise KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
        if watched.is_taken:
            return
        watched.is_taken = True
        watched.diverging = _divergence(leader, watched)
        offset = watched.fetch_offset
        if (
            watched.diverging is not None
            or not log.log_start_offset <= offset <= log.log_end_offset
        ):
            return
        state.followers[node_id].fetched(
            offset, log.log_end_offset, node_epoch, watched.session, now
        )
        if state.followers[node_id].log_start_offset != watched.log_start_offset:
            state.followers[node_id].log_start_offset = watched.log_start_offset
            self.on_log_start(leader)
        if node_id in state.isr or state.pending is not None:
            leader.follow_replicas()
        elif state.may_join(node_id, leader.high_watermark) and self.is_eligible(
            node_id, node_epoch
        ):
            self._proposals.propose(leader, [*state.isr, node_id])

    def is_eligible(self, node_id: int, node_epoch: int) -> bool:
        """It is alive, wants to stay, and is the process that has fetched."""
        node = self._metadata.image.nodes.get(node_id)
        return (
            node is not None
            and not node.fenced
            and not node.draining
            and node.node_epoch == node_epoch
        )

    def _led(self, watched: _Watched) -> PartitionLeader:
        """Raises KafkaError: unknown, not led here, offline, or another leader epoch than the follower knows."""
        leader = self._hosted.ensure(watched.partition)
        watched.watch(leader)
        leader.require_leader()
        leader.require_leader_epoch(watched.current_leader_epoch)
        return leader

    # Answers.

    def _answer(self, session: _Session, left_bytes: int) -> pb.ReplicaFetchResponse:
        response = pb.ReplicaFetchResponse()
        dirty, session.dirty = session.dirty, {}
        is_first = True
        for watched in dirty:
            if left_bytes <= 0:
                session.dirty[watched] = None
                continue
            size_bytes = self._add_answer(response, watched, left_bytes, is_first=is_first)
            left_bytes -= size_bytes
            is_first = is_first and not size_bytes
        if response.partitions or session.is_late_due:
            for watched in session.take_late():
                self._add_answer(response, watched, 0, is_first=False, with_high_watermark=True)
        elif session.late:
            session.tell_late(self._settings.replica_high_watermark_linger_ms / 1000)
        return response

    def _add_answer(
        self,
        response: pb.ReplicaFetchResponse,
        watched: _Watched,
        left_bytes: int,
        *,
        is_first: bool,
        with_high_watermark: bool = False,
    ) -> int:
        """Returns how many bytes of records were added. Filled in place: a message that is added later is copied."""
        answer = response.partitions.add()
        size_bytes = 0
        try:
            has_news, size_bytes = self._fill(watched, answer, left_bytes, is_first=is_first)
        except KafkaError as error:
            has_news = True
            answer.error_code = error.error_code
            answer.leader, answer.leader_epoch = self._hosted.leader_of(watched.partition)
            if watched.leader is not None:
                answer.log_start_offset = watched.leader.log.log_start_offset
        else:
            if not has_news and watched.sent_high_watermark != answer.high_watermark:
                if with_high_watermark:
                    has_news = True
                else:
                    watched.session.late[watched] = None
        if not has_news:
            del response.partitions[-1]
            return 0
        if not answer.error_code:
            watched.sent_high_watermark = answer.high_watermark
            watched.sent_log_start = answer.log_start_offset
            watched.session.late.pop(watched, None)
        answer.topic, answer.partition = watched.partition
        return size_bytes

    def _fill(
        self,
        watched: _Watched,
        answer: pb.ReplicaFetchedPartition,
        left_bytes: int,
        *,
        is_first: bool,
    ) -> tuple[bool, int]:
        """(whether there is anything to say besides a new high watermark, bytes of records). Raises KafkaError."""
        leader = self._led(watched)
        log = leader.log
        self._take_position(leader, watched, asyncio.get_running_loop().time())
        answer.leader_epoch = leader.leadership.leader_epoch
        answer.leader = leader.leadership.leader
        answer.high_watermark = leader.high_watermark
        answer.log_start_offset = log.log_start_offset
        if watched.diverging is not None:
            # Told once; nothing else is, until the follower has cut its log and says where it stands then.
            has_news, watched.is_told_to_truncate = not watched.is_told_to_truncate, True
            watched.sent_high_watermark = answer.high_watermark
            answer.diverging = True
            answer.diverging_leader_epoch, answer.diverging_end_offset = watched.diverging
            return has_news, 0
        offset, size_bytes = watched.fetch_offset, 0
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if left_bytes > 0 and offset < log.log_end_offset:
            bytes_max = min(left_bytes, _PARTITION_BYTES_MAX)
            records = self._read(leader, offset, bytes_max)
            if len(records) > left_bytes and not is_first:
                watched.session.dirty[watched] = None
                return False, 0
            answer.records, size_bytes = records, len(records)
        return size_bytes > 0 or watched.sent_log_start != log.log_start_offset, size_bytes

    def _read(self, leader: PartitionLeader, offset: int, bytes_max: int) -> bytes:
        """Followers mostly ask for the same: the last slice is kept for the next one."""
        log = leader.log
        place = (offset, log.log_end_offset, log.truncation_count)
        of_leader, of_place, found = self._last_read
        if of_leader is leader and of_place == place:
            return found.records
        try:
            found = log.read(offset, log.log_end_offset, bytes_max)
        except StorageFailed as failure:
            raise leader.take_offline(failure) from failure
        self._last_read = (leader, place, found)
        return found.records


def _divergence(leader: PartitionLeader, watched: _Watched) -> tuple[int, int] | None:
    """Where the follower's history leaves this one, if it does: (common leader epoch, its end) (KIP-595)."""
    log, last_epoch = leader.log, watched.last_fetched_leader_epoch
    if last_epoch < 0:
        return None
    epoch, end_offset = log.leader_epochs.end_offset_for(last_epoch, log.log_end_offset)
    if epoch < 0:
        # An epoch that nobody here knows: its records are none of this history.
        return None if watched.fetch_offset <= log.log_start_offset else (-1, log.log_start_offset)
    if epoch < last_epoch or end_offset < watched.fetch_offset:
        return epoch, end_offset
    return None


def _nobody_waits(_leader: PartitionLeader) -> None:
    return


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
