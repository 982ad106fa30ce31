"""What a Spark sink writes to its shard of `__transaction_state`: five kinds of record and their bytes.

```
type  name          key after the type          superseded by                  removed when
 100  SINK          sink                        the next SINK of the sink      never
 101  ATTEMPT_OPEN  sink, nonce                 -                              the attempt's markers are delivered
 102  BRANCH        sink, nonce, producer id    joined, added to, sealed       the attempt's markers are delivered
 103  DECIDE        sink, nonce                 - (there is only one)          last of the attempt's records
 104  COMPLETE      sink                        the next COMPLETE of the sink  never
```

Each record is the whole state of what its key names. So a log that keeps only the newest record of each key replays to
the same state: the state *is* the map from key to newest value. What is left behind by a finished attempt is nothing,
and by a sink two records, so recovery follows what is open and not history.

DECIDE is the only record that ends an attempt, and the only one a commit appends: that single record is the decision.
It is removed last, because a branch without its DECIDE would look open again. A committed decision moves into COMPLETE
(before its DECIDE is removed); an aborted one leaves nothing.

Key: int16 type, then the sink as int16 length + UTF-8, then the nonce (16 bytes) and the producer id (int64) where the
table has them. Kafka's own loader reads the first int16 of a key as its type and skips a type it does not know
(facts 5.1). Value: int16 version (0), then the fields in the order of the class; strings as int16 length + UTF-8,
arrays as int32 count, partitions by topic, the outcome as int16, a CRC as uint32.
A null value removes the key. Types and versions that are not known are skipped.

Version 1 of BRANCH, DECIDE and COMPLETE adds the checksum of the rows as their last field. Version 1 of SINK adds the
time of the last attempt. Version 0 is read: what it does not have is -1, unknown.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from oncelog.errors import OncelogError
from oncelog.ids import Millis, Partition, ProducerEpoch, ProducerId

NONCE_BYTES: Final = 16
NEWEST_VERSION: Final = 1
UNKNOWN: Final = -1
"""A checksum or a time that was never recorded."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_UINT32: Final = struct.Struct(">I")
_INT64: Final = struct.Struct(">q")


class SinkRecordType(IntEnum):
    SINK = 100
    ATTEMPT_OPEN = 101
    BRANCH = 102
    DECIDE = 103
    COMPLETE = 104


@dataclass(frozen=True, slots=True)
class SinkHeader:
    """Type SINK: who may write to the sink."""

    sink: str
    sink_epoch: int
    """How many attempts were opened; the newest attempt has this one."""
    query_generation: int
    """How many streaming queries owned the sink before this one; decisions of other generations no longer count."""
    query_id: str
    """Empty before the first join."""
    run_id: str
    """The driver run that joined last."""
    superseded_run_ids: tuple[str, ...]
    retired_query_ids: tuple[str, ...]
    """Queries that another one adopted the sink from. They are refused for ever."""
    opened_time_ms: Millis = Millis(UNKNOWN)
    """When the newest attempt was opened: a job's sink that nobody opens any more expires."""


@dataclass(frozen=True, slots=True)
class AttemptOpen:
    """Type ATTEMPT_OPEN: one attempt at one micro-batch."""

    sink: str
    nonce: bytes
    sink_epoch: int
    opened_time_ms: Millis
    timeout_ms: Millis


@dataclass(frozen=True, slots=True)
class Branch:
    """Type BRANCH: one task attempt's producer id, used for this and never again."""

    sink: str
    nonce: bytes
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    query_generation: int
    batch_id: int
    task_partition: int
    task_attempt_id: int
    joined_time_ms: Millis
    sealed_time_ms: Millis
    """-1: not sealed."""
    row_count: int
    crc32c: int
    partitions: tuple[Partition, ...]
    """Sorted."""
    row_checksum: int = UNKNOWN
    """Of the rows, whatever their order and their partitions (`oncelog.spark.row_checksum`)."""

    @property
    def is_sealed(self) -> bool:
        return self.sealed_time_ms >= 0


class Outcome(IntEnum):
    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class Decide:
    """Type DECIDE: the end of an attempt. Branches that are not winners abort, whatever the outcome."""

    sink: str
    nonce: bytes
    outcome: Outcome
    reason: str
    """The label of the step that decided: `committed`, `superseded`, `timed_out` …"""
    sink_epoch: int
    """Of the attempt."""
    query_generation: int
    batch_id: int
    """-1: aborted before the first join."""
    row_count: int
    crc32c: int
    decided_time_ms: Millis
    winners: tuple[ProducerId, ...]
    """Sorted."""
    row_checksum: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A committed decision as the window remembers it."""

    batch_id: int
    nonce: bytes
    branch_count: int
    row_count: int
    crc32c: int
    decided_time_ms: Millis
    row_checksum: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class Complete:
    """Type COMPLETE: the newest committed batches whose markers are all delivered, by batch id."""

    sink: str
    query_generation: int
    batches: tuple[CommittedBatch, ...]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A null value: the key is gone. `nonce` is empty and `producer_id` -1 for the types whose key has none."""

    record_type: SinkRecordType
    sink: str
    nonce: bytes = b""
    producer_id: ProducerId = ProducerId(-1)


SinkRecord = SinkHeader | AttemptOpen | Branch | Decide | Complete | Tombstone


def encode_sink_record(record: SinkRecord) -> tuple[bytes, bytes | None]:
    """Key and value; the value of a tombstone is None."""
    match record:
        case SinkHeader():
            return _key(SinkRecordType.SINK, record.sink), _header_value(record)
        case AttemptOpen():
            value = _Writer(0).int64(record.sink_epoch, record.opened_time_ms, record.timeout_ms)
            return _key(SinkRecordType.ATTEMPT_OPEN, record.sink, record.nonce), value.value
        case Branch():
            key = _key(SinkRecordType.BRANCH, record.sink, record.nonce, record.producer_id)
            return key, _branch_value(record)
        case Decide():
            return _key(SinkRecordType.DECIDE, record.sink, record.nonce), _decide_value(record)
        case Complete():
            return _key(SinkRecordType.COMPLETE, record.sink), _complete_value(record)
        case Tombstone():
            return _key(record.record_type, record.sink, record.nonce, record.producer_id), None


def decode_sink_record(key: bytes, value: bytes | None) -> SinkRecord | None:
    """The record of these bytes; None for a type or a value version that this build does not know.

    Raises OncelogError for bytes that a known type and version cannot have.
    """
    if len(key) < _INT16.size or _INT16.unpack_from(key)[0] not in _DECODERS:
        return None
    record_type = SinkRecordType(_INT16.unpack_from(key)[0])
    try:
        reader = _Reader(key, _INT16.size)
        sink = reader.string()
        nonce = b"" if record_type in _KEYED_BY_SINK else reader.raw(NONCE_BYTES)
        producer_id = ProducerId(reader.int64() if record_type is SinkRecordType.BRANCH else -1)
        reader.end()
        if value is None:
            return Tombstone(record_type, sink, nonce, producer_id)
        reader = _Reader(value, 0)
        reader.version = reader.int16()
        if not 0 <= reader.version <= (0 if record_type is _UNCHANGED else NEWEST_VERSION):
            return None
        record = _DECODERS[record_type](reader, sink, nonce, producer_id)
        reader.end()
        return record
    except (struct.error, ValueError) as error:
        raise OncelogError(
            f"a {record_type.name} record of __transaction_state is damaged ({error}): key {key.hex()};"
            " restore the partition from another replica"
        ) from error


def _key(
    record_type: SinkRecordType, sink: str, nonce: bytes = b"", producer_id: int = -1
) -> bytes:
    writer = _Writer(record_type).string(sink)
    if record_type not in _KEYED_BY_SINK:
        writer.raw(nonce)
    if record_type is SinkRecordType.BRANCH:
        writer.int64(producer_id)
    return writer.value


def _header_value(header: SinkHeader) -> bytes:
    writer = _Writer(NEWEST_VERSION).int64(header.sink_epoch).int32(header.query_generation)
    writer.string(header.query_id).string(header.run_id)
    for names in (header.superseded_run_ids, header.retired_query_ids):
        writer.int32(len(names))
        for name in names:
            writer.string(name)
    return writer.int64(header.opened_time_ms).value


def _branch_value(branch: Branch) -> bytes:
    writer = _Writer(NEWEST_VERSION).int16(branch.producer_epoch).int32(branch.query_generation)
    writer.int64(branch.batch_id).int32(branch.task_partition).int64(branch.task_attempt_id)
    writer.int64(branch.joined_time_ms, branch.sealed_time_ms, branch.row_count)
    writer.uint32(branch.crc32c)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in branch.partitions:
        by_topic.setdefault(topic, []).append(partition)
    writer.int32(len(by_topic))
    for topic, partitions in by_topic.items():
        writer.string(topic).int32(len(partitions), *partitions)
    return writer.int64(branch.row_checksum).value


def _decide_value(decide: Decide) -> bytes:
    writer = _Writer(NEWEST_VERSION).int16(decide.outcome).string(decide.reason)
    writer.int64(decide.sink_epoch)
    writer.int32(decide.query_generation).int64(decide.batch_id, decide.row_count)
    writer.uint32(decide.crc32c).int64(decide.decided_time_ms)
    writer.int32(len(decide.winners)).int64(*decide.winners)
    return writer.int64(decide.row_checksum).value


def _complete_value(complete: Complete) -> bytes:
    writer = _Writer(NEWEST_VERSION).int32(complete.query_generation, len(complete.batches))
    for batch in complete.batches:
        writer.int64(batch.batch_id).raw(batch.nonce).int32(batch.branch_count)
        writer.int64(batch.row_count).uint32(batch.crc32c)
        writer.int64(batch.decided_time_ms, batch.row_checksum)
    return writer.value


def _read_header(reader: "_Reader", sink: str, _nonce: bytes, _pid: ProducerId) -> SinkHeader:
    return SinkHeader(
        sink=sink,
        sink_epoch=reader.int64(),
        query_generation=reader.int32(),
        query_id=reader.string(),
        run_id=reader.string(),
        superseded_run_ids=tuple(reader.string() for _ in range(reader.count())),
        retired_query_ids=tuple(reader.string() for _ in range(reader.count())),
        opened_time_ms=Millis(reader.int64_of_version_1()),
    )


def _read_attempt(reader: "_Reader", sink: str, nonce: bytes, _pid: ProducerId) -> AttemptOpen:
    return AttemptOpen(
        sink=sink,
        nonce=nonce,
        sink_epoch=reader.int64(),
        opened_time_ms=Millis(reader.int64()),
        timeout_ms=Millis(reader.int64()),
    )


def _read_branch(reader: "_Reader", sink: str, nonce: bytes, producer_id: ProducerId) -> Branch:
    return Branch(
        sink=sink,
        nonce=nonce,
        producer_id=producer_id,
        producer_epoch=ProducerEpoch(reader.int16()),
        query_generation=reader.int32(),
        batch_id=reader.int64(),
        task_partition=reader.int32(),
        task_attempt_id=reader.int64(),
        joined_time_ms=Millis(reader.int64()),
        sealed_time_ms=Millis(reader.int64()),
        row_count=reader.int64(),
        crc32c=reader.uint32(),
        partitions=_read_partitions(reader),
        row_checksum=reader.int64_of_version_1(),
    )


def _read_partitions(reader: "_Reader") -> tuple[Partition, ...]:
    partitions: list[Partition] = []
    for _ in range(reader.count()):
        topic = reader.string()
        partitions.extend(Partition(topic, reader.int32()) for _ in range(reader.count()))
    return tuple(partitions)


def _read_decide(reader: "_Reader", sink: str, nonce: bytes, _pid: ProducerId) -> Decide:
    return Decide(
        sink=sink,
        nonce=nonce,
        outcome=Outcome(reader.int16()),
        reason=reader.string(),
        sink_epoch=reader.int64(),
        query_generation=reader.int32(),
        batch_id=reader.int64(),
        row_count=reader.int64(),
        crc32c=reader.uint32(),
        decided_time_ms=Millis(reader.int64()),
        winners=tuple(ProducerId(reader.int64()) for _ in range(reader.count())),
        row_checksum=reader.int64_of_version_1(),
    )


def _read_complete(reader: "_Reader", sink: str, _nonce: bytes, _pid: ProducerId) -> Complete:
    return Complete(
        sink=sink,
        query_generation=reader.int32(),
        batches=tuple(
            CommittedBatch(
                batch_id=reader.int64(),
                nonce=reader.raw(NONCE_BYTES),
                branch_count=reader.int32(),
                row_count=reader.int64(),
                crc32c=reader.uint32(),
                decided_time_ms=Millis(reader.int64()),
                row_checksum=reader.int64_of_version_1(),
            )
            for _ in range(reader.count())
        ),
    )


class _Writer:
    """Begins with an int16: a key's type or a value's version."""

    def __init__(self, first: int) -> None:
        self._bytes = bytearray(_INT16.pack(first))

    @property
    def value(self) -> bytes:
        return bytes(self._bytes)

    def raw(self, data: bytes) -> "_Writer":
        self._bytes += data
        return self

    def int16(self, number: int) -> "_Writer":
        return self.raw(_INT16.pack(number))

    def uint32(self, number: int) -> "_Writer":
        return self.raw(_UINT32.pack(number))

    def int32(self, *numbers: int) -> "_Writer":
        return self.raw(b"".join(_INT32.pack(number) for number in numbers))

    def int64(self, *numbers: int) -> "_Writer":
        return self.raw(b"".join(_INT64.pack(number) for number in numbers))

    def string(self, text: str) -> "_Writer":
        data = text.encode()
        return self.int16(len(data)).raw(data)


class _Reader:
    """Reads what `_Writer` wrote; raises struct.error or ValueError where the bytes end early or make no sense."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self._position = position
        self.version = 0

    def raw(self, length: int) -> bytes:
        data = self._data[self._position : self._position + length]
        if length < 0 or len(data) < length:
            raise ValueError(f"{length} bytes expected at {self._position}, {len(data)} left")
        self._position += length
        return data

    def int16(self) -> int:
        return int(_INT16.unpack(self.raw(_INT16.size))[0])

    def int32(self) -> int:
        return int(_INT32.unpack(self.raw(_INT32.size))[0])

    def uint32(self) -> int:
        return int(_UINT32.unpack(self.raw(_UINT32.size))[0])

    def int64(self) -> int:
        return int(_INT64.unpack(self.raw(_INT64.size))[0])

    def int64_of_version_1(self) -> int:
        return self.int64() if self.version >= 1 else UNKNOWN

    def string(self) -> str:
        return self.raw(self.int16()).decode()

    def count(self) -> int:
        count = self.int32()
        if not 0 <= count <= len(self._data):
            raise ValueError(f"array of {count} elements in {len(self._data)} bytes")
        return count

    def end(self) -> None:
        if self._position != len(self._data):
            raise ValueError(f"{len(self._data) - self._position} bytes too many")


_UNCHANGED: Final = SinkRecordType.ATTEMPT_OPEN
"""Has version 0 only."""

_KEYED_BY_SINK: Final = (SinkRecordType.SINK, SinkRecordType.COMPLETE)

_DECODERS: Final[
    dict[SinkRecordType, Callable[["_Reader", str, bytes, ProducerId], SinkRecord]]
] = {
    SinkRecordType.SINK: _read_header,
    SinkRecordType.ATTEMPT_OPEN: _read_attempt,
    SinkRecordType.BRANCH: _read_branch,
    SinkRecordType.DECIDE: _read_decide,
    SinkRecordType.COMPLETE: _read_complete,
}
