"""Replication, from both sides, row by row (KIP-101, KIP-227, KIP-497, KIP-595)."""

import pytest
from tests.worlds.storage.partitions import (
    HERE,
    ORDERS,
    OTHER,
    THIRD,
    append,
    header,
    log_state,
    partition_of,
    refused,
    with_followers,
)

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_storage.core.follower import (
    Append,
    CutEpochs,
    FollowedLog,
    FollowerSession,
    Position,
    StartOver,
    Truncate,
    cut_epochs,
    step_of,
    take_log_start,
)
from oncelog_storage.core.isr import DamageStep, after_damage, isr_to_propose
from oncelog_storage.core.messages import PartitionTold
from oncelog_storage.core.partition_values import (
    Divergence,
    FollowerPosition,
    Leadership,
    PositionTaken,
)
from oncelog_storage.core.replica_session import FollowedPartition, News, ReplicaSession

OTHER_PARTITION = Partition("orders", 1)

# The leader's side.


def session_at(offset: int, *, last_epoch: int = -1) -> tuple[ReplicaSession, FollowedPartition]:
    session = ReplicaSession(77, OTHER, 0.0)
    followed = session.followed(ORDERS)
    followed.moved_to(FollowerPosition(offset, last_epoch, 0), 5, 1)
    return session, followed


def test_a_session_goes_on_only_in_order():
    session = ReplicaSession(77, OTHER, 0.0)
    assert session.go_on(78, 1, 1.0) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert session.go_on(77, 2, 1.0) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert session.go_on(77, 1, 1.0) is ErrorCode.NONE
    assert session.go_on(77, 2, 2.0) is ErrorCode.NONE
    assert session.last_seen == 2.0


def test_a_position_counts_once():
    partition = with_followers()
    append(partition, header(count=4))
    _, followed = session_at(2)
    assert followed.apply_position(partition, 0.0).has_log_start_moved
    assert partition.replicas is not None
    partition.replicas.followers[OTHER].end_offset = 0
    assert not followed.apply_position(partition, 1.0).has_log_start_moved
    assert partition.replicas.followers[OTHER].end_offset == 0


def test_records_and_a_new_log_start_are_news():
    partition = with_followers()
    append(partition, header(count=4))
    session, followed = session_at(2)
    assert followed.news_of(partition) == News(True, None, 2)
    session.said(followed, 0, 0)
    assert followed.news_of(partition) == News(False, None, 2)
    followed.moved_to(FollowerPosition(4, -1, 0), 5, 1)
    assert followed.news_of(partition) == News(False, None, None)
    followed.moved_to(FollowerPosition(4, -1, 0), 5, 1)
    assert followed.news_of(partition).is_due


def test_a_position_outside_the_log_is_told():
    partition = with_followers()
    _, followed = session_at(3)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        followed.news_of(partition)


def test_a_divergence_is_told_once():
    log = log_state()
    log.leader_epochs.assign(5, 0)
    partition = with_followers(log)
    append(partition, header(count=2))
    _, followed = session_at(9, last_epoch=5)
    assert followed.apply_position(partition, 0.0).diverging == Divergence(5, 2)
    assert followed.news_of(partition) == News(True, Divergence(5, 2))
    assert not followed.news_of(partition).is_due
    followed.moved_to(FollowerPosition(2, 5, 0), 5, 1)
    assert followed.diverging is None


def test_a_high_watermark_alone_waits_for_company():
    session, followed = session_at(0)
    assert not session.is_worth_an_answer(followed, 3, has_news=False, is_late=False)
    assert list(session.late) == [followed]
    assert session.is_worth_an_answer(followed, 3, has_news=False, is_late=True)
    session.said(followed, 3, 0)
    assert not session.late
    assert not session.is_worth_an_answer(followed, 3, has_news=False, is_late=True)
    assert session.is_worth_an_answer(followed, 3, has_news=True, is_late=False)


def test_what_is_taken_from_a_session_is_gone():
    session, followed = session_at(0)
    session.dirty[followed] = session.late[followed] = None
    session.is_late_due = True
    assert session.has_news
    assert session.take_dirty() == session.take_late() == (followed,)
    assert not session.has_news
    session.dirty[followed] = session.late[followed] = None
    session.leave(followed.partition)
    assert not session.dirty
    assert not session.late


# In-sync replicas.


def test_a_late_follower_is_taken_out_before_another_joins():
    partition = with_followers(isr=(HERE, OTHER))
    assert isr_to_propose(partition, 5.0, 10.0, lambda *_: True) is None
    assert isr_to_propose(partition, 11.0, 10.0, lambda *_: True) == [HERE]
    assert isr_to_propose(partition_of(), 11.0, 10.0, lambda *_: True) is None


def test_only_an_eligible_follower_joins():
    partition = with_followers(isr=(HERE, OTHER))
    session, followed = session_at(0)
    session.node_id = THIRD
    assert followed.apply_position(partition, 0.0).may_join
    assert isr_to_propose(partition, 1.0, 10.0, lambda *_: False) is None
    calls = []

    def is_eligible(node_id: int, node_epoch: int) -> bool:
        calls.append((node_id, node_epoch))
        return True

    assert isr_to_propose(partition, 1.0, 10.0, is_eligible) == [HERE, OTHER, THIRD]
    assert calls == [(THIRD, 1)]


def test_who_is_proposed_counts_for_the_high_watermark():
    partition = with_followers(isr=(HERE, OTHER))
    append(partition, header(count=4))
    session, followed = session_at(4)
    assert partition.replicas is not None
    partition.replicas.propose((HERE, OTHER, THIRD))
    assert not followed.apply_position(partition, 0.0).has_high_watermark_moved
    assert partition.high_watermark == 0
    session.node_id = THIRD
    assert followed.apply_position(partition, 0.0) == PositionTaken(None)
    followed.moved_to(FollowerPosition(3, -1, 0), 5, 1)
    assert followed.apply_position(partition, 0.0).has_high_watermark_moved
    assert partition.high_watermark == 3


@pytest.mark.parametrize(("offset", "may_join"), [(3, False), (4, False), (6, True)])
def test_who_joins_has_what_is_committed_and_the_epochs_start(offset, may_join):
    log = log_state()
    append(partition_of(log), header(count=6))
    partition = with_followers(log, isr=(HERE, OTHER))
    partition.high_watermark = 4
    session, followed = session_at(offset)
    session.node_id = THIRD
    assert followed.apply_position(partition, 0.0).may_join is may_join


def test_who_joins_has_all_that_was_committed_since():
    partition = with_followers(isr=(HERE, OTHER))
    append(partition, header(count=6))
    session, followed = session_at(6)
    assert followed.apply_position(partition, 0.0).has_high_watermark_moved
    session, followed = session_at(5)
    session.node_id = THIRD
    assert not followed.apply_position(partition, 0.0).may_join


def test_a_position_that_is_not_ours_acknowledges_nothing():
    log = log_state()
    log.leader_epochs.assign(2, 0)
    log.leader_epochs.assign(5, 3)
    partition = with_followers(log)
    append(partition, header(count=6))
    assert partition.replicas is not None
    for offset, epoch, diverging in ((4, 2, Divergence(2, 3)), (7, -1, None)):
        _, followed = session_at(offset, last_epoch=epoch)
        assert followed.apply_position(partition, 0.0) == PositionTaken(diverging)
        assert partition.replicas.followers[OTHER].end_offset == -1


ALL = (HERE, OTHER, THIRD)


@pytest.mark.parametrize(
    ("replicas", "isr", "leader", "step"),
    [
        ((HERE,), (HERE,), HERE, DamageStep.WAIT),
        ((OTHER, THIRD), (OTHER,), OTHER, DamageStep.WAIT),
        (ALL, ALL, OTHER, DamageStep.STOP_FOLLOWING),
        (ALL, (OTHER,), -1, DamageStep.STOP_FOLLOWING),
        (ALL, (OTHER, THIRD), OTHER, DamageStep.COPY_AGAIN),
    ],
)
def test_a_damaged_follower_leaves_the_isr_before_it_copies(replicas, isr, leader, step):
    assert after_damage(partition_of(), HERE, replicas, isr, leader).step is step


def test_a_damaged_leader_hands_over_unless_it_is_alone():
    partition = with_followers()
    assert after_damage(partition, HERE, ALL, ALL, HERE) == (DamageStep.LEAVE, [OTHER, THIRD])
    assert partition.replicas is not None
    partition.replicas.propose((OTHER, THIRD))
    assert after_damage(partition, HERE, ALL, ALL, HERE).step is DamageStep.WAIT
    alone = with_followers(isr=(HERE,))
    assert after_damage(alone, HERE, ALL, (HERE,), HERE).step is DamageStep.WAIT


# The follower's side.


def follower_log(*, start: int = 0):
    log = log_state()
    for epoch, offset in ((2, 0), (5, 10)):
        log.leader_epochs.assign(epoch, offset)
    log.advance_log_start(start)
    log.log_end_offset = 15
    return log


def answer_part(**fields) -> pb.ReplicaFetchedPartition:
    said = {"topic": "orders", "leader_epoch": 6, "high_watermark": 9, **fields}
    return pb.ReplicaFetchedPartition(**said)


def diverging(leader_epoch: int, end_offset: int) -> pb.ReplicaFetchedPartition:
    return answer_part(
        diverging=True, diverging_leader_epoch=leader_epoch, diverging_end_offset=end_offset
    )


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        (answer_part(error_code=1, log_start_offset=3), StartOver(3)),
        (answer_part(leader_epoch=5), None),
        (answer_part(), Append()),
        (answer_part(log_start_offset=16), StartOver(16)),
        (diverging(2, 7), Truncate(7)),
        (diverging(3, 12), Truncate(10)),
        (diverging(5, 12), Truncate(12)),
        (diverging(5, 15), CutEpochs(15)),
        (diverging(-1, 4), Truncate(4)),
    ],
)
def test_what_a_follower_makes_of_an_answer(answer, step):
    assert step_of(follower_log(), 6, answer) == step


def test_a_divergence_before_the_log_start_drops_everything():
    assert step_of(follower_log(start=8), 6, diverging(2, 7)) == StartOver(7)


def test_the_leaders_log_start_only_rises():
    log = follower_log(start=4)
    assert not take_log_start(log, 4)
    assert take_log_start(log, 11)
    assert log.log_start_offset == 11
    assert log.leader_epochs.entries() == [(5, 11)]


def test_a_followed_log_says_where_it_stands():
    partition = partition_of(follower_log(), leader_epoch=6)
    log, message = FollowedLog(partition), pb.ReplicaFetchPartition()
    log.fill(message)
    assert (message.topic, message.partition, message.fetch_offset) == ("orders", 0, 15)
    assert (message.current_leader_epoch, message.last_fetched_leader_epoch) == (6, 5)
    assert log.position == Position(15, 5, 0)
    assert (log.is_durable, log.is_failed, log.has_same_leader) == (True, False, True)
    partition.local_end, partition.offline = 14, "damaged"
    partition.leadership = Leadership(OTHER, 7, False, 3, 3)
    assert (log.is_durable, log.is_failed, log.has_same_leader) == (False, True, False)


def test_a_followed_log_takes_what_came_with_the_records():
    partition = partition_of(follower_log(), leader_epoch=6)
    partition.high_watermark = 0
    log = FollowedLog(partition)
    part = answer_part(high_watermark=20, log_start_offset=3)
    assert log.step(part) == Append()
    assert log.appended(part)
    assert (partition.high_watermark, partition.log.log_start_offset) == (15, 3)
    assert not log.appended(part)


def test_leader_epochs_without_records_are_cut():
    log = follower_log()
    log.leader_epochs.assign(7, 15)
    cut_epochs(log, 15)
    assert log.leader_epochs.latest == 5
    with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
        cut_epochs(log, 15)


class Replica:
    def __init__(self, end: int = 0) -> None:
        self.position = Position(end, -1, 0)
        self.is_failed = False
        self.is_durable = True

    def fill(self, part: PartitionTold) -> None:
        part.fetch_offset = self.position.log_end_offset


def followed(replica: Replica) -> FollowerSession[Replica]:
    session = FollowerSession[Replica](backoff_s=1.0)
    session.follow(ORDERS, replica)
    session.next_request(0.0)
    session.continue_session(77)
    return session


def test_a_new_session_names_all_and_the_next_what_moved():
    session, replica = FollowerSession[Replica](1.0), Replica()
    assert session.is_empty
    session.follow(ORDERS, replica)
    session.follow(OTHER_PARTITION, Replica())
    first = session.next_request(0.0)
    assert (first.session_id, first.session_epoch) == (0, 0)
    assert list(first.replicas) == [ORDERS, OTHER_PARTITION]
    session.continue_session(77)
    received = session.receiver(ORDERS, 0, 0.0)
    assert received == (replica, Position(0, -1, 0))
    replica.position = Position(3, 5, 0)
    session.took(ORDERS, *received)
    second = session.next_request(0.0)
    assert (second.session_id, second.session_epoch) == (77, 1)
    assert list(second.replicas) == [ORDERS]
    session.end()
    assert list(session.next_request(0.0).replicas) == [ORDERS, OTHER_PARTITION]


def test_a_request_names_changes_and_what_is_forgotten():
    session = FollowerSession[Replica](1.0)
    session.follow(ORDERS, Replica(3))
    session.follow(OTHER_PARTITION, Replica())
    session.next_request(0.0)
    session.continue_session(77)
    session.unfollow(OTHER_PARTITION)
    session.follow(ORDERS, Replica(4))
    request = pb.ReplicaFetchRequest(max_wait_ms=500)
    session.next_request(0.0).fill(request, 50)
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (77, 1, 500)
    assert [each.fetch_offset for each in request.partitions] == [4]
    assert [(each.topic, each.partition) for each in request.forgotten] == [OTHER_PARTITION]
    session.refuse(ORDERS, 0.0)
    session.next_request(0.0).fill(request, 50)
    assert request.max_wait_ms == 50


def test_failed_rounds_wait_twice_as_long_each_time():
    session = FollowerSession[Replica](0.3)
    assert [session.failed() for _ in range(4)] == [0.3, 0.6, 1.0, 1.0]
    session.succeeded()
    assert session.failed() == 0.3
    assert session.next_request(0.0).session_epoch == 0


def test_an_answer_for_another_position_is_asked_for_again():
    replica = Replica(5)
    session = followed(replica)
    replica.position = Position(0, -1, 0)
    assert session.receiver(ORDERS, 0, 0.0) is None
    assert list(session.next_request(0.0).replicas) == [ORDERS]
    assert session.receiver(OTHER_PARTITION, 0, 0.0) is None


def test_a_refused_partition_is_asked_for_after_a_pause():
    session = followed(Replica())
    assert session.receiver(ORDERS, ErrorCode.NOT_LEADER_OR_FOLLOWER, 1.0) is None
    early = session.next_request(1.5)
    assert (early.replicas, early.is_retrying) == ({}, True)
    late = session.next_request(2.0)
    assert (list(late.replicas), late.is_retrying) == ([ORDERS], False)


def test_a_position_that_is_not_durable_is_told_to_nobody():
    session, replica = FollowerSession[Replica](1.0), Replica()
    replica.is_durable = False
    session.follow(ORDERS, replica)
    assert session.next_request(0.0).replicas == {}
    replica.is_durable = True
    assert list(session.next_request(1.0).replicas) == [ORDERS]


def test_a_failed_replica_is_not_asked_for():
    session, replica = FollowerSession[Replica](1.0), Replica()
    replica.is_failed = True
    session.follow(ORDERS, replica)
    ask = session.next_request(0.0)
    assert (ask.replicas, ask.is_retrying) == ({}, False)


def test_what_is_no_longer_followed_is_forgotten_once():
    replica = Replica()
    session = followed(replica)
    session.unfollow(ORDERS)
    session.unfollow(ORDERS)
    assert session.is_empty
    assert session.next_request(0.0).forgotten == (ORDERS,)
    assert session.next_request(0.0).forgotten == ()
    session.follow(ORDERS, other := Replica())
    assert not session.is_received_by(ORDERS, replica)
    session.took(ORDERS, other, Position(0, -1, 0))
    assert session.is_received_by(ORDERS, other)
