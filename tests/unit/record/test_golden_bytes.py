"""Byte equality with the facts' golden batches (facts 4)."""

from oncelog.record.batch import crc_is_valid, read_header, read_single_batch
from oncelog.record.control import MARKER_BYTES, Marker, MarkerType, decode_marker, encode_marker
from oncelog.record.records import Record, decode_batch, encode_batch

TIMESTAMP = 1_700_000_000_000
COMMIT_MARKER = bytes.fromhex(
    "000000000000002a00000042ffffffff02ce4cf28e0030000000000000018bcfe568000000018bcfe56800"
    "0000000000000fa00003ffffffff000000012000000008000000010c00000000000700"
)
DATA_BATCH = bytes.fromhex(
    "000000000000000000000042ffffffff02be366ad80010000000010000018bcfe568000000018bcfe56801"
    "0000000000000fa00003000000000000000210000000026b0276000e00020201027700"
)


def test_commit_marker_is_byte_exact():
    marker = Marker(MarkerType.COMMIT, coordinator_epoch=7)
    batch = encode_marker(
        marker, producer_id=4000, producer_epoch=3, timestamp=TIMESTAMP, base_offset=42
    )
    assert bytes(batch) == COMMIT_MARKER
    assert len(batch) == MARKER_BYTES
    assert decode_marker(COMMIT_MARKER) == marker


def test_transactional_data_batch_is_byte_exact():
    records = [
        Record(b"k", b"v", TIMESTAMP, 0),
        Record(None, b"w", TIMESTAMP + 1, 1),
    ]
    batch = encode_batch(
        records, producer_id=4000, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    assert bytes(batch) == DATA_BATCH
    assert list(decode_batch(DATA_BATCH)) == records
    header = read_single_batch(DATA_BATCH, size_max_bytes=1000)
    assert crc_is_valid(DATA_BATCH, header)
    assert header == read_header(DATA_BATCH)
    assert (header.last_offset, header.last_sequence, header.is_transactional) == (1, 1, True)
