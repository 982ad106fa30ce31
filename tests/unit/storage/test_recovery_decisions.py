"""What a start makes of the files of a log: names, snapshots, batches, and bytes that cannot be read (ADR 0023)."""

import pytest
from tests.worlds.storage.partitions import CONTROL, TRANSACTIONAL, log_state
from tests.worlds.storage.segments import NOW, MemorySegment, abort_marker, batch, moved

from oncelog.record.batch import Codec
from oncelog_storage.core.batch_walk import BrokenBatch
from oncelog_storage.core.copied import NoCopy, begins_before, copied_batches, has_gap
from oncelog_storage.core.damage import Behind, Verdict, counted_in, verdict
from oncelog_storage.core.recovery import (
    UNKNOWN_LOG_START,
    Replay,
    knows_no_epochs,
    learn_epochs,
    missing_start,
    needed_end,
    replay_start,
    starts_over,
    usable_snapshots,
)
from oncelog_storage.core.replay import CUT_BATCH, CUT_HEADER, whole_batch_at
from oncelog_storage.core.segment_files import file_stem, found_files, index_bases, swaps_found
from oncelog_storage.core.segment_state import Addition, must_roll, segment_index

A, B, C = (file_stem(base) for base in (0, 50, 90))

# Names.


def test_names_tell_segments_leftovers_and_lone_indexes():
    found = found_files(
        [
            f"{B}.log",
            "x.tmp",
            f"{A}.log.deleted",
            f"{A}.log",
            f"{A}.index",
            f"{C}.timeindex",
            "notes",
        ]
    )
    assert found == (["x.tmp", f"{A}.log.deleted"], [0, 50], [f"{C}.timeindex"])
    assert found.missing_segment() == f"{C}.log"


def test_an_index_before_the_first_segment_is_no_loss():
    assert found_files([f"{A}.index", f"{B}.log"]).missing_segment() == ""
    assert found_files([f"{A}.index"]).missing_segment() == f"{A}.log"
    assert index_bases([f"{B}.index", f"{B}.txnindex", f"{A}.timeindex", "x.index"]) == [0, 50]


def test_a_replacement_counts_once_its_log_is_renamed():
    names = [f"{A}.log.swap", f"{A}.index.swap", f"{B}.index.swap", f"{C}.log.cleaned"]
    found = swaps_found(names)
    assert found.undone == [f"{C}.log.cleaned", f"{B}.index.swap"]
    assert [swap.base_offset for swap in found.decided] == [0]
    logs = [f"{A}.log", f"{B}.log", f"{C}.log"]
    assert found.decided[0].replaced(logs, 90) == (0, 50)
    assert found.decided[0].replaced(logs, -1) == (0,)


# Snapshots.


@pytest.mark.parametrize(
    ("committed", "first_base", "usable"),
    [
        (2**63 - 1, 0, [40, 30, 20]),
        (30, 0, [30, 20]),
        (0, 0, [40, 30, 20]),
        (30, 35, [40, 30, 20]),
        (30, None, [30, 20]),
    ],
)
def test_snapshots_serve_up_to_the_high_watermark(committed, first_base, usable):
    log = log_state()
    log.recovery_point, log.committed_at_load = 45, committed
    assert usable_snapshots(log, [20, 30, 40, 50], first_base) == (usable, [50])


def test_replay_starts_at_the_snapshot_or_the_first_segment():
    log = log_state()
    log.log_start_offset = 7
    rows = ((None, None, 7), (None, 5, 5), (20, None, 20), (20, 5, 20), (3, 5, 5))
    for snapshot, first_base, start in rows:
        assert replay_start(log, snapshot, first_base) == start


def test_a_log_start_before_the_first_segment_is_a_loss():
    assert missing_start(3, 5)
    assert not missing_start(5, 5)
    assert not missing_start(UNKNOWN_LOG_START, 5)


# Replay.


def replay(log, *batches, start=0, is_newest=True):
    segment, position, steps = MemorySegment(0, is_new=True), 0, Replay(log, start)
    segment.size_bytes = sum(map(len, batches))
    for data in batches:
        view = memoryview(data)
        steps.replay_batch(segment, position, header_of(view), view, 0, is_newest=is_newest)
        position += len(data)
    return segment


def header_of(view):
    fields, reason = whole_batch_at(view, 0, -1)
    assert not reason
    return fields


def test_replay_finds_the_end_and_the_leader_epochs():
    log = log_state()
    segment = replay(log, batch(0, 3, leader_epoch=1), batch(3, 2, leader_epoch=4))
    assert (log.log_end_offset, segment.end_offset) == (5, 5)
    assert log.leader_epochs.entries() == [(1, 0), (4, 3)]


def test_batches_of_the_snapshot_are_only_indexed():
    log = log_state()
    replay(log, batch(0, 3, leader_epoch=9), batch(3, leader_epoch=1), start=3)
    assert log.leader_epochs.entries() == [(1, 3)]
    assert log.log_end_offset == 4


def test_an_abort_marker_is_indexed_again():
    log = log_state()
    data = batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    segment = replay(log, data, abort_marker(2, 7))
    check = segment.current_aborted_check()
    assert check.entry_count == 1
    assert not log.producers.has_ongoing_transaction(7, 0)


def test_a_leader_epoch_may_fall_only_where_nobody_follows():
    first, second = batch(0, leader_epoch=5), batch(1, leader_epoch=4)
    replay(log_state(), first, second)
    log = log_state()
    log.committed_at_load = 0
    with pytest.raises(BrokenBatch, match="leader epoch 4 follows 5"):
        replay(log, first, second)
    assert log.log_end_offset == 1


def test_replay_stops_at_a_marker_that_cannot_be_read():
    log = log_state()
    first = batch(0, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    control = batch(2, producer_id=7, producer_epoch=0, extra_attributes=CONTROL | TRANSACTIONAL)
    with pytest.raises(BrokenBatch, match="control record at offset 2 is malformed") as broken:
        replay(log, first, control)
    assert broken.value.position == len(first)
    assert (log.log_end_offset, log.producers.has_ongoing_transaction(7, 0)) == (2, True)


def test_the_last_batch_may_not_leave_a_gap():
    with pytest.raises(BrokenBatch, match="offset 9 follows 0"):
        replay(log_state(), batch(0), batch(9))
    copied = log_state()
    copied.has_gaps = True
    for log in (copied, log_state(is_compacted=True)):
        replay(log, batch(0), batch(9))
        assert log.log_end_offset == 10
    replay(log_state(), batch(0), batch(9), is_newest=False)


def test_replay_begins_where_a_batch_ended():
    log, segment = log_state(), MemorySegment(0, size_bytes=500)
    log.recovery_point = 20
    steps = Replay(log, 20)
    steps.begin(segment, 100, 20, is_newest=True)
    steps.begin(segment, 100, 25, is_newest=False)
    steps.begin(segment, 500, 25, is_newest=True)
    with pytest.raises(BrokenBatch, match="offset 25 stands where 20 begins"):
        steps.begin(segment, 100, 25, is_newest=True)
    with pytest.raises(BrokenBatch, match=CUT_BATCH):
        steps.begin(segment, 501, 20, is_newest=True)


def test_epochs_are_learnt_from_batches_where_none_are_known():
    log = log_state()
    assert knows_no_epochs(log, 5, 0)
    assert not knows_no_epochs(log, 0, 0)
    assert not knows_no_epochs(log, 5, None)
    found = []
    for offset, epoch in ((0, 2), (1, 2), (2, 3), (9, 4)):
        view = memoryview(batch(offset, leader_epoch=epoch))
        found.append((0, header_of(view), view, 0))
    learn_epochs(log.leader_epochs, found, 9)
    assert log.leader_epochs.entries() == [(2, 0), (3, 2)]
    assert not knows_no_epochs(log, 5, 0)
    learn_epochs(log.leader_epochs, found[:1], 9)
    assert log.leader_epochs.entries() == [(2, 0), (3, 2)]


def test_where_a_log_ends_says_what_is_lost():
    log = log_state()
    log.log_end_offset, log.recovery_point, log.log_start_offset = 5, 6, 5
    assert needed_end(log) == 6
    assert not starts_over(log)
    log.recovery_point, log.log_start_offset = 5, 6
    assert needed_end(log) == 5
    assert starts_over(log)


# Bytes that cannot be read.

WHOLE = batch(10, 3)
ROTTEN = WHOLE[:70] + b"?" + WHOLE[71:]
TORN = WHOLE[:-10]
BEHIND = batch(13, 2)
PAGE = bytes(8192)
LARGE = batch(10, value=b"v" * 9000)
LOST_PAGE = LARGE[:200] + bytes(len(LARGE) - 200)
NESTED = batch(10, value=batch(11) * 2)


@pytest.mark.parametrize(
    ("data", "reason", "is_newest", "lost_power", "expected"),
    [
        (TORN, CUT_BATCH, True, False, Verdict(True, True)),
        (TORN[:20], CUT_HEADER, True, False, Verdict(True, True)),
        (TORN, CUT_BATCH, False, False, Verdict(False, False)),
        (TORN, CUT_BATCH, False, True, Verdict(True, False)),
        (ROTTEN, "crc", True, False, Verdict(False, False)),
        (ROTTEN, "crc", True, True, Verdict(True, False)),
        (ROTTEN + BEHIND, "crc", True, True, Verdict(False, False)),
        (LOST_PAGE + batch(11), "crc", True, True, Verdict(True, False)),
        (PAGE + BEHIND, "crc", True, True, Verdict(True, False)),
        (b"\xff" * 30 + BEHIND, "magic", True, True, Verdict(False, False)),
        # Only the length is damaged: the CRC, which does not cover it, says that the batch is whole.
        (WHOLE[:8] + b"\0\0\xff\xff" + WHOLE[12:], CUT_BATCH, True, False, Verdict(False, False)),
        # A client wrote batches as a value; the write ended inside of it.
        (NESTED[:-5], CUT_BATCH, True, False, Verdict(True, True)),
        (batch(10, codec=Codec.GZIP)[:-3] + BEHIND, CUT_BATCH, True, False, Verdict(False, False)),
        (moved(TORN, 11) + BEHIND, CUT_BATCH, True, False, Verdict(False, False)),
        (TORN[:40] + BEHIND, CUT_BATCH, True, True, Verdict(False, False)),
        # Of a long batch only the header stands: what is behind it is no record, and another batch follows.
        (LARGE[:61] + BEHIND, CUT_BATCH, True, False, Verdict(False, False)),
        # A length that never ends stands where a record's should.
        (LARGE[:61] + b"\xff" * 12 + BEHIND, CUT_BATCH, True, False, Verdict(False, False)),
    ],
)
def test_what_unreadable_bytes_are(data, reason, is_newest, lost_power, expected):
    found = verdict(
        data,
        len(data),
        0,
        reason,
        10,
        is_newest=is_newest,
        may_have_lost_power=lost_power,
    )
    assert found == expected


def test_what_is_too_long_to_search_is_never_cut():
    found = verdict(TORN, 65 << 20, 0, CUT_BATCH, 10, is_newest=True, may_have_lost_power=False)
    assert found == Verdict(False, False)


def test_readable_records_behind_damage_are_counted():
    # A header's place of magic stands in the junk, and an offset below what was expected.
    data = b"\xff" * 16 + b"\x02" + bytes(60) + batch(3) + BEHIND
    found = counted_in(data, 10)
    assert found == Behind(2, len(BEHIND), 1)
    assert found.with_file(counted_in(batch(20, 4), 20)).record_count == 6
    assert str(found) == "2 readable records in 1 file behind it"
    assert str(counted_in(b"\xff" * 90, 0)) == "nothing readable is behind it"


# Copies, and when a segment ends.


def test_a_copy_stands_behind_the_end_in_order():
    log = log_state()
    log.log_end_offset = 10
    log.leader_epochs.assign(3, 0)
    data = batch(10, 2, leader_epoch=3) + batch(14, leader_epoch=4)
    run = copied_batches(log, memoryview(data))
    assert [one.last_offset for one in run] == [11, 14]
    assert [has_gap(10, run), has_gap(9, run[:1]), has_gap(10, run[:1])] == [True, True, False]
    for wrong, reason in (
        (batch(9, leader_epoch=3), "offset 9 stands where 10 or more was expected"),
        (batch(10, leader_epoch=2), "leader epoch 2 follows 3"),
        (ROTTEN, "CRC"),
    ):
        with pytest.raises(NoCopy, match=reason):
            copied_batches(log, memoryview(wrong))


def test_an_empty_log_begins_where_its_first_batch_does():
    log = log_state()
    log.log_end_offset = 12
    assert begins_before(log, memoryview(WHOLE)) == 10
    assert begins_before(log, memoryview(ROTTEN)) is None
    log.log_end_offset = 13
    assert begins_before(log, memoryview(WHOLE)) is None


@pytest.mark.parametrize(
    ("added", "config", "rolls"),
    [
        (Addition(400, 9, NOW), {}, False),
        (Addition(700, 9, NOW), {"segment_bytes": 1000}, True),
        (Addition(400, 2**31, NOW), {}, True),
        (Addition(400, 9, NOW), {"segment_index_bytes": 0}, True),
        (Addition(400, 9, NOW + 101), {"segment_ms": 100}, True),
        (Addition(400, 9, NOW + 100), {"segment_ms": 100}, False),
        (Addition(400, 9, NOW + 100), {"segment_ms": 100, "segment_jitter_ms": 100}, True),
        (Addition(400, 9, -1), {"segment_ms": 100}, False),
    ],
)
def test_when_a_segment_is_full(added, config, rolls):
    log = log_state(**config)
    segment = MemorySegment(0, size_bytes=400, created_ms=NOW, is_new=True)
    segment.index_batch(0, 400, 4, NOW, 4096)
    assert must_roll(segment, added, log.config, log.partition, NOW + 50) is rolls


def test_an_offset_is_in_the_last_segment_that_begins_before():
    segments = [MemorySegment(base) for base in (10, 20, 40)]
    rows = ((5, 0), (10, 0), (19, 0), (20, 1), (99, 2))
    assert [segment_index(segments, offset) for offset, _ in rows] == [at for _, at in rows]
    assert segment_index([], 5) == 0


def test_largest_timestamps_and_aborts_outlast_unloading():
    segment = MemorySegment(0, is_new=True)
    segment.index_batch(0, 100, 4, NOW, 0)
    segment.index_batch(100, 100, 9, NOW + 5, 0)
    assert (segment.index_bytes, segment.is_written) == (8, False)
    segment.unload()
    assert segment.is_loaded
    other = MemorySegment(0)
    assert (other.is_loaded, other.index_bytes, other.is_written) == (False, 0, True)
    other.written([])
    assert other.current_aborted_check().entry_count == 0
    other.index_largest_timestamp()
    assert not other.is_loaded
