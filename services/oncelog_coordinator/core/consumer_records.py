"""The records of the consumer protocol in `__consumer_offsets`, byte for byte as Kafka writes them (KIP-848).

```
key    i16 type · group string · for 5, 7 and 8 member string, for 16 regular expression string
value  i16 version 0, then flexible: compact strings and arrays, tagged fields behind each structure
  3    epoch i32 · tag 0: hash of the topics i64
  5    instance? · rack? · client id · client host · [topic] · regex? · rebalance timeout i32 · assignor?
       · tag 0, of a member of the classic protocol: session timeout i32 · [name · subscription bytes]
  6    epoch that the targets are for i32
  7    [topic id · [partition i32]]
  8    epoch i32 · previous epoch i32 · state i8 · assigned · to revoke, both [topic id · [partition i32]]
 16    [topic] · version of the metadata i64 · when they were looked for i64; the key ends with the expression
```

Type 4 is what Kafka before 4.1 wrote instead of the hash; it is skipped.
The hash is ours: another coordinator finds that it differs and assigns once more.
"""

import struct
from collections.abc import Callable, Iterable
from functools import partial
from hashlib import blake2b
from typing import Final, NamedTuple

from oncelog.record.schema import (
    COMPACT,
    COMPACT_NULLABLE_STRING,
    COMPACT_STRING,
    INT32,
    INT64,
    STRING,
    UUID,
    Codec,
    RecordType,
    Tag,
    array,
    converted,
    grouped,
    nullable,
    number,
    sized,
    structure,
)
from oncelog_coordinator.core.consumer_group import (
    ClassicMember,
    ConsumerRecord,
    Current,
    GroupEpoch,
    MemberAssigned,
    MemberState,
    MemberSubscribed,
    PatternResolved,
    PatternTopics,
    Subscription,
    TargetAssigned,
    TargetEpoch,
    Topics,
)


def topics_hash(subscribed: Iterable[str], topics: Topics) -> int:
    """Return a hash that changes when a subscribed topic comes, goes or gets more partitions; never 0."""
    digest = blake2b(digest_size=8)
    for name in sorted(subscribed):
        shape = topics.get(name)
        if shape is not None:
            digest.update(shape.topic_id + struct.pack(">i", shape.partitions))
    return int.from_bytes(digest.digest(), signed=True) or 1


def _classic_member(
    session_timeout_ms: int, protocols: tuple[tuple[str, bytes], ...]
) -> ClassicMember:
    if not protocols:
        raise ValueError("a classic member without protocols")
    return ClassicMember(session_timeout_ms, protocols)


_NAMES: Final = array(COMPACT, COMPACT_STRING)
_SLOTS: Final = converted(
    grouped(UUID, COMPACT, lambda topic_id, number: (topic_id, number), flexible=True),
    frozenset,
    sorted,
)
_PROTOCOL: Final = structure(
    lambda name, metadata: (name, metadata),
    {},
    lambda protocol: protocol,
    name=COMPACT_STRING,
    metadata=sized(COMPACT),
)
_CLASSIC_MEMBER: Final = structure(
    _classic_member, {}, session_timeout_ms=INT32, protocols=array(COMPACT, _PROTOCOL)
)
_SUBSCRIPTION: Final = structure(
    Subscription,
    {"classic": Tag(0, nullable(_CLASSIC_MEMBER), None)},
    instance_id=COMPACT_NULLABLE_STRING,
    rack_id=COMPACT_NULLABLE_STRING,
    client_id=COMPACT_STRING,
    client_host=COMPACT_STRING,
    topics=_NAMES,
    pattern=converted(
        COMPACT_NULLABLE_STRING, lambda text: text or "", lambda pattern: pattern or None
    ),
    rebalance_timeout_ms=INT32,
    assignor=COMPACT_NULLABLE_STRING,
)
_CURRENT: Final = structure(
    Current,
    {},
    epoch=INT32,
    previous_epoch=INT32,
    state=number("b", MemberState),
    assigned=_SLOTS,
    revoking=_SLOTS,
)
_PATTERN: Final = structure(PatternTopics, {}, topics=_NAMES, version=INT64, timestamp=INT64)


class _Kind(NamedTuple):
    """The format in which records of one class are written to the log: the codec of key and value, and the attribute
    that holds the value.
    """

    record_type: RecordType
    held: str
    """The attribute that holds the record's value. If it is None, the record is a tombstone."""


def _kind(
    type_number: int, made: Callable[..., "ConsumerRecord"], value: Codec, held: str, *key: str
) -> _Kind:
    """Return how records of class `made` are written. `key` names the fields of the record's key beside the group
    id.
    """
    of_key = dict.fromkeys(("group_id", *key), STRING)
    return _Kind(RecordType(type_number, of_key, {0: value}, partial(made, **{held: None})), held)


_EPOCH: Final = structure(GroupEpoch, {"topics_hash": Tag(0, INT64, 0)}, epoch=INT32)
# What a member subscribed, what it has and what a pattern found are one structure each, which ends with its own tags.
_OF_MEMBER: Final = structure(MemberSubscribed, subscription=_SUBSCRIPTION)
_TARGET: Final = structure(TargetAssigned, {}, slots=_SLOTS)
_KINDS: Final = {
    GroupEpoch: _kind(3, GroupEpoch, _EPOCH, "epoch"),
    MemberSubscribed: _kind(5, MemberSubscribed, _OF_MEMBER, "subscription", "member_id"),
    TargetEpoch: _kind(6, TargetEpoch, structure(TargetEpoch, {}, epoch=INT32), "epoch"),
    TargetAssigned: _kind(7, TargetAssigned, _TARGET, "slots", "member_id"),
    MemberAssigned: _kind(
        8, MemberAssigned, structure(MemberAssigned, current=_CURRENT), "current", "member_id"
    ),
    PatternResolved: _kind(
        16, PatternResolved, structure(PatternResolved, resolved=_PATTERN), "resolved", "pattern"
    ),
}
CONSUMER_RECORD_TYPES: Final = {
    kind.record_type.number: kind.record_type for kind in _KINDS.values()
}


def encode_consumer_record(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    found, held = _KINDS[type(record)]
    is_gone = getattr(record, held) is None
    return found.encode_key(record), None if is_gone else found.encode_value(record, 0)
