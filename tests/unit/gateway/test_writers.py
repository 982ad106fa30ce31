"""Who writes to a topic, by the headers of its newest batches."""

import pytest

from oncelog.record.batch import iter_headers
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, encode_batch
from oncelog_gateway.core.writers import window_of, writers_of


def headers(*batches):
    return [header for _, header in iter_headers(b"".join(map(bytes, batches)))]


def batch(producer_id, count, size, at_ms):
    return encode_batch(
        [Record(b"k", b"x" * size, at_ms + one) for one in range(count)],
        producer_id=producer_id,
        is_transactional=producer_id >= 0,
    )


def test_who_wrote_the_most_bytes_is_first():
    found = writers_of(
        headers(batch(7, 3, 10, 100), batch(8, 1, 900, 200), batch(7, 2, 10, 400)), 9
    )
    assert [(one.producer_id, one.records) for one in found.rows] == [(8, 1), (7, 5)]
    assert found.rows[1].last_timestamp_ms == 401
    assert (found.writer_count, found.records, found.span_ms) == (2, 6, 301)
    assert found.bytes == sum(one.bytes for one in found.rows)


def test_producers_without_an_id_are_one_row():
    (row,) = writers_of(headers(batch(-1, 1, 5, 1), batch(-1, 1, 5, 2)), 9).rows
    assert (row.producer_id, row.records, row.is_transactional) == (-1, 2, False)


def test_only_so_many_are_shown_and_all_are_counted():
    found = writers_of(headers(*(batch(one, 1, one, 1) for one in range(30))), 20)
    assert (len(found.rows), found.writer_count) == (20, 30)
    assert found.rows[0].producer_id == 29


def test_a_marker_is_nobodys():
    marker = encode_marker(
        Marker(MarkerType.COMMIT, 3), producer_id=7, producer_epoch=0, timestamp=900
    )
    found = writers_of(headers(batch(7, 2, 5, 100), marker), 9)
    assert (found.records, found.rows[0].last_timestamp_ms) == (2, 101)


def test_nothing_is_written_by_nobody():
    assert writers_of([], 9) == ([], 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("log", "window"),
    [
        ((0, 0, 0), 1),
        ((5, 105, 100), 100),
        ((0, 1_000_000, 64 << 20), 1_000),
        ((0, 10, 1 << 30), 1),
    ],
)
def test_the_window_holds_about_so_many_bytes(log, window):
    assert window_of(*log, 65_536) == pytest.approx(window, rel=0.03)
