"""What readers are shown: fetches, offsets by meaning, and the fate of a record, by walks over a log without files."""

import pytest
from tests.unit.storage.read_host import ABORTED, Host, grown, slice_of
from tests.worlds.storage.partitions import (
    NOW,
    ORDERS,
    OTHER,
    SHARD,
    THIRD,
    append,
    header,
    log_state,
    partition_of,
    refused,
    with_followers,
)
from tests.worlds.storage.segments import MemorySegment, abort_marker, batch

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.topic_config import TopicConfig
from oncelog_storage.core import offset_queries
from oncelog_storage.core.fetching import AdmitLoader, FindAborted, LogSlice, ReadBatches
from oncelog_storage.core.offset_queries import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    MAX_TIMESTAMP,
    NOT_FOUND,
    FindTimestamp,
    LargestTimestamp,
    delete_records,
    end_offset_for,
    inherited_end,
    low_watermark,
)
from oncelog_storage.core.producer_state import ProducerEntry
from oncelog_storage.core.record_fate import Fate, ReadBatchAt, RecordFate, record_fate
from oncelog_storage.core.walks import run_walk


def emptied(offset: int) -> LogSlice:
    data = bytearray(batch(offset))
    data[57:61] = bytes(4)
    return LogSlice(bytes(data), offset + 1)


# Fetch.


def test_a_consumer_sees_up_to_the_high_watermark():
    host = Host(grown(3), slice_of(0, 3))
    reading = host.fetching(min_bytes=1)
    answer = host.read(reading, 0)
    assert host.needs == [ReadBatches(host.partition, 0, 3, 1 << 20)]
    assert (answer.high_watermark, answer.last_stable_offset, answer.error_code) == (3, 3, 0)
    assert reading.is_enough
    assert reading.total_bytes == len(answer.records) > 0
    assert host.read(reading, 3).records == b""


@pytest.mark.parametrize(("fields", "counted"), [({}, 3), ({"uncounted": True}, 0)])
def test_who_looks_for_people_consumes_nothing(fields, counted):
    host = Host(grown(3), slice_of(0, 3))
    reading = host.fetching(min_bytes=1, **fields)
    assert host.read(reading, 0).records
    reading.count_given()
    assert host.partition.counts.consumed_records == counted
    assert bool(host.partition.counts.consumed_bytes) == bool(counted)


@pytest.mark.parametrize(("topic_id", "code"), [(bytes(16), 0), (b"", 0), (b"x" * 16, 103)])
def test_a_reader_of_a_deleted_topic_is_refused(topic_id, code):
    host = Host(grown(3), slice_of(0, 3))
    answer = host.read(host.fetching(), 0, topic_id=topic_id)
    assert (answer.error_code, bool(answer.records)) == (code, code == 0)


def test_who_asks_for_changes_is_told_only_those():
    """What it knows: the high watermark is 3, the log starts at 0, and there are no records from 3 on (KIP-227)."""
    partition = grown(3)
    host = Host(partition, slice_of(0, 3))

    def is_news(offset, **known):
        reading = host.fetching(changes_only=True)
        part = pb.FetchPartition(
            fetch_offset=offset, **{"known_high_watermark": 3, "current_leader_epoch": -1, **known}
        )
        part.topic, part.partition = ORDERS
        answer = pb.FetchedPartition(topic=part.topic, partition=part.partition)
        size_bytes = run_walk(reading.read(part, answer), host.found, (KafkaError,))
        is_told = reading.is_news(part, answer, size_bytes)
        assert reading.is_known(part) != is_told
        return is_told

    assert not is_news(3)
    assert is_news(0), "records"
    assert is_news(9), "an error"
    assert is_news(3, known_high_watermark=2)
    assert is_news(3, known_log_start_offset=-1)
    assert is_news(3, current_leader_epoch=99), "an error"
    assert is_news(3, topic_id=b"x" * 16), "an error"
    everything = host.fetching()
    assert not everything.is_known(pb.FetchPartition(topic=ORDERS.topic))
    assert everything.is_news(pb.FetchPartition(), pb.FetchedPartition(), 0)


def test_what_may_not_be_answered_is_not_waited_for():
    """Whole batches seldom fill the limit to the last byte; so a reader waited for what was there."""
    host = Host(grown(3), slice_of(0, 2))
    reading = host.fetching(min_bytes=1 << 19, max_bytes=1 << 19)
    host.read(reading, 0)
    assert reading.total_bytes < 1 << 19
    assert reading.is_enough
    host = Host(grown(3), slice_of(0, 3))
    reading = host.fetching(min_bytes=1 << 19, max_bytes=1 << 19)
    host.read(reading, 0)
    assert not reading.is_enough


def test_read_committed_ends_at_the_lso_and_names_aborts():
    partition = grown(4)
    partition.high_watermark = 3
    host = Host(partition, slice_of(1, 2))
    answer = host.read(host.fetching(is_committed_only=True), 1)
    assert host.needs == [
        ReadBatches(partition, 1, 3, 1 << 20),
        FindAborted(partition, 1, 3),
    ]
    assert [(each.producer_id, each.first_offset) for each in answer.aborted_transactions] == [
        (7, 0)
    ]


def test_read_committed_ends_before_an_open_transaction():
    partition = grown(2)
    append(partition, header(producer_id=8, count=2, attributes=0x10))
    host = Host(partition, slice_of(0, 2))
    answer = host.read(host.fetching(is_committed_only=True), 0)
    assert host.needs[0] == ReadBatches(partition, 0, 2, 1 << 20)
    assert (answer.high_watermark, answer.last_stable_offset) == (4, 2)


def test_a_coordinator_reads_its_shard_to_the_end():
    partition = partition_of(log_state(SHARD))
    append(partition, header(count=3))
    partition.high_watermark = 1
    host = Host(partition, slice_of(0, 3))
    reading = host.fetching(read_to_log_end=True, coordinator_epoch=4)
    host.read(reading, 0, name=SHARD)
    assert host.needs[0] == AdmitLoader(partition, 4)
    assert host.needs[1] == ReadBatches(partition, 0, 3, 1 << 20)


@pytest.mark.parametrize(
    ("offset", "fields", "code"),
    [
        (9, {}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (0, {"current_leader_epoch": 4}, ErrorCode.FENCED_LEADER_EPOCH),
        (0, {"name": Partition("payments", 0)}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_an_error_ends_the_wait(offset, fields, code):
    host = Host(grown(3))
    reading = host.fetching(min_bytes=1)
    answer = host.read(reading, offset, **fields)
    assert (answer.error_code, answer.leader, answer.leader_epoch) == (code, OTHER, 9)
    is_out_of_range = code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert answer.high_watermark == (3 if is_out_of_range else -1)
    assert reading.is_enough


def test_a_read_that_fails_leaves_no_records():
    host = Host(grown(3), slice_of(0))
    answer = host.read(host.fetching(), 0, fails=True)
    assert (answer.error_code, answer.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")


def test_the_first_records_go_whatever_the_limits():
    host = Host(grown(3), slice_of(0), slice_of(1))
    reading = host.fetching(max_bytes=1, min_bytes=1000)
    assert host.read(reading, 0).records
    assert host.read(reading, 1).records == b""
    assert len(host.needs) == 1
    assert reading.is_enough, "waiting brings no more than the limit allows"


def test_records_above_the_partitions_limit_wait():
    host = Host(grown(3), slice_of(0), slice_of(1))
    reading = host.fetching()
    host.read(reading, 0)
    assert host.read(reading, 1, max_bytes=10).records == b""
    assert host.needs[-1].bytes_max == 10


@pytest.mark.parametrize(
    ("slices", "read_count", "next_offset"),
    [
        ([emptied(0), emptied(1), slice_of(2)], 3, 3),
        ([emptied(0)], 2, 1),
        ([emptied(0), LogSlice(emptied(1).records, 3)], 2, 3),
        ([LogSlice(emptied(0).records + batch(1), 2)], 1, 2),
        ([slice_of(0)], 1, 1),
    ],
)
def test_what_compaction_emptied_is_read_past(slices, read_count, next_offset):
    host = Host(grown(3), *slices)
    answer = host.read(host.fetching(is_committed_only=True), 0)
    reads = [each for each in host.needs if isinstance(each, ReadBatches)]
    assert len(reads) == read_count
    assert host.needs[-1] == FindAborted(host.partition, 0, next_offset)
    assert answer.records


def test_reading_past_what_is_empty_has_a_bound():
    host = Host(grown(500), *(emptied(offset) for offset in range(200)))
    host.read(host.fetching(), 0)
    assert len(host.needs) == 101


@pytest.mark.parametrize(("is_committed_only", "missing"), [(True, 1), (False, 100)])
def test_a_fetch_waits_for_what_is_missing(is_committed_only, missing):
    host = Host(grown(3))
    assert host.fetching(min_bytes=100, is_committed_only=is_committed_only).missing_bytes == (
        missing
    )


# Offsets by meaning.


def segments_of(*largest: int) -> tuple[MemorySegment, ...]:
    found = []
    for index, timestamp in enumerate(largest):
        segment = MemorySegment(10 * index, size_bytes=100)
        segment.created_ms = timestamp
        found.append(segment)
    return tuple(found)


def listed(partition, timestamp, answers=(), *, is_committed_only=False):
    """(what the walk asked, what it found)."""
    walk = offset_queries.list_offset(partition, timestamp, is_committed_only=is_committed_only)
    calls, left = [], list(answers)

    def answer(query):
        calls.append(query)
        return left.pop(0)

    found = run_walk(walk, answer)
    return calls, found


def test_ends_are_found_without_a_read():
    partition = grown(30)
    partition.log.leader_epochs.assign(5, 0)
    partition.log.advance_log_start(2)
    partition.high_watermark = 28
    assert listed(partition, LATEST) == ([], (-1, 28, 5))
    assert listed(partition, EARLIEST) == ([], (-1, 2, 5))
    assert listed(partition, EARLIEST_LOCAL) == ([], (-1, 2, 5))
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        listed(partition, MAX_TIMESTAMP - 2)


def test_the_first_record_not_older_is_found():
    partition = grown(30)
    partition.log.segments = (MemorySegment(0), *segments_of(1, 5, 5, 9))
    queries, found = listed(partition, 5, [1, 5, None, 9, (7, 25, 5)])
    assert queries == [
        LargestTimestamp(1),
        LargestTimestamp(2),
        FindTimestamp(2, 5, 0),
        LargestTimestamp(3),
        FindTimestamp(3, 5, 0),
    ]
    assert found == (7, 25, 5)
    assert listed(partition, 99, [1, 5, 5, 9])[1] == NOT_FOUND


def test_what_a_reader_may_not_see_is_not_found():
    partition = grown(30)
    partition.log.segments = segments_of(9)
    partition.high_watermark = 25
    assert listed(partition, 5, [9, (7, 25, 5)])[1] == NOT_FOUND
    assert listed(partition, 5, [9, (7, 24, 5)])[1] == (7, 24, 5)


def test_the_first_of_the_largest_timestamp_is_found():
    partition = grown(30)
    partition.log.segments = (MemorySegment(0), *segments_of(4, 9, 9))
    queries, found = listed(partition, MAX_TIMESTAMP, [4, 9, 9, (9, 12, 5)])
    assert queries[-1] == FindTimestamp(2, 9, 0)
    assert found == (9, 12, 5)
    assert listed(partition, MAX_TIMESTAMP, [-1, -1, -1])[1] == NOT_FOUND


@pytest.mark.parametrize("timestamp", [LATEST, 99])
def test_a_leader_that_does_not_know_its_end_says_so(timestamp):
    log = log_state()
    log.log_end_offset = 3
    partition = with_followers(log)
    partition.high_watermark = 2
    assert inherited_end(partition) == 3
    with refused(ErrorCode.OFFSET_NOT_AVAILABLE):
        listed(partition, timestamp)
    partition.high_watermark = 3
    assert inherited_end(partition) is None
    assert inherited_end(partition_of()) is None


def test_the_current_leader_epoch_ends_at_the_log_end():
    partition = grown(3)
    partition.log.leader_epochs.assign(2, 0)
    partition.log.leader_epochs.assign(4, 1)
    assert end_offset_for(partition, 5) == (5, 3)
    assert end_offset_for(partition, 2) == (2, 1)
    assert end_offset_for(partition, 9) == (-1, -1)


# Deletion.


@pytest.mark.parametrize(("before", "start"), [(-1, 3), (2, 2), (0, 1)])
def test_the_log_start_moves_up_to_an_offset(before, start):
    partition = grown(3)
    partition.log.advance_log_start(1)
    assert delete_records(partition, before) == start


@pytest.mark.parametrize(
    ("config", "before", "code"),
    [
        ({}, 4, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({}, -2, ErrorCode.OFFSET_OUT_OF_RANGE),
        ({"cleanup.policy": "compact"}, 1, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_what_may_not_be_deleted_stays(config, before, code):
    partition = grown(3)
    partition.log.config = TopicConfig.from_overrides(config)
    with refused(code):
        delete_records(partition, before)


def test_the_low_watermark_is_that_of_the_replicas_in_sync():
    partition = with_followers(isr=(1, OTHER))
    partition.log.log_start_offset = 9
    assert partition.replicas is not None
    partition.replicas.followers[OTHER].log_start_offset = 5
    partition.replicas.followers[THIRD].log_start_offset = 2
    assert low_watermark(partition) == 5
    partition.replicas = None
    assert low_watermark(partition) == 9


# The fate of a record.


def fate_of(partition, offset, records=b"", aborted=()):
    walk = record_fate(partition, offset)
    return run_walk(walk, lambda need: records if isinstance(need, ReadBatchAt) else aborted)


def control(kind: MarkerType | None) -> bytes:
    if kind is not None:
        return bytes(
            encode_marker(
                Marker(kind, 0), producer_id=7, producer_epoch=0, timestamp=NOW, base_offset=0
            )
        )
    data = bytearray(abort_marker(0, 7))
    # The type in the record's key.
    data[data.index(b"\0\0\0\0", 61) + 3] = 2
    return bytes(data)


def test_fates_have_the_numbers_of_the_messages():
    numbers = dict(pb.RecordFate.items())
    assert numbers.pop("RECORD_FATE_UNKNOWN") == 0
    assert {each.name: each.value for each in Fate} == numbers


TXN_BATCH = batch(0, 3, producer_id=7, producer_epoch=1, base_sequence=0, is_transactional=True)


@pytest.mark.parametrize(
    ("offset", "records", "aborted", "found"),
    [
        (0, b"", (), RecordFate(Fate.BELOW_LOG_START)),
        (3, b"", (), RecordFate(Fate.NOT_WRITTEN)),
        (1, b"", (), RecordFate(Fate.COMPACTED)),
        (1, batch(2), (), RecordFate(Fate.COMPACTED)),
        (1, batch(0, 3), (), RecordFate(Fate.NOT_TRANSACTIONAL, -1, -1)),
        (1, TXN_BATCH, (), RecordFate(Fate.IN_COMMITTED, 7, 1)),
        (1, TXN_BATCH, (ABORTED,), RecordFate(Fate.IN_ABORTED, 7, 1, 0, 2)),
        (1, TXN_BATCH, (ABORTED._replace(producer_id=8),), RecordFate(Fate.IN_COMMITTED, 7, 1)),
    ],
)
def test_a_record_has_one_fate(offset, records, aborted, found):
    partition = grown(3)
    partition.log.advance_log_start(1)
    assert fate_of(partition, offset, records, aborted) == found


@pytest.mark.parametrize(
    ("kind", "fate"),
    [
        (MarkerType.COMMIT, Fate.COMMIT_MARKER),
        (MarkerType.ABORT, Fate.ABORT_MARKER),
        (None, Fate.OTHER_CONTROL),
    ],
)
def test_a_marker_says_what_it_is(kind, fate):
    assert fate_of(grown(3), 0, control(kind)) == RecordFate(fate, 7, 0)


def test_a_record_of_an_open_transaction_waits():
    partition = partition_of()
    append(partition, header(count=3, attributes=1 << 4))
    found = fate_of(partition, 1, TXN_BATCH)
    assert (found.fate, found.txn_first_offset) == (Fate.IN_OPEN, 0)
    assert isinstance(found.open_transaction, ProducerEntry)


def cleaned(count: int, left: int) -> bytes:
    """A batch of `count` offsets that cleaning has left `left` records of."""
    data = bytearray(batch(0, left) if left else batch(0, 1))
    data[23:27] = (count - 1).to_bytes(4, "big")
    data[57:61] = left.to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize(
    ("left", "offset", "fate"),
    [(1, 0, Fate.NOT_TRANSACTIONAL), (1, 1, Fate.COMPACTED), (0, 1, Fate.COMPACTED)],
)
def test_a_cleaned_batch_keeps_its_offsets_without_records(left, offset, fate):
    assert fate_of(grown(3), offset, cleaned(3, left)).fate is fate
