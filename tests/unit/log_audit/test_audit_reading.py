"""The audit reads files as a start would find them, in pieces, and says which bytes are no batch."""

import pickle

import pytest
from oncelog_robustness.log_files import read_batches
from tests.integration.log_audit.beside_checkers import rows_of
from tests.worlds.robustness.cluster.seen import data, log, marker

from oncelog.errors import OncelogError
from oncelog.record.batch import stamp
from oncelog.record.records import Record, encode_batch
from oncelog_server.log_audit import reading
from oncelog_server.log_audit.core.log_walk import LogWalk
from oncelog_server.log_audit.reading import rows_of_file, stretches_of


def batch(base_offset, count, value=b"v"):
    encoded = bytearray(encode_batch([Record(b"k", value, 1) for _ in range(count)]))
    stamp(encoded, base_offset, 0)
    return bytes(encoded)


def rows_in(folder):
    return [row for stretch in stretches_of(folder) for row in rows_of_file(stretch)]


def partition(folder, files):
    (folder / "orders-0").mkdir()
    for name, content in files.items():
        (folder / "orders-0" / name).write_bytes(content)
    return folder / "orders-0"


def test_a_cleaned_segment_stands_for_those_that_it_covers(tmp_path):
    files = {
        "00000000000000000000.log": batch(0, 18),
        "00000000000000000000.log.swap": batch(9, 9) + batch(24, 17),
        "00000000000000000018.log": batch(18, 7),
        "00000000000000000041.log": batch(41, 2),
    }
    folder = partition(tmp_path, files)
    seen = [(row.base_offset, row.last_offset) for row in rows_in(tmp_path)]
    assert seen == [(9, 17), (24, 40), (41, 42)]
    assert seen == [(one.base_offset, one.last_offset) for one in read_batches(folder)]


def test_a_large_batch_is_checked_in_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "_PIECE_BYTES", 1000)
    large = bytearray(batch(0, 3, b"x" * 5000))
    partition(tmp_path, {"00000000000000000000.log": bytes(large)})
    assert [row.is_sound for row in rows_in(tmp_path)] == [True]
    large[-1] ^= 1
    (tmp_path / "orders-0" / "00000000000000000000.log").write_bytes(large)
    assert [row.is_sound for row in rows_in(tmp_path)] == [False]


def test_bytes_that_are_no_batch_are_counted(tmp_path):
    partition(tmp_path, {"00000000000000000000.log": batch(0, 2) + b"\0" * 100})
    assert [row.unreadable_bytes for row in rows_in(tmp_path)] == [0, 100]


def test_records_below_the_log_start_are_deleted(tmp_path):
    partition(tmp_path, {"00000000000000000000.log": batch(0, 2) + batch(2, 2)})
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    assert [row.base_offset for row in rows_in(tmp_path)] == [2]


def test_a_folder_without_partitions_is_named(tmp_path):
    with pytest.raises(OncelogError, match="has no partition's folder"):
        stretches_of(tmp_path)


def test_a_walk_keeps_what_is_open_and_no_more():
    """Else the job's memory would grow with the log."""

    def kept_after(transactions):
        batches = [data(0, 0, 0, 0)]
        for producer in range(1, transactions):
            batches += [data(2 * producer, producer, 0, 0), marker(2 * producer + 1, producer, 0)]
        rows = rows_of(log(*batches))
        walk = LogWalk(rows[0])
        for row in rows:
            list(walk.add(row))
        return len(pickle.dumps(walk))

    assert kept_after(2000) <= kept_after(100) + 32
