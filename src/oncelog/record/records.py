"""The records inside a batch: this module encodes a few (internal topics, markers), and decodes any.

Bulk paths use aiokafka's compiled reader and builder; this module is the plain one that says how the bytes lie:

```
length varint · attributes i8 · timestampDelta varlong · offsetDelta varint
keyLength varint (-1: null) · key · valueLength varint · value · headerCount varint · headers
```
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from crc32c import crc32c

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from oncelog.record.batch import (
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TRANSACTIONAL,
    Buffer,
    Codec,
    read_header,
)
from oncelog.record.codecs import DECOMPRESSED_BYTES_MAX, compress, decompress

Headers = tuple[tuple[str, bytes | None], ...]
"""A record's headers.
Keys may be any bytes: `surrogateescape` keeps those that are no UTF-8, and `shown_key` shows them."""
_ANY_BYTES: Final = "surrogateescape"


@dataclass(frozen=True, slots=True)
class Record:
    """One record; in a log, `offset` and `timestamp` (ms) are absolute."""

    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    offset: int = -1
    headers: Headers = ()


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    extra_attributes: int = 0,
    codec: Codec = Codec.NONE,
) -> bytearray:
    """Return one batch of these records, with offsets that count up from `base_offset`.

    It is writable, so that a leader may set its offset and leader epoch.
    """
    assert records, "a batch has at least one record"
    base_timestamp = max_timestamp = records[0].timestamp
    body = bytearray()
    for index, record in enumerate(records):
        append_record(body, record, index, record.timestamp - base_timestamp)
        if record.timestamp > max_timestamp:
            max_timestamp = record.timestamp
    payload = compress(codec, bytes(body)) if codec else body
    attributes = extra_attributes | codec | (TRANSACTIONAL if is_transactional else 0)
    size_bytes, count = HEADER_BYTES + len(payload), len(records)
    batch = bytearray(size_bytes)
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        size_bytes - LENGTH_PREFIX_BYTES,
        leader_epoch,
        MAGIC,
        0,
        attributes,
        count - 1,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    batch[HEADER_BYTES:] = payload
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return batch


def decode_batch(
    buffer: Buffer, position: int = 0, size_max: int = DECOMPRESSED_BYTES_MAX
) -> Iterator[Record]:
    """Yield the records of the batch at `position`, with absolute offsets and timestamps.

    `size_max`: bytes that its records may have without compression. Raises KafkaError(CORRUPT_MESSAGE) where the bytes
    are no records, and what `decompress` raises.
    """
    header = read_header(buffer, position)
    if header.record_count < 0:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"batch at offset {header.base_offset} says {header.record_count} records",
        )
    body = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    data: Buffer = decompress(header.codec, body, size_max) if header.codec else body
    at = 0
    try:
        for _ in range(header.record_count):
            length, at = read_varint(data, at)
            end = at + length
            if length < 0 or end > len(data):
                raise IndexError
            record = _read_record(data, at, end, header.base_offset, header.base_timestamp)
            if header.attributes & 0x08:
                record = Record(
                    record.key, record.value, header.max_timestamp, record.offset, record.headers
                )
            yield record
            at = end
    except (IndexError, ValueError) as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE,
            f"batch at offset {header.base_offset} holds malformed records",
        ) from error


def shown_key(key: bytes) -> str:
    """Return a header's key as people see it: bytes that are no UTF-8 are escaped."""
    return key.decode(errors="backslashreplace")


def append_record(out: bytearray, record: Record, offset_delta: int, timestamp_delta: int) -> None:
    """Append the record's bytes; the deltas count from the batch's base offset and base timestamp."""
    key, value, headers = record.key, record.value, record.headers
    body = bytearray(_NO_ATTRIBUTES)
    body += _varint(timestamp_delta)
    body += _varint(offset_delta)
    if key is None:
        body += _NULL
    else:
        body += _varint(len(key))
        body += key
    if value is None:
        body += _NULL
    else:
        body += _varint(len(value))
        body += value
    if headers:
        body += _varint(len(headers))
        for name, content in headers:
            _write_bytes(body, name.encode(errors=_ANY_BYTES))
            _write_bytes(body, content)
    else:
        body += _NO_HEADERS
    out += _varint(len(body))
    out += body


def _read_record(data: Buffer, at: int, end: int, base_offset: int, base_timestamp: int) -> Record:
    timestamp_delta, at = read_varint(data, at + 1)
    offset_delta, at = read_varint(data, at)
    key, at = _read_bytes(data, at, end)
    value, at = _read_bytes(data, at, end)
    count, at = read_varint(data, at)
    if count < 0:
        raise ValueError(f"a record has {count} headers")
    headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at, end)
        if name is None:
            raise ValueError("a header has no name")
        content, at = _read_bytes(data, at, end)
        headers.append((name.decode(errors=_ANY_BYTES), content))
    if at != end:
        raise ValueError("a record's length does not match its fields")
    timestamp = base_timestamp + timestamp_delta
    if not -_I64 <= timestamp < _I64:
        timestamp = (timestamp + _I64) % (2 * _I64) - _I64  # As in other readers' arithmetic.
    return Record(key, value, timestamp, base_offset + offset_delta, tuple(headers))


def write_varint(out: bytearray, value: int) -> None:
    """Append a number as a zig-zag varint, seven bits a byte, low bits first; it serves 32 and 64 bits alike."""
    out += _varint(value)


def _varint(value: int) -> bytes:
    if 0 <= value < _SMALL:
        return _SMALL_VARINTS[value]
    return _encoded_varint(value)


def _encoded_varint(value: int) -> bytes:
    out = bytearray()
    remaining = (value << 1) ^ (value >> 63)
    while remaining > 0x7F:
        out.append(remaining & 0x7F | 0x80)
        remaining >>= 7
    out.append(remaining)
    return bytes(out)


_I64: Final = 2**63
_NO_ATTRIBUTES: Final = b"\x00"
_NO_HEADERS: Final = _encoded_varint(0)
_NULL: Final = _encoded_varint(-1)
_SMALL: Final = 256
_SMALL_VARINTS: Final = tuple(map(_encoded_varint, range(_SMALL)))
"""The encoded small numbers. Most lengths and deltas are small, and a look-up takes a tenth of the loop's time."""


def read_varint(data: Buffer, at: int) -> tuple[int, int]:
    """Return (value, position behind it) of a zig-zag varint.
    Raises IndexError at the data's end, ValueError past ten bytes."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a varint is longer than ten bytes")


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        write_varint(out, -1)
    else:
        write_varint(out, len(data))
        out += data


def _read_bytes(data: Buffer, at: int, end: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    if at + length > end:
        raise IndexError
    return bytes(data[at : at + length]), at + length
