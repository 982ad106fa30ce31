"""The way in which Kafka's Java reader takes compressed records apart, where it differs from the compression libraries.

A log may hold only what each consumer can read, and the Java client is the strictest. On the other hand it reads some
streams that libraries refuse. This module cuts a stream into the parts that the Java client reads:

```
lz4     one frame: independent blocks, the header's and the blocks' checksums; what follows is not looked at
gzip    members; what follows the last one and begins no other is not looked at
snappy  raw, or xerial: [header chunk…]…, a chunk is i32 size · raw snappy
```

Every function here raises `BadFrame`, with the reason.
"""

import struct
import zlib
from collections.abc import Iterator
from functools import lru_cache
from typing import Final


class BadFrame(Exception):
    """Bytes that are no stream of this codec, or a stream that Kafka's reader does not take."""


# LZ4.

_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT: Final = 0x60
"""The flags of version 1 with blocks that do not refer to each other."""
_LZ4_BLOCK_SUMS: Final = 0x10
_LZ4_SIZE: Final = 0x08
_LZ4_CONTENT_SUM: Final = 0x04
_LZ4_AS_IT_IS: Final = 0x8000_0000
"""The bit in a block's size that says: the block is not compressed."""
_LZ4_END: Final = bytes(4)
_LZ4_BLOCK_BYTES: Final = {0x40: 1 << 16, 0x50: 1 << 18, 0x60: 1 << 20, 0x70: 1 << 22}


def lz4_frame(data: bytes | memoryview) -> bytes:
    """Return the first frame, without its content size and content checksum, which Kafka's reader does not compare."""
    blocks_at, has_block_sums, has_content_sum, block_bytes = _lz4_header(data)
    end = _lz4_blocks_end(data, blocks_at, has_block_sums, has_content_sum, block_bytes)
    flags = _LZ4_INDEPENDENT | (_LZ4_BLOCK_SUMS if has_block_sums else 0)
    descriptor = bytes((flags, data[5]))
    head = _LZ4_MAGIC + descriptor + bytes((_header_checksum(descriptor),))
    return b"".join((head, data[blocks_at:end], _LZ4_END))


def _lz4_header(data: bytes | memoryview) -> tuple[int, bool, bool, int]:
    """Read a frame's header.

    Returns where the blocks begin, if they have checksums, if the content has one, and a block's most bytes.
    """
    if data[:4] != _LZ4_MAGIC:
        raise BadFrame("it does not begin with the magic number of an LZ4 frame")
    if len(data) < 7:
        raise BadFrame("the frame's header is cut")
    flags, block_bytes = data[4], _LZ4_BLOCK_BYTES.get(data[5])
    if flags & 0xE3 != _LZ4_INDEPENDENT:
        raise BadFrame(
            f"its flags are {flags:#04x}; Kafka's reader takes version 1 with independent blocks"
            " and without a dictionary"
        )
    if block_bytes is None:
        raise BadFrame(f"its block size is {data[5]:#04x}; 0x40, 0x50, 0x60 and 0x70 are known")
    end = 14 if flags & _LZ4_SIZE else 6
    if len(data) <= end or data[end] != _header_checksum(bytes(data[4:end])):
        raise BadFrame("the header fails its checksum")
    return end + 1, bool(flags & _LZ4_BLOCK_SUMS), bool(flags & _LZ4_CONTENT_SUM), block_bytes


def _lz4_blocks_end(
    data: bytes | memoryview,
    at: int,
    has_block_sums: bool,
    has_content_sum: bool,
    block_bytes: int,
) -> int:
    """Return where the last block ends. Kafka's reader takes an empty block for the stream's end."""
    sum_bytes = 4 if has_block_sums else 0
    while at + 4 <= len(data):
        (word,) = struct.unpack_from("<I", data, at)
        size = word & ~_LZ4_AS_IT_IS
        if size == 0:
            behind = at + (8 if has_content_sum else 4)
            if behind > len(data):
                raise BadFrame("the content's checksum is cut")
            if data[behind : behind + 4] == _LZ4_MAGIC:
                raise BadFrame("another frame follows; Kafka's reader takes one")
            return at
        behind = at + 4 + size + sum_bytes
        if size > block_bytes or behind > len(data):
            break
        if size == 1 and word == 1 and data[at + 4] < 0x10:
            return at
        at = behind
    raise BadFrame("a block is cut or longer than its frame says, or the end mark is missing")


_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_U32: Final = 0xFFFF_FFFF


@lru_cache(maxsize=64)
def _header_checksum(descriptor: bytes) -> int:
    """Return the checksum byte of an LZ4 frame's header: the second byte of xxHash32, over 2 or 10 bytes."""
    _, two, three, four, five = _PRIMES
    value, whole = five + len(descriptor), len(descriptor) // 4 * 4
    for at in range(0, whole, 4):
        value = value + struct.unpack_from("<I", descriptor, at)[0] * three & _U32
        value = (value << 17 | value >> 15) * four & _U32
    for byte in descriptor[whole:]:
        value = value + byte * five & _U32
        value = (value << 11 | value >> 21) * _PRIMES[0] & _U32
    value = (value ^ value >> 15) * two & _U32
    value = (value ^ value >> 13) * three & _U32
    return (value ^ value >> 16) >> 8 & 0xFF


# gzip.

_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_GZIP_HEADER_BYTES: Final = 10
_GZIP_TRAILER: Final = struct.Struct("<II")
_GZIP_MEMBER_BYTES_MIN: Final = 19
"""The number of bytes behind a member that Java's reader needs to look for another member."""


def gzip_members(data: bytes, size_max: int) -> bytes:
    """Return the content of all members (gzip streams, one after another in the data), at most one byte more than
    `size_max`.
    """
    parts: list[bytes] = []
    at, left = 0, size_max + 1
    while True:
        start = _gzip_start(data, at)
        if start is None:
            if at:
                return b"".join(parts)
            raise BadFrame("it does not begin with a gzip header")
        part, at = _gzip_member(data, start, left)
        parts.append(part)
        left -= len(part)
        if left == 0 or len(data) - at < _GZIP_MEMBER_BYTES_MIN:
            return b"".join(parts)


def _gzip_member(data: bytes, start: int, size_max: int) -> tuple[bytes, int]:
    """Return the content of the member whose header ends at `start`, and where the member ends."""
    reader = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
    try:
        part = reader.decompress(memoryview(data)[start:], size_max)
    except zlib.error as error:
        raise BadFrame(str(error)) from error
    if len(part) == size_max:
        return part, len(data)
    end = len(data) - len(reader.unused_data)
    if not reader.eof or end + _GZIP_TRAILER.size > len(data):
        raise BadFrame("a member is cut")
    if _GZIP_TRAILER.unpack_from(data, end) != (zlib.crc32(part), len(part) & _U32):
        raise BadFrame("a member fails its checksum")
    return part, end + _GZIP_TRAILER.size


def _gzip_start(data: bytes, at: int) -> int | None:
    """Return where the gzip header at `at` ends. None: there is no whole header."""
    if data[at : at + 3] != _GZIP_MAGIC or at + _GZIP_HEADER_BYTES > len(data):
        return None
    flags, end = data[at + 3], at + _GZIP_HEADER_BYTES
    if flags & 0x04:
        if end + 2 > len(data):
            return None
        end += 2 + int.from_bytes(data[end : end + 2], "little")
    for flag in (0x08, 0x10):
        if flags & flag:
            end = data.find(b"\0", end) + 1
            if not end:
                return None
    if flags & 0x02:
        expected = zlib.crc32(data[at:end]) & 0xFFFF
        if int.from_bytes(data[end : end + 2], "little") != expected:
            return None
        end += 2
    return end if end <= len(data) else None


# Snappy.

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES: Final = 16
_XERIAL_VERSION_MIN: Final = 1


def snappy_chunks(data: bytes) -> Iterator[bytes]:
    """Yield the raw Snappy streams that together are the records."""
    if not data.startswith(_XERIAL_MAGIC) or len(data) < _XERIAL_HEADER_BYTES:
        yield data
        return
    at = _XERIAL_HEADER_BYTES
    while at + 4 <= len(data):
        if data[at : at + 4] == _XERIAL_MAGIC[:4]:
            header = data[at : at + _XERIAL_HEADER_BYTES]
            if len(header) < _XERIAL_HEADER_BYTES:
                raise BadFrame("a later stream's header is cut")
            if not header.startswith(_XERIAL_MAGIC):
                return
            if struct.unpack_from(">i", header, 8)[0] < _XERIAL_VERSION_MIN:
                raise BadFrame("a later stream is of an older version")
            at += _XERIAL_HEADER_BYTES
            continue
        (size,) = struct.unpack_from(">i", data, at)
        chunk_at, at = at + 4, at + 4 + size
        if size < 0 or at > len(data):
            raise BadFrame("a chunk is cut")
        yield data[chunk_at:at]
