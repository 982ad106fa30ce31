"""Byte equality with Kafka's files (facts 4, 5.3, 5.4), and what happens to bytes that are none."""

import struct

import pytest

from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog_storage.core.aborted_index import (
    AbortedTransactionEntry,
    CorruptAbortedIndex,
    decode_entries,
    encode_entry,
    search,
)
from oncelog_storage.core.leader_epochs import (
    CorruptLeaderEpochs,
    LeaderEpochs,
    decode_leader_epochs,
    encode_leader_epochs,
)
from oncelog_storage.core.offset_index import CorruptIndex, OffsetIndex
from oncelog_storage.core.producer_snapshot import CorruptSnapshot, decode_snapshot, encode_snapshot
from oncelog_storage.core.producer_state import KeptBatch, ProducerEntry
from oncelog_storage.core.replay import read_marker
from oncelog_storage.core.segment_files import (
    CHECKS_FILE,
    GAPS_FILE,
    LEADER_EPOCH_CHECKPOINT,
    OLD_CHECKS_FILE,
    PARTITION_METADATA,
    file_stem,
    is_derived,
)
from oncelog_storage.core.time_index import TimeIndex

SNAPSHOT = bytes.fromhex(
    "0001828f40fc000000010000000000000fa00003000000010000000000000065000000010000018bcfe5680100000007ffffffffffffffff"
)
ABORTED = bytes.fromhex("00000000000000000fa0000000000000000a00000000000000130000000000000014")


def golden_entry():
    entry = ProducerEntry(4000)
    entry.producer_epoch = 3
    entry.batches.append(KeptBatch(1, 101, 1, 1_700_000_000_001))
    entry.last_timestamp = 1_700_000_000_001
    entry.coordinator_epoch = 7
    return entry


def test_producer_snapshot_is_byte_exact():
    assert encode_snapshot([golden_entry()]) == SNAPSHOT
    (entry,) = decode_snapshot(SNAPSHOT)
    assert encode_snapshot([entry]) == SNAPSHOT
    assert (entry.batches[0].base_offset, entry.current_txn_first_offset) == (100, -1)


def test_a_snapshot_without_a_batch_has_none_after_reading():
    entry = ProducerEntry(5)
    entry.producer_epoch = 2
    entry.last_timestamp = 77
    (read,) = decode_snapshot(encode_snapshot([entry]))
    assert (len(read.batches), read.last_sequence, read.last_timestamp) == (0, -1, 77)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        SNAPSHOT[:5],
        SNAPSHOT[:-1],
        SNAPSHOT + b"\0",
        b"\x00\x02" + SNAPSHOT[2:],
        SNAPSHOT[:20] + b"\xff" + SNAPSHOT[21:],
    ],
)
def test_a_damaged_snapshot_is_refused(data):
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(data)


def test_aborted_index_entry_is_byte_exact():
    entry = AbortedTransactionEntry(4000, 10, 19, 20)
    assert encode_entry(entry) == ABORTED
    assert decode_entries(ABORTED) == [entry]


@pytest.mark.parametrize("data", [ABORTED[:-1], b"\x00\x01" + ABORTED[2:], ABORTED + ABORTED])
def test_a_damaged_aborted_index_is_refused(data):
    with pytest.raises(CorruptAbortedIndex):
        decode_entries(data)


def test_search_stops_behind_the_first_lso_over_the_range():
    entries = [
        AbortedTransactionEntry(1, 0, 10, 5),
        AbortedTransactionEntry(2, 5, 20, 15),
        AbortedTransactionEntry(3, 15, 30, 31),
    ]
    assert search(entries, 0, 12) == (entries[:2], True)
    assert search(entries, 11, 16) == (entries[1:], True)
    assert search(entries, 11, 15) == ([entries[1]], True)
    assert search(entries, 0, 40) == (entries, False)
    assert search([], 0, 40) == ([], False)


def test_offset_index_is_eight_big_endian_bytes_an_entry():
    index = OffsetIndex(1000)
    index.append(1009, 4100)
    index.append(1020, 9000)
    assert index.bytes_from(0) == struct.pack(">iiii", 9, 4100, 20, 9000)
    assert [index.lookup(offset) for offset in (1000, 1008, 1009, 1019, 1020, 5000)] == [
        0,
        0,
        4100,
        4100,
        9000,
        9000,
    ]
    assert index.bytes_from(8) == struct.pack(">ii", 20, 9000)
    index.truncate_from(1020)
    assert (len(index), index.entry(0)) == (1, (1009, 4100))


def test_time_index_is_twelve_big_endian_bytes_an_entry():
    index = TimeIndex(1000)
    index.maybe_append(50, 1009)
    index.maybe_append(50, 1010)
    index.maybe_append(60, 1020)
    assert index.bytes_from(0) == struct.pack(">qiqi", 50, 9, 60, 20)
    assert index.last() == (60, 1020)
    assert [index.lookup(timestamp) for timestamp in (10, 50, 51, 60, 61)] == [
        None,
        None,
        (50, 1009),
        (50, 1009),
        (60, 1020),
    ]


@pytest.mark.parametrize(
    "data", [b"\0" * 7, struct.pack(">iiii", 9, 10, 9, 20), struct.pack(">ii", 0, 500)]
)
def test_an_index_that_does_not_fit_its_segment_is_refused(data):
    with pytest.raises(CorruptIndex):
        OffsetIndex(0, data).check(segment_bytes=500)


@pytest.mark.parametrize(
    "data", [b"\0" * 11, struct.pack(">qiqi", 9, 1, 9, 2), struct.pack(">qi", 9, -1)]
)
def test_a_time_index_out_of_order_is_refused(data):
    with pytest.raises(CorruptIndex):
        TimeIndex(0, data).check()


def test_leader_epochs_are_kafkas_text():
    epochs = LeaderEpochs([(0, 0), (3, 120)])
    assert encode_leader_epochs(epochs) == "0\n2\n0 0\n3 120\n"
    assert decode_leader_epochs("0\n2\n0 0\n3 120\n").entries() == [(0, 0), (3, 120)]


@pytest.mark.parametrize(
    "text",
    ["0\n1\n3 12", "", "1\n0\n", "0\n3\n0 0\n", "0\n1\nx y\n", "0\n2\n3 0\n1 5\n", "0\n1\n7\n"],
)
def test_damaged_leader_epochs_are_refused(text):
    with pytest.raises(CorruptLeaderEpochs):
        decode_leader_epochs(text)


def test_leader_epochs_answer_where_each_ended():
    epochs = LeaderEpochs([(2, 10), (5, 20), (7, 30)])
    ends = [(each, epochs.end_offset_for(each, 40)) for each in (1, 2, 3, 5, 6, 7, 8, -1)]
    assert ends == [
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (5, (5, 30)),
        (6, (5, 30)),
        (7, (7, 40)),
        (8, (-1, -1)),
        (-1, (-1, -1)),
    ]


def test_leader_epochs_follow_the_log_at_both_ends():
    epochs = LeaderEpochs([(2, 10), (5, 20), (7, 30)])
    assert not epochs.assign(7, 40)
    assert epochs.assign(9, 30), "epoch 7 wrote nothing"
    assert epochs.entries() == [(2, 10), (5, 20), (9, 30)]
    assert epochs.truncate_to_start(25)
    assert epochs.entries() == [(5, 25), (9, 30)]
    assert epochs.truncate_from(30)
    assert (epochs.latest, epochs.leader_epoch_of(26), epochs.leader_epoch_of(3)) == (5, 5, -1)


@pytest.mark.parametrize("marker_type", MarkerType)
def test_markers_are_read_fast_and_slow_alike(marker_type):
    batch = encode_marker(Marker(marker_type, 70_000), producer_id=1, producer_epoch=2, timestamp=3)
    expected = (marker_type is MarkerType.COMMIT, 70_000)
    assert read_marker(bytes(batch), 0, len(batch)) == expected
    assert read_marker(b"x" * 5 + bytes(batch), 5, 0) == expected, "size unknown: the plain reader"


@pytest.mark.parametrize("control_type", [2, 6, -1])
def test_a_control_batch_of_another_type_ends_nothing(control_type):
    """Even where its size and form are a marker's: KRaft has such types."""
    batch = encode_marker(
        Marker(MarkerType.COMMIT, 9), producer_id=1, producer_epoch=2, timestamp=3
    )
    batch[68:70] = control_type.to_bytes(2, "big", signed=True)
    assert read_marker(bytes(batch), 0, len(batch)) is None


def test_all_but_records_and_topic_id_is_derived():
    suffixes = (".index", ".timeindex", ".txnindex", ".snapshot")
    derived = [file_stem(7) + suffix for suffix in suffixes]
    derived += [CHECKS_FILE, OLD_CHECKS_FILE, LEADER_EPOCH_CHECKPOINT, GAPS_FILE]
    kept = [f"{file_stem(7)}.log", f"{file_stem(7)}.log.cut", PARTITION_METADATA]
    assert [name for name in (*kept, *derived) if is_derived(name)] == derived
