"""What compaction leaves behind is decoded like any other batch: empty ones, shortened ones, gaps between them."""

from oncelog.client.core.decode import decode_batches
from oncelog.record.batch import HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES, iter_headers
from oncelog.record.records import Record, encode_batch


def emptied(batch):
    fields = list(HEADER.unpack_from(batch))
    fields[1] = HEADER_BYTES - LENGTH_PREFIX_BYTES
    fields[12] = 0
    return HEADER.pack(*fields)


def test_empty_batches_hold_no_rows():
    parts = [
        encode_batch([Record(b"a", b"%d" % offset, 5)] * 2, base_offset=offset, producer_id=1)
        for offset in (0, 2, 9, 11)
    ]
    for kept in ([0, 2], [1], [], [3]):
        log = b"".join(bytes(part) if i in kept else emptied(part) for i, part in enumerate(parts))
        found = list(decode_batches(log, iter_headers(log), start=0, end=100, with_headers=True))
        offsets = [offset for columns in found for offset in columns.offsets.tolist()]
        assert offsets == [base + i for n in kept for base in ((0, 2, 9, 11)[n],) for i in (0, 1)]


def test_a_header_key_that_is_no_text_is_shown_escaped():
    """Kafka takes any bytes there; Arrow and Spark want text."""
    keys = [b"sound", b"caf\xe9", b"\xff\xfe", "né".encode()]
    headers = tuple((key.decode(errors="surrogateescape"), b"\xff") for key in keys)
    batch = bytes(encode_batch([Record(b"k", b"v", 5, headers=headers)]))
    (found,) = decode_batches(batch, iter_headers(batch), start=0, end=9, with_headers=True)
    (row,) = found.headers.to_pylist()
    assert [one["key"] for one in row] == ["sound", "caf\\xe9", "\\xff\\xfe", "né"]
    assert all(key in batch for key in keys)
