"""Walks over a segment's bytes, row by row: what is found, what is damage, and how much is read."""

import pytest
from tests.worlds.storage.segments import NOW, batch, moved, scanned, walked

from oncelog.record.batch import HEADER_BYTES
from oncelog_storage.core import batch_walk
from oncelog_storage.core.batch_walk import (
    BrokenBatch,
    Stretch,
    find,
    first_not_older,
    scan,
    whole_batches,
)
from oncelog_storage.core.replay import CUT_BATCH, CUT_HEADER, whole_batch_at

BATCHES = [batch(100, 10), batch(110, 5), batch(115, 1)]
DATA = b"".join(BATCHES)
SECOND, THIRD = len(BATCHES[0]), len(BATCHES[0]) + len(BATCHES[1])
STRETCH = Stretch(100, len(DATA), 116)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (100, (0, 100)),
        (105, (0, 100)),
        (110, (SECOND, 110)),
        (114, (SECOND, 110)),
        (115, (THIRD, 115)),
        (116, (len(DATA), 116)),
        (500, (len(DATA), 116)),
    ],
)
def test_find_names_the_batch_that_holds_an_offset(offset, expected):
    assert walked(find(STRETCH, 0, offset), DATA) == expected


def test_an_offset_behind_a_batch_needs_no_look_behind():
    torn = BATCHES[0] + b"\xff" * 200
    assert walked(find(Stretch(100, len(torn), -1), 0, 110), torn) == (SECOND, 110)


@pytest.mark.parametrize(
    ("start", "offset", "data", "reason"),
    [
        (0, 115, BATCHES[0] + bytes(100), "no record batch begins there"),
        (0, 115, BATCHES[0] + BATCHES[1][:20], CUT_HEADER),
        (SECOND, 105, DATA, "offset 110 stands before 105"),
        (0, 115, moved(BATCHES[0], 120) + BATCHES[1], "offset 120 stands before offset 110"),
    ],
)
def test_find_stops_at_damage(start, offset, data, reason):
    with pytest.raises(BrokenBatch) as broken:
        walked(find(Stretch(100, len(data), -1), start, offset), data)
    assert broken.value.reason == reason


def test_find_goes_on_in_the_next_chunk(monkeypatch):
    monkeypatch.setattr(batch_walk, "_WALK_BYTES", HEADER_BYTES)
    assert walked(find(STRETCH, 0, 115), DATA) == (THIRD, 115)


def test_take_ends_below_the_bound_and_at_whole_batches():
    assert walked(whole_batches(STRETCH, 0, 100, 116, 1 << 20), DATA) == (DATA, 116)
    assert walked(whole_batches(STRETCH, 0, 100, 115, 1 << 20), DATA) == (DATA[:THIRD], 115)
    assert walked(whole_batches(STRETCH, 0, 100, 116, SECOND + 10), DATA) == (BATCHES[0], 110)


def test_take_gives_one_batch_however_large():
    assert walked(whole_batches(STRETCH, 0, 100, 116, 1), DATA) == (BATCHES[0], 110)


def test_take_gives_nothing_above_the_bound():
    compacted = moved(BATCHES[1], 150)
    stretch = Stretch(100, len(compacted), -1)
    assert walked(whole_batches(stretch, 0, 100, 120, 1000), compacted) == (b"", -1)


def test_take_refuses_a_batch_that_fails_its_crc():
    rotten = DATA[: SECOND + 80] + b"?" + DATA[SECOND + 81 :]
    with pytest.raises(BrokenBatch, match="fails its CRC-32C") as broken:
        walked(whole_batches(STRETCH, 0, 100, 116, 1 << 20), rotten)
    assert broken.value.position == SECOND


def test_take_refuses_a_file_that_ends_early():
    with pytest.raises(BrokenBatch, match=CUT_HEADER):
        walked(whole_batches(STRETCH, 0, 100, 116, 1 << 20), DATA[:30])


def test_scan_names_every_batch(monkeypatch):
    expected = [(0, 100), (SECOND, 110), (THIRD, 115)]
    assert scanned(scan(STRETCH, 0, 100), DATA) == (expected, 1)
    monkeypatch.setattr(batch_walk, "_SCAN_BYTES", 1)
    assert scanned(scan(STRETCH, 0, 100), DATA)[0] == expected
    assert scanned(scan(STRETCH, SECOND, 110), DATA)[0] == expected[1:]


@pytest.mark.parametrize(
    ("data", "end_offset", "reason"),
    [
        (BATCHES[0] + BATCHES[1][:20], -1, CUT_HEADER),
        (BATCHES[0] + BATCHES[1][:80], -1, CUT_BATCH),
        (BATCHES[0] + moved(BATCHES[1], 90), -1, "offset 90 stands where 110 was expected"),
        (BATCHES[0] + moved(BATCHES[1], 113), 115, "offset 113 stands before offset 115"),
    ],
)
def test_scan_ends_at_damage(data, end_offset, reason):
    with pytest.raises(BrokenBatch) as broken:
        scanned(scan(Stretch(100, len(data), end_offset), 0, 100), data)
    assert (broken.value.position, broken.value.reason) == (SECOND, reason)


@pytest.mark.parametrize(
    ("size_bytes", "position", "reason"),
    [(0, 0, CUT_HEADER), (SECOND + 20, SECOND, CUT_HEADER), (SECOND + 80, SECOND, CUT_BATCH)],
)
def test_scan_ends_in_a_file_that_is_shorter_than_it_was(size_bytes, position, reason):
    with pytest.raises(BrokenBatch) as broken:
        scanned(scan(STRETCH, 0, 100), DATA[:size_bytes])
    assert (broken.value.position, broken.value.reason) == (position, reason)


def test_a_gap_before_a_later_batch_is_compactions():
    data = BATCHES[0] + moved(BATCHES[1], 130)
    assert scanned(scan(Stretch(100, len(data), 135), 0, 100), data)[0][1] == (SECOND, 130)


def found_in(data, offset):
    view = memoryview(data)
    return [(0, whole_batch_at(view, 0, offset)[0], view, 0)]


def test_a_timestamp_finds_the_first_record_not_older():
    found = found_in(batch(100, 10, leader_epoch=4), 100)
    assert first_not_older(found, NOW + 3, 0) == (NOW + 3, 103, 4)
    assert first_not_older(found, NOW + 3, 105) == (NOW + 5, 105, 4)
    assert first_not_older(found, NOW + 10, 0) is None
    assert first_not_older(found, NOW, 110) is None
