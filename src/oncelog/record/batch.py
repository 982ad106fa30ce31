"""Record batch v2: the unit that is written, fetched and checksummed (docs/kafka-facts.md, 4).

The 61-byte header is read in place and the records behind it are left alone: a log never needs to decode what it
stores. The two fields a leader overwrites (base offset, leader epoch) lie outside the CRC for that reason.

```
  0 baseOffset i64         17 crc u32 (of 21…)       35 maxTimestamp i64     57 recordCount i32
  8 batchLength i32        21 attributes i16         43 producerId i64       61 records…
 12 leaderEpoch i32        23 lastOffsetDelta i32    51 producerEpoch i16
 16 magic i8 = 2           27 baseTimestamp i64      53 baseSequence i32
```
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

from crc32c import crc32c

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import NO_SEQUENCE, SEQUENCE_MAX

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = 61
LENGTH_PREFIX_BYTES: Final = 12
"""Bytes before the part that batchLength counts."""
MAGIC: Final = 2

CODEC_MASK: Final = 0x07
CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

_LENGTH_MIN: Final = 14
"""The least batchLength of any magic; Kafka calls a smaller one corrupt."""
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_CRC_FROM: Final = 21
_OFFSET_AND_LENGTH: Final = struct.Struct(">qi")
_STAMP: Final = struct.Struct(">qii")
_ATTRIBUTES_AT: Final = 21
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER_AT: Final = 43
_PRODUCER: Final = struct.Struct(">qhi")

Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class BatchHeader(NamedTuple):
    """A batch's header as it stands in the log. Timestamps are milliseconds since 1970."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_PREFIX_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; after 2147483647 comes 0. -1: the batch has no sequences."""
        if self.base_sequence < 0:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MAX

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id >= 0

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def codec(self) -> int:
        """The number of the codec: 0–4 are known (`Codec`); 5–7 may stand in a corrupt or future batch."""
        return self.attributes & CODEC_MASK


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the header at `position`. The caller knows that HEADER_BYTES are there; nothing is checked."""
    return BatchHeader(*HEADER.unpack_from(buffer, position))


def largest_timestamp(fields: tuple[int, ...]) -> int:
    """Return the largest timestamp of a batch in a log, in ms, from its header's fields; -1: it has none.

    Leaders compute the maximum timestamp of what they append. Older versions of oncelog stored what clients wrote
    there, 0 or -1 from some of them. The base timestamp is the first record's, so a true maximum is never below it. In
    a batch with LogAppendTime or a delete horizon the base timestamp means something else.
    """
    if fields[5] & (LOG_APPEND_TIME | DELETE_HORIZON):
        return fields[8]
    return max(fields[7], fields[8])


def iter_headers(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every whole batch; a cut batch at the end is left out, as a consumer does."""
    position, end = 0, len(buffer)
    while end - position >= HEADER_BYTES:
        header = read_header(buffer, position)
        if header.batch_length < HEADER_BYTES - LENGTH_PREFIX_BYTES:
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE,
                f"batch length {header.batch_length} at byte {position} is below a header's",
            )
        if position + header.size_bytes > end:
            return
        yield position, header
        position += header.size_bytes


def crc_is_valid(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Return True if the CRC-32C fits, which covers everything from the attributes to the batch's end."""
    whole = memoryview(buffer)[position + _CRC_FROM : position + header.size_bytes]
    return crc32c(whole) == header.crc


def read_single_batch(records: Buffer, size_max_bytes: int) -> BatchHeader:
    """Return the header of a producer's batch for one partition: exactly one well-formed batch of magic 2.

    As in Kafka, bytes behind it that are no whole batch do not count: the caller leaves them out. Raises KafkaError
    with INVALID_RECORD (no batch, several, or an older magic), CORRUPT_MESSAGE (lengths, an unknown magic, CRC), or
    MESSAGE_TOO_LARGE. The records inside are checked by `oncelog.record.check`.
    """
    size_bytes = _size_of_batch(records, 0)
    if size_bytes is None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, f"{len(records)} bytes hold no whole record batch"
        )
    if records[_MAGIC_AT] != MAGIC:
        raise KafkaError(
            ErrorCode.INVALID_RECORD,
            f"record batch has magic {records[_MAGIC_AT]}; oncelog takes magic 2",
        )
    if size_bytes < len(records) and _size_of_batch(records, size_bytes) is not None:
        raise KafkaError(
            ErrorCode.INVALID_RECORD, "a partition's data must be exactly one record batch"
        )
    if size_bytes < HEADER_BYTES:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"batch says {size_bytes} bytes, less than its header"
        )
    if size_bytes > size_max_bytes:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"record batch of {size_bytes} bytes is above max.message.bytes={size_max_bytes}",
        )
    header = read_header(records)
    if crc32c(memoryview(records)[_CRC_FROM:size_bytes]) != header.crc:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "record batch fails its CRC-32C")
    return header


def _size_of_batch(records: Buffer, position: int) -> int | None:
    """Return the size of the whole batch at `position`, of any magic; None: there is none.
    Raises KafkaError(CORRUPT_MESSAGE)."""
    left = len(records) - position
    if left < LENGTH_PREFIX_BYTES:
        return None
    _, length = _OFFSET_AND_LENGTH.unpack_from(records, position)
    if length < _LENGTH_MIN:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record batch says {length} bytes")
    if left <= _MAGIC_AT:
        return None
    magic = records[position + _MAGIC_AT]
    if magic > MAGIC:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"a record batch has magic {magic}")
    size_bytes: int = length + LENGTH_PREFIX_BYTES
    return size_bytes if size_bytes <= left else None


def stamp(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write the fields that the leader decides: offset and leader epoch. Both are outside the CRC."""
    length = _OFFSET_AND_LENGTH.unpack_from(batch)[1]
    _STAMP.pack_into(batch, 0, base_offset, length, leader_epoch)


def stamp_max_timestamp(
    batch: bytearray | memoryview, timestamp_type: int, max_timestamp: int
) -> None:
    """Set the timestamp type (`CREATE_TIME` or `LOG_APPEND_TIME`), the maximum timestamp, and the new CRC."""
    (attributes,) = struct.unpack_from(">h", batch, _ATTRIBUTES_AT)
    struct.pack_into(">h", batch, _ATTRIBUTES_AT, attributes & ~LOG_APPEND_TIME | timestamp_type)
    struct.pack_into(">q", batch, _MAX_TIMESTAMP_AT, max_timestamp)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))


def stamp_producer(
    batch: bytearray | memoryview, producer_id: int, producer_epoch: int, base_sequence: int
) -> None:
    """Set the batch's producer id, epoch and base sequence, and the new CRC."""
    _PRODUCER.pack_into(batch, _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    struct.pack_into(">I", batch, _CRC_AT, crc32c(memoryview(batch)[_CRC_FROM:]))
