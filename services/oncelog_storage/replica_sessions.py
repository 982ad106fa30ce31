"""The leader's side of replication: ReplicaFetch, and the long poll of followers that wait here.

`core.leader_sessions` decides the answers. This module reads records, waits for news, and wakes waiting fetches. One
answer has all that was appended in one turn of the loop.
"""

import asyncio
import random
from collections.abc import Callable
from functools import partial

from oncelog.api.v1 import controller_pb2
from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.rpc.metadata import MetadataFollower
from oncelog_storage.core.leader_sessions import LeaderSessions, Moved, ReadLater, ReadRecords
from oncelog_storage.core.replica_session import FollowedPartition, ReplicaSession
from oncelog_storage.core.walks import run_walk
from oncelog_storage.files import NotInMemory, StorageFailed
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.isr_proposals import IsrProposals
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.segment_reader import MISSES_MAX, SegmentReader
from oncelog_storage.settings import StorageSettings


class _Session(ReplicaSession):
    """A follower's fetch session at this node, whose request may be waiting here for news."""

    __slots__ = ("late_timer", "waiting")

    def __init__(self, session_id: int, node_id: int, now: float) -> None:
        super().__init__(session_id, node_id, now)
        self.late_timer: asyncio.TimerHandle | None = None
        self.waiting: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self.waiting is not None and not self.waiting.done():
            self.waiting.set_result(None)

    def wake_late(self, linger_s: float) -> None:
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


class ReplicaSessions:
    def __init__(
        self,
        settings: StorageSettings,
        replica_manager: ReplicaManager,
        metadata: MetadataFollower,
        proposals: IsrProposals,
        reader: SegmentReader,
    ) -> None:
        self._settings = settings
        self._reader = reader
        self._metadata = metadata
        self._proposals = proposals
        self._sessions = LeaderSessions[HostedPartition, _Session](
            replica_manager,
            self._node_of,
            _Session,
            # Begins anywhere, so that a session of this node's last process is not taken for one of this.
            random.SystemRandom().randrange(1, 2**62),
        )
        self.is_eligible = self._sessions.is_eligible
        self.on_log_start: Callable[[HostedPartition], None] = _nobody_waits
        """The callback for a partition whose follower's log begins at another offset."""
        self._is_stopping = False

    def stop(self) -> None:
        """Answer the fetches that wait; no fetch waits from now on."""
        self._is_stopping = True
        self._sessions.close()

    def _node_of(self, node_id: int) -> controller_pb2.Node | None:
        return self._metadata.image.nodes.get(node_id)

    async def fetch(self, request: pb.ReplicaFetchRequest) -> pb.ReplicaFetchResponse:
        loop = asyncio.get_running_loop()
        session = self._sessions.begin(request, loop.time())
        if isinstance(session, ErrorCode):
            return pb.ReplicaFetchResponse(error_code=session)
        for moved in self._sessions.take_positions(session, request, loop.time()):
            self._notify(moved)
        bytes_max = min(request.max_bytes or 2**31, self._settings.replica_fetch_bytes_max)
        response, misses = self._answer(session, bytes_max)
        rounds = 0
        deadline = loop.time() + request.max_wait_ms / 1000
        while misses or (not response.partitions and not self._is_stopping):
            if misses:
                rounds += 1
                await self._bring(session, misses)
            elif not await self._news(session, deadline):
                break
            if session.is_closed:
                return pb.ReplicaFetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
            if response.partitions:
                break
            response, misses = self._answer(session, bytes_max, may_wait=rounds >= MISSES_MAX)
        response.session_id = session.session_id
        session.last_seen = loop.time()
        return response

    async def _news(self, session: _Session, deadline: float) -> bool:
        """Wait until the session has news. False: the deadline, in seconds of the loop's clock, came first."""
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

    def _notify(self, moved: Moved[HostedPartition]) -> None:
        if moved.has_log_start_moved:
            self.on_log_start(moved.hosted)
        if moved.has_high_watermark_moved:
            moved.hosted.high_watermark_moved()
        if moved.isr is not None:
            self._proposals.propose(moved.hosted, moved.isr)

    async def _bring(self, session: _Session, misses: list[NotInMemory]) -> None:
        """Bring the missing bytes into memory for the next answer.

        Meanwhile the follower waits, and does not count as late.
        """
        session.is_waiting = True
        try:
            for miss in misses:
                await self._reader.bring(miss)
        finally:
            session.is_waiting = False
            session.last_seen = asyncio.get_running_loop().time()

    def _answer(
        self, session: _Session, left_bytes: int, *, may_wait: bool = False
    ) -> tuple[pb.ReplicaFetchResponse, list[NotInMemory]]:
        """Return an answer for the follower, and the reads that would have to wait for the disk.

        The partitions of those reads are in a later answer. With `may_wait` there are none: the reads wait here.
        """
        response, misses = pb.ReplicaFetchResponse(), list[NotInMemory]()
        now = asyncio.get_running_loop().time()

        def answer(step: Moved[HostedPartition] | ReadRecords[HostedPartition]) -> bytes:
            if isinstance(step, Moved):
                self._notify(step)
                return b""
            read = partial(_read, step)
            try:
                return read() if may_wait else self._reader.at_once(read)
            except NotInMemory as miss:
                misses.append(miss)
                raise ReadLater from miss

        walk = self._sessions.answer(session, response.partitions, left_bytes, now)
        if run_walk(walk, answer, (KafkaError, ReadLater)):
            session.wake_late(self._settings.replica_high_watermark_linger_ms / 1000)
        return response, misses


def _read(wanted: ReadRecords[HostedPartition]) -> bytes:
    """Return the records that `LeaderSessions.answer` asks for. Raises KafkaError, NotInMemory."""
    log = wanted.hosted.log
    try:
        return log.read(wanted.offset, log.log_end_offset, wanted.bytes_max).records
    except StorageFailed as failure:
        raise wanted.hosted.take_offline(failure) from failure


def _nobody_waits(_hosted: HostedPartition) -> None:
    return


def _wake(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
