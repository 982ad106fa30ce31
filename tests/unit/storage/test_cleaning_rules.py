"""The rules of cleaning, a row each: what stays of a batch, which part is cleaned, which segments become one."""

import pytest
from crc32c import crc32c

from oncelog.record.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    LOG_APPEND_TIME,
    Codec,
    crc_is_valid,
    read_header,
)
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, decode_batch, encode_batch
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.cleaning import BatchCleaner, LastWord, Transactions, learn_keys
from oncelog_storage.core.cleaning_plan import (
    GROUP_SEGMENTS_MAX,
    CompactionRules,
    SegmentFacts,
    cleanable_range,
    groups,
)
from oncelog_storage.core.offset_map import OffsetMap, key_name

NOW, RETENTION_MS = 1_700_000_000_000, 1000
NEVER = 2**63 - 1
COMMIT, ABORT = MarkerType.COMMIT, MarkerType.ABORT


def data(offset, *rows, producer_id=-1, epoch=0, transactional=False, **fields):
    records = [Record(key, value, NOW - 100 + i) for i, (key, value) in enumerate(rows)]
    return bytes(
        encode_batch(
            records,
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=epoch if producer_id >= 0 else -1,
            base_sequence=offset if producer_id >= 0 else -1,
            is_transactional=transactional,
            **fields,
        )
    )


def marker(offset, producer_id, kind, epoch=0):
    return bytes(
        encode_marker(
            Marker(kind, 0),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp=NOW - 100,
            base_offset=offset,
        )
    )


def cleaned(batches, *, learnt=None, aborted=(), words=None, now=NOW, last=None):
    """What stays of each batch; `learnt` keys come from these batches, all of them if None."""
    offset_map = OffsetMap(1 << 20)
    transactions = Transactions(aborted)
    for batch in batches if learnt is None else learnt:
        assert learn_keys(offset_map, transactions, HEADER.unpack_from(batch), memoryview(batch), 0)
    cleaner = BatchCleaner(offset_map, Transactions(aborted), words or {}, now, RETENTION_MS)
    found = []
    for index, batch in enumerate(batches):
        kept = cleaner.clean(HEADER.unpack_from(batch), memoryview(batch), is_last=index == last)
        found.append(None if kept is None else bytes(kept))
    return found


def rows(batch):
    return None if batch is None else [(r.offset, r.key, r.value) for r in decode_batch(batch)]


def test_the_last_record_of_a_key_stays():
    first, second = data(0, (b"a", b"1"), (b"b", b"2"), (b"c", b"3")), data(3, (b"a", b"4"))
    kept = cleaned([first, second])
    assert rows(kept[0]) == [(1, b"b", b"2"), (2, b"c", b"3")]
    assert kept[1] == second


def test_a_shortened_batch_keeps_all_that_others_rely_on():
    batch = data(7, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", b"4"), producer_id=5, epoch=2)
    (kept,) = cleaned([batch, data(11, (b"b", b"5"))])[:1]
    before, after = read_header(batch), read_header(kept)
    assert crc_is_valid(kept, after)
    assert after.record_count == 1
    for name in ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.last_sequence, after.base_timestamp) == (before.last_sequence, NOW - 100)
    assert after.max_timestamp == NOW - 98
    assert [r.timestamp for r in decode_batch(kept)] == [NOW - 98]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_shortened_batch_is_compressed_as_it_was(codec):
    batch = data(0, (b"a", b"x" * 100), (b"b", b"y" * 100), codec=codec)
    (kept,) = cleaned([batch, data(2, (b"a", b"1"))])[:1]
    assert read_header(kept).codec == codec
    assert rows(kept) == [(1, b"b", b"y" * 100)]


def test_log_append_time_stays():
    batch = data(0, (b"a", b"1"), (b"b", b"2"), extra_attributes=LOG_APPEND_TIME)
    (kept,) = cleaned([batch, data(2, (b"b", b"3"))])[:1]
    assert read_header(kept).max_timestamp == read_header(batch).max_timestamp
    assert [r.timestamp for r in decode_batch(kept)] == [NOW - 99]


def test_a_record_without_a_key_goes():
    old, new = data(0, (None, b"1"), (b"a", b"2")), data(2, (b"a", b"3"), (None, b"4"))
    kept = cleaned([old, new], learnt=[old])
    assert rows(kept[0]) == [(1, b"a", b"2")]
    assert kept[1] == new


def test_a_tombstone_gets_its_horizon_in_the_first_pass():
    batch = data(0, (b"a", None), (b"b", b"1"))
    (kept,) = cleaned([batch])
    header = read_header(kept)
    assert header.attributes & DELETE_HORIZON
    assert header.base_timestamp == NOW + RETENTION_MS
    assert rows(kept) == rows(batch)
    assert [r.timestamp for r in decode_batch(kept)] == [NOW - 100, NOW - 99]
    assert cleaned([kept], now=NOW + RETENTION_MS - 1) == [kept]
    (later,) = cleaned([kept], now=NOW + RETENTION_MS)
    assert rows(later) == [(1, b"b", b"1")]
    assert [r.timestamp for r in decode_batch(later)] == [NOW - 99]


def test_aborted_data_goes_and_is_not_what_supersedes():
    aborted = [AbortedTransactionEntry(5, 1, 3, 4)]
    log = [
        data(0, (b"a", b"1")),
        data(1, (b"a", b"2"), (b"b", b"3"), producer_id=5, transactional=True),
        marker(3, 5, ABORT),
        data(4, (b"b", b"4"), producer_id=5, transactional=True),
        marker(5, 5, COMMIT),
    ]
    kept = cleaned(log, aborted=aborted)
    assert [rows(batch) is not None for batch in kept] == [True, False, True, True, True]
    assert kept[2:] == log[2:]


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_marker_outlives_data_of_its_transaction(kind):
    aborted = [AbortedTransactionEntry(5, 0, 1, 2)] if kind is ABORT else []
    batch, end = data(0, (b"a", b"1"), producer_id=5, transactional=True), marker(1, 5, kind)
    assert cleaned([batch, end], aborted=aborted)[1] == end, "data was seen in this pass"
    (kept,) = cleaned([end], aborted=aborted)
    header = read_header(kept)
    assert header.attributes & DELETE_HORIZON
    assert header.attributes & CONTROL
    assert header.base_timestamp == NOW + RETENTION_MS
    assert cleaned([kept], now=NOW + RETENTION_MS - 1) == [kept]
    assert cleaned([kept], now=NOW + RETENTION_MS) == [None]


def test_the_new_index_has_aborted_transactions_with_seen_data():
    entry = AbortedTransactionEntry(5, 0, 1, 2)
    batch, end = data(0, (b"a", b"1"), producer_id=5, transactional=True), marker(1, 5, ABORT)
    for log, expected in (([batch, end], [entry]), ([end], [])):
        transactions = Transactions([entry])
        cleaner = BatchCleaner(OffsetMap(1 << 20), transactions, {}, NOW, RETENTION_MS)
        for each in log:
            cleaner.clean(HEADER.unpack_from(each), memoryview(each), is_last=False)
        assert transactions.kept == expected


def test_the_last_batch_of_an_active_producer_stays():
    batch = data(0, (b"a", b"1"), (b"b", b"2"), producer_id=5, epoch=3)
    newer = data(2, (b"a", b"3"), (b"b", b"4"))
    (kept,) = cleaned([batch, newer], words={5: LastWord(1, 3)})[:1]
    header = read_header(kept)
    assert (header.record_count, header.last_offset, header.last_sequence) == (0, 1, 1)
    assert crc_is_valid(kept, header)
    assert cleaned([kept, newer], words={5: LastWord(1, 3)})[0] == kept
    assert cleaned([kept, newer], words={5: LastWord(9, 3)})[0] is None


def test_a_marker_that_alone_tells_a_producers_epoch_stays_whole():
    end = marker(1, 5, COMMIT, epoch=4)
    assert cleaned([end], words={5: LastWord(-1, 4)}) == [end]
    assert cleaned([end], words={5: LastWord(-1, 5)}) != [end]
    assert cleaned([end], words={5: LastWord(0, 4)}) != [end]


@pytest.mark.parametrize(
    ("words", "last", "stays"),
    [({}, None, False), ({}, 0, True), ({5: LastWord(-1, 0)}, None, True)],
)
def test_a_control_batch_that_was_emptied_goes(words, last, stays):
    """Kafka's cleaner leaves such a batch where a producer's last marker was. A segment's last one stays."""
    end = bytearray(marker(1, 5, COMMIT)[:61])
    end[8:12] = (61 - 12).to_bytes(4, "big")
    end[57:61] = bytes(4)
    end[17:21] = crc32c(bytes(end[21:])).to_bytes(4, "big")
    assert cleaned([end], words=words, last=last) == [bytes(end) if stays else None]


def test_a_segment_ends_with_a_batch():
    old, new = data(0, (b"a", b"1")), data(1, (b"a", b"2"))
    assert read_header(cleaned([old, new], last=0)[0]).record_count == 0
    end = marker(1, 5, ABORT)
    assert cleaned([end], last=0) == [end]


def test_a_full_map_ends_a_pass_between_two_batches():
    offset_map, transactions = OffsetMap(600), Transactions(())
    batches = [data(2 * i, (b"k%d" % i, b"v"), (b"l%d" % i, b"v")) for i in range(3)]
    taken = [
        learn_keys(offset_map, transactions, HEADER.unpack_from(b), memoryview(b), 0)
        for b in batches
    ]
    assert taken == [True, True, False]
    assert offset_map.latest_offset == 3
    assert b"k2" not in offset_map.offsets


def test_no_key_poses_as_another():
    long = b"k" * 100
    offset_map = OffsetMap(1 << 20)
    offset_map.put(long, 5)
    offset_map.put(key_name(long), 9)
    assert offset_map.is_latest(long, 5)
    assert not offset_map.is_latest(long, 4)
    assert len(offset_map.offsets) == 2
    assert key_name(b"k") == b"k"


def segment(base, end, size=100, oldest=NOW, newest=NOW):
    return SegmentFacts(base, end, size, oldest, newest)


SEALED = [segment(0, 10), segment(10, 20), segment(20, 30)]


@pytest.mark.parametrize(
    ("cleaned_to", "limit", "rules", "expected"),
    [
        (0, 30, CompactionRules(0.5, 0, NEVER), (0, 30, 0, 300, True)),
        (10, 30, CompactionRules(0.5, 0, NEVER), (10, 30, 100, 200, True)),
        (20, 30, CompactionRules(0.5, 0, NEVER), (20, 30, 200, 100, False)),
        (20, 30, CompactionRules(0.3, 0, NEVER), (20, 30, 200, 100, True)),
        (30, 30, CompactionRules(0.0, 0, NEVER), (30, 30, 300, 0, False)),
        (0, 25, CompactionRules(0.5, 0, NEVER), (0, 20, 0, 200, True)),
        (0, 5, CompactionRules(0.5, 0, NEVER), (0, 0, 0, 0, False)),
        (15, 30, CompactionRules(0.5, 0, NEVER), (15, 30, 100, 200, True)),
        (99, 30, CompactionRules(0.5, 0, NEVER), (0, 30, 0, 300, True)),
        (0, 30, CompactionRules(0.5, 1, NEVER), (0, 0, 0, 0, False)),
        (20, 30, CompactionRules(1.0, 0, 1), (20, 30, 200, 100, False)),
    ],
)
def test_the_cleanable_part_of_a_log(cleaned_to, limit, rules, expected):
    assert tuple(cleanable_range(SEALED, cleaned_to, limit, rules, NOW)) == expected


def test_an_overdue_record_is_cleaned_whatever_the_ratio():
    rules = CompactionRules(1.0, 0, 1000)
    for oldest, is_wanted in ((NOW - 1000, False), (NOW - 1001, True)):
        log = [segment(0, 10), segment(10, 20, oldest=oldest)]
        assert cleanable_range(log, 10, 20, rules, NOW).is_wanted is is_wanted


@pytest.mark.parametrize(
    ("sealed", "end_offset", "segment_bytes", "expected"),
    [
        (SEALED, 30, 1000, [(0, 3)]),
        (SEALED, 30, 200, [(0, 2), (2, 3)]),
        (SEALED, 30, 99, [(0, 1), (1, 2), (2, 3)]),
        (SEALED, 20, 1000, [(0, 2)]),
        (SEALED, 21, 1000, [(0, 3)]),
        ([], 0, 1000, []),
        ([segment(0, 10), segment(10, 2**31 + 5)], 2**31 + 5, 1000, [(0, 1), (1, 2)]),
        (
            [segment(i, i + 1, 1) for i in range(GROUP_SEGMENTS_MAX + 1)],
            1000,
            1000,
            [(0, GROUP_SEGMENTS_MAX), (GROUP_SEGMENTS_MAX, GROUP_SEGMENTS_MAX + 1)],
        ),
    ],
)
def test_which_segments_become_one(sealed, end_offset, segment_bytes, expected):
    assert groups(sealed, end_offset, segment_bytes) == expected
