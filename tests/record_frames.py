"""Compressed records as clients may send them, and what Apache Kafka 4.4 says of each.

`tests/unit/record/test_frames.py` holds us to it. `tests/conformance/test_records_beside_kafka.py` asks Kafka again,
and lets a Java consumer read what was taken.
"""

import gzip
import struct
import zlib
from dataclasses import dataclass
from enum import Enum

import cramjam
from crc32c import crc32c

from oncelog.record.batch import HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES, Codec
from oncelog.record.records import Record, append_record


class Verdict(Enum):
    TAKEN = "both take it"
    REFUSED = "both refuse it"
    STRICTER = "Kafka takes it, we refuse it"


TAKEN, REFUSED, STRICTER = Verdict


def record_bytes(contents, timestamp_deltas=None):
    """Records without keys, one after the other, as they lie in a batch."""
    out = bytearray()
    for index, content in enumerate(contents):
        delta = timestamp_deltas[index] if timestamp_deltas else index
        append_record(out, Record(None, content), index, delta)
    return bytes(out)


def batch_of(
    body,
    count,
    *,
    attributes=0,
    base_timestamp,
    max_timestamp=None,
    base_offset=0,
    last_offset_delta=None,
    producer=(-1, -1, -1),
):
    """A batch with this body behind whatever header is asked for, its CRC made right."""
    last_delta = count - 1 if last_offset_delta is None else last_offset_delta
    largest = base_timestamp + count - 1 if max_timestamp is None else max_timestamp
    batch = bytearray(HEADER_BYTES + len(body))
    length = len(batch) - LENGTH_PREFIX_BYTES
    times = (base_timestamp, largest)
    head = (base_offset, length, -1, 2, 0, attributes, last_delta, *times, *producer, count)
    HEADER.pack_into(batch, 0, *head)
    batch[HEADER_BYTES:] = body
    struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[21:]))
    return bytes(batch)


# LZ4 frames.

_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)


def _rotated(value, bits):
    value &= 0xFFFFFFFF
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


def xxh32(data):
    """The checksum of LZ4 frames."""
    one, two, three, four, five = _PRIMES
    at, whole = 0, len(data)
    if whole >= 16:
        lanes = [one + two, two, 0, -one]
        while at + 16 <= whole:
            for lane, word in enumerate(struct.unpack_from("<4I", data, at)):
                lanes[lane] = _rotated(lanes[lane] + word * two, 13) * one
            at += 16
        value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        value = five
    value += whole
    while at + 4 <= whole:
        value = _rotated(value + struct.unpack_from("<I", data, at)[0] * three, 17) * four
        at += 4
    for byte in data[at:]:
        value = _rotated(value + byte * five, 11) * one
    value &= 0xFFFFFFFF
    value = (value ^ value >> 15) * two & 0xFFFFFFFF
    value = (value ^ value >> 13) * three & 0xFFFFFFFF
    return value ^ value >> 16


_INDEPENDENT, _BLOCK_SUMS, _SIZE, _CONTENT_SUM = 0x60, 0x10, 0x08, 0x04
_KIB_64 = 0x40
_STORED = 0x80000000
_END = bytes(4)


def lz4_head(flags=_INDEPENDENT, sizes=_KIB_64, *, more=b"", wrong_sum=0):
    head = bytes([flags, sizes]) + more
    checksum = xxh32(head) >> 8 & 0xFF ^ wrong_sum
    return b"\x04\x22\x4d\x18" + head + bytes([checksum])


def lz4_block(data, *, stored=False, checksum=None):
    packed = data if stored else bytes(cramjam.lz4.compress_block(data, store_size=False))
    tail = b"" if checksum is None else struct.pack("<I", xxh32(packed) ^ checksum)
    return struct.pack("<I", len(packed) | (_STORED if stored else 0)) + packed + tail


def lz4_frame(plain, head=None, *, tail=b"", **block):
    parts = [plain[at : at + 65_536] for at in range(0, len(plain), 65_536)]
    blocks = b"".join(lz4_block(part, **block) for part in parts)
    return (lz4_head() if head is None else head) + blocks + _END + tail


def _linked(plain):
    packer = cramjam.lz4.Compressor(level=1, block_linked=True)
    packer.compress(plain)
    return bytes(packer.finish())


def _lz4_frames(plain, large):
    sized = lz4_head(_INDEPENDENT | _SIZE, more=struct.pack("<Q", len(plain)))
    lying = lz4_head(_INDEPENDENT | _SIZE, more=struct.pack("<Q", 7))
    summed = lz4_head(_INDEPENDENT | _CONTENT_SUM)
    content_sum = struct.pack("<I", xxh32(plain))
    cut, block_sums = lz4_frame(plain)[:-4], lz4_head(_INDEPENDENT | _BLOCK_SUMS)
    half = len(plain) // 2
    yield "one block", lz4_frame(plain), TAKEN
    yield "many blocks", lz4_frame(large), TAKEN
    yield "a block that is not compressed", lz4_frame(plain, stored=True), TAKEN
    yield "blocks of 4 MiB", lz4_frame(plain, lz4_head(sizes=0x70)), TAKEN
    yield "our own library's default", bytes(cramjam.lz4.compress(plain)), REFUSED
    yield "linked blocks", _linked(large), REFUSED
    yield "one block that says linked", lz4_frame(plain, lz4_head(0x40)), REFUSED
    yield "block checksums", lz4_frame(plain, block_sums, checksum=0), TAKEN
    yield "a wrong block checksum", lz4_frame(plain, block_sums, checksum=1), REFUSED
    yield "a content checksum", lz4_frame(plain, summed, tail=content_sum), TAKEN
    yield "a wrong content checksum", lz4_frame(plain, summed, tail=bytes(4)), TAKEN
    yield "a content checksum that is cut", lz4_frame(plain, summed, tail=bytes(3)), REFUSED
    yield "a content size", lz4_frame(plain, sized), TAKEN
    yield "a wrong content size", lz4_frame(plain, lying), TAKEN
    yield "a content size that is cut", lz4_head(_INDEPENDENT | _SIZE, more=bytes(2)), REFUSED
    yield "a dictionary", lz4_frame(plain, lz4_head(0x61, more=bytes(4))), REFUSED
    yield "a reserved flag", lz4_frame(plain, lz4_head(0x62)), REFUSED
    yield "version 0", lz4_frame(plain, lz4_head(0x20)), REFUSED
    yield "version 2", lz4_frame(plain, lz4_head(0xA0)), REFUSED
    yield "a reserved bit of the block size", lz4_frame(plain, lz4_head(sizes=0x41)), REFUSED
    yield "the highest bit of the block size", lz4_frame(plain, lz4_head(sizes=0xC0)), REFUSED
    yield "blocks of size 3", lz4_frame(plain, lz4_head(sizes=0x30)), REFUSED
    yield "a wrong header checksum", lz4_frame(plain, lz4_head(wrong_sum=1)), REFUSED
    yield "two frames", lz4_frame(plain[:half]) + lz4_frame(plain[half:]), REFUSED
    yield "bytes behind it", lz4_frame(plain, tail=b"behind"), TAKEN
    # Older versions of oncelog stored records that go on in a second frame, and read them so.
    yield "a whole frame behind it", lz4_frame(plain, tail=lz4_frame(b"more")), STRICTER
    yield "no end mark", cut, REFUSED
    yield "an end mark with the highest bit", cut + struct.pack("<I", _STORED), TAKEN
    yield "a block longer than said", lz4_head() + lz4_block(large) + _END, REFUSED
    stored = lz4_block(large, stored=True)
    yield "a plain block longer than said", lz4_head() + stored + _END, REFUSED
    yield "a block that is cut", cut[:-3], REFUSED
    nothing = lz4_block(b"")
    yield "a block of nothing before it", lz4_head() + nothing + cut[7:] + _END, REFUSED
    yield (
        "a block of nothing and a block behind it",
        cut + nothing + lz4_block(b"more") + _END,
        TAKEN,
    )
    yield "a skippable frame before it", b"\x50\x2a\x4d\x18" + bytes(4) + lz4_frame(plain), REFUSED
    yield "the old frame", b"\x02\x21\x4c\x18" + lz4_block(plain), REFUSED
    yield "nothing", b"", REFUSED
    yield "other bytes", plain, REFUSED


# gzip.


def _gzip_member(plain, *, flags=0, more=b"", method=8):
    packer = zlib.compressobj(wbits=-15)
    packed = packer.compress(plain) + packer.flush()
    head = bytes([0x1F, 0x8B, method, flags]) + bytes(6)
    return head + more + packed + struct.pack("<II", zlib.crc32(plain), len(plain))


def _gzip_head_sum(flags, more=b""):
    return struct.pack("<H", zlib.crc32(bytes([0x1F, 0x8B, 8, flags]) + bytes(6) + more) & 0xFFFF)


def _gzip_frames(plain, large):
    member, half = gzip.compress(plain), len(plain) // 2
    extra = struct.pack("<H", 3) + b"abc"
    yield "one member", member, TAKEN
    yield "a large one", gzip.compress(large), TAKEN
    yield "a name", _gzip_member(plain, flags=8, more=b"name\0"), TAKEN
    yield "a comment", _gzip_member(plain, flags=16, more=b"comment\0"), TAKEN
    yield "more fields", _gzip_member(plain, flags=4, more=extra), TAKEN
    yield "a header checksum", _gzip_member(plain, flags=2, more=_gzip_head_sum(2)), TAKEN
    yield "a wrong header checksum", _gzip_member(plain, flags=2, more=bytes(2)), REFUSED
    yield "a reserved flag", _gzip_member(plain, flags=0x20), TAKEN
    yield "another method", _gzip_member(plain, method=7), REFUSED
    yield "two members", gzip.compress(plain[:half]) + gzip.compress(plain[half:]), TAKEN
    yield "an empty member behind it", member + gzip.compress(b""), TAKEN
    yield "zeros behind it", member + bytes(20), TAKEN
    yield "a byte behind it", member + b"\0", TAKEN
    yield "bytes behind it", member + b"behind the records are other bytes", TAKEN
    yield "half a header behind it", member + member[:9], TAKEN
    yield "a broken member behind it", member + member[:10] + bytes([7] * 40), REFUSED
    yield "a wrong checksum", member[:-8] + bytes(4) + member[-4:], REFUSED
    yield "a wrong size", member[:-4] + bytes(4), REFUSED
    yield "a size that is cut", member[:-1], REFUSED
    yield "no trailer", member[:-8], REFUSED
    yield "a stream that is cut", member[:-12], REFUSED
    yield "zlib's header", zlib.compress(plain), REFUSED
    yield "no header", zlib.compress(plain)[2:-4], REFUSED
    yield "nothing", b"", REFUSED
    yield "other bytes", plain, REFUSED


# Snappy.

_XERIAL = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)


def _snappy(plain):
    return bytes(cramjam.snappy.compress_raw(plain))


def _chunk(plain):
    packed = _snappy(plain)
    return struct.pack(">i", len(packed)) + packed


def _snappy_frames(plain, large):
    half, whole = len(plain) // 2, _XERIAL + _chunk(plain)
    first, second = _chunk(plain[:half]), _chunk(plain[half:])
    yield "raw", _snappy(plain), TAKEN
    yield "raw and large", _snappy(large), TAKEN
    yield "raw with bytes behind it", _snappy(plain) + b"\0", REFUSED
    yield "raw and cut", _snappy(plain)[:-1], REFUSED
    yield "one chunk", whole, TAKEN
    yield "two chunks", _XERIAL + first + second, TAKEN
    yield "two streams", _XERIAL + first + _XERIAL + second, TAKEN
    yield "two streams of which the first is empty", _XERIAL + whole, TAKEN
    yield "a stream and a wrong version", whole + _XERIAL[:8] + bytes(8), REFUSED
    yield "a stream and a header that is cut", whole + _XERIAL[:15], REFUSED
    yield "a stream and four bytes of a header", whole + _XERIAL[:4], REFUSED
    other = b"\x82SNAP" + bytes(11)
    yield "a stream and another header", whole + other, TAKEN
    yield "another header, and a stream", _XERIAL + other + _chunk(plain), REFUSED
    yield "three bytes behind it", whole + bytes(3), TAKEN
    yield "four zeros behind it", whole + bytes(4), REFUSED
    yield "bytes behind it", whole + b"behind the records", REFUSED
    yield "a chunk of nothing behind it", whole + _chunk(b""), TAKEN
    yield "a chunk of nothing before it", _XERIAL + _chunk(b"") + _chunk(plain), TAKEN
    yield "a negative size", _XERIAL + struct.pack(">i", -5) + first, REFUSED
    yield "a chunk that is cut", whole[:-1], REFUSED
    yield "a later version", _XERIAL[:8] + struct.pack(">ii", 9, 9) + _chunk(plain), TAKEN
    yield "version 0", _XERIAL[:8] + struct.pack(">ii", 0, 1) + _chunk(plain), TAKEN
    yield "later than we are", _XERIAL[:8] + struct.pack(">ii", 1, 9) + _chunk(plain), TAKEN
    yield "no chunk", _XERIAL, REFUSED
    yield "a header that is cut", _XERIAL[:12], REFUSED
    yield "the framing format", bytes(cramjam.snappy.compress(plain)), REFUSED
    yield "nothing", b"", REFUSED
    yield "other bytes", plain, REFUSED


# Zstandard.


def _zstd(plain):
    return bytes(cramjam.zstd.compress(plain))


def _zstd_stored(plain, *, checksum=None):
    """One frame of one block that is not compressed; `checksum`: four bytes."""
    head = b"\x28\xb5\x2f\xfd" + bytes([0x20 | (4 if checksum else 0), len(plain)])
    return head + struct.pack("<I", len(plain) << 3 | 1)[:3] + plain + (checksum or b"")


def _zstd_frames(plain, large):
    half = len(plain) // 2
    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 3) + b"abc"
    huge = b"\x28\xb5\x2f\xfd" + bytes([0, 0xA8]) + struct.pack("<I", len(plain) << 3 | 1)[:3]
    yield "one frame", _zstd(plain), TAKEN
    yield "a large one", _zstd(large), TAKEN
    yield "a block that is not compressed", _zstd_stored(plain), TAKEN
    yield "a wrong checksum", _zstd_stored(plain, checksum=b"abcd"), REFUSED
    yield "a checksum that is cut", _zstd_stored(plain, checksum=b"ab"), REFUSED
    yield "two frames", _zstd(plain[:half]) + _zstd(plain[half:]), TAKEN
    yield "an empty frame before it", _zstd(b"") + _zstd(plain), TAKEN
    yield "a skippable frame before it", skipped + _zstd(plain), TAKEN
    yield "a skippable frame behind it", _zstd(plain) + skipped, TAKEN
    yield "a byte behind it", _zstd(plain) + b"\0", REFUSED
    yield "bytes behind it", _zstd(plain) + b"behind the records", REFUSED
    yield "a frame that is cut", _zstd(plain)[:-1], REFUSED
    yield "a window of 2 GiB", huge + plain, REFUSED
    yield "a reserved bit", b"\x28\xb5\x2f\xfd\x28" + _zstd_stored(plain)[5:], REFUSED
    yield "nothing", b"", REFUSED
    yield "other bytes", plain, REFUSED


@dataclass(frozen=True)
class Frame:
    codec: Codec
    about: str
    body: bytes
    count: int
    verdict: Verdict

    def __str__(self):
        return f"{self.codec.name.lower()}: {self.about}"

    def batch(self, base_timestamp):
        return batch_of(self.body, self.count, attributes=self.codec, base_timestamp=base_timestamp)


SMALL = [b"first", b"second", b"third and last"]
LARGE = [bytes([65 + at]) * 30_000 for at in range(7)]
HOLD_LARGE = {"a large one", "raw and large", "many blocks", "linked blocks"}


def all_frames():
    """Every kind of frame that we thought of."""
    plain, large = record_bytes(SMALL), record_bytes(LARGE)
    kinds = {
        Codec.GZIP: _gzip_frames,
        Codec.SNAPPY: _snappy_frames,
        Codec.LZ4: _lz4_frames,
        Codec.ZSTD: _zstd_frames,
    }
    return [
        Frame(codec, about, body, len(LARGE if about in HOLD_LARGE else SMALL), verdict)
        for codec, frames in kinds.items()
        for about, body, verdict in frames(plain, large)
    ]
