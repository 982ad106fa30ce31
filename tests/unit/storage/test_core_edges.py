"""Rules of the storage core that are met seldom, each by itself."""

import struct

import pytest
from crc32c import crc32c
from tests.worlds.storage.partitions import (
    CONTROL,
    NOW,
    OTHER,
    SHARD,
    TRANSACTIONAL,
    append,
    header,
    log_state,
    partition_of,
    refused,
    with_followers,
)
from tests.worlds.storage.segments import MemorySegment, batch

from oncelog.errors import ErrorCode
from oncelog.record.batch import HEADER
from oncelog.record.check import CheckRules
from oncelog.record.records import Record, decode_batch, encode_batch
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.aborted_index import AbortedCheck, decode_old_checks
from oncelog_storage.core.batch_walk import first_not_older
from oncelog_storage.core.cleaning import Transactions, learn_keys
from oncelog_storage.core.leader_state import FollowerProgress, Liveness
from oncelog_storage.core.offset_map import OffsetMap
from oncelog_storage.core.produced import rules_of_topic
from oncelog_storage.core.producer_snapshot import CorruptSnapshot, decode_snapshot
from oncelog_storage.core.producer_state import ProducerStates
from oncelog_storage.core.record_links import linked_spans
from oncelog_storage.core.replay import read_marker, replay_batch, whole_batch_at
from oncelog_storage.core.segment_indexes import CorruptAbortedIndex, aborted_entries
from oncelog_storage.core.verification import Verifications

PRODUCER = 7


def test_a_cut_checkpoint_of_aborted_indexes_is_none():
    """Older versions write it; what they wrote is believed once."""
    whole = "1\n1\n0 2 9\n722638231\n"
    assert decode_old_checks(whole) == {0: AbortedCheck(2, 9)}
    for cut in (whole[:-1], whole.replace("2 9", "2 8"), ""):
        with pytest.raises(ValueError, match=r"no checkpoint|invalid literal"):
            decode_old_checks(cut)


def test_aborted_entries_must_be_those_that_were_written():
    with pytest.raises(CorruptAbortedIndex, match="first 1 entries"):
        aborted_entries(AbortedCheck(1, 0), b"")


def test_keys_before_the_start_are_not_learned():
    known = OffsetMap(10_000)
    old = batch(0, 2)
    fields = HEADER.unpack_from(old)
    assert learn_keys(known, Transactions(()), fields, memoryview(old), 2)
    assert not known.offsets
    assert learn_keys(known, Transactions(()), fields, memoryview(old), 1)
    assert known.offsets == {b"k": 1}


def test_a_log_append_time_topic_asks_nothing_of_timestamps():
    bound = {"message.timestamp.after.max.ms": "10", "message.timestamp.before.max.ms": "20"}
    created = rules_of_topic(TopicConfig.from_overrides(bound), NOW)
    assert (created.timestamp_min, created.timestamp_max) == (NOW - 20, NOW + 10)
    appended = rules_of_topic(
        TopicConfig.from_overrides({**bound, "message.timestamp.type": "LogAppendTime"}), NOW
    )
    free = CheckRules()
    assert (appended.timestamp_min, appended.timestamp_max) == (
        free.timestamp_min,
        free.timestamp_max,
    )


def test_an_old_start_stays_when_a_verification_was_replaced():
    known = Verifications()
    guard = known.begin(PRODUCER, 0, 0, supports_epoch_bump=False, now=NOW)
    known.appended(PRODUCER, 0, is_control=True)
    known.note_start(PRODUCER, guard, 50, NOW)  # Its entry is gone.
    assert known.known_start(PRODUCER) is None
    guard = known.begin(PRODUCER, 0, 0, supports_epoch_bump=False, now=NOW)
    known.note_start(PRODUCER, guard, 60, NOW)
    known.learn_start(PRODUCER, 70, NOW)
    assert known.known_start(PRODUCER) == (60, NOW)


def test_a_start_is_forgotten_unless_a_newer_was_learned():
    known = Verifications()
    known.learn_start(PRODUCER, 70, NOW)
    start = known.known_start(PRODUCER)
    known.forget_start(PRODUCER, (70, NOW))  # Equal, and not what was known when it was asked.
    assert known.known_start(PRODUCER) is start
    known.forget_start(PRODUCER, start)
    assert known.known_start(PRODUCER) is None


def test_entries_and_starts_expire():
    known = Verifications()
    known.begin(PRODUCER, 0, 0, supports_epoch_bump=False, now=NOW)
    known.learn_start(PRODUCER, 70, NOW)
    assert known.expire(NOW + 9, 10) == 0
    assert list(known) == [PRODUCER]
    assert known.expire(NOW + 10, 10) == 1
    assert (len(known), known.known_start(PRODUCER)) == (0, None)


def test_a_coordinator_that_says_no_start_ends_what_was_known():
    known = Verifications()
    guard = known.begin(PRODUCER, 0, 0, supports_epoch_bump=False, now=NOW)
    known.note_start(PRODUCER, guard, 60, NOW)
    known.note_start(PRODUCER, guard, 0, NOW)
    assert known.known_start(PRODUCER) is None


def test_a_control_batch_that_ends_nothing_changes_no_producer():
    states = ProducerStates()
    leader_change = Record((0).to_bytes(2, "big") + (2).to_bytes(2, "big"), b"", NOW)
    data = bytearray(
        encode_batch([leader_change], base_offset=0, producer_id=PRODUCER, producer_epoch=0)
    )
    data[22] |= CONTROL
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    fields, reason = whole_batch_at(memoryview(data), 0, 0)
    assert reason == ""
    assert read_marker(memoryview(data), 0, len(data)) is None
    assert replay_batch(states, fields, memoryview(data), 0) is None
    assert len(states) == 0


def test_bytes_of_another_magic_are_no_batch():
    data = bytearray(batch(3))
    data[16] = 1
    assert whole_batch_at(memoryview(data), 0, 3)[1] == "magic 1 is not 2"


def test_a_batch_in_the_topics_codec_must_not_be_too_long():
    plain = batch(0, value=bytes(range(256)) * 20)
    gzip = TopicConfig.from_overrides({"compression.type": "gzip"}).codec
    roomy = partition_of(log_state(codec=gzip, max_message_bytes=100_000))
    changed = roomy.recompressed(plain)
    assert [one.value for one in decode_batch(changed)] == [bytes(range(256)) * 20]
    narrow = partition_of(log_state(codec=gzip, max_message_bytes=100))
    with refused(ErrorCode.MESSAGE_TOO_LARGE) as error:
        narrow.recompressed(plain)
    assert "max.message.bytes=100" in error.value.message


def test_indexes_that_are_gone_are_derived_from_the_batches():
    segment = MemorySegment(0)
    found, position = [], 0
    for offset in range(0, 40, 2):
        data = batch(offset, 2, timestamp=NOW + offset, value=b"v" * 3000)
        found.append((position, HEADER.unpack_from(data), memoryview(data), 0))
        position += len(data)
    indexes = segment._index_again([], found)
    assert indexes.time.last() == (NOW + 39, 39)
    assert len(indexes.time) > 3


def test_a_follower_that_left_is_out_of_sync_at_once():
    follower = FollowerProgress(0.0)
    assert follower.is_in_sync(0.0, 10.0)
    follower.left()
    assert not follower.is_in_sync(0.0, 10.0)


def progress(*fetches: tuple[int, int, float]) -> FollowerProgress:
    """(fetch offset, log end offset, time) of each fetch."""
    found = FollowerProgress(0.0)
    for offset, end, now in fetches:
        found.fetched(offset, end, 1, Liveness(now), now)
    return found


@pytest.mark.parametrize(
    ("fetches", "behind_since"),
    [
        (((0, 5, 1.0),), 0.0),
        (((5, 5, 1.0),), None),
        (((0, 5, 1.0), (5, 9, 2.0)), 1.0),
        (((5, 5, 1.0), (5, 9, 2.0)), 1.0),
        (((5, 5, 1.0), (3, 9, 2.0)), 1.0),
    ],
)
def test_since_when_a_follower_is_behind(fetches, behind_since):
    assert progress(*fetches).behind_since == behind_since


def test_a_follower_that_waits_or_asked_lately_keeps_up():
    found = progress((5, 5, 1.0))
    assert found.is_in_sync(11.0, 10.0)
    assert not found.is_in_sync(11.1, 10.0)
    found.liveness.is_waiting = True
    assert found.is_in_sync(99.0, 10.0)


def test_an_append_leaves_those_behind_who_had_everything():
    partition = with_followers()
    state = partition.replicas
    assert state is not None
    state.followers[OTHER].fetched(0, 0, 1, Liveness(1.0), 1.0)
    state.appended(7.0)
    assert [each.behind_since for each in state.followers.values()] == [7.0, 0.0]


def test_a_proposal_is_open_until_a_newer_partition_epoch():
    state = with_followers().replicas
    assert state is not None
    state.propose((1,))
    assert state.out_of_sync(99.0, 10.0) == []
    state.image_moved((1, 2, 3), (1, 2, 3), 0, 1.0)
    assert state.pending is not None
    state.image_moved((1, 2, 3), (1,), 1, 1.0)
    assert state.pending is None


def test_a_record_before_the_offset_is_passed_over():
    data = batch(0, 2, timestamp=NOW) + batch(2, timestamp=NOW + 5)
    view, second = memoryview(data), len(batch(0, 2))
    batches = [(at, HEADER.unpack_from(data, at), view, at) for at in (0, second)]
    # The first batch reaches the timestamp with a record that is below the offset only.
    early = list(batches[0][1])
    early[8] = NOW + 5
    batches[0] = (0, tuple(early), view, 0)
    assert first_not_older(batches, NOW + 5, 1) == (NOW + 5, 2, 0)


def test_a_shards_new_leader_takes_its_coordinators_epoch():
    partition = partition_of(log_state(SHARD))
    append(partition, header(producer_id=7, epoch=9, attributes=TRANSACTIONAL))
    append(partition, header(producer_id=8, epoch=4))
    append(partition, header(producer_id=6, epoch=3))
    # A client's transaction that has ended shows by its marker's coordinator epoch.
    append(partition, header(producer_id=5, epoch=8, attributes=TRANSACTIONAL))
    partition.log.producers.apply_marker(
        producer_id=5,
        producer_epoch=8,
        coordinator_epoch=2,
        is_commit=True,
        marker_offset=4,
        timestamp=NOW,
    )
    partition.lead(1, 5, (1, 2), (1, 2), 0, 0.0)
    assert partition.coordinator_epoch == 4
    plain = partition_of()
    append(plain, header(producer_id=8, epoch=4))
    plain.lead(1, 5, (1, 2), (1, 2), 0, 0.0)
    assert plain.coordinator_epoch == -1


def test_a_coordinators_batch_may_have_no_producer_id():
    partition = partition_of(log_state(SHARD))
    none = header(producer_id=-1, sequence=-1)
    assert partition.find_from_coordinator(none, 3, 0, lambda _: False) is None
    marker = header(attributes=CONTROL | TRANSACTIONAL, sequence=-1)
    assert partition.find_from_coordinator(marker, 3, 0, lambda _: False) is None


def test_a_snapshot_that_says_another_count_is_none():
    tail = struct.pack(">i", 3)
    with pytest.raises(CorruptSnapshot, match="says 3 producers"):
        decode_snapshot(struct.pack(">hI", 1, crc32c(tail)) + tail)


def test_markers_of_a_snapshot_may_hold_the_lso():
    states = ProducerStates()
    states.hold(3, 8)
    assert states.first_unstable_offset() == 3
    states.high_watermark_moved(8)
    assert states.first_unstable_offset() is None


def test_a_control_batch_without_records_may_go():
    fields = HEADER.unpack_from(batch(0))
    transactions = Transactions(())
    assert not transactions.may_go(fields, None)
    assert transactions.may_go((*fields[:12], 0), None)


def test_records_that_are_none_name_no_span():
    data = bytearray(batch(0, value=b"traceparent"))
    data[61] = 0x7F
    assert linked_spans(bytes(data), 5) == []
