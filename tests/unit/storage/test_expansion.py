"""A batch that expands: decompressed once, and only as far as its topic allows."""

import pytest

from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.batch import Codec
from oncelog.record.codecs import compress, decompress, produced_bytes_max

MIB = 1 << 20
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 3 * MIB, 4 * MIB])
def test_what_fits_the_bound_is_read(codec, size):
    data = b"x" * size
    assert decompress(codec, compress(codec, data), 4 * MIB) == data


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size_max", [1, 65_536, 4 * MIB])
def test_what_does_not_is_refused_with_the_bound_and_the_way_out(codec, size_max):
    packed = compress(codec, b"x" * (size_max + 1))
    with pytest.raises(
        KafkaError, match=rf"more than {size_max} bytes.*max\.message\.bytes"
    ) as info:
        decompress(codec, packed, size_max)
    assert info.value.error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("max_message_bytes", "expected"),
    [(1_048_588, 32 * 1_048_588), (1000, 8 * MIB), (64 * MIB, 128 * MIB)],
)
def test_the_bound_follows_the_topic(max_message_bytes, expected):
    assert produced_bytes_max(max_message_bytes) == expected
