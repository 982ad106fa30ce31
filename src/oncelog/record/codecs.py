"""The four compression codecs as Kafka frames them, over cramjam, with a bound on the decompressed size.

gzip and zstd are plain; lz4 is the frame format; snappy is raw (librdkafka) or in xerial blocks (Java, kafka-python).
`oncelog.record.frames` knows which of these streams Kafka's reader takes.
"""

import struct
from collections.abc import Callable
from mmap import mmap
from typing import Final

import cramjam

from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.batch import Codec
from oncelog.record.frames import BadFrame, gzip_members, lz4_frame, snappy_chunks

DECOMPRESSED_BYTES_MAX: Final = 128 * 1024 * 1024
"""The most bytes of a decompressed batch; a batch that grows past this is never read."""

_EXPANSION_MAX: Final = 32
_PRODUCED_BYTES_MIN: Final = 8 * 1024 * 1024


def produced_bytes_max(max_message_bytes: int) -> int:
    """Return how many bytes a producer's batch may have without compression: 32 times the topic's largest batch.

    Producers bound their batches before compression, most at 1 MiB, so a batch that is near `max.message.bytes` when
    compressed expands a few times. A small frame must not fill the memory.
    """
    wanted = max(_EXPANSION_MAX * max_message_bytes, _PRODUCED_BYTES_MIN)
    return min(wanted, DECOMPRESSED_BYTES_MAX)


_SMALL_BYTES: Final = 65_536
_BUFFER_FULL: Final = "failed to write whole buffer"


_LZ4_HEADER: Final = b"\x04\x22\x4d\x18\x60\x40\x82"
"""The header of an LZ4 frame: magic, version 1, independent blocks (Java's reader insists), blocks of 64 KiB,
checksum."""
_LZ4_BLOCK_BYTES: Final = 64 * 1024
_LZ4_AS_IT_IS: Final = 0x8000_0000
"""The bit in a block's size that says: the block is not compressed, since that made it no smaller."""
_LZ4_END: Final = bytes(4)
_LZ4_FAST_LEVEL: Final = 9
"""Kafka's default level, which means lz4's fast compressor; every other level means the thorough one."""
_GZIP_DEFAULT_LEVEL: Final = -1


def compress(codec: Codec, data: bytes | memoryview, level: int | None = None) -> bytes:
    """Return the data compressed, as a batch carries it.

    `level` is as in compression.gzip.level and its like; None means the default.
    """
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return bytes(
                cramjam.gzip.compress(data, level=None if level == _GZIP_DEFAULT_LEVEL else level)
            )
        case Codec.SNAPPY:
            return bytes(cramjam.snappy.compress_raw(data))
        case Codec.LZ4:
            return _lz4(data, _LZ4_FAST_LEVEL if level is None else level)
        case Codec.ZSTD:
            return bytes(cramjam.zstd.compress(data, level=level))


def _lz4(data: bytes | memoryview, level: int) -> bytes:
    whole, parts = memoryview(data), [_LZ4_HEADER]
    for start in range(0, len(whole), _LZ4_BLOCK_BYTES):
        block = bytes(whole[start : start + _LZ4_BLOCK_BYTES])
        packed = _lz4_block(block, level)
        if len(packed) < len(block):
            parts += [struct.pack("<I", len(packed)), packed]
        else:
            parts += [struct.pack("<I", len(block) | _LZ4_AS_IT_IS), block]
    return b"".join((*parts, _LZ4_END))


def _lz4_block(block: bytes, level: int) -> bytes:
    if level == _LZ4_FAST_LEVEL:
        return bytes(cramjam.lz4.compress_block(block, store_size=False))
    # The library takes a level for frames only. A frame of so few bytes holds one block, which depends on no other.
    frame = memoryview(cramjam.lz4.compress(block, level=level))
    (size,) = struct.unpack_from("<I", frame, len(_LZ4_HEADER))
    start = len(_LZ4_HEADER) + 4
    return block if size & _LZ4_AS_IT_IS else bytes(frame[start : start + size])


def decompress(
    codec: int, data: bytes | memoryview, size_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Return the decompressed records of a batch in a log. Unlike `decompress_as_kafka`, it also reads the LZ4 frames
    that older versions of oncelog stored and Kafka's reader does not take.

    Raises KafkaError for an unknown codec, damaged bytes, or more than `size_max` bytes.
    """
    try:
        return decompress_as_kafka(codec, data, size_max)
    except KafkaError as error:
        if codec != Codec.LZ4 or error.error_code != ErrorCode.CORRUPT_MESSAGE:
            raise
        try:
            return _bounded(cramjam.lz4.decompress_into, data, size_max)
        except cramjam.DecompressionError:
            raise error from None


def decompress_as_kafka(
    codec: int, data: bytes | memoryview, size_max: int = DECOMPRESSED_BYTES_MAX
) -> bytes:
    """Return the bytes that Kafka's Java reader makes of a compressed batch, read once.

    Raises KafkaError: UNSUPPORTED_COMPRESSION_TYPE for an unknown codec, CORRUPT_MESSAGE for bytes that are no such
    stream, MESSAGE_TOO_LARGE above `size_max`.
    """
    if codec == Codec.NONE:
        return bytes(data)
    try:
        if codec == Codec.SNAPPY:
            return _snappy(bytes(data), size_max)
        if codec == Codec.GZIP:
            return _gzip(data, size_max)
        if codec == Codec.LZ4:
            return _bounded(cramjam.lz4.decompress_into, lz4_frame(data), size_max)
        if codec == Codec.ZSTD:
            return _bounded(cramjam.zstd.decompress_into, data, size_max)
    except (cramjam.DecompressionError, BadFrame) as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"batch is not valid {Codec(codec).name.lower()}: {error}"
        ) from error
    raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression codec {codec}")


def _gzip(data: bytes | memoryview, size_max: int) -> bytes:
    try:
        return _bounded(cramjam.gzip.decompress_into, data, size_max)
    except cramjam.DecompressionError:
        # The library is fast, and wants members alone.
        plain = gzip_members(bytes(data), size_max)
    if len(plain) > size_max:
        raise _too_large(size_max)
    return plain


def _bounded(
    decompress_into: Callable[[bytes | memoryview, bytearray | mmap], int],
    data: bytes | memoryview,
    size_max: int,
) -> bytes:
    """Decompress into a small buffer; if that is too small, into one of `size_max` bytes.

    The library has no limit of its own, but it respects a full buffer. The second buffer is a mapping without a file:
    its pages cost nothing until they are written.
    """
    small = bytearray(min(size_max, max(_SMALL_BYTES, 8 * len(data))))
    try:
        written = decompress_into(data, small)
    except cramjam.DecompressionError as error:
        if _BUFFER_FULL not in str(error):
            raise
        if len(small) == size_max:
            raise _too_large(size_max) from error
    else:
        return bytes(memoryview(small)[:written])
    del small
    with mmap(-1, size_max) as large:
        try:
            written = decompress_into(data, large)
        except cramjam.DecompressionError as error:
            if _BUFFER_FULL not in str(error):
                raise
            raise _too_large(size_max) from error
        return large[:written]


def _snappy(data: bytes, size_max: int) -> bytes:
    blocks, left = [], size_max
    for chunk in snappy_chunks(data):
        block = _snappy_block(chunk, left, size_max)
        left -= len(block)
        blocks.append(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)


def _snappy_block(block: bytes, left: int, size_max: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(block) > left:
        raise _too_large(size_max)
    return bytes(cramjam.snappy.decompress_raw(block))


def _too_large(size_max: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch's records are more than {size_max} bytes without compression;"
        " send smaller batches, or raise the topic's max.message.bytes",
    )
