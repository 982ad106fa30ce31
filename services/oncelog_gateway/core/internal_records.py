"""Decodes the records of `__consumer_offsets` and `__transaction_state`, with names for their fields
(docs/kafka-facts.md, 5), for pages that show records.

The records have Kafka's stored formats, and are read here as any reader of the topic would. The coordinator has its own
decoder for what it needs. Bytes of members and unknown fields are left as they are.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from oncelog.ids import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.record.records import Record
from oncelog.record.schema import (
    COMPACT,
    COMPACT_STRING,
    DAMAGE,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UUID,
    Codec,
    Tag,
    array,
    converted,
    keyed_numbers,
    read_whole,
    sized,
    structure,
)

Decoded = Mapping[str, object]
_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def decoded(topic: str, record: Record) -> Decoded | None:
    """Return the record's type and the fields of its key and value, by name. For a null value the field `removed` is
    True. None: the topic is not an internal one, or the record cannot be decoded.
    """
    kinds = _OF_TOPIC.get(topic)
    if kinds is None or record.key is None:
        return None
    try:
        number, at = INT16.read(record.key, 0)
        kind = kinds.get(number)
        if kind is None:
            return {"type": f"type {number}"}
        name, key, values = kind
        found = {"type": name, **read_whole(key, record.key, at)}
        if record.value is None:
            return {**found, "removed": True}
        version, at = INT16.read(record.value, 0)
        value = values.get(version)
        if value is None:
            return found
        return {**found, "version": version, **read_whole(value, record.value, at)}
    except DAMAGE:
        return None


def _dict(tagged: Mapping[str, Tag] | None = None, /, **fields: Codec) -> Codec:
    return structure(dict, tagged, None, **fields)


def _or_none(length: Codec, codec: Codec) -> Codec:
    """Return a codec for an array that may be null, which is then read as an empty one. `length` reads the count,
    `codec` the array.
    """

    def read(data: bytes, at: int) -> tuple[object, int]:
        count, behind = length.read(data, at)
        return ([], behind) if count < 0 else codec.read(data, at)

    return Codec(codec.encode, read)


def _size(name_of: Codec) -> Codec:
    """Return a codec that reads bytes and returns only how many there were. `name_of` is the codec of the bytes
    themselves.
    """
    return converted(name_of, len, bytes)


def _named_state(number: int) -> str:
    return _STATES[number] if 0 <= number < len(_STATES) else f"state {number}"


def _by_topic(found: Iterable[tuple[str, Sequence[int]]]) -> list[str]:
    return [f"{topic}-{number}" for topic, numbers in found for number in numbers]


def _transaction(version: int) -> Codec:
    topics = (
        _or_none(INT32, keyed_numbers(STRING, INT32))
        if version == 0
        else _or_none(COMPACT, keyed_numbers(COMPACT_STRING, COMPACT, flexible=True))
    )
    tagged = {
        "previous_producer_id": Tag(0, INT64, None),
        "next_producer_id": Tag(1, INT64, None),
        "client_transaction_version": Tag(2, INT16, 0),
        "next_producer_epoch": Tag(3, INT16, None),
        "last_producer_epoch": Tag(4, INT16, None),
    }
    return _dict(
        None if version == 0 else tagged,
        producer_id=INT64,
        producer_epoch=INT16,
        timeout_ms=INT32,
        state=converted(INT8, _named_state, _STATES.index),
        partitions=converted(topics, _by_topic, list),
        last_update_ms=INT64,
        start_ms=INT64,
    )


def _offset(version: int) -> Codec:
    fields: dict[str, Codec] = {"offset": INT64}
    if version >= 3:
        fields["leader_epoch"] = INT32
    fields["metadata"] = COMPACT_STRING if version == 4 else STRING
    fields["commit_ms"] = INT64
    if version == 1:
        fields["expire_ms"] = INT64
    topic_id = Tag(0, converted(UUID, bytes.hex, bytes.fromhex), None)
    return _dict({"topic_id": topic_id} if version == 4 else None, **fields)


def _group(version: int) -> Codec:
    member: dict[str, Codec] = {"member_id": STRING}
    if version >= 3:
        member["instance_id"] = NULLABLE_STRING
    member |= {"client_id": STRING, "client_host": STRING}
    if version >= 1:
        member["rebalance_timeout_ms"] = INT32
    member |= {
        "session_timeout_ms": INT32,
        "subscription_bytes": _size(sized(INT32)),
        "assignment_bytes": _size(sized(INT32)),
    }
    fields: dict[str, Codec] = {
        "protocol_type": STRING,
        "generation": INT32,
        "protocol": NULLABLE_STRING,
        "leader": NULLABLE_STRING,
    }
    if version >= 2:
        fields["state_ms"] = INT64
    members = converted(array(INT32, _dict(None, **member)), list, tuple)
    return _dict(None, **fields, members=members)


def _versions(newest: int, value: Callable[[int], Codec]) -> Mapping[int, Codec]:
    return {version: value(version) for version in range(newest + 1)}


_Kind = tuple[str, Codec, Mapping[int, Codec]]
_OF_GROUP: Final = _dict(None, group=STRING)
_OF_OFFSET: Final = _dict(None, group=STRING, topic=STRING, partition=INT32)
_OF_MEMBER: Final = _dict(None, group=STRING, member_id=STRING)
_EPOCH: Final = _dict({}, epoch=INT32)
_ASSIGNED: Final = converted(
    keyed_numbers(converted(UUID, bytes.hex, bytes.fromhex), COMPACT, flexible=True),
    _by_topic,
    list,
)
_CURRENT: Final = _dict(
    {}, epoch=INT32, previous_epoch=INT32, state=INT8, assigned=_ASSIGNED, revoking=_ASSIGNED
)
_OF_TOPIC: Final[Mapping[str, Mapping[int, _Kind]]] = {
    TRANSACTION_STATE_TOPIC: {
        0: ("transaction", _dict(None, transactional_id=STRING), _versions(1, _transaction)),
    },
    CONSUMER_OFFSETS_TOPIC: {
        0: ("offset", _OF_OFFSET, _versions(4, _offset)),
        1: ("offset", _OF_OFFSET, _versions(4, _offset)),
        2: ("group", _OF_GROUP, _versions(3, _group)),
        3: ("consumer group epoch", _OF_GROUP, {0: _EPOCH}),
        5: ("consumer group member", _OF_MEMBER, {}),
        6: ("consumer group target epoch", _OF_GROUP, {0: _EPOCH}),
        7: ("consumer group target", _OF_MEMBER, {0: _dict({}, assigned=_ASSIGNED)}),
        8: ("consumer group assignment", _OF_MEMBER, {0: _CURRENT}),
        16: ("consumer group pattern", _dict(None, group=STRING, pattern=STRING), {}),
    },
}
