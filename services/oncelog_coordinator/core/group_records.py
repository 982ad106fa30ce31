"""The records of a group shard, byte for byte as Kafka writes `__consumer_offsets` (docs/kafka-facts.md, 5.2).

```
key    0, 1  group string · topic string · partition i32     an offset
       2     group string                                    a group's members and their assignment
value  of an offset, version 4   offset i64 · leaderEpoch i32 · metadata compact string · commitTimestamp i64
                                 · tag 0: topicId uuid; version 3 where the id is not known
       of a group, version 3     protocolType · generation i32 · protocol? · leader? · currentStateTimestamp i64
                                 · members: id · instanceId? · clientId · clientHost · rebalanceTimeout i32
                                   · sessionTimeout i32 · subscription bytes · assignment bytes
```

Strings have an i16 length (-1: null), bytes and arrays an i32 one. Of an offset we write version 4, as Kafka 4.4 does,
and of a group version 3, which every Kafka since 2.3 reads; of older versions missing fields are their defaults. The
records of the consumer protocol are in `consumer_records`. Keys of another type belong to protocols we do not speak and
are skipped, and so are values of a later version. An offset in a transactional batch counts when its transaction's
marker says so; the marker is a record here too.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypedDict, Unpack

from oncelog.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    CoordinatorEpoch,
    Millis,
    Partition,
    ProducerEpoch,
    ProducerId,
)
from oncelog.record.schema import (
    COMPACT_STRING,
    DAMAGE,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID,
    Codec,
    RecordType,
    Tag,
    absent,
    array,
    converted,
    sized,
    structure,
)
from oncelog_coordinator.core.consumer_group import ConsumerRecord
from oncelog_coordinator.core.consumer_records import CONSUMER_RECORD_TYPES, encode_consumer_record
from oncelog_coordinator.core.group_state import Group, GroupState, Member

OFFSET_KEY_TYPES: Final = (0, 1)
OFFSET_KEY_TYPE: Final = 1
GROUP_KEY_TYPE: Final = 2
WRITTEN_VERSION: Final = 3
FLEXIBLE_OFFSET_VERSION: Final = 4
"""The newest version of an offset's value that is known here. It alone is flexible, and has the topic's id."""
_TOPIC_ID_TAG: Final = bytes((1, 0, 16))
"""The bytes before a topic id: the number of tagged fields, the field's number, its length."""


class MalformedGroupRecord(ValueError):
    """A key or value that no writer of a known version can have written: the log is damaged."""


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    """A log record of one committed offset. With a producer id the offset is pending until that producer's marker."""

    group_id: str
    partition: Partition
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis = NO_TIMESTAMP
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH
    topic_id: bytes = b""
    """The id of the topic that was read; empty if the client did not know it."""


@dataclass(frozen=True, slots=True)
class OffsetTombstone:
    group_id: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """A record of a classic group's whole new state.

    Some changes are never written to the log, and of a written one a restart keeps only what `encode_group` writes.
    """

    group: Group


@dataclass(frozen=True, slots=True)
class GroupTombstone:
    group_id: str


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A transaction marker in the shard's log: the producer's pending offsets are committed, or dropped."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: CoordinatorEpoch
    timestamp: Millis


@dataclass(frozen=True, slots=True)
class SessionExtended:
    """A change that is applied but never journaled: the member's session lasts until `deadline`, even if it sends
    nothing.
    """

    group_id: str
    member_id: str
    deadline: Millis


@dataclass(frozen=True, slots=True)
class RejoinAwaited:
    """A change that is applied but never journaled: a classic member of a consumer group must send its next JoinGroup
    or SyncGroup by `deadline`.

    None: none is awaited.
    """

    group_id: str
    member_id: str
    deadline: Millis | None


@dataclass(frozen=True, slots=True)
class TopicsLookedThrough:
    """A change that is applied but never journaled: when a regular expression was last compared with all topics.

    `topics_version` is the version of those topics.
    """

    group_id: str
    pattern: str
    topics_version: int
    at: Millis


@dataclass(frozen=True, slots=True)
class ProducersForgotten:
    """A change that is applied but never journaled: these producers are dropped from the shard's state.

    None of them has an open transaction, and none has written anything for long.
    """

    producer_ids: tuple[ProducerId, ...]


@dataclass(frozen=True, slots=True)
class TransactionStarted:
    """A change that is applied but never journaled: the shard accepted offsets of a transaction.

    `start_ms` is when the transaction began, as its coordinator said; 0: unknown.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    start_ms: int


GroupRecord = (
    OffsetCommitted
    | OffsetTombstone
    | GroupChanged
    | GroupTombstone
    | TransactionEnded
    | SessionExtended
    | ProducersForgotten
    | TransactionStarted
    | TopicsLookedThrough
    | RejoinAwaited
    | ConsumerRecord
)


def encode_group_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return key and value of a record; the value None is a tombstone.

    Transaction markers are not passed here: the shard's log writes a control batch for them.
    """
    match record:
        case OffsetCommitted():
            return _offset_key(record.group_id, record.partition), _offset_value(record)
        case OffsetTombstone():
            return _offset_key(record.group_id, record.partition), None
        case GroupChanged():
            return _GROUP.encode_key(record.group), encode_group(record.group)
        case GroupTombstone():
            return _GROUP.encode_key(record), None
        case (
            TransactionEnded()
            | SessionExtended()
            | ProducersForgotten()
            | TransactionStarted()
            | TopicsLookedThrough()
            | RejoinAwaited()
        ):
            raise AssertionError(record)
        case _:
            return encode_consumer_record(record)


def _offset_key(group_id: str, partition: Partition) -> bytes:
    """Return the key that `_OFFSET` reads. It is packed by hand, as in `_offset_value`, because each commit needs
    one.
    """
    head = struct.pack(">h", OFFSET_KEY_TYPE) + STRING.encode(group_id)
    return head + STRING.encode(partition.topic) + struct.pack(">i", partition.partition)


def _offset_value(record: OffsetCommitted) -> bytes:
    if record.topic_id:
        head = struct.pack(">hqi", FLEXIBLE_OFFSET_VERSION, record.offset, record.leader_epoch)
        tail = struct.pack(">q", record.commit_timestamp) + _TOPIC_ID_TAG + record.topic_id
        return head + COMPACT_STRING.encode(record.metadata) + tail
    head = struct.pack(">hqi", WRITTEN_VERSION, record.offset, record.leader_epoch)
    return head + STRING.encode(record.metadata) + struct.pack(">q", record.commit_timestamp)


def encode_group(group: Group) -> bytes:
    """Return the bytes of a classic group's record, which is what survives a restart.

    Three kinds of groups are written: one that is Stable with its members, an Empty one, and one that was a consumer
    group. The last must rebalance and has no leader.
    """
    members = {
        member_id: replace(member, protocols=(("", member.metadata(group.protocol)),))
        for member_id, member in group.members.items()
    }
    return _GROUP.encode_value(replace(group, members=members), WRITTEN_VERSION)


def group_bytes_estimate(group: Group) -> int:
    """Return an upper bound of the bytes that `encode_group` writes."""
    return 128 + sum(
        128
        + 4 * (len(m.member_id) + len(m.instance_id or "") + len(m.client_id) + len(m.client_host))
        + max(len(data) for _, data in m.protocols)
        + len(m.assignment)
        for m in group.members.values()
    )


def decode_group_record(
    key: bytes,
    value: bytes | None,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
) -> GroupRecord | None:
    """Return the record of this key and value; None for an unknown type or a later version.

    `producer_id` and `producer_epoch` are those of the transactional batch that the record is in. Raises
    MalformedGroupRecord for damage.
    """
    try:
        found = _TYPES.get(INT16.read(key, 0)[0])
        if found is None:
            return None
        producer = {"producer_id": producer_id, "producer_epoch": producer_epoch}
        record: GroupRecord | None = found.decode(
            key, value, **producer if found is _OFFSET else {}
        )
        return record
    except DAMAGE as error:
        raise MalformedGroupRecord(f"group record is damaged: {error}") from error


# ------------------------------------------------------------------------------------------------ bytes


def _offset_schema(version: int) -> Codec:
    return structure(
        OffsetCommitted,
        {"topic_id": Tag(0, UUID, b"")} if version == FLEXIBLE_OFFSET_VERSION else None,
        offset=INT64,
        leader_epoch=INT32 if version >= 3 else absent(-1),
        metadata=COMPACT_STRING if version == FLEXIBLE_OFFSET_VERSION else STRING,
        commit_timestamp=INT64,
        expire_timestamp=INT64 if version == 1 else absent(NO_TIMESTAMP),
    )


def _group_schema(version: int) -> Codec:
    member = structure(
        Member,
        member_id=STRING,
        instance_id=NULLABLE_STRING if version >= 3 else absent(None),
        client_id=STRING,
        client_host=STRING,
        rebalance_timeout_ms=INT32 if version >= 1 else absent(-1),
        session_timeout_ms=INT32,
        protocols=converted(sized(INT32), lambda data: (("", data),), lambda found: found[0][1]),
        assignment=sized(INT32),
    )
    return structure(
        _group_changed,
        protocol_type=converted(STRING, lambda text: text or None, lambda text: text or ""),
        generation=INT32,
        protocol=NULLABLE_STRING,
        leader=NULLABLE_STRING,
        state_timestamp=INT64 if version >= 2 else absent(NO_TIMESTAMP),
        members=converted(array(INT32, member), lambda found: found, lambda by_id: by_id.values()),
    )


class _OtherFields(TypedDict):
    group_id: str
    protocol_type: str | None
    generation: int
    state_timestamp: Millis


def _group_changed(
    protocol: str | None,
    leader: str | None,
    members: Sequence[Member],
    **others: Unpack[_OtherFields],
) -> GroupChanged:
    state = GroupState.STABLE if members else GroupState.EMPTY
    if members and leader is None:
        # It was a consumer group until then, and nobody has assigned anything since.
        state = GroupState.PREPARING_REBALANCE
    found: dict[str, Member] = {}
    for member in members:
        timeout_ms = member.rebalance_timeout_ms
        found[member.member_id] = replace(
            member,
            protocols=((protocol or "", member.protocols[0][1]),),
            rebalance_timeout_ms=timeout_ms if timeout_ms >= 0 else member.session_timeout_ms,
        )
    return GroupChanged(
        Group(state=state, protocol=protocol, leader=leader, members=found, **others)
    )


_OFFSET: Final = RecordType(
    OFFSET_KEY_TYPE,
    {"group_id": STRING, "partition": structure(Partition, topic=STRING, partition=INT32)},
    {version: _offset_schema(version) for version in range(FLEXIBLE_OFFSET_VERSION + 1)},
    OffsetTombstone,
)
_GROUP: Final = RecordType(
    GROUP_KEY_TYPE,
    {"group_id": STRING},
    {version: _group_schema(version) for version in range(WRITTEN_VERSION + 1)},
    GroupTombstone,
)
_TYPES: Final = {
    **dict.fromkeys(OFFSET_KEY_TYPES, _OFFSET),
    GROUP_KEY_TYPE: _GROUP,
    **CONSUMER_RECORD_TYPES,
}
