"""How a transaction's state lies in `__transaction_state`, byte for byte as Kafka writes it (facts 5.1).

```
key    type i16 = 0 · transactionalId string
value  version i16 · producerId i64 · producerEpoch i16 · timeoutMs i32 · status i8 · partitions nullable array
       · lastUpdateTs i64 · startTs i64 · (version 1) tagged fields
```

Version 0 is written while `transaction.version` is 0, version 1 (compact types, tagged fields) from 1 on. A null value
is a tombstone. A key of another type, or a value of a later version, belongs to someone newer and is skipped; tagged
fields that we do not know are ignored. `lastProducerEpoch` is in neither version: it dies with the machine.
"""

import struct
from collections.abc import Iterable
from typing import Final

from oncelog.ids import (
    NO_PRODUCER_ID,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
    TransactionalId,
)
from oncelog.trace import STORED_BYTES, decode_trace, encode_trace
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnRecord, TxnState, TxnTombstone

TXN_RECORD_TYPE: Final = 0

_TAG_PREVIOUS_PRODUCER_ID: Final = 0
_TAG_NEXT_PRODUCER_ID: Final = 1
_TAG_CLIENT_TRANSACTION_VERSION: Final = 2
_TAG_ORIGIN: Final = 100
"""Our own field, far above Kafka's: which request was answered with success last (ADR 0018). Kafka skips it."""
_TAG_TRACE: Final = 101
"""Our own field as well: the transaction's trace (ADR 0028)."""

_KEY: Final = struct.Struct(">hh")
_HEAD: Final = struct.Struct(">hqhib")
_TIMES: Final = struct.Struct(">qq")
_TAGGED_ID: Final = struct.Struct(">BBq")
_TAGGED_VERSION: Final = struct.Struct(">BBh")
_TAGGED_ORIGIN: Final = struct.Struct(">BBqqq")
"""Tag, size and value; tags and sizes are below 128, so each varint is a byte."""
_ORIGIN: Final = struct.Struct(">qqq")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class MalformedRecord(ValueError):
    """A key or value that no writer of a known version can have written: the log is damaged."""


def record_type(key: bytes) -> int:
    """The type of a key of `__transaction_state`: 0 for a transaction; the sinks' types lie elsewhere."""
    if len(key) < 2:
        raise MalformedRecord(f"a key of {len(key)} bytes has no record type")
    return int(_INT16.unpack_from(key)[0])


def encode_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _KEY.pack(TXN_RECORD_TYPE, len(name)) + name


def encode_value(txn: TxnMetadata, version: int) -> bytes:
    """The value in this version, 0 or 1."""
    assert txn.state is not TxnState.EMPTY or not txn.partitions, txn
    out = bytearray(
        _HEAD.pack(version, txn.producer_id, txn.producer_epoch, txn.timeout_ms, txn.state)
    )
    times = _TIMES.pack(txn.last_update_timestamp, txn.start_timestamp)
    if version == 0:
        _write_partitions_v0(out, txn)
        return bytes(out + times)
    _write_partitions_v1(out, txn)
    out += times
    tags = bytearray(1)
    if txn.previous_producer_id != NO_PRODUCER_ID:
        tags += _TAGGED_ID.pack(_TAG_PREVIOUS_PRODUCER_ID, 8, txn.previous_producer_id)
        tags[0] += 1
    if txn.next_producer_id != NO_PRODUCER_ID:
        tags += _TAGGED_ID.pack(_TAG_NEXT_PRODUCER_ID, 8, txn.next_producer_id)
        tags[0] += 1
    if txn.client_transaction_version:
        version_of_client = txn.client_transaction_version
        tags += _TAGGED_VERSION.pack(_TAG_CLIENT_TRANSACTION_VERSION, 2, version_of_client)
        tags[0] += 1
    if txn.origin is not None:
        tags += _TAGGED_ORIGIN.pack(_TAG_ORIGIN, _ORIGIN.size, *txn.origin)
        tags[0] += 1
    if txn.trace is not None:
        tags += bytes((_TAG_TRACE, STORED_BYTES)) + encode_trace(txn.trace)
        tags[0] += 1
    return bytes(out + tags)


def encode_record(record: TxnRecord, version: int) -> tuple[bytes, bytes | None]:
    if isinstance(record, TxnTombstone):
        return encode_key(record.transactional_id), None
    return encode_key(record.transactional_id), encode_value(record, version)


def value_bytes_estimate(partitions: Iterable[Partition]) -> int:
    """An upper bound of a value's size in bytes, for the bound on a transaction's partitions."""
    return 128 + sum(len(topic) * 4 + 12 for topic, _ in partitions)


def decode_record(key: bytes, value: bytes | None) -> TxnRecord | None:
    """The record; None for another type or a later version. Raises MalformedRecord for damage."""
    if record_type(key) != TXN_RECORD_TYPE:
        return None
    try:
        _, size = _KEY.unpack_from(key)
        name = key[4 : 4 + size]
        if size < 0 or len(name) != size:
            raise MalformedRecord(f"transactional.id of {size} bytes in a key of {len(key)} bytes")
        transactional_id = TransactionalId(name.decode())
        if value is None:
            return TxnTombstone(transactional_id)
        version = _INT16.unpack_from(value)[0]
        if version not in (0, 1):
            return None
        return _decode_value(transactional_id, value, version)
    except MalformedRecord:
        raise
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedRecord(f"transaction record is damaged: {error}") from error


def _origin_of(tag: bytes | None) -> RequestOrigin | None:
    """None for a tag of another size, too: without an origin a transaction is as Kafka's."""
    if tag is None or len(tag) != _ORIGIN.size:
        return None
    return RequestOrigin(*_ORIGIN.unpack(tag))


def _decode_value(transactional_id: TransactionalId, value: bytes, version: int) -> TxnMetadata:
    _, producer_id, producer_epoch, timeout_ms, state = _HEAD.unpack_from(value)
    read_partitions = _read_partitions_v0 if version == 0 else _read_partitions_v1
    partitions, at = read_partitions(value, _HEAD.size)
    last_update, start = _TIMES.unpack_from(value, at)
    tags = _read_tags(value, at + _TIMES.size)[0] if version == 1 else {}
    previous = tags.get(_TAG_PREVIOUS_PRODUCER_ID)
    next_producer_id = tags.get(_TAG_NEXT_PRODUCER_ID)
    client_version = tags.get(_TAG_CLIENT_TRANSACTION_VERSION)
    return TxnMetadata(
        transactional_id,
        ProducerId(producer_id),
        ProducerEpoch(producer_epoch),
        TxnState(state),
        Millis(timeout_ms),
        partitions,
        Millis(start),
        Millis(last_update),
        ProducerId(_INT64.unpack(previous)[0]) if previous is not None else NO_PRODUCER_ID,
        ProducerId(_INT64.unpack(next_producer_id)[0])
        if next_producer_id is not None
        else NO_PRODUCER_ID,
        _INT16.unpack(client_version)[0] if client_version is not None else 0,
        origin=_origin_of(tags.get(_TAG_ORIGIN)),
        trace=decode_trace(tags.get(_TAG_TRACE)),
    )


def _by_topic(partitions: tuple[Partition, ...]) -> dict[str, list[int]]:
    if len(partitions) == 1:
        return {partitions[0].topic: [partitions[0].partition]}
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def _write_partitions_v0(out: bytearray, txn: TxnMetadata) -> None:
    if txn.state is TxnState.EMPTY:
        out += _INT32.pack(-1)
        return
    topics = _by_topic(txn.partitions)
    out += _INT32.pack(len(topics))
    for topic, numbers in topics.items():
        name = topic.encode()
        out += _INT16.pack(len(name)) + name
        out += struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def _write_partitions_v1(out: bytearray, txn: TxnMetadata) -> None:
    if txn.state is TxnState.EMPTY:
        out.append(0)
        return
    topics = _by_topic(txn.partitions)
    _write_uvarint(out, len(topics) + 1)
    for topic, numbers in topics.items():
        name = topic.encode()
        _write_uvarint(out, len(name) + 1)
        out += name
        _write_uvarint(out, len(numbers) + 1)
        out += struct.pack(f">{len(numbers)}i", *numbers)
        out.append(0)


def _read_partitions_v0(value: bytes, at: int) -> tuple[tuple[Partition, ...], int]:
    (count,) = _INT32.unpack_from(value, at)
    at += 4
    partitions: list[Partition] = []
    for _ in range(count):
        (size,) = _INT16.unpack_from(value, at)
        topic, at = _text(value, at + 2, size)
        (number_count,) = _INT32.unpack_from(value, at)
        at = _read_numbers(value, at + 4, topic, number_count, partitions)
    return tuple(partitions), at


def _read_partitions_v1(value: bytes, at: int) -> tuple[tuple[Partition, ...], int]:
    count, at = _read_uvarint(value, at)
    partitions: list[Partition] = []
    for _ in range(count - 1):
        size, at = _read_uvarint(value, at)
        topic, at = _text(value, at, size - 1)
        number_count, at = _read_uvarint(value, at)
        at = _read_numbers(value, at, topic, number_count - 1, partitions)
        at = _read_tags(value, at)[1]
    return tuple(partitions), at


def _read_numbers(
    value: bytes, at: int, topic: str, count: int, partitions: list[Partition]
) -> int:
    if count < 0 or at + 4 * count > len(value):
        raise MalformedRecord(f"{count} partitions of {topic} do not fit")
    for number in struct.unpack_from(f">{count}i", value, at):
        partitions.append(Partition(topic, number))
    return at + 4 * count


def _text(value: bytes, at: int, size: int) -> tuple[str, int]:
    if size < 0 or at + size > len(value):
        raise MalformedRecord(f"a string of {size} bytes does not fit")
    return value[at : at + size].decode(), at + size


def _read_tags(value: bytes, at: int) -> tuple[dict[int, bytes], int]:
    count, at = _read_uvarint(value, at)
    tags: dict[int, bytes] = {}
    for _ in range(count):
        tag, at = _read_uvarint(value, at)
        size, at = _read_uvarint(value, at)
        if at + size > len(value):
            raise MalformedRecord(f"tagged field {tag} of {size} bytes does not fit")
        tags[tag] = value[at : at + size]
        at += size
    return tags, at


def _write_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def _read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 28:
            raise MalformedRecord("a length is longer than five bytes")
