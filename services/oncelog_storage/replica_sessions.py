"""The leader's side of replication: ReplicaFetch with incremental sessions (KIP-227) and a long poll.

```
request: what changed ──▶ a follower's fetch offset is its acknowledgement ──▶ HW may move
answer:  what is dirty ◀── an append, a new HW, log start or leader marks the partition and wakes the session
```

What a session knows and says is decided by `core.replica_session`. What was appended in one turn of the loop goes in
one answer. A node has one session; opening another ends it, and a session that lost a request or an answer is opened
anew by its follower.
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
from oncelog_storage.core.partition_values import FollowerPosition
from oncelog_storage.core.replica_session import FollowedPartition, ReplicaSession
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.isr_proposals import IsrProposals
from oncelog_storage.log import LogSlice
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.settings import StorageSettings

_PARTITION_BYTES_MAX: Final = 1 << 20


class _Watched(FollowedPartition):
    """One partition of a session, and who tells of its news."""

    __slots__ = ("hosted", "session")

    def __init__(self, session: "_Session", partition: Partition) -> None:
        super().__init__(partition)
        self.session = session
        self.hosted: HostedPartition | None = None

    def mark(self) -> None:
        """There may be something to say."""
        self.session.dirty[self] = None
        self.session.wake()

    def watch(self, hosted: HostedPartition) -> None:
        if self.hosted is not hosted:
            self.unwatch()
            self.hosted = hosted
            hosted.add_replica_watcher(self.mark)

    def unwatch(self) -> None:
        if self.hosted is not None:
            self.hosted.remove_replica_watcher(self.mark)
            self.hosted = None


class _Session(ReplicaSession):
    """A session whose follower may be waiting at this node."""

    __slots__ = ("late_timer", "partitions", "waiting")

    def __init__(self, session_id: int, node_id: int, now: float) -> None:
        super().__init__(session_id, node_id, now)
        self.partitions: dict[Partition, _Watched] = {}
        self.late_timer: asyncio.TimerHandle | None = None
        self.waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    def tell_late(self, linger_s: float) -> None:
        """What is late is told when this time has passed, unless an answer leaves before."""
        if self.late_timer is None:
            self.late_timer = asyncio.get_running_loop().call_later(linger_s, self._late_is_due)

    def _late_is_due(self) -> None:
        self.late_timer = None
        self.is_late_due = True
        self.wake()

    def take_late(self) -> tuple[FollowedPartition, ...]:
        if self.late_timer is not None:
            self.late_timer.cancel()
            self.late_timer = None
        return super().take_late()

    def close(self) -> None:
        self.is_closed = True
        self.take_late()
        for watched in self.partitions.values():
            watched.unwatch()
        self.wake()


class ReplicaSessions:
    def __init__(
        self,
        settings: StorageSettings,
        manager: ReplicaManager,
        metadata: MetadataFollower,
        proposals: IsrProposals,
    ) -> None:
        self._settings = settings
        self._manager = manager
        self._metadata = metadata
        self._proposals = proposals
        self._by_node: dict[int, _Session] = {}
        self.on_log_start: Callable[[HostedPartition], None] = _nobody_waits
        """Told when a follower's log begins at another offset."""
        # Begins anywhere, so that a session of this node's last process is not taken for one of this.
        self._session_ids = itertools.count(random.SystemRandom().randrange(1, 2**62))
        self._is_stopping = False
        self._last_read: tuple[HostedPartition | None, tuple[int, int, int], LogSlice] = (
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
        return session.has_news

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
        if held is None:
            return None, ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        code = held.go_on(request.session_id, request.session_epoch, now)
        return (None, code) if code else (held, code)

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
            watched.told(
                FollowerPosition(
                    part.fetch_offset, part.last_fetched_leader_epoch, part.log_start_offset
                ),
                part.current_leader_epoch,
                request.node_epoch,
            )
            session.dirty[watched] = None
            with contextlib.suppress(KafkaError):
                # A refusal is told by the answer, which looks again.
                self._take_position(self._led(watched), watched, now)

    def _left(self, watched: _Watched) -> None:
        state = None if watched.hosted is None else watched.hosted.replicas
        if state is not None and watched.session.node_id in state.followers:
            state.followers[watched.session.node_id].left()
        watched.unwatch()
        watched.session.forget(watched)

    def _take_position(self, hosted: HostedPartition, watched: _Watched, now: float) -> None:
        """Raises KafkaError."""
        taken = watched.take(hosted, watched.session, now)
        if taken.has_log_start_moved:
            self.on_log_start(hosted)
        if taken.has_high_watermark_moved:
            hosted.high_watermark_moved()
        node_id = watched.session.node_id
        if taken.may_join and self.is_eligible(node_id, watched.node_epoch):
            assert hosted.replicas is not None
            self._proposals.propose(hosted, [*hosted.replicas.isr, node_id])

    def is_eligible(self, node_id: int, node_epoch: int) -> bool:
        """It is alive, wants to stay, and is the process that has fetched."""
        node = self._metadata.image.nodes.get(node_id)
        return (
            node is not None
            and not node.fenced
            and not node.draining
            and node.node_epoch == node_epoch
        )

    def _led(self, watched: _Watched) -> HostedPartition:
        """Raises KafkaError: unknown, not led here, offline, or another leader epoch than the follower knows."""
        hosted = self._manager.ensure(watched.partition)
        watched.watch(hosted)
        hosted.require_leader()
        hosted.require_leader_epoch(watched.current_leader_epoch)
        return hosted

    # Answers.

    def _answer(self, session: _Session, left_bytes: int) -> pb.ReplicaFetchResponse:
        response = pb.ReplicaFetchResponse()
        is_first = True
        for watched in session.take_dirty():
            assert isinstance(watched, _Watched)
            if left_bytes <= 0:
                session.dirty[watched] = None
                continue
            size_bytes = self._add_answer(response, watched, left_bytes, is_first=is_first)
            left_bytes -= size_bytes
            is_first = is_first and not size_bytes
        if response.partitions or session.is_late_due:
            for watched in session.take_late():
                assert isinstance(watched, _Watched)
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
            answer.leader, answer.leader_epoch = self._manager.leader_of(watched.partition)
            if watched.hosted is not None:
                answer.log_start_offset = watched.hosted.log.log_start_offset
        else:
            has_news = watched.session.is_worth_an_answer(
                watched, answer.high_watermark, has_news=has_news, is_late=with_high_watermark
            )
        if not has_news:
            del response.partitions[-1]
            return 0
        if not answer.error_code:
            watched.session.said(watched, answer.high_watermark, answer.log_start_offset)
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
        hosted = self._led(watched)
        self._take_position(hosted, watched, asyncio.get_running_loop().time())
        answer.leader_epoch = hosted.leadership.leader_epoch
        answer.leader = hosted.leadership.leader
        answer.high_watermark = hosted.high_watermark
        answer.log_start_offset = hosted.log.log_start_offset
        news, size_bytes = watched.news_of(hosted), 0
        if news.diverging is not None:
            answer.diverging = True
            answer.diverging_leader_epoch, answer.diverging_end_offset = news.diverging
        elif news.read_from is not None and left_bytes > 0:
            bytes_max = min(left_bytes, _PARTITION_BYTES_MAX)
            records = self._read(hosted, news.read_from, bytes_max)
            if len(records) > left_bytes and not is_first:
                watched.session.dirty[watched] = None
                return False, 0
            answer.records, size_bytes = records, len(records)
        return news.is_due or size_bytes > 0, size_bytes

    def _read(self, hosted: HostedPartition, offset: int, bytes_max: int) -> bytes:
        """Followers mostly ask for the same: the last slice is kept for the next one."""
        log = hosted.log
        place = (offset, log.log_end_offset, log.truncation_count)
        of_partition, of_place, found = self._last_read
        if of_partition is hosted and of_place == place:
            return found.records
        try:
            found = log.read(offset, log.log_end_offset, bytes_max)
        except StorageFailed as failure:
            raise hosted.take_offline(failure) from failure
        self._last_read = (hosted, place, found)
        return found.records


def _nobody_waits(_leader: HostedPartition) -> None:
    return


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
