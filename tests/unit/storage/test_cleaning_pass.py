"""One pass over a compacted log as walks over bytes, and which log is cleaned next."""

import pytest
from tests.worlds.storage.partitions import ORDERS, SHARD, header, log_state, partition_of
from tests.worlds.storage.segments import NOW, MemorySegment, batch, moved

from oncelog.record.batch import read_header
from oncelog.record.records import Record, encode_batch
from oncelog_storage.core import cleaning_pass
from oncelog_storage.core.cleaning import LastWord
from oncelog_storage.core.cleaning_pass import (
    CleaningWork,
    CorruptSource,
    Keep,
    PassSettings,
    ReadSource,
    Source,
    batches_in,
    last_words,
)
from oncelog_storage.core.cleaning_plan import (
    CleaningChoices,
    CompactionRules,
    SegmentFacts,
    must_roll_to_clean,
    place_of,
)
from oncelog_storage.core.producer_state import ProducerStates
from oncelog_storage.core.walks import run_walk


def keyed(offset: int, *keys: bytes, **fields: object) -> bytes:
    records = [Record(key, b"v", NOW + at) for at, key in enumerate(keys)]
    return bytes(encode_batch(records, base_offset=offset, **fields))


def source_of(data: bytes, base_offset: int = 0, end_offset: int = 100) -> Source:
    return Source(base_offset, end_offset, len(data), f"{base_offset}.log", NOW)


def pass_of(*segments: bytes, first_dirty: int = 0, map_bytes: int = 1 << 16):
    """(the work, its sources, what is read of them)."""
    sources, base_offset = [], 0
    for data in segments:
        end_offset = base_offset
        at = 0
        while at < len(data):
            header = read_header(data[at:])
            end_offset, at = header.last_offset + 1, at + header.batch_length + 12
        sources.append(source_of(data, base_offset, end_offset))
        base_offset = end_offset
    settings = PassSettings(first_dirty, NOW, 1000, 4096, map_bytes)
    work = CleaningWork(sources, (), {}, settings)
    return work, sources, dict(zip(sources, segments, strict=True))


def done(walk, contents):
    """(what is kept, what the walk returns)."""
    kept = []

    def answer(step):
        if isinstance(step, ReadSource):
            return contents[step.source][step.position : step.position + step.size_bytes]
        if isinstance(step, Keep):
            kept.append(bytes(step.batch))
        return b""

    return kept, run_walk(walk, answer)


def found_in(source: Source, data: bytes) -> list[int]:
    offsets = []

    def answer(step):
        if isinstance(step, ReadSource):
            return data[step.position : step.position + step.size_bytes]
        offsets.append(step[1][0])
        return b""

    run_walk(batches_in(source), answer)
    return offsets


@pytest.mark.parametrize("chunk_bytes", [61, 100, 1 << 20])
def test_batches_are_found_whatever_a_read_brings(monkeypatch, chunk_bytes):
    monkeypatch.setattr(cleaning_pass, "CHUNK_BYTES", chunk_bytes)
    data = batch(0, 2) + batch(2) + batch(7, value=b"v" * 500)
    assert found_in(source_of(data), data) == [0, 2, 7]


def test_an_empty_segment_has_no_batch():
    assert found_in(source_of(b""), b"") == []


@pytest.mark.parametrize(
    ("data", "size_bytes", "reason"),
    [
        (batch(0) + b"x" * 100, 0, "byte 89"),
        (batch(0)[:-1], 0, "byte 0"),
        (moved(batch(0), 100), 0, "stands before 100"),
        (batch(0), 200, "byte 89"),
    ],
)
def test_what_is_no_batch_ends_the_pass(data, size_bytes, reason):
    source = source_of(data)._replace(size_bytes=size_bytes or len(data))
    with pytest.raises(CorruptSource, match=reason):
        found_in(source, data)


def test_the_last_record_of_each_key_stays():
    work, sources, contents = pass_of(keyed(0, b"a") + keyed(1, b"b"), keyed(2, b"a"))
    assert done(work.learn(), contents) == ([], 3)
    kept, is_changed = done(work.rewrite(sources[:1]), contents)
    assert kept == [keyed(1, b"b")]
    assert is_changed
    assert done(work.rewrite(sources[1:]), contents) == ([keyed(2, b"a")], 0)
    assert done(work.rewrite(sources), contents)[1] == 1
    assert work.kept_aborted == []


def test_a_full_map_ends_where_it_began_to_be_full():
    rows = [keyed(offset, b"key-%d" % offset) for offset in range(200)]
    work, _, contents = pass_of(b"".join(rows), map_bytes=1024)
    _, reached = done(work.learn(), contents)
    assert 0 < reached < 200


def test_only_the_dirty_part_is_learnt():
    clean, dirty = keyed(0, b"a"), keyed(1, b"a")
    work, sources, contents = pass_of(clean, dirty, first_dirty=1)
    calls = []

    class Contents(dict):
        def __getitem__(self, source):
            calls.append(source)
            return contents[source]

    assert done(work.learn(), Contents()) == ([], 2)
    assert calls == sources[1:]


def broken(offset: int) -> bytes:
    """A sound CRC over records that are none."""
    from crc32c import crc32c

    data = bytearray(keyed(offset, b"a"))
    data[61] = 0x7F
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return bytes(data)


def test_records_that_are_none_end_the_pass():
    work, sources, contents = pass_of(broken(0))
    with pytest.raises(CorruptSource):
        done(work.learn(), contents)
    with pytest.raises(CorruptSource):
        done(work.rewrite(sources), contents)


def test_a_producers_last_word_is_its_newest_data():
    states = ProducerStates()
    for sequence, count in ((0, 3), (3, 2)):
        written = header(producer_id=7, epoch=1, sequence=sequence, count=count)
        states.apply_batch(written, sequence)
    states.apply_marker(
        producer_id=8,
        producer_epoch=2,
        coordinator_epoch=0,
        is_commit=True,
        marker_offset=5,
        timestamp=NOW,
    )
    assert last_words(states.entries()) == {7: LastWord(4, 1), 8: LastWord(-1, 2)}


# Which log.


def compacted(name=ORDERS, **config):
    partition = partition_of(log_state(name, is_compacted=True, **config))
    partition.log.segments = [MemorySegment(0, size_bytes=500, created_ms=NOW)]
    return partition


@pytest.mark.parametrize(
    ("name", "size_bytes", "first_timestamp", "lag_ms", "must_roll"),
    [
        (SHARD, 500, -1, 2**63 - 1, True),
        (SHARD, 499, -1, 2**63 - 1, False),
        (ORDERS, 500, -1, 2**63 - 1, False),
        (ORDERS, 500, NOW - 11, 10, True),
        (ORDERS, 500, NOW - 10, 10, False),
        (ORDERS, 500, -1, 10, False),
        (ORDERS, 0, NOW - 11, 10, False),
    ],
)
def test_the_newest_segment_ends_so_that_it_is_cleaned(
    name, size_bytes, first_timestamp, lag_ms, must_roll
):
    partition = compacted(name, max_compaction_lag_ms=lag_ms)
    segment = MemorySegment(0, size_bytes=size_bytes)
    segment.first_timestamp = first_timestamp
    partition.log.segments = [segment]
    assert must_roll_to_clean(partition, NOW, 500) is must_roll


def test_what_may_not_be_cleaned():
    choices, partition = CleaningChoices(), compacted()
    assert choices.may_clean(partition)
    choices.give_up(partition)
    assert (choices.may_clean(partition), len(choices)) == (False, 1)
    partition.log.truncation_count += 1
    assert choices.may_clean(partition)
    partition.offline = "damaged"
    assert not choices.may_clean(partition)
    assert not choices.may_clean(partition_of())
    empty = compacted()
    empty.log.segments = []
    assert not choices.may_clean(empty)


def test_the_dirtiest_log_comes_first():
    choices = CleaningChoices()
    looked = []
    for clean_bytes, dirty_bytes in ((100, 10), (10, 100), (50, 50)):
        partition = compacted(min_cleanable_dirty_ratio=0.2)
        sealed = [
            SegmentFacts(0, 10, clean_bytes, NOW, NOW),
            SegmentFacts(10, 20, dirty_bytes, NOW, NOW),
        ]
        looked.append(choices.look(partition, sealed, {ORDERS: 10}, 20, NOW))
    found = choices.in_order(looked)
    assert [each.range.dirty_bytes for each in found] == [100, 50]
    assert [each.segment_count for each in found] == [2, 2]
    assert found[0].hosted is looked[1].hosted


def test_a_topic_may_set_no_lag():
    assert not CompactionRules.of(log_state().config).has_lag
    assert CompactionRules.of(log_state(max_compaction_lag_ms=10).config).has_lag


def test_times_of_files_stand_in_for_those_of_records():
    segment = MemorySegment(3, size_bytes=9, created_ms=70)
    assert SegmentFacts.of(segment, 8, 60, 50) == SegmentFacts(3, 8, 9, 50, 60)
    assert SegmentFacts.of(segment, 8, -1) == SegmentFacts(3, 8, 9, 70, 70)


def test_segments_have_a_place_while_they_are_all_there():
    a, b, c, d = (MemorySegment(at) for at in range(4))
    assert place_of([a, b, c, d], [b, c]) == 1
    assert place_of([a, b, c], [b, c]) is None
    assert place_of([a, c, d], [a, b]) is None
    assert place_of([a, d], [b]) is None
    assert place_of([a, b], [b]) is None
