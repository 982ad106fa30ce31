"""What checkpoints, syncs, removals and requests of markers change, and which partitions a node hosts."""

import pytest
from tests.worlds.storage.partitions import (
    HERE,
    NOW,
    ORDERS,
    OTHER,
    PAYMENTS,
    SHARD,
    TRANSACTIONAL,
    Host,
    Image,
    Topic,
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
from oncelog_storage.core.checkpoint_files import encode_topic_id
from oncelog_storage.core.hosting import (
    Change,
    Found,
    Making,
    change_of,
    folder_found,
    has_followers,
    high_watermark_at_load,
    is_lost,
    leadership_of,
    making_from,
    merged_epochs,
    require_host,
    require_newest_coordinator,
)
from oncelog_storage.core.marker_requests import (
    StartQuestions,
    awaited_offset,
    by_partition,
    require_own_marker,
)
from oncelog_storage.core.partition_values import Leadership
from oncelog_storage.core.upkeep import (
    Removals,
    Sync,
    Taken,
    moved_points,
    not_yet_safe,
    to_checkpoint,
)

GROUP = Partition("__consumer_offsets", 3)


# Checkpoints.


def test_a_checkpoint_counts_for_the_log_it_was_taken_of():
    partition = partition_of()
    taken = Taken(partition, "checkpoint", 7, 0)
    assert taken.counts
    partition.offline = "damaged"
    assert (taken.is_true, taken.counts) == (True, False)
    partition.offline, partition.is_truncating = None, True
    assert not taken.counts
    partition.is_truncating, partition.log.truncation_count = False, 1
    assert not taken.is_true


def test_recovery_points_only_rise():
    partition, points = partition_of(), {ORDERS: 5}
    moved_points(points, [Taken(partition, "", 9, 0), Taken(partition, "", 7, 0)])
    assert points == {ORDERS: 9}


def test_what_is_dirty_and_sound_is_checkpointed():
    clean, dirty, damaged = partition_of(), partition_of(), partition_of()
    for each in (dirty, damaged):
        append(each, header())
    damaged.offline = "damaged"
    assert to_checkpoint([clean, dirty, damaged]) == [dirty]
    dirty.log.advance_log_start(1)
    assert not_yet_safe([clean, dirty]) == [dirty]


# Syncs.


def test_a_sync_makes_safe_what_was_there_when_it_began():
    partition = partition_of()
    log = partition.log
    append(partition, header(count=3))
    log.unflushed_records, log.names_made = 3, 2
    sync = Sync.begin(log)
    assert (sync.has_new_names, log.unflushed_records) == (True, 0)
    append(partition, header(count=2, sequence=3))
    assert sync.ended(partition, is_wanted_again=True) == 3
    assert (partition.is_flushing, log.flushed_offset, log.names_synced) == (True, 3, 2)
    again = Sync.begin(log)
    assert not again.has_new_names
    assert again.ended(partition, is_wanted_again=False) == 5
    assert not partition.is_flushing


def test_without_another_sync_to_come_all_that_is_written_counts():
    partition = partition_of()
    sync = Sync.begin(partition.log)
    append(partition, header(count=2))
    assert sync.ended(partition, is_wanted_again=False) == 2


def test_a_sync_of_a_log_that_was_cut_counts_for_nothing():
    partition = partition_of()
    append(partition, header(count=3))
    sync = Sync.begin(partition.log)
    partition.log.truncation_count += 1
    assert sync.ended(partition, is_wanted_again=False) is None
    assert partition.log.flushed_offset == 0


def test_files_go_when_their_delay_is_over():
    removals = Removals()
    removals.add(["a", "b"], 10)
    removals.add(["c"], 11)
    assert removals.pop_due(9) == []
    assert removals.pop_due(10) == ["a", "b"]
    assert removals.pop_due(99) == ["c"]
    assert removals.pop_due(99) == []


def test_a_file_that_is_due_while_others_go_waits_its_turn():
    removals = Removals()
    removals.add(["a"], 10)
    assert removals.pop_due(10) == ["a"]
    removals.add(["b"], 10)
    removals.add(["a"], 10)
    assert removals.pop_due(10) == ["b", "a"], "one is new, the other could not be removed"


# Markers.


def grouped(*markers, is_verification_on=True):
    request, response = pb.WriteTxnMarkersRequest(), pb.WriteTxnMarkersResponse()
    for producer_id, names in markers:
        marker = request.markers.add(
            producer_id=producer_id, transactional_id="pay", transaction_start_ms=500
        )
        for topic, number in names:
            marker.partitions.add(topic=topic, partition=number)
    groups = by_partition(request.markers, response.results, is_verification_on=is_verification_on)
    return groups, response


def test_markers_are_grouped_by_partition():
    groups, response = grouped((7, [ORDERS, PAYMENTS]), (8, [ORDERS]))
    assert {
        name: [each.wanted.producer_id for each in group] for name, group in groups.items()
    } == {
        ORDERS: [7, 8],
        PAYMENTS: [7],
    }
    groups[ORDERS][1].answer.error_code = 47
    assert [result.producer_id for result in response.results] == [7, 8]
    assert response.results[1].partitions[0].error_code == 47


@pytest.mark.parametrize("is_on", [True, False])
def test_whose_marker_it_is_counts_while_verified(is_on):
    groups, _ = grouped((7, [ORDERS]), is_verification_on=is_on)
    assert groups[ORDERS][0].wanted.transactional_id == ("pay" if is_on else "")


def test_a_coordinator_is_asked_once_for_each_transaction():
    orders, payments = partition_of(), partition_of(log_state(PAYMENTS))
    for partition in (orders, payments):
        append(partition, header(attributes=TRANSACTIONAL))
    groups, _ = grouped((7, [ORDERS, PAYMENTS, SHARD]), (8, [ORDERS]))
    questions = StartQuestions(groups, Host(orders, payments))
    assert (list(questions), len(questions)) == ([("pay", 7)], 1)
    questions.learn([500], NOW)
    for partition in (orders, payments):
        known = partition.verifications.known_start(7)
        assert known is not None
        assert known[0] == 500
    assert not StartQuestions(groups, Host(orders, payments))


def test_markers_of_groups_go_to_their_coordinators():
    require_own_marker(ORDERS)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        require_own_marker(GROUP)


@pytest.mark.parametrize(
    ("high_watermark", "codes", "awaited"),
    [
        (3, [ErrorCode.NONE], None),
        (2, [ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT], 2),
        (2, [ErrorCode.REQUEST_TIMED_OUT], None),
    ],
)
def test_what_was_written_is_waited_for(high_watermark, codes, awaited):
    partition = with_followers()
    append(partition, header(count=3))
    partition.high_watermark = high_watermark
    assert awaited_offset(partition, codes) == awaited


# Which partitions are hosted.

TOPIC_ID, OTHER_ID = b"1" * 16, b"2" * 16
STORED = encode_topic_id(TOPIC_ID)


@pytest.mark.parametrize(
    ("found", "topic_id", "has_image", "becomes"),
    [
        (Image(), TOPIC_ID, True, Found.LOAD),
        (Image(), OTHER_ID, True, Found.SET_ASIDE),
        (None, TOPIC_ID, True, Found.SET_ASIDE),
        (None, None, True, Found.SET_ASIDE),
        (None, None, False, Found.LEAVE),
        (None, OTHER_ID, False, Found.LOAD),
    ],
)
def test_what_becomes_of_a_folder(found, topic_id, has_image, becomes):
    assert folder_found(found, STORED, topic_id, has_image=has_image) is becomes


@pytest.mark.parametrize(
    ("found", "lost"),
    [
        (None, False),
        (Image(), True),
        (Image(OTHER), True),
        (Image(OTHER, replicas=(OTHER,)), False),
    ],
)
def test_a_folder_that_should_be_here_is_missed(found, lost):
    assert is_lost(found, HERE) is lost


@pytest.mark.parametrize(
    ("found", "is_retiring", "code"),
    [
        (None, False, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Image(), True, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (Image(OTHER, replicas=(OTHER,)), False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_what_may_not_be_hosted(found, is_retiring, code):
    with refused(code):
        require_host(ORDERS, found, HERE, is_retiring=is_retiring)
    require_host(ORDERS, Image(OTHER), HERE, is_retiring=False)


@pytest.mark.parametrize(
    ("stored", "was_hosted", "how"),
    [
        (STORED, False, Making.LOAD),
        (encode_topic_id(OTHER_ID), False, Making.RETIRE),
        (None, True, Making.LOST),
        (None, False, Making.NEW),
    ],
)
def test_how_a_partition_comes_to_be_here(stored, was_hosted, how):
    assert making_from(stored, TOPIC_ID, was_hosted=was_hosted) is how


@pytest.mark.parametrize(("committed", "start", "high"), [(5, 0, 5), (99, 0, 9), (2, 4, 4)])
def test_a_log_begins_with_what_is_known_to_be_committed(committed, start, high):
    log = log_state()
    log.committed_at_load, log.log_start_offset, log.log_end_offset = committed, start, 9
    assert high_watermark_at_load(log) == high


def test_what_the_image_says_of_a_leader():
    assert leadership_of(Image(isr=(HERE,)), HERE) == Leadership(HERE, 5, True, 1, 3)
    assert not leadership_of(Image(), OTHER).is_here
    assert has_followers(Image())
    assert not has_followers(Image(replicas=(HERE,)))
    assert not has_followers(None)


SAME = Topic(topic_id=TOPIC_ID)


@pytest.mark.parametrize(
    ("old", "new", "has_other_configs", "change"),
    [
        (SAME, SAME, False, Change.NOTHING),
        (SAME, SAME, True, Change.CONFIG),
        (SAME, None, True, Change.DROP),
        (SAME, Topic(topic_id=OTHER_ID), False, Change.DROP),
        (SAME, Topic((), TOPIC_ID), False, Change.DROP),
        (SAME, Topic((Image(OTHER),), TOPIC_ID), False, Change.TOPIC),
        (None, None, False, Change.DROP),
    ],
)
def test_what_another_image_means(old, new, has_other_configs, change):
    log = log_state()
    log.topic_id = TOPIC_ID
    assert change_of(log, old, new, has_other_configs=has_other_configs) is change


@pytest.mark.parametrize(
    ("coordinator_epoch", "of_image", "is_refused"),
    [(3, None, False), (2, None, True), (3, 4, True), (4, 4, False)],
)
def test_an_older_coordinator_is_fenced(coordinator_epoch, of_image, is_refused):
    partition = partition_of(log_state(SHARD))
    partition.coordinator_epoch = 3
    if is_refused:
        with refused(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
            require_newest_coordinator(partition, coordinator_epoch, of_image)
    else:
        require_newest_coordinator(partition, coordinator_epoch, of_image)


def test_the_highest_coordinator_epoch_of_each_shard_is_kept():
    merged = merged_epochs({SHARD: 3, GROUP: 1}, {SHARD: 2, GROUP: 4}, {SHARD: 5})
    assert merged == {SHARD: 5, GROUP: 4}
