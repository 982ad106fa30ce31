"""The fetch sessions that followers have with a leader's node, from request to answer (KIP-227).

```
begin            request ──▶ its session, or the code that refuses it
take_positions   request ──▶ positions are counted; yields each change
answer           dirty partitions ──▶ the answer is filled; yields reads of records
```

`take_positions` and `answer` are generators (ADR 0031): the caller does what they yield, at once, and goes on. Each
follower has one session; opening another ends it. A session that lost a request or an answer is opened anew by its
follower.
"""

import itertools
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from oncelog.errors import ErrorCode, KafkaError, OncelogError
from oncelog.ids import Partition
from oncelog_storage.core.isr import is_eligible
from oncelog_storage.core.messages import (
    Answers,
    NodeFacts,
    PartitionAnswer,
    ReplicaRequest,
)
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import FollowerPosition
from oncelog_storage.core.replica_session import FollowedPartition, ReplicaSession

PARTITION_BYTES_MAX: Final = 1 << 20

HostedT = TypeVar("HostedT", bound=PartitionReplica)
HostedT_co = TypeVar("HostedT_co", bound=PartitionReplica, covariant=True)
SessionT = TypeVar("SessionT", bound=ReplicaSession)


class HostedPartitions(Protocol[HostedT_co]):
    """The partitions that this node hosts, as the fetch sessions of followers use them."""

    def hosted(self, partition: Partition) -> HostedT_co:
        """Return the partition, led here or followed. Raises KafkaError if this node is none of its replicas."""
        ...

    def leader_of(self, partition: Partition) -> tuple[int, int]: ...


class Moved(NamedTuple, Generic[HostedT]):
    """The changes that a follower's position made at the leader: the high watermark, the follower's log start, or an
    ISR to propose.

    The caller wakes the requests that wait for that.
    """

    hosted: HostedT
    has_log_start_moved: bool
    has_high_watermark_moved: bool
    isr: list[int] | None
    """The ISR to propose with a follower that has caught up; None for no proposal."""


class ReadLater(OncelogError):
    """Thrown into the generator `answer`, which asked with `ReadRecords`, when the records are not in memory yet.

    The partition stays dirty, which means that a later answer must look at it again; other partitions are answered.
    """


class ReadRecords(NamedTuple, Generic[HostedT]):
    """Yielded by the generator `answer` to ask for records of a log. The caller sends them, or throws KafkaError or
    ReadLater.
    """

    hosted: HostedT
    offset: int
    bytes_max: int


Walk = Generator[Moved[HostedT] | ReadRecords[HostedT], bytes, bool]


class _LastRead(NamedTuple):
    hosted: PartitionReplica | None
    place: tuple[int, int, int]
    records: bytes


class LeaderSessions(Generic[HostedT, SessionT]):
    def __init__(
        self,
        replica_manager: HostedPartitions[HostedT],
        node_of: Callable[[int], NodeFacts | None],
        new_session: Callable[[int, int, float], SessionT],
        first_session_id: int,
    ) -> None:
        self._replica_manager = replica_manager
        self._node_of = node_of
        self._new_session = new_session
        self._session_ids = itertools.count(first_session_id)
        self._by_node: dict[int, SessionT] = {}
        self._last_read = _LastRead(None, (-1, -1, -1), b"")

    def close(self) -> None:
        for session in self._by_node.values():
            session.close()
        self._by_node.clear()

    def begin(self, request: ReplicaRequest, now_s: float) -> SessionT | ErrorCode:
        """Return the fetch session of a request, or the error code that refuses it.

        A request of an older process of a node is refused: that process must not count as an in-sync copy. `now_s` is
        monotonic.
        """
        node = self._node_of(request.node_id)
        if node is None or request.node_epoch < node.node_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        held = self._by_node.get(request.node_id)
        if request.session_epoch == 0:
            if held is not None:
                held.close()
            session = self._new_session(next(self._session_ids), request.node_id, now_s)
            self._by_node[request.node_id] = session
            return session
        if held is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        return held.go_on(request.session_id, request.session_epoch, now_s) or held

    def is_eligible(self, node_id: int, node_epoch: int) -> bool:
        return is_eligible(self._node_of(node_id), node_epoch)

    # Positions.

    def take_positions(
        self, session: SessionT, request: ReplicaRequest, now_s: float
    ) -> Iterator[Moved[HostedT]]:
        for each in request.forgotten:
            session.leave(Partition(each.topic, each.partition))
        for part in request.partitions:
            followed = session.followed(Partition(part.topic, part.partition))
            followed.moved_to(
                FollowerPosition(
                    part.fetch_offset, part.last_fetched_leader_epoch, part.log_start_offset
                ),
                part.current_leader_epoch,
                request.node_epoch,
            )
            session.dirty[followed] = None
            with suppress(KafkaError):
                # A refusal is told by the answer, which looks again.
                yield from self._apply_position(self._led(followed), followed, now_s)

    def _led(self, followed: FollowedPartition) -> HostedT:
        """Return the partition that a follower fetches.

        Raises KafkaError if it is unknown, not led here or offline, or if the follower knows another leader epoch.
        """
        hosted = self._replica_manager.hosted(followed.partition)
        followed.watch(hosted)
        hosted.require_leader()
        hosted.require_leader_epoch(followed.current_leader_epoch)
        return hosted

    def _apply_position(
        self, hosted: HostedT, followed: FollowedPartition, now_s: float
    ) -> Iterator[Moved[HostedT]]:
        """Count a follower's log end at its leader, and yield the change of high watermark, log start or ISR that it
        makes, if any.

        Raises KafkaError.
        """
        taken, node_id = followed.apply_position(hosted, now_s), followed.session.node_id
        isr = None
        if taken.may_join and self.is_eligible(node_id, followed.node_epoch):
            assert hosted.replicas is not None
            isr = [*hosted.replicas.isr, node_id]
        if taken.has_log_start_moved or taken.has_high_watermark_moved or isr is not None:
            yield Moved(hosted, taken.has_log_start_moved, taken.has_high_watermark_moved, isr)

    # Answers.

    def answer(
        self, session: SessionT, answers: Answers[PartitionAnswer], left_bytes: int, now_s: float
    ) -> Walk[HostedT]:
        """Fill the answers of a session's dirty partitions: those that may have something new for the follower.

        At most `left_bytes` of records are added, but the first batch may be larger. Return True if only late news is
        left. Late news (new high watermarks) is sent after a linger, unless an answer leaves before.
        """
        is_first = True
        for followed in session.take_dirty():
            if left_bytes <= 0:
                session.dirty[followed] = None
                continue
            before = len(answers)
            size_bytes = yield from self._add(
                answers, followed, left_bytes, now_s, is_first=is_first
            )
            left_bytes -= size_bytes
            is_first = is_first and not (size_bytes and len(answers) > before)
        if not len(answers) and not session.is_late_due:
            return bool(session.late)
        for followed in session.take_late():
            yield from self._add(answers, followed, 0, now_s, is_first=False, is_late=True)
        return False

    def _add(
        self,
        answers: Answers[PartitionAnswer],
        followed: FollowedPartition,
        left_bytes: int,
        now_s: float,
        *,
        is_first: bool,
        is_late: bool = False,
    ) -> Generator[Moved[HostedT] | ReadRecords[HostedT], bytes, int]:
        """Add the answer of one partition, if it has news. `is_late`: a new high watermark alone counts as news.

        Return the number of bytes of records that were added or will be read later. `left_bytes` is the limit, which
        records may exceed if `is_first`.
        """
        answer = answers.add()
        size_bytes = 0
        try:
            has_news, size_bytes = yield from self._fill(
                followed, answer, left_bytes, now_s, is_first=is_first
            )
        except ReadLater:
            followed.session.dirty[followed] = None
            del answers[-1]
            # The limit of an answer's bytes also limits the bytes that are brought into memory for it.
            return min(left_bytes, PARTITION_BYTES_MAX)
        except KafkaError as error:
            has_news = True
            answer.error_code = error.error_code
            answer.leader, answer.leader_epoch = self._replica_manager.leader_of(followed.partition)
            if followed.hosted is not None:
                answer.log_start_offset = followed.hosted.log.log_start_offset
        else:
            has_news = followed.session.is_worth_an_answer(
                followed, answer.high_watermark, has_news=has_news, is_late=is_late
            )
        if not has_news:
            del answers[-1]
            return 0
        if not answer.error_code:
            followed.session.said(followed, answer.high_watermark, answer.log_start_offset)
        answer.topic, answer.partition = followed.partition
        return size_bytes

    def _fill(
        self,
        followed: FollowedPartition,
        answer: PartitionAnswer,
        left_bytes: int,
        now_s: float,
        *,
        is_first: bool,
    ) -> Generator[Moved[HostedT] | ReadRecords[HostedT], bytes, tuple[bool, int]]:
        """Fill one partition's answer. Return (True if there is more news than a high watermark, bytes of records).

        Raises KafkaError.
        """
        hosted = self._led(followed)
        yield from self._apply_position(hosted, followed, now_s)
        answer.leader_epoch = hosted.leadership.leader_epoch
        answer.leader = hosted.leadership.leader
        answer.high_watermark = hosted.high_watermark
        answer.log_start_offset = hosted.log.log_start_offset
        news, size_bytes = followed.news_of(hosted), 0
        if news.diverging is not None:
            answer.diverging = True
            answer.diverging_leader_epoch, answer.diverging_end_offset = news.diverging
        elif news.read_from is not None and left_bytes > 0:
            bytes_max = min(left_bytes, PARTITION_BYTES_MAX)
            records = yield from self._read(hosted, news.read_from, bytes_max)
            if len(records) > left_bytes and not is_first:
                followed.session.dirty[followed] = None
                return False, 0
            answer.records, size_bytes = records, len(records)
        return news.is_due or size_bytes > 0, size_bytes

    def _read(
        self, hosted: HostedT, offset: int, bytes_max: int
    ) -> Generator[ReadRecords[HostedT], bytes, bytes]:
        """Return records from `offset` on. The last slice is kept, because followers mostly fetch the same records."""
        log = hosted.log
        place = (offset, log.log_end_offset, log.truncation_count)
        if self._last_read.hosted is hosted and self._last_read.place == place:
            return self._last_read.records
        records = yield ReadRecords(hosted, offset, bytes_max)
        self._last_read = _LastRead(hosted, place, records)
        return records
