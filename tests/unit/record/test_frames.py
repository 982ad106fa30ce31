"""What a leader takes of compressed records is what Kafka's Java reader takes: `tests/record_frames.py`."""

import struct

import cramjam
import pytest
from tests.record_frames import (
    LARGE,
    SMALL,
    TAKEN,
    all_frames,
    batch_of,
    lz4_block,
    lz4_frame,
    lz4_head,
    record_bytes,
)

from oncelog.client.core.decode import decode_batches
from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.batch import Codec, iter_headers, read_single_batch
from oncelog.record.bulk import records_of, uncompressed
from oncelog.record.check import CheckRules, check_producer_batch
from oncelog.record.codecs import compress, decompress, decompress_as_kafka
from oncelog.record.records import decode_batch

NOW = 1_700_000_000_000
PLAIN = record_bytes(SMALL)
FRAMES = all_frames()


def verdict(batch):
    try:
        kept = check_producer_batch(batch, read_single_batch(batch, 1 << 24), CheckRules())
    except KafkaError as error:
        return error.error_code
    assert kept is batch, "nothing was wrong with its header"
    return TAKEN


@pytest.mark.parametrize("frame", FRAMES, ids=str)
def test_a_leader_takes_what_every_consumer_can_read(frame):
    """What cannot be read is refused with a code that no client answers with the same batch again."""
    found = verdict(frame.batch(NOW))
    assert found is (TAKEN if frame.verdict is TAKEN else ErrorCode.INVALID_RECORD)


@pytest.mark.parametrize("frame", [frame for frame in FRAMES if frame.verdict is TAKEN], ids=str)
def test_every_reader_of_ours_reads_what_was_taken(frame):
    contents = LARGE if frame.count == len(LARGE) else SMALL
    batch = frame.batch(NOW)
    assert [record.value for record in decode_batch(batch)] == contents
    assert [record.value for record in records_of(uncompressed(batch))] == contents
    (columns,) = decode_batches(batch, iter_headers(batch), start=0, end=100)
    assert columns.values.to_pylist() == contents


LEVELS = {
    Codec.GZIP: (None, -1, 1, 9),
    Codec.SNAPPY: (None,),
    Codec.LZ4: (None, 1, 9, 12, 17),
    Codec.ZSTD: (None, -5, 1, 3, 22),
}


@pytest.mark.parametrize(
    ("codec", "level"), [(codec, level) for codec, levels in LEVELS.items() for level in levels]
)
@pytest.mark.parametrize("data", [b"", PLAIN, record_bytes(LARGE), bytes(range(256)) * 700])
def test_what_we_write_every_consumer_can_read(codec, level, data):
    assert decompress_as_kafka(codec, compress(codec, data, level)) == data


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_frame_has_a_bound_however_it_is_read(codec):
    packed = compress(codec, bytes(100_000))
    behind = packed + b"behind" if codec is Codec.GZIP else packed
    for size_max in (99_999, 70_000, 10):
        with pytest.raises(KafkaError) as refused:
            decompress_as_kafka(codec, behind, size_max)
        assert refused.value.error_code is ErrorCode.MESSAGE_TOO_LARGE
    assert decompress_as_kafka(codec, behind, 100_000) == bytes(100_000)


def linked(plain):
    packer = cramjam.lz4.Compressor(level=1, block_linked=True)
    packer.compress(plain)
    return bytes(packer.finish())


def test_lz4_that_older_versions_stored_is_still_read():
    large = record_bytes(LARGE)
    in_two = lz4_frame(large[:70_000]) + lz4_frame(large[70_000:])
    for stored in (linked(large), in_two, bytes(cramjam.lz4.compress(large))):
        with pytest.raises(KafkaError):
            decompress_as_kafka(Codec.LZ4, stored)
        assert decompress(Codec.LZ4, stored) == large
        batch = batch_of(stored, len(LARGE), attributes=Codec.LZ4, base_timestamp=NOW)
        assert [record.value for record in records_of(uncompressed(batch))] == LARGE


def test_a_refused_frame_says_what_is_wrong():
    with pytest.raises(KafkaError, match="independent blocks"):
        decompress_as_kafka(Codec.LZ4, lz4_frame(PLAIN, lz4_head(0x40)))
    with pytest.raises(KafkaError, match="block size is 0x30"):
        decompress_as_kafka(Codec.LZ4, lz4_head(sizes=0x30) + lz4_block(PLAIN) + bytes(4))
    with pytest.raises(KafkaError, match="not valid lz4"):
        decompress(Codec.LZ4, struct.pack("<I", 7))
