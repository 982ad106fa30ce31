"""The record of a transaction's state in `__transaction_state`, byte for byte as Kafka writes it (docs/kafka-facts.md,
5.1).

```
key    type i16 = 0 · transactionalId string
value  version i16 · producerId i64 · producerEpoch i16 · timeoutMs i32 · status i8 · partitions nullable array
       · lastUpdateTs i64 · startTs i64 · (version 1) tagged fields
```

Version 0 is written while `transaction.version` is 0, version 1 (compact types, tagged fields) from 1 on. A null value
is a tombstone. A key of another type, or a value of a later version, was written by a newer build and is skipped;
tagged fields that we do not know are ignored.
"""

import struct
from collections.abc import Iterable
from typing import Final

from oncelog.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
    TransactionalId,
)
from oncelog.protocol.frames import read_uvarint
from oncelog.protocol.writing import write_uvarint
from oncelog.record.schema import (
    COMPACT_STRING,
    DAMAGE,
    INT32,
    STRING,
    read_tags,
)
from oncelog.trace import STORED_BYTES, decode_trace, encode_trace
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnRecord, TxnState, TxnTombstone

TXN_RECORD_TYPE: Final = 0

_TAG_PREVIOUS_PRODUCER_ID: Final = 0
_TAG_NEXT_PRODUCER_ID: Final = 1
_TAG_CLIENT_TRANSACTION_VERSION: Final = 2
_TAG_NEXT_PRODUCER_EPOCH: Final = 3
"""The tag of KIP-939's epoch: Kafka has reserved it, and does not write it yet."""
_TAG_LAST_PRODUCER_EPOCH: Final = 4
"""The tag of the last epoch: Kafka writes it after 4.4 (KAFKA-20357)."""
_TAG_ORIGIN: Final = 100
"""The tag of our own field for the newest successful request (ADR 0018), far above Kafka's tags. Kafka skips it."""
_TAG_TRACE: Final = 101
"""The tag of our own field for the transaction's trace (ADR 0028)."""

_KEY: Final = struct.Struct(">hh")
_HEAD: Final = struct.Struct(">hqhib")
_TIMES: Final = struct.Struct(">qq")
_TAGGED_ID: Final = struct.Struct(">BBq")
_TAGGED_INT16: Final = struct.Struct(">BBh")
_TAGGED_ORIGIN: Final = struct.Struct(">BBqqq")
"""The formats of a tagged field: tag, size and value. Tags and sizes are below 128, so each varint is a byte."""
_ORIGIN: Final = struct.Struct(">qqq")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class MalformedRecord(ValueError):
    """A key or value that no writer of a known version can have written: the log is damaged."""


def record_type(key: bytes) -> int:
    """Return the type of a key of `__transaction_state`: 0 for a transaction; 100 to 104 for sinks. Raises
    MalformedRecord."""
    if len(key) < 2:
        raise MalformedRecord(f"a key of {len(key)} bytes has no record type")
    return int(_INT16.unpack_from(key)[0])


def encode_key(transactional_id: str) -> bytes:
    name = transactional_id.encode()
    return _KEY.pack(TXN_RECORD_TYPE, len(name)) + name


def encode_value(txn: TxnMetadata, version: int) -> bytes:
    """Return the bytes of a transaction's record value in this version, 0 or 1."""
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
        tags += _TAGGED_INT16.pack(_TAG_CLIENT_TRANSACTION_VERSION, 2, version_of_client)
        tags[0] += 1
    if txn.next_producer_epoch != NO_PRODUCER_EPOCH:
        tags += _TAGGED_INT16.pack(_TAG_NEXT_PRODUCER_EPOCH, 2, txn.next_producer_epoch)
        tags[0] += 1
    if txn.last_producer_epoch != NO_PRODUCER_EPOCH:
        tags += _TAGGED_INT16.pack(_TAG_LAST_PRODUCER_EPOCH, 2, txn.last_producer_epoch)
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
    """Return how many bytes the record value of a transaction with these partitions has in `__transaction_state`, at
    most. AddPartitionsToTxn is refused if the value could exceed the largest record.
    """
    return 128 + sum(len(topic) * 4 + 12 for topic, _ in partitions)


def decode_record(key: bytes, value: bytes | None) -> TxnRecord | None:
    """Return the transaction record of these bytes; None for another type or a later version. Raises MalformedRecord
    for damage.
    """
    if record_type(key) != TXN_RECORD_TYPE:
        return None
    try:
        transactional_id = TransactionalId(STRING.read(key, _INT16.size)[0])
        if value is None:
            return TxnTombstone(transactional_id)
        version = _INT16.unpack_from(value)[0]
        if version not in (0, 1):
            return None
        return _decode_value(transactional_id, value, version)
    except DAMAGE as error:
        raise MalformedRecord(f"transaction record is damaged: {error}") from error


def _origin_of(tag: bytes | None) -> RequestOrigin | None:
    """Return the request's origin, which is the client's connection and the request's number on it, from a tagged
    field. None: there is no such field, or it has a wrong size.

    With None the transaction is treated as one that Kafka wrote: its delayed requests are not recognised.
    """
    if tag is None or len(tag) != _ORIGIN.size:
        return None
    return RequestOrigin(*_ORIGIN.unpack(tag))


def _decode_value(transactional_id: TransactionalId, value: bytes, version: int) -> TxnMetadata:
    _, producer_id, producer_epoch, timeout_ms, state = _HEAD.unpack_from(value)
    read_partitions = _read_partitions_v0 if version == 0 else _read_partitions_v1
    partitions, at = read_partitions(value, _HEAD.size)
    last_update, start = _TIMES.unpack_from(value, at)
    tags = read_tags(value, at + _TIMES.size)[0] if version == 1 else {}
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
        _producer_id_of(tags.get(_TAG_PREVIOUS_PRODUCER_ID)),
        _producer_id_of(tags.get(_TAG_NEXT_PRODUCER_ID)),
        _INT16.unpack(client_version)[0] if client_version is not None else 0,
        _epoch_of(tags.get(_TAG_LAST_PRODUCER_EPOCH)),
        _origin_of(tags.get(_TAG_ORIGIN)),
        decode_trace(tags.get(_TAG_TRACE)),
        _epoch_of(tags.get(_TAG_NEXT_PRODUCER_EPOCH)),
    )


def _producer_id_of(tag: bytes | None) -> ProducerId:
    return NO_PRODUCER_ID if tag is None else ProducerId(_INT64.unpack(tag)[0])


def _epoch_of(tag: bytes | None) -> ProducerEpoch:
    return NO_PRODUCER_EPOCH if tag is None else ProducerEpoch(_INT16.unpack(tag)[0])


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
        out += STRING.encode(topic)
        out += struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)


def _write_partitions_v1(out: bytearray, txn: TxnMetadata) -> None:
    if txn.state is TxnState.EMPTY:
        out.append(0)
        return
    topics = _by_topic(txn.partitions)
    out += write_uvarint(len(topics) + 1)
    for topic, numbers in topics.items():
        name = topic.encode()
        out += write_uvarint(len(name) + 1) + name + write_uvarint(len(numbers) + 1)
        out += struct.pack(f">{len(numbers)}ib", *numbers, 0)


def _read_partitions_v0(value: bytes, at: int) -> tuple[tuple[Partition, ...], int]:
    count, at = INT32.read(value, at)
    partitions: list[Partition] = []
    for _ in range(count):
        topic, at = STRING.read(value, at)
        number_count, at = INT32.read(value, at)
        at = _read_numbers(value, at, topic, number_count, partitions)
    return tuple(partitions), at


def _read_partitions_v1(value: bytes, at: int) -> tuple[tuple[Partition, ...], int]:
    count, at = read_uvarint(value, at)
    partitions: list[Partition] = []
    for _ in range(count - 1):
        topic, at = COMPACT_STRING.read(value, at)
        number_count, at = read_uvarint(value, at)
        at = _read_numbers(value, at, topic, number_count - 1, partitions)
        at = read_tags(value, at)[1]
    return tuple(partitions), at


def _read_numbers(
    value: bytes, at: int, topic: str, count: int, partitions: list[Partition]
) -> int:
    if count < 0 or at + 4 * count > len(value):
        raise MalformedRecord(f"{count} partitions of {topic} do not fit")
    for number in struct.unpack_from(f">{count}i", value, at):
        partitions.append(Partition(topic, number))
    return at + 4 * count
