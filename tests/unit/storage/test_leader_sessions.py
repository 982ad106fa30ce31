"""What followers' fetches are answered with at a leader's node, session by session (KIP-227)."""

from collections.abc import Callable

import pytest
from tests.worlds.storage.partitions import (
    HERE,
    ORDERS,
    OTHER,
    PAYMENTS,
    THIRD,
    append,
    header,
    log_state,
    partition_of,
    with_followers,
)

from oncelog.api.v1 import controller_pb2
from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog_storage.core.leader_sessions import (
    PARTITION_BYTES_MAX,
    LeaderSessions,
    Moved,
    ReadLater,
    ReadRecords,
)
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.replica_session import ReplicaSession
from oncelog_storage.core.walks import run_walk

Reader = Callable[[ReadRecords[PartitionReplica]], bytes]


class Host:
    """A node with these partitions, and the followers 2 and 3."""

    def __init__(self, *partitions: PartitionReplica) -> None:
        self.partitions = {each.partition: each for each in partitions}
        self.nodes = {each: controller_pb2.Node(node_epoch=1) for each in (OTHER, THIRD)}
        self.sessions = LeaderSessions[PartitionReplica, ReplicaSession](
            self, self.nodes.get, ReplicaSession, 77
        )
        self.moved: list[Moved[PartitionReplica]] = []
        self.reads: list[ReadRecords[PartitionReplica]] = []

    def hosted(self, partition: Partition) -> PartitionReplica:
        if partition not in self.partitions:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.partitions[partition]

    def leader_of(self, partition: Partition) -> tuple[int, int]:
        return THIRD, 9

    def begin(self, request: pb.ReplicaFetchRequest) -> ReplicaSession:
        session = self.sessions.begin(request, 0.0)
        assert isinstance(session, ReplicaSession)
        self.moved += self.sessions.take_positions(session, request, 0.0)
        return session

    def answer(
        self,
        session: ReplicaSession,
        left_bytes: int = 1000,
        read: Reader = lambda wanted: bytes(wanted.hosted.log.log_end_offset - wanted.offset),
    ) -> tuple[list[pb.ReplicaFetchedPartition], bool]:
        """Records are as many zeros as there are records."""
        response = pb.ReplicaFetchResponse()
        walk = self.sessions.answer(session, response.partitions, left_bytes, 0.0)

        def found(step: Moved | ReadRecords) -> bytes:
            if isinstance(step, Moved):
                self.moved.append(step)
                return b""
            self.reads.append(step)
            return read(step)

        is_due = run_walk(walk, found, (KafkaError, ReadLater))
        return list(response.partitions), is_due


def request_of(
    *offsets: int,
    names: tuple[Partition, ...] = (ORDERS, PAYMENTS),
    node_id: int = OTHER,
    session: tuple[int, int] = (0, 0),
    leader_epoch: int = 5,
    node_epoch: int = 1,
) -> pb.ReplicaFetchRequest:
    request = pb.ReplicaFetchRequest(
        node_id=node_id, node_epoch=node_epoch, session_id=session[0], session_epoch=session[1]
    )
    for (topic, number), offset in zip(names, offsets, strict=False):
        request.partitions.add(
            topic=topic,
            partition=number,
            fetch_offset=offset,
            current_leader_epoch=leader_epoch,
            last_fetched_leader_epoch=-1,
        )
    return request


def grown(count: int, name: Partition = ORDERS, isr: tuple[int, ...] = (HERE, OTHER, THIRD)):
    partition = with_followers(log_state(name), isr=isr)
    append(partition, header(count=count))
    return partition


# Sessions.


@pytest.mark.parametrize("node_epoch", [0, -1])
def test_an_older_process_of_a_node_is_refused(node_epoch):
    host = Host()
    assert host.sessions.begin(request_of(node_epoch=node_epoch), 0.0) == 77
    assert ErrorCode.STALE_BROKER_EPOCH == 77
    assert host.sessions.begin(request_of(node_id=9), 0.0) is ErrorCode.STALE_BROKER_EPOCH


def test_a_node_has_one_session():
    host = Host(with_followers())
    first = host.begin(request_of(0))
    assert first.session_id == 77
    assert host.sessions.begin(request_of(session=(77, 1)), 1.0) is first
    second = host.begin(request_of(0))
    assert (first.is_closed, second.session_id) == (True, 78)
    lost = host.sessions.begin(request_of(session=(77, 2)), 1.0)
    assert lost is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    unknown = host.sessions.begin(request_of(node_id=THIRD, session=(77, 1)), 1.0)
    assert unknown is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_closed_sessions_are_told_nothing_more():
    partition = with_followers()
    host = Host(partition)
    session = host.begin(request_of(0))
    host.answer(session)
    host.sessions.close()
    assert session.has_news
    partition.notify_replicas()
    assert not session.dirty
    assert host.sessions.begin(request_of(session=(77, 1)), 1.0) == (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    )


def test_a_node_that_is_fenced_or_drains_joins_nothing():
    host = Host()
    assert host.sessions.is_eligible(OTHER, 1)
    assert not host.sessions.is_eligible(OTHER, 0)
    assert not host.sessions.is_eligible(HERE, 1)
    host.nodes[OTHER].draining = True
    host.nodes[THIRD].fenced = True
    assert not host.sessions.is_eligible(OTHER, 1)
    assert not host.sessions.is_eligible(THIRD, 1)


# Positions.


def test_positions_move_the_high_watermark():
    partition = grown(3)
    host = Host(partition)
    host.begin(request_of(3))
    assert [each.has_high_watermark_moved for each in host.moved] == [False]
    host.begin(request_of(3, node_id=THIRD))
    assert host.moved[-1] == Moved(partition, True, True, None)
    assert partition.high_watermark == 3


def test_a_follower_that_has_all_is_proposed_once_it_is_eligible():
    partition = grown(3, isr=(HERE, OTHER))
    host = Host(partition)
    host.nodes[THIRD].draining = True
    host.begin(request_of(3, node_id=THIRD))
    assert [each.isr for each in host.moved] == [None]
    host.nodes[THIRD].draining = False
    host.begin(request_of(3, node_id=THIRD))
    assert host.moved[-1].isr == [HERE, OTHER, THIRD]


def test_a_partition_that_is_left_is_late_at_once():
    partition = grown(3)
    host = Host(partition)
    session = host.begin(request_of(3))
    request = request_of(session=(77, 1))
    for topic, number in (ORDERS, PAYMENTS):
        request.forgotten.add(topic=topic, partition=number)
    assert list(host.sessions.take_positions(session, request, 1.0)) == []
    assert partition.replicas is not None
    assert partition.replicas.out_of_sync(1.0, 10.0) == [OTHER]
    assert not session.partitions
    assert not session.dirty
    partition.notify_replicas()
    assert not session.dirty


def test_news_come_from_the_partition_that_is_there_now():
    old, new = grown(1), grown(2)
    host = Host(old)
    session = host.begin(request_of(0))
    host.answer(session)
    host.partitions[ORDERS] = new
    session.dirty[session.followed(ORDERS)] = None
    answers, _ = host.answer(session)
    assert [each.records for each in answers] == [b"\0\0"]
    old.notify_replicas()
    assert not session.dirty
    new.notify_replicas()
    assert list(session.dirty) == [session.followed(ORDERS)]


# Answers.


def test_an_answer_has_records_and_what_stands_around_them():
    host = Host(grown(3))
    session = host.begin(request_of(1))
    (answer,), is_late = host.answer(session)
    assert (answer.topic, answer.partition) == ORDERS
    assert (answer.leader, answer.leader_epoch) == (HERE, 5)
    assert (answer.records, answer.high_watermark, answer.error_code) == (b"\0\0", 0, 0)
    assert not is_late
    assert host.answer(session) == ([], False)


def test_followers_that_ask_for_the_same_share_a_read():
    host = Host(grown(3))
    host.answer(host.begin(request_of(0)))
    host.answer(host.begin(request_of(0, node_id=THIRD)))
    assert len(host.reads) == 1
    host.partitions[ORDERS].log.truncation_count += 1
    host.answer(host.begin(request_of(0, node_id=THIRD)))
    host.answer(host.begin(request_of(1, node_id=THIRD)))
    assert [each.offset for each in host.reads] == [0, 0, 1]


@pytest.mark.parametrize(
    ("left_bytes", "records", "dirty_count"),
    [(2, [b"\0\0\0"], 1), (4, [b"\0\0\0"], 1), (6, [b"\0\0\0", b"\0\0\0"], 0)],
)
def test_the_first_records_go_whatever_their_size(left_bytes, records, dirty_count):
    host = Host(grown(3), grown(3, PAYMENTS))
    session = host.begin(request_of(0, 0))
    answers, _ = host.answer(session, left_bytes)
    with_records = [each.records for each in answers if each.records]
    assert (with_records, len(session.dirty)) == (records, dirty_count)


def test_a_refusal_names_the_leader_and_the_log_start():
    partition = grown(3)
    partition.log.advance_log_start(2)
    host = Host(partition)
    (answer,), _ = host.answer(host.begin(request_of(1)))
    assert answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (answer.leader, answer.leader_epoch, answer.log_start_offset) == (THIRD, 9, 2)


@pytest.mark.parametrize(
    ("partition", "leader_epoch", "code"),
    [
        (None, 5, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (partition_of(), 5, ErrorCode.REPLICA_NOT_AVAILABLE),
        (grown(1), 4, ErrorCode.FENCED_LEADER_EPOCH),
        (grown(1), 6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_who_may_not_fetch_is_told_why(partition, leader_epoch, code):
    host = Host() if partition is None else Host(partition)
    (answer,), _ = host.answer(host.begin(request_of(0, leader_epoch=leader_epoch)))
    assert answer.error_code == code


def test_a_read_that_fails_is_told():
    host = Host(grown(3))

    def fail(_: ReadRecords[PartitionReplica]) -> bytes:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR)

    session = host.begin(request_of(0))
    (answer,), _ = host.answer(session, read=fail)
    assert (answer.error_code, answer.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    session.dirty[session.followed(ORDERS)] = None
    (answer,), _ = host.answer(session)
    assert answer.records == b"\0\0\0"


def test_records_that_are_not_at_hand_stay_to_be_told():
    host = Host(grown(3), grown(3, PAYMENTS))

    def late(wanted: ReadRecords[PartitionReplica]) -> bytes:
        if wanted.hosted.partition == ORDERS:
            raise ReadLater
        return b"payments"

    session = host.begin(request_of(0, 0))
    answers, _ = host.answer(session, PARTITION_BYTES_MAX + 1000, read=late)
    assert [each.records for each in answers] == [b"payments"]
    assert list(session.dirty) == [session.followed(ORDERS)]
    answers, _ = host.answer(session)
    assert [each.records for each in answers] == [b"\0\0\0"]


def test_what_is_read_later_counts_against_the_answer():
    names = tuple(Partition("payments", number) for number in range(5))
    host = Host(*(with_followers(log_state(name)) for name in names))
    for name in names:
        append(host.partitions[name], header(count=3))

    def late(wanted: ReadRecords[PartitionReplica]) -> bytes:
        raise ReadLater

    session = host.begin(request_of(*[0] * 5, names=names))
    assert host.answer(session, 2 * PARTITION_BYTES_MAX, read=late) == ([], False)
    assert [each.hosted.partition for each in host.reads] == list(names[:2])
    assert [each.partition for each in session.dirty] == list(names)


def test_a_divergence_is_told_without_records():
    partition = with_followers()
    partition.log.leader_epochs.assign(5, 0)
    append(partition, header(count=3))
    host = Host(partition)
    request = request_of(9)
    request.partitions[0].last_fetched_leader_epoch = 5
    (answer,), _ = host.answer(host.begin(request))
    assert (answer.diverging, answer.diverging_leader_epoch, answer.diverging_end_offset) == (
        True,
        5,
        3,
    )
    assert answer.records == b""


def test_a_high_watermark_alone_lingers():
    partition = grown(3)
    host = Host(partition)
    session = host.begin(request_of(3))
    host.answer(session)
    other = host.begin(request_of(3, node_id=THIRD))
    partition.notify_replicas()
    assert host.answer(session) == ([], True)
    session.is_late_due = True
    (answer,), is_late = host.answer(session)
    assert (answer.high_watermark, is_late) == (3, False)
    assert host.answer(session) == ([], False)
    assert host.answer(other)[0]


def test_a_late_high_watermark_goes_with_the_next_answer():
    orders, payments = grown(3), grown(1, PAYMENTS)
    host = Host(orders, payments)
    session = host.begin(request_of(3, 1))
    host.answer(session)
    host.begin(request_of(3, node_id=THIRD))
    orders.notify_replicas()
    assert host.answer(session) == ([], True)
    append(payments, header(count=1, sequence=1))
    payments.notify_replicas()
    answers, _ = host.answer(session)
    assert [each.topic for each in answers] == ["payments", "orders"]
