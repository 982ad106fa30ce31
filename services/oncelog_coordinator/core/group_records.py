"""What a group shard keeps, byte for byte as Kafka writes `__consumer_offsets` (facts 5.2).

```
key    0, 1  group string · topic string · partition i32     an offset
       2     group string                                    a group's members and their assignment
value  of an offset, version 3   offset i64 · leaderEpoch i32 · metadata string · commitTimestamp i64
       of a group, version 3     protocolType · generation i32 · protocol? · leader? · currentStateTimestamp i64
                                 · members: id · instanceId? · clientId · clientHost · rebalanceTimeout i32
                                   · sessionTimeout i32 · subscription bytes · assignment bytes
```

Strings have an i16 length (-1: null), bytes and arrays an i32 one. We write version 3, which every Kafka since 2.3
reads; of older versions missing fields are their defaults. The records of the consumer protocol are in
`consumer_records`. Keys of another type belong to protocols we do not speak and are skipped, and so are values of a
later version. An offset in a transactional batch counts when its transaction's marker says so; the marker is a record
here too.
"""

import struct
from dataclasses import dataclass
from typing import Final

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
from oncelog_coordinator.core.consumer_group import ConsumerRecord
from oncelog_coordinator.core.consumer_records import (
    CONSUMER_KEY_TYPES,
    decode_consumer_record,
    encode_consumer_record,
)
from oncelog_coordinator.core.group_state import Group, GroupState, Member

OFFSET_KEY_TYPES: Final = (0, 1)
OFFSET_KEY_TYPE: Final = 1
GROUP_KEY_TYPE: Final = 2
WRITTEN_VERSION: Final = 3
FLEXIBLE_VERSION: Final = 4


class MalformedGroupRecord(ValueError):
    """A key or value that no writer of a known version can have written: the log is damaged."""


@dataclass(frozen=True, slots=True)
class OffsetCommitted:
    """With a producer id: pending until that producer's marker."""

    group_id: str
    partition: Partition
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp: Millis
    expire_timestamp: Millis = NO_TIMESTAMP
    producer_id: ProducerId = NO_PRODUCER_ID
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class OffsetTombstone:
    group_id: str
    partition: Partition


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """The group as it is from here on. Only what `encode_group` writes survives the machine."""

    group: Group


@dataclass(frozen=True, slots=True)
class GroupTombstone:
    group_id: str


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """A marker in the shard's log."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    is_commit: bool
    coordinator_epoch: CoordinatorEpoch
    timestamp: Millis


@dataclass(frozen=True, slots=True)
class SessionExtended:
    """Never journaled: until `deadline` this member needs to say nothing."""

    group_id: str
    member_id: str
    deadline: Millis


@dataclass(frozen=True, slots=True)
class RejoinAwaited:
    """Never journaled: a member of the classic protocol in a consumer group owes a JoinGroup or SyncGroup until
    `deadline`. None: it owes none."""

    group_id: str
    member_id: str
    deadline: Millis | None


@dataclass(frozen=True, slots=True)
class TopicsLookedThrough:
    """Never journaled: when this pattern was last looked for, and in which topics."""

    group_id: str
    pattern: str
    topics_version: int
    at: Millis


@dataclass(frozen=True, slots=True)
class ProducersForgotten:
    """Never journaled: nothing of theirs is open and they have long been silent."""

    producer_ids: tuple[ProducerId, ...]


@dataclass(frozen=True, slots=True)
class TransactionStarted:
    """Never journaled: when the transaction began whose offsets were let in, as its coordinator said."""

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


# ------------------------------------------------------------------------------------------------ writing


def encode_group_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value. A marker is no keyed record: the shard's log writes a control batch for it."""
    match record:
        case OffsetCommitted():
            return _offset_key(record.group_id, record.partition), _offset_value(record)
        case OffsetTombstone():
            return _offset_key(record.group_id, record.partition), None
        case GroupChanged():
            return _group_key(record.group.group_id), encode_group(record.group)
        case GroupTombstone():
            return _group_key(record.group_id), None
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
    number = struct.pack(">i", partition.partition)
    return (
        struct.pack(">h", OFFSET_KEY_TYPE) + _string(group_id) + _string(partition.topic) + number
    )


def _group_key(group_id: str) -> bytes:
    return struct.pack(">h", GROUP_KEY_TYPE) + _string(group_id)


def _offset_value(record: OffsetCommitted) -> bytes:
    head = struct.pack(">hqi", WRITTEN_VERSION, record.offset, record.leader_epoch)
    return head + _string(record.metadata) + struct.pack(">q", record.commit_timestamp)


def encode_group(group: Group) -> bytes:
    """What a restart keeps of a group. It is Stable, with its members, or Empty. Or it was a consumer group and needs a
    rebalance; then it has no leader."""
    out = bytearray(struct.pack(">h", WRITTEN_VERSION))
    out += _string(group.protocol_type or "")
    out += struct.pack(">i", group.generation)
    out += _string(group.protocol)
    out += _string(group.leader)
    out += struct.pack(">qi", group.state_timestamp, len(group.members))
    for member in group.members.values():
        out += _string(member.member_id)
        out += _string(member.instance_id)
        out += _string(member.client_id)
        out += _string(member.client_host)
        out += struct.pack(">ii", member.rebalance_timeout_ms, member.session_timeout_ms)
        for data in (member.metadata(group.protocol), member.assignment):
            out += struct.pack(">i", len(data)) + data
    return bytes(out)


def group_bytes_estimate(group: Group) -> int:
    """An upper bound of what `encode_group` writes."""
    return 128 + sum(
        128
        + 4 * (len(m.member_id) + len(m.instance_id or "") + len(m.client_id) + len(m.client_host))
        + max(len(data) for _, data in m.protocols)
        + len(m.assignment)
        for m in group.members.values()
    )


def _string(text: str | None) -> bytes:
    if text is None:
        return b"\xff\xff"
    data = text.encode()
    return struct.pack(">h", len(data)) + data


# ------------------------------------------------------------------------------------------------ reading


def decode_group_record(
    key: bytes,
    value: bytes | None,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
) -> GroupRecord | None:
    """The record; the producer is that of its batch if the batch is transactional. None for another type or a later
    version. Raises MalformedGroupRecord for damage."""
    try:
        read = _Reader(key)
        key_type = read.number(">h")
        if key_type in OFFSET_KEY_TYPES:
            group_id, topic = read.text(), read.text()
            partition = Partition(topic, read.number(">i"))
            if value is None:
                return OffsetTombstone(group_id, partition)
            return _read_offset(group_id, partition, value, producer_id, producer_epoch)
        if key_type == GROUP_KEY_TYPE:
            group_id = read.text()
            return GroupTombstone(group_id) if value is None else _read_group(group_id, value)
        if key_type in CONSUMER_KEY_TYPES:
            return decode_consumer_record(key, value)
    except (struct.error, IndexError, ValueError) as error:
        raise MalformedGroupRecord(f"group record is damaged: {error}") from error
    return None


def _read_offset(
    group_id: str,
    partition: Partition,
    value: bytes,
    producer_id: ProducerId,
    producer_epoch: ProducerEpoch,
) -> OffsetCommitted | None:
    read = _Reader(value)
    version = read.number(">h")
    if not 0 <= version <= FLEXIBLE_VERSION:
        return None
    offset = read.number(">q")
    leader_epoch = read.number(">i") if version >= 3 else -1
    metadata = read.compact_text() if version == FLEXIBLE_VERSION else read.text()
    commit_timestamp = Millis(read.number(">q"))
    expire_timestamp = Millis(read.number(">q")) if version == 1 else NO_TIMESTAMP
    return OffsetCommitted(
        group_id,
        partition,
        offset,
        leader_epoch,
        metadata,
        commit_timestamp,
        expire_timestamp,
        producer_id,
        producer_epoch,
    )


def _read_group(group_id: str, value: bytes) -> GroupChanged | None:
    read = _Reader(value)
    version = read.number(">h")
    if not 0 <= version <= WRITTEN_VERSION:
        return None
    protocol_type = read.text()
    generation = read.number(">i")
    protocol, leader = read.nullable_text(), read.nullable_text()
    timestamp = Millis(read.number(">q")) if version >= 2 else NO_TIMESTAMP
    members: dict[str, Member] = {}
    for _ in range(read.number(">i")):
        member_id = read.text()
        instance_id = read.nullable_text() if version >= 3 else None
        client_id, client_host = read.text(), read.text()
        rebalance_timeout = read.number(">i") if version >= 1 else -1
        session_timeout = read.number(">i")
        subscription, assignment = read.data(), read.data()
        members[member_id] = Member(
            member_id,
            instance_id,
            client_id,
            client_host,
            session_timeout,
            session_timeout if rebalance_timeout < 0 else rebalance_timeout,
            ((protocol or "", subscription),),
            assignment,
        )
    state = GroupState.STABLE if members else GroupState.EMPTY
    if members and leader is None:
        # It was a consumer group until then, and nobody has assigned anything since.
        state = GroupState.PREPARING_REBALANCE
    return GroupChanged(
        Group(
            group_id,
            state,
            generation,
            protocol_type or None,
            protocol,
            leader,
            timestamp,
            members,
        )
    )


class _Reader:
    """A cursor over one key or value; raises struct.error at its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        text = self.nullable_text()
        if text is None:
            raise ValueError("a name is null")
        return text

    def nullable_text(self) -> str | None:
        size = self.number(">h")
        return None if size < 0 else self._take(size).decode()

    def compact_text(self) -> str:
        size = shift = 0
        while True:
            byte = self.number(">B")
            size |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return self._take(size - 1).decode()
            shift += 7

    def data(self) -> bytes:
        return self._take(self.number(">i"))

    def _take(self, size: int) -> bytes:
        if size < 0:
            raise ValueError(f"a length of {size}")
        (data,) = struct.unpack_from(f">{size}s", self._data, self._at)
        self._at += size
        return bytes(data)
