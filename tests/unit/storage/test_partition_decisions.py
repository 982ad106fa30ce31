"""What a partition decides, row by row (facts 3, 9; ADR 0015, 0016)."""

import pytest
from tests.worlds.storage.partitions import (
    CONTROL,
    HERE,
    NOW,
    OTHER,
    SHARD,
    THIRD,
    TRANSACTIONAL,
    append,
    header,
    log_state,
    partition_of,
    refused,
    with_followers,
)

from oncelog.errors import ErrorCode
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog_storage.core.leader_state import Liveness
from oncelog_storage.core.markers import StartQuestion, marker_batches, needs_its_start
from oncelog_storage.core.partition_values import (
    Appended,
    Divergence,
    FollowerPosition,
    Leadership,
    MarkerRequest,
    MarkerToWrite,
    PositionTaken,
)

# Producers.


def test_a_batch_without_producer_id_may_always_be_written():
    assert partition_of().find_produced(header(producer_id=-1), None, needs_guard=True) is None


def test_a_repeated_batch_is_answered_as_the_first_one():
    partition = partition_of()
    append(partition, header(count=3))
    again = partition.find_produced(header(count=3), None, needs_guard=False)
    assert again == Appended(0, 2, -1, True)
    assert partition.find_duplicate(header(count=3)) == again
    assert partition.find_duplicate(header(producer_id=-1)) is None


def test_a_repetition_has_the_logs_time_where_the_topic_says_so():
    partition = partition_of(log_state(is_log_append_time=True))
    append(partition, header())
    again = partition.find_duplicate(header())
    assert again is not None
    assert again.log_append_time == NOW


@pytest.mark.parametrize(
    ("batch", "code"),
    [
        (header(sequence=2), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (header(epoch=0, sequence=1), ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_batch_that_does_not_follow_is_refused(batch, code):
    partition = partition_of()
    append(partition, header(epoch=1))
    sent = batch._replace(producer_epoch=1) if batch.base_sequence == 2 else batch
    with refused(code):
        partition.find_produced(sent, None, needs_guard=False)


def test_a_transaction_needs_its_own_guard():
    partition = partition_of()
    batch = header(attributes=TRANSACTIONAL)
    with refused(ErrorCode.INVALID_TXN_STATE):
        partition.find_produced(batch, None, needs_guard=True)
    guard = partition.begin_verification(batch, supports_epoch_bump=True, now=NOW)
    assert guard is not None
    assert partition.find_produced(batch, guard, needs_guard=True) is None
    append(partition, batch)
    assert partition.begin_verification(batch, supports_epoch_bump=True, now=NOW) is None
    following = header(sequence=1, attributes=TRANSACTIONAL)
    assert partition.find_produced(following, None, needs_guard=True) is None


def test_a_marker_takes_the_guard_away():
    partition = partition_of()
    batch = header(attributes=TRANSACTIONAL)
    guard = partition.begin_verification(batch, supports_epoch_bump=True, now=NOW)
    partition.markers_written([MarkerToWrite(7, 1, 0, False, bytearray())])
    with refused(ErrorCode.INVALID_TXN_STATE):
        partition.find_produced(batch, guard, needs_guard=True)


def test_a_stale_epoch_is_not_verified():
    partition = partition_of()
    append(partition, header(epoch=3))
    stale = header(epoch=2, attributes=TRANSACTIONAL)
    with refused(ErrorCode.INVALID_PRODUCER_EPOCH):
        partition.begin_verification(stale, supports_epoch_bump=True, now=NOW)


# Coordinators.


def decide(partition, batch, epoch, expected, *, is_last=False):
    return partition.find_from_coordinator(batch, epoch, expected, lambda _offset: is_last)


def test_an_older_coordinator_is_fenced():
    partition = partition_of(log_state(SHARD))
    assert decide(partition, header(), 4, 0) is None
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        decide(partition, header(), 3, 0)


def test_a_coordinator_that_missed_a_record_is_fenced():
    partition = partition_of(log_state(SHARD))
    append(partition, header())
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        decide(partition, header(sequence=1), 4, 0)
    assert decide(partition, header(sequence=1), 4, 1) is None
    assert decide(partition, header(sequence=1), 4, None) is None


def test_a_coordinators_repetition_is_answered_again():
    partition = partition_of(log_state(SHARD))
    append(partition, header(count=2))
    assert decide(partition, header(count=2), 4, 0) == Appended(0, 1, -1, True)


def test_a_batch_without_sequence_is_told_by_the_logs_end():
    partition = partition_of(log_state(SHARD))
    append(partition, header(count=2, producer_id=-1))
    without = header(sequence=-1, count=2, attributes=TRANSACTIONAL)
    assert decide(partition, without, 4, 0, is_last=True) == Appended(0, 1, -1, True)
    with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        decide(partition, without, 4, 0)


def test_a_coordinators_batch_out_of_sequence_is_refused():
    partition = partition_of(log_state(SHARD))
    append(partition, header())
    with refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
        decide(partition, header(sequence=5), 4, 1)


def test_a_control_batch_must_end_a_transaction():
    partition = partition_of(log_state(SHARD))
    batch = header(sequence=-1, attributes=CONTROL | TRANSACTIONAL)
    marker = encode_marker(
        Marker(MarkerType.COMMIT, 9), producer_id=7, producer_epoch=0, timestamp=NOW
    )
    assert decide(partition, batch, 4, 0) is None
    assert partition.marker_of_coordinator(bytes(marker), batch) == MarkerToWrite(
        7, 0, 9, True, marker
    )
    with refused(ErrorCode.INVALID_RECORD):
        partition.marker_of_coordinator(bytes(marker) + b"x", batch)


# Leadership.


def test_a_node_that_does_not_lead_or_is_offline_refuses():
    partition = partition_of()
    partition.require_leader()
    partition.offline = "bad CRC"
    with refused(ErrorCode.KAFKA_STORAGE_ERROR):
        partition.require_leader()
    partition.leadership = Leadership(OTHER, 6, False, 2, 2)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        partition.require_leader()


@pytest.mark.parametrize(
    ("leader_epoch", "code"),
    [
        (-1, None),
        (5, None),
        (4, ErrorCode.FENCED_LEADER_EPOCH),
        (6, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_clients_leader_epoch_is_compared(leader_epoch, code):
    partition = partition_of(leader_epoch=5)
    if code is None:
        partition.require_leader_epoch(leader_epoch)
        assert partition.leadership.leader_epoch == 5
    else:
        with refused(code):
            partition.require_leader_epoch(leader_epoch)


def test_a_topic_of_fewer_replicas_needs_all_it_has():
    partition = partition_of(log_state(min_insync_replicas=2))
    partition.require_enough_replicas()
    partition.leadership = Leadership(HERE, 5, True, 1, 3)
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        partition.require_enough_replicas()


def test_leading_again_in_the_same_epoch_keeps_what_is_known():
    partition = with_followers()
    assert partition.replicas is not None
    partition.replicas.followers[OTHER].end_offset = 9
    partition.lead(HERE, 5, (HERE, OTHER), (HERE, OTHER), 1, 1.0)
    assert partition.replicas.followers[OTHER].end_offset == 9
    assert partition.replicas.partition_epoch == 1
    partition.lead(HERE, 6, (HERE, OTHER), (HERE, OTHER), 2, 2.0)
    assert partition.replicas.followers[OTHER].end_offset == -1
    partition.follow()
    assert not partition.leads_in(6)


# High watermark and last stable offset.


def test_the_slowest_in_sync_follower_holds_the_high_watermark():
    partition = with_followers()
    append(partition, header(count=3))
    seen = Liveness(0.0)
    taken = partition.take_position(OTHER, 1, FollowerPosition(3, -1, 0), seen, 0.0)
    assert taken == PositionTaken(None, has_log_start_moved=True)
    assert partition.high_watermark == 0
    taken = partition.take_position(THIRD, 1, FollowerPosition(2, -1, 0), seen, 0.0)
    assert taken.has_high_watermark_moved
    assert partition.high_watermark == 2


def test_below_min_insync_replicas_nothing_is_committed():
    partition = with_followers(log_state(min_insync_replicas=2), isr=(HERE,))
    append(partition, header())
    assert partition.high_watermark == 0


def test_a_position_of_nobody_is_refused():
    partition, seen = with_followers(), Liveness(0.0)
    position = FollowerPosition(0, -1, 0)
    with refused(ErrorCode.REPLICA_NOT_AVAILABLE):
        partition.take_position(9, 1, position, seen, 0.0)
    alone = partition_of()
    with refused(ErrorCode.REPLICA_NOT_AVAILABLE):
        alone.take_position(OTHER, 1, position, seen, 0.0)


def test_a_followers_high_watermark_stays_in_its_log_and_rises():
    partition = partition_of()
    partition.leadership = Leadership(OTHER, 6, False, 2, 2)
    partition.log.log_end_offset = 4
    partition.follow_high_watermark(9)
    assert partition.high_watermark == 4
    partition.follow_high_watermark(2)
    assert partition.high_watermark == 4


def test_a_truncated_log_takes_its_marks_with_it():
    partition = partition_of()
    append(partition, header(count=9))
    partition.log.log_end_offset = 4
    partition.truncated(has_started_over=False)
    assert (partition.local_end, partition.high_watermark) == (4, 4)
    partition.log.log_start_offset = partition.log.log_end_offset = 20
    partition.truncated(has_started_over=True)
    assert (partition.local_end, partition.high_watermark) == (20, 20)


def test_an_open_transaction_holds_the_last_stable_offset():
    partition = partition_of()
    append(partition, header(count=2, producer_id=-1))
    assert partition.lso_holder() is None
    append(partition, header(attributes=TRANSACTIONAL))
    assert (partition.last_stable_offset, partition.high_watermark) == (2, 3)
    holder = partition.lso_holder()
    assert holder is not None
    assert holder.producer_id == 7
    partition.log.advance_log_start(3)
    assert partition.last_stable_offset == 3


@pytest.mark.parametrize(
    ("last_epoch", "offset", "expected"),
    [
        (-1, 7, None),
        (2, 10, None),
        (2, 11, Divergence(2, 10)),
        (3, 12, Divergence(2, 10)),
        (5, 15, None),
        (0, 1, Divergence(0, 0)),
        (6, 1, Divergence(-1, 0)),
        (0, 0, None),
        (6, 0, None),
    ],
)
def test_where_two_histories_part(last_epoch, offset, expected):
    partition = partition_of()
    log = partition.log
    for epoch, start in ((2, 0), (5, 10)):
        log.leader_epochs.assign(epoch, start)
    log.log_end_offset = 15
    assert partition.divergence(last_epoch, offset) == expected


# Markers.


def marker(**changed) -> MarkerRequest:
    request = MarkerRequest(7, 0, True, 3, 1, 500, "orders-1")
    return request._replace(**changed)


def codes_of(partition, *requests):
    codes, sizes = [], []
    for batch in marker_batches(partition, requests, NOW):
        sizes.append(len(batch.markers))
        codes = batch.codes
        partition.markers_written(batch.markers)
    return codes, sizes


def test_a_marker_of_tv1_waits_for_the_start_of_its_transaction():
    partition = partition_of()
    append(partition, header(attributes=TRANSACTIONAL))
    assert needs_its_start(partition, marker())
    assert codes_of(partition, marker()) == ([ErrorCode.REQUEST_TIMED_OUT], [0])
    StartQuestion.about(partition, marker()).learn(500, NOW)
    assert codes_of(partition, marker()) == ([ErrorCode.NONE], [1])


def test_a_late_marker_is_answered_and_not_written():
    partition = partition_of()
    append(partition, header(attributes=TRANSACTIONAL))
    StartQuestion.about(partition, marker()).learn(900, NOW)
    assert codes_of(partition, marker(transaction_start_ms=500)) == ([ErrorCode.NONE], [0])


def test_an_answer_for_an_older_start_forgets_what_was_known():
    partition = partition_of()
    append(partition, header(attributes=TRANSACTIONAL))
    StartQuestion.about(partition, marker()).learn(900, NOW)
    StartQuestion.about(partition, marker(transaction_start_ms=500)).learn(None, NOW)
    assert codes_of(partition, marker(transaction_start_ms=500))[0] == [ErrorCode.REQUEST_TIMED_OUT]


def test_a_marker_of_tv2_or_of_kafkas_api_needs_no_start():
    partition = partition_of()
    append(partition, header(attributes=TRANSACTIONAL))
    assert not needs_its_start(partition, marker(transaction_version=2))
    assert not needs_its_start(partition, marker(transactional_id=""))
    assert codes_of(partition, marker(transactional_id="")) == ([ErrorCode.NONE], [1])


def test_markers_of_one_producer_are_written_one_by_one():
    partition = partition_of()
    both = (
        marker(transaction_version=2, producer_epoch=1),
        marker(transaction_version=2, producer_epoch=2),
    )
    codes, sizes = codes_of(partition, *both)
    assert codes == [ErrorCode.NONE, ErrorCode.NONE]
    assert sizes == [1, 1]
