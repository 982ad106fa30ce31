"""What a write changes of a log: a client's batch, markers, a leader's batches; and where readers go on."""

import pytest
from tests.worlds.storage.partitions import NOW, TRANSACTIONAL, header, log_state
from tests.worlds.storage.segments import MemorySegment, abort_marker, batch

from oncelog.record.batch import read_header
from oncelog.record.control import MARKER_BYTES
from oncelog_storage.core import read_places
from oncelog_storage.core.copied import copied_batches, fitting, wrote_copied
from oncelog_storage.core.log_state import Room
from oncelog_storage.core.partition_values import MarkerRequest, marker_to_write
from oncelog_storage.core.read_places import ReadPlaces
from oncelog_storage.core.segment_state import Addition


def log_with(*sizes: int, **config):
    log = log_state(**config)
    log.segments = [
        MemorySegment(10 * at, size_bytes=size, created_ms=NOW, is_new=True)
        for at, size in enumerate(sizes)
    ]
    return log


@pytest.mark.parametrize(
    ("sizes", "room"),
    [
        ((), Room.FIRST),
        ((0,), Room.NEWEST),
        ((900,), Room.NEWEST),
        ((950,), Room.NEXT),
        ((950, 0), Room.NEWEST),
    ],
)
def test_an_append_goes_where_it_fits(sizes, room):
    log = log_with(*sizes, segment_bytes=1000)
    assert log.room_for(Addition(100, 5, NOW), NOW) is room
    assert log_with(0, segment_bytes=10).room_for(Addition(100, 5, NOW), NOW) is Room.NEWEST


def test_a_batch_gets_its_offset_and_leader_epoch():
    log = log_with(0)
    log.log_end_offset = 7
    records = batch(0, 3)
    stamped = log.stamp(read_header(records), 4) + records[16:]
    found = read_header(stamped)
    assert (found.base_offset, found.leader_epoch, found.record_count) == (7, 4, 3)


def test_a_written_batch_moves_the_end_and_its_producer():
    log = log_with(0)
    segment = log.segments[0]
    assert log.wrote_batch(segment, 0, 100, header(count=3)) == 0
    assert log.wrote_batch(segment, 100, 50, header(producer_id=-1)) == 3
    assert (log.log_end_offset, log.unflushed_records, log.bytes_since_checkpoint) == (4, 4, 150)
    assert segment.end_offset == 4
    entry = log.producers.get(7)
    assert entry is not None
    assert entry.last_sequence == 2
    assert [entry.producer_id for entry in log.producers.entries()] == [7]


def test_markers_are_written_in_one_piece():
    log = log_with(0)
    segment = log.segments[0]
    log.wrote_batch(segment, 0, 100, header(count=2, attributes=TRANSACTIONAL))
    markers = [
        marker_to_write(MarkerRequest(producer_id, 0, False, 3, 1), NOW) for producer_id in (7, 8)
    ]
    data = log.stamped_markers(markers, 5, NOW)
    found = [read_header(data[at : at + MARKER_BYTES]) for at in (0, MARKER_BYTES)]
    assert [(each.base_offset, each.leader_epoch) for each in found] == [(2, 5), (3, 5)]
    assert log.wrote_markers(segment, 100, markers) == 2
    assert (log.log_end_offset, log.producers.ongoing_count) == (4, 0)
    indexes = segment._loaded()
    assert [(each.producer_id, each.first_offset) for each in indexes.aborted] == [(7, 0)]


# A leader's batches.


def copied(*batches: bytes, segment_bytes: int = 1 << 20, size_bytes: int = 0):
    log = log_with(size_bytes, segment_bytes=segment_bytes)
    view = memoryview(b"".join(batches))
    return log, view, copied_batches(log, view)


@pytest.mark.parametrize(
    ("size_bytes", "segment_bytes", "run"), [(0, 1000, 3), (0, 200, 2), (0, 1, 1), (150, 200, 1)]
)
def test_what_a_segment_takes_is_one_write(size_bytes, segment_bytes, run):
    batches = [batch(at) for at in range(3)]
    log, _, found = copied(*batches, segment_bytes=segment_bytes, size_bytes=size_bytes)
    assert fitting(log, log.segments[0], found, NOW) == found[:run]


def test_copied_batches_change_what_the_leaders_did():
    transactional = batch(
        0, 2, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    marker = abort_marker(2, 7)
    marker = marker[:12] + bytes(4) + marker[16:]
    log, view, run = copied(transactional, marker, batch(5, leader_epoch=3))
    wrote_copied(log, log.segments[0], 0, run, view)
    assert (log.log_end_offset, log.producers.ongoing_count) == (6, 0)
    assert log.leader_epochs.entries() == [(0, 0), (3, 5)]
    indexes = log.segments[0]._loaded()
    assert [each.producer_id for each in indexes.aborted] == [7]


# Readers.


def test_a_reader_at_the_tail_goes_on_there():
    places, newest = ReadPlaces[MemorySegment](), MemorySegment(0)
    assert places.position_of(newest, 5) is None
    places.was_read(newest, 5, 300, is_newest=True)
    assert places.position_of(newest, 5) == (300, 5)
    assert places.position_of(newest, 4) is None
    assert places.position_of(newest, 6) is None
    assert places.position_of(MemorySegment(0), 5) is None
    places.forget_sealed()
    assert places.position_of(newest, 5) == (300, 5)
    places.forget()
    assert places.position_of(newest, 5) is None


def test_only_some_sealed_segments_stay_in_memory(monkeypatch):
    monkeypatch.setattr(read_places, "LOADED_SEGMENTS_MAX", 2)
    places = ReadPlaces[MemorySegment]()
    sealed = [MemorySegment(at) for at in range(3)]
    for segment in sealed:
        segment._loaded().written([])
        places.was_read(segment, 1, 1, is_newest=False)
        places.was_read(segment, 1, 1, is_newest=False)
    assert [places.is_recent(segment) for segment in sealed] == [False, True, True]
    assert [segment.is_loaded for segment in sealed][1:] == [True, True]
    places.forget_sealed()
    assert not places.is_recent(sealed[2])
