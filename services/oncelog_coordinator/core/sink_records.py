"""The records that a Spark sink writes to its shard of `__transaction_state`: five kinds, and their bytes.

```
type  name          key after the type          superseded by                  removed when
 100  SINK          sink                        the next SINK of the sink      never
 101  ATTEMPT_OPEN  sink, nonce                 -                              the attempt's markers are delivered
 102  BRANCH        sink, nonce, producer id    joined, added to, sealed       the attempt's markers are delivered
 103  DECIDE        sink, nonce                 - (there is only one)          last of the attempt's records
 104  COMPLETE      sink                        the next COMPLETE of the sink  never
```

An attempt is one try to write a micro-batch, named by its nonce; a branch is the producer id of one of its tasks.

Each record is the whole state of what its key names. So a log that keeps only the newest record of each key replays to
the same state: the state *is* the map from key to newest value. A finished attempt leaves no record, and a sink two. So
a load takes as long as there are sinks and open attempts, not as long as they have a past.

DECIDE is the only record that ends an attempt, and the only one a commit appends: that single record is the decision.
It is removed last, because a branch without its DECIDE would look open again. A committed decision moves into COMPLETE
(before its DECIDE is removed); an aborted one leaves nothing.

Key: int16 type, then the sink as int16 length + UTF-8, then the nonce (16 bytes) and the producer id (int64) where the
table has them. Kafka's own loader reads the first int16 of a key as its type and skips a type it does not know (facts
5.1). Value: int16 version (0), then the fields in the order of the class; strings as int16 length + UTF-8, arrays as
int32 count, partitions by topic, the outcome as int16, a CRC as uint32.

A null value removes the key. Types and versions that are not known are skipped.

Version 1 of BRANCH, DECIDE and COMPLETE adds the checksum of the rows as their last field. Version 1 of SINK adds the
time of the last attempt. Version 0 is read: what it does not have is -1, unknown.
"""

from dataclasses import MISSING, dataclass, fields
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, get_type_hints

from oncelog.errors import OncelogError
from oncelog.ids import Millis, Partition, ProducerEpoch, ProducerId
from oncelog.record.schema import (
    DAMAGE,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT32,
    UUID,
    Codec,
    RecordType,
    absent,
    array,
    grouped,
    number,
    structure,
)

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

NONCE_BYTES: Final = 16
UNKNOWN: Final = -1
"""The value of a checksum or a time that was never recorded."""

Int32: TypeAlias = Annotated[int, INT32]
Int64: TypeAlias = Annotated[int, INT64]
Uint32: TypeAlias = Annotated[int, UINT32]
Nonce: TypeAlias = Annotated[bytes, UUID]
Names: TypeAlias = Annotated[tuple[str, ...], array(INT32, STRING)]
_OF_TYPE: Final[dict[object, Codec]] = {
    str: STRING,
    Millis: INT64,
    ProducerId: INT64,
    ProducerEpoch: INT16,
}
"""The codecs of types that do not state their own in an annotation."""


class SinkRecordType(IntEnum):
    SINK = 100
    ATTEMPT_OPEN = 101
    BRANCH = 102
    DECIDE = 103
    COMPLETE = 104


@dataclass(frozen=True, slots=True)
class SinkHeader:
    """A record of type SINK: which streaming query, and which run of it, may write to the Spark sink."""

    sink: str
    sink_epoch: Int64
    """The number of attempts that were opened, which is the newest attempt's sink epoch."""
    query_generation: Int32
    """The number of queries that owned the sink before this one; decisions of other generations no longer count."""
    query_id: str
    """The query that owns the sink; empty before the first join."""
    run_id: str
    """The driver run that joined last."""
    superseded_run_ids: Names
    retired_query_ids: Names
    """The queries that another one adopted the sink from. They are refused for ever."""
    opened_time_ms: Millis = Millis(UNKNOWN)
    """The time at which the newest attempt was opened, in milliseconds: a job's sink that nobody opens any more
    expires."""


@dataclass(frozen=True, slots=True)
class AttemptOpen:
    """A record of type ATTEMPT_OPEN: Spark's driver has opened an attempt, one try to write a micro-batch."""

    sink: str
    nonce: Nonce
    sink_epoch: Int64
    opened_time_ms: Millis
    timeout_ms: Millis


@dataclass(frozen=True, slots=True)
class Branch:
    """A record of type BRANCH: one task's share of an attempt (a try to write a Spark micro-batch).

    It has a producer id that is never used again.
    """

    sink: str
    nonce: Nonce
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    query_generation: Int32
    batch_id: Int64
    task_partition: Int32
    task_attempt_id: Int64
    joined_time_ms: Millis
    sealed_time_ms: Millis
    """The time at which the branch was sealed, in milliseconds; -1: not sealed."""
    row_count: Int64
    crc32c: Uint32
    partitions: Annotated[tuple[Partition, ...], grouped(STRING, INT32, Partition)]
    """The partitions that the branch writes to, sorted."""
    row_checksum: Int64 = UNKNOWN
    """The checksum of the rows, independent of their order and partitions (`oncelog.spark.row_checksum`)."""

    @property
    def is_sealed(self) -> bool:
        return self.sealed_time_ms >= 0


class Outcome(IntEnum):
    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class Decide:
    """A record of type DECIDE: the end of an attempt, one try to write a Spark micro-batch.

    Branches (the tasks' producer ids) that are not winners abort, even if the outcome is COMMIT.
    """

    sink: str
    nonce: Nonce
    outcome: Annotated[Outcome, number("h", Outcome)]
    reason: str
    """The label of the step that decided: `committed`, `superseded`, `timed_out` …"""
    sink_epoch: Int64
    """The sink epoch of the attempt: which attempt of the sink it is, counted from 1."""
    query_generation: Int32
    batch_id: Int64
    """The id of the attempt's batch; -1: it was aborted before the first join."""
    row_count: Int64
    crc32c: Uint32
    decided_time_ms: Millis
    winners: Annotated[tuple[ProducerId, ...], array(INT32, INT64)]
    """The producer ids of the branches that commit, sorted."""
    row_checksum: Int64 = UNKNOWN


@dataclass(frozen=True, slots=True)
class CommittedBatch:
    """A committed micro-batch, as a sink remembers its newest ones to recognise a batch that Spark runs again."""

    batch_id: Int64
    nonce: Nonce
    branch_count: Int32
    row_count: Int64
    crc32c: Uint32
    decided_time_ms: Millis
    row_checksum: Int64 = UNKNOWN


@dataclass(frozen=True, slots=True)
class Complete:
    """A record of type COMPLETE: a sink's newest committed batches whose markers are all delivered, in the order of
    their ids.
    """

    sink: str
    query_generation: Int32
    batches: Annotated[tuple[CommittedBatch, ...], CommittedBatch]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A sink record with a null value, which removes its key from the log.

    `nonce` is empty and `producer_id` -1 for types whose key has none.
    """

    record_type: SinkRecordType
    sink: str
    nonce: bytes = b""
    producer_id: ProducerId = ProducerId(-1)


SinkRecord = SinkHeader | AttemptOpen | Branch | Decide | Complete | Tombstone


def _fields(kind: "type[DataclassInstance]", version: int) -> dict[str, Codec]:
    """Return the codec of each field of a record class, in the order of the class.

    Fields with a default came with version 1. Before a field of version 2 comes, each must state its version.
    """
    hints = get_type_hints(kind, include_extras=True)
    found: dict[str, Codec] = {}
    for one in fields(kind):
        codec = _OF_TYPE.get(hints[one.name]) or hints[one.name].__metadata__[0]
        if codec is CommittedBatch:
            codec = array(INT32, structure(CommittedBatch, **_fields(CommittedBatch, version)))
        is_newer = version == 0 and one.default is not MISSING
        found[one.name] = absent(one.default) if is_newer else codec
    return found


def _type(
    record_type: SinkRecordType, kind: type[SinkRecord], *key: str, versions: int = 2
) -> RecordType:
    """Return the codec of one type of sink record.

    `key` names the fields that are in the key; `versions` is the number of versions from 0 on.
    """

    def value(version: int) -> Codec:
        found = _fields(kind, version).items()
        return structure(kind, **{name: codec for name, codec in found if name not in key})

    return RecordType(
        record_type,
        {name: _fields(kind, 0)[name] for name in key},
        {version: value(version) for version in range(versions)},
        partial(Tombstone, record_type),
    )


_TYPES: Final = {
    SinkHeader: _type(SinkRecordType.SINK, SinkHeader, "sink"),
    AttemptOpen: _type(SinkRecordType.ATTEMPT_OPEN, AttemptOpen, "sink", "nonce", versions=1),
    Branch: _type(SinkRecordType.BRANCH, Branch, "sink", "nonce", "producer_id"),
    Decide: _type(SinkRecordType.DECIDE, Decide, "sink", "nonce"),
    Complete: _type(SinkRecordType.COMPLETE, Complete, "sink"),
}
_BY_NUMBER: Final = {one.number: one for one in _TYPES.values()}


def encode_sink_record(record: SinkRecord) -> tuple[bytes, bytes | None]:
    """Return the key and value of a Spark sink's record in `__transaction_state`; the value of a tombstone is None."""
    if isinstance(record, Tombstone):
        return _BY_NUMBER[record.record_type].encode_key(record), None
    found = _TYPES[type(record)]
    return found.encode_key(record), found.encode_value(record, found.newest_version)


def decode_sink_record(key: bytes, value: bytes | None) -> SinkRecord | None:
    """Return the sink record of these bytes; None for a type or a value version that this build does not know.

    Raises OncelogError for bytes that a known type and version cannot have.
    """
    found = _BY_NUMBER.get(int.from_bytes(key[:2], "big")) if len(key) > 1 else None
    if found is None:
        return None
    try:
        record: SinkRecord | None = found.decode(key, value)
        return record
    except DAMAGE as error:
        raise OncelogError(
            f"a {SinkRecordType(found.number).name} record of __transaction_state is damaged ({error}):"
            f" key {key.hex()}; restore the partition from another replica"
        ) from error
