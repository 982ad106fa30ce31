"""A batch in another codec is the same batch (facts 4): what its producer said of it stays."""

import random

import aiokafka.codec
import pytest

from oncelog.record.batch import Codec, crc_is_valid, read_header
from oncelog.record.codecs import compress, decompress
from oncelog.record.recompress import recompressed
from oncelog.record.records import Record, decode_batch, encode_batch

RECORDS = [
    Record(b"key-%d" % index, b"value" * index, 1000 + index, headers=(("h", b"x"),))
    for index in range(200)
]


@pytest.mark.parametrize("target", list(Codec))
@pytest.mark.parametrize("source", list(Codec))
def test_only_codec_length_and_checksum_change(source, target):
    batch = encode_batch(
        RECORDS,
        codec=source,
        producer_id=7,
        producer_epoch=3,
        base_sequence=40,
        is_transactional=True,
        leader_epoch=5,
    )
    changed = recompressed(bytes(batch), target)
    before, after = read_header(batch), read_header(changed)
    assert after.codec == target
    assert after.is_transactional
    assert crc_is_valid(changed, after)
    assert after.size_bytes == len(changed)
    assert list(decode_batch(changed)) == list(decode_batch(batch))
    same = {"codec", "batch_length", "crc", "attributes"}
    for field in set(before._fields) - same:
        assert getattr(after, field) == getattr(before, field)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-5, 3, 22))],
)
def test_levels_change_the_size_and_never_the_records(codec, levels):
    draw = random.Random(1)
    words = [draw.randbytes(draw.randint(3, 9)) for _ in range(400)]
    data = b"".join(draw.choice(words) for _ in range(20_000))
    packed = [compress(codec, data, level) for level in levels]
    assert [decompress(codec, one) for one in packed] == [data] * len(levels)
    assert len(set(map(len, packed))) > 1


@pytest.mark.parametrize("size", [1, 65_535, 65_536, 65_537, 300_000])
def test_lz4_frames_have_independent_blocks(size):
    """Java's reader refuses blocks that build on those before them; the third byte from the end of the header says."""
    incompressible = bytes(index * index % 251 for index in range(size))
    for data in (b"a" * size, incompressible):
        frame = compress(Codec.LZ4, data)
        assert frame[:4] == b"\x04\x22\x4d\x18"
        assert frame[4] & 0x20, "block independence"
        assert decompress(Codec.LZ4, frame) == data
        assert aiokafka.codec.lz4_decode(frame) == data
