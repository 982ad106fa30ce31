"""A replica's folder is read as a start would find it."""

from oncelog_robustness.log_files import read_batches

from oncelog.record.batch import stamp
from oncelog.record.records import Record, encode_batch


def batch(base_offset, count):
    records = [Record(b"k", b"v", 1) for _ in range(count)]
    encoded = bytearray(encode_batch(records))
    stamp(encoded, base_offset, 0)
    return bytes(encoded)


def test_a_cleaned_segment_stands_for_those_that_it_covers(tmp_path):
    """The names of a finished replacement were not synced yet, and a power cut took them back."""
    files = {
        "00000000000000000000.log": batch(0, 18),
        "00000000000000000000.log.swap": batch(9, 9) + batch(24, 17),
        "00000000000000000018.log": batch(18, 7),
        "00000000000000000041.log": batch(41, 2),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    seen = [(one.base_offset, one.last_offset) for one in read_batches(tmp_path)]
    assert seen == [(9, 17), (24, 40), (41, 42)]
