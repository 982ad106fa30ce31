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
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, TypeVar

from oncelog.ids import Millis
from oncelog.protocol.writing import write_uvarint
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
    Slots,
    Subscription,
    TargetAssigned,
    TargetEpoch,
    Topics,
)

GROUP_EPOCH_KEY: Final = 3
SUBSCRIPTION_KEY: Final = 5
TARGET_EPOCH_KEY: Final = 6
TARGET_KEY: Final = 7
CURRENT_KEY: Final = 8
PATTERN_KEY: Final = 16
CONSUMER_KEY_TYPES: Final = frozenset(
    (GROUP_EPOCH_KEY, SUBSCRIPTION_KEY, TARGET_EPOCH_KEY, TARGET_KEY, CURRENT_KEY, PATTERN_KEY)
)
_KEYS_OF_TWO_NAMES: Final = frozenset((SUBSCRIPTION_KEY, TARGET_KEY, CURRENT_KEY, PATTERN_KEY))
_VERSION: Final = b"\0\0"
_NO_TAGS: Final = b"\0"
_ID_BYTES: Final = 16

T = TypeVar("T")


def topics_hash(subscribed: Iterable[str], topics: Topics) -> int:
    """Another one whenever a subscribed topic comes, goes or grows; never 0."""
    digest = blake2b(digest_size=8)
    for name in sorted(subscribed):
        shape = topics.get(name)
        if shape is not None:
            digest.update(shape.topic_id + struct.pack(">i", shape.partitions))
    return int.from_bytes(digest.digest(), signed=True) or 1


# ------------------------------------------------------------------------------------------------ writing


def encode_consumer_record(record: ConsumerRecord) -> tuple[bytes, bytes | None]:
    match record:
        case GroupEpoch():
            if record.epoch is None:
                return _key(GROUP_EPOCH_KEY, record.group_id), None
            tagged = b"\1\0\x08" + struct.pack(">q", record.topics_hash)
            tags = tagged if record.topics_hash else _NO_TAGS
            value = struct.pack(">i", record.epoch) + tags
            return _key(GROUP_EPOCH_KEY, record.group_id), _VERSION + value
        case TargetEpoch():
            if record.epoch is None:
                return _key(TARGET_EPOCH_KEY, record.group_id), None
            value = struct.pack(">i", record.epoch) + _NO_TAGS
            return _key(TARGET_EPOCH_KEY, record.group_id), _VERSION + value
        case TargetAssigned():
            key = _key(TARGET_KEY, record.group_id, record.member_id)
            if record.slots is None:
                return key, None
            return key, _VERSION + _slots(record.slots) + _NO_TAGS
        case MemberSubscribed():
            key = _key(SUBSCRIPTION_KEY, record.group_id, record.member_id)
            if record.subscription is None:
                return key, None
            return key, _VERSION + _subscription(record.subscription)
        case MemberAssigned():
            key = _key(CURRENT_KEY, record.group_id, record.member_id)
            return key, None if record.current is None else _VERSION + _current(record.current)
        case PatternResolved():
            key = _key(PATTERN_KEY, record.group_id, record.pattern)
            return key, None if record.resolved is None else _VERSION + _pattern(record.resolved)


def _key(key_type: int, *names: str) -> bytes:
    out = struct.pack(">h", key_type)
    for name in names:
        data = name.encode()
        out += struct.pack(">h", len(data)) + data
    return out


def _text(text: str | None) -> bytes:
    if text is None:
        return b"\0"
    data = text.encode()
    return write_uvarint(len(data) + 1) + data


def _slots(slots: Slots) -> bytes:
    by_topic: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(slots):
        by_topic.setdefault(topic_id, []).append(partition)
    out = bytearray(write_uvarint(len(by_topic) + 1))
    for topic_id, partitions in by_topic.items():
        out += topic_id + write_uvarint(len(partitions) + 1)
        out += struct.pack(f">{len(partitions)}i", *partitions) + _NO_TAGS
    return bytes(out)


def _subscription(said: Subscription) -> bytes:
    out = bytearray()
    for text in (said.instance_id, said.rack_id, said.client_id, said.client_host):
        out += _text(text)
    out += _texts(said.topics)
    out += _text(said.pattern or None) + struct.pack(">i", said.rebalance_timeout_ms)
    out += _text(said.assignor)
    if said.classic is None:
        return bytes(out + _NO_TAGS)
    classic = _classic(said.classic)
    return bytes(out + b"\1\0" + write_uvarint(len(classic)) + classic)


def _classic(member: ClassicMember) -> bytes:
    """A nullable structure begins with a number that says that it is there."""
    out = bytearray(b"\1" + struct.pack(">i", member.session_timeout_ms))
    out += write_uvarint(len(member.protocols) + 1)
    for name, metadata in member.protocols:
        out += _text(name) + write_uvarint(len(metadata) + 1) + metadata + _NO_TAGS
    return bytes(out + _NO_TAGS)


def _texts(texts: Sequence[str]) -> bytes:
    return write_uvarint(len(texts) + 1) + b"".join(map(_text, texts))


def _pattern(resolved: PatternTopics) -> bytes:
    numbers = struct.pack(">qq", resolved.version, resolved.timestamp)
    return _texts(resolved.topics) + numbers + _NO_TAGS


def _current(current: Current) -> bytes:
    head = struct.pack(">iib", current.epoch, current.previous_epoch, current.state.value)
    return head + _slots(current.assigned) + _slots(current.revoking) + _NO_TAGS


# ------------------------------------------------------------------------------------------------ reading


def decode_consumer_record(key: bytes, value: bytes | None) -> ConsumerRecord | None:
    """None: a version from the future. Raises struct.error, IndexError or ValueError for damage."""
    read = _Reader(key)
    key_type = read.number(">h")
    group_id = read.key_text()
    member_id = read.key_text() if key_type in _KEYS_OF_TWO_NAMES else ""
    body: _Reader | None = None
    if value is not None:
        body = _Reader(value)
        if body.number(">h") != 0:
            return None
    if key_type == GROUP_EPOCH_KEY:
        if body is None:
            return GroupEpoch(group_id, None)
        epoch = body.number(">i")
        tagged = body.tags().get(0)
        return GroupEpoch(group_id, epoch, _Reader(tagged).number(">q") if tagged else 0)
    if key_type == TARGET_EPOCH_KEY:
        return TargetEpoch(group_id, None if body is None else body.number(">i"))
    if key_type == TARGET_KEY:
        return TargetAssigned(group_id, member_id, None if body is None else body.slots())
    if key_type == SUBSCRIPTION_KEY:
        said = None if body is None else _read_subscription(body)
        return MemberSubscribed(group_id, member_id, said)
    if key_type == PATTERN_KEY:
        resolved = None if body is None else _read_pattern(body)
        return PatternResolved(group_id, member_id, resolved)
    assert key_type == CURRENT_KEY, key_type
    current = None if body is None else _read_current(body)
    return MemberAssigned(group_id, member_id, current)


def _read_subscription(body: "_Reader") -> Subscription:
    instance_id, rack_id = body.text(), body.text()
    client_id, client_host = body.text() or "", body.text() or ""
    topics = tuple(name or "" for name in body.array(body.text))
    pattern = body.text() or ""
    timeout_ms, assignor = body.number(">i"), body.text()
    own = (instance_id, rack_id, client_id, client_host)
    tagged = body.tags().get(0)
    classic = None if tagged is None else _read_classic(_Reader(tagged))
    return Subscription(*own, topics, timeout_ms, assignor, pattern, classic)


def _read_classic(body: "_Reader") -> ClassicMember | None:
    if body.number(">b") <= 0:
        return None
    timeout_ms = body.number(">i")

    def protocol() -> tuple[str, bytes]:
        found = (body.text() or "", body.data())
        body.tags()
        return found

    protocols = tuple(body.array(protocol))
    if not protocols:
        raise ValueError("a classic member without protocols")
    return ClassicMember(timeout_ms, protocols)


def _read_pattern(body: "_Reader") -> PatternTopics:
    topics = tuple(name or "" for name in body.array(body.text))
    return PatternTopics(topics, body.number(">q"), Millis(body.number(">q")))


def _read_current(body: "_Reader") -> Current:
    epoch, previous, state = body.number(">i"), body.number(">i"), body.number(">b")
    return Current(epoch, previous, MemberState(state), body.slots(), body.slots())


class _Reader:
    """A cursor over one key or value; raises struct.error, IndexError or ValueError at its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def key_text(self) -> str:
        return self._take(self.number(">h")).decode()

    def text(self) -> str | None:
        size = self._uvarint()
        return None if size == 0 else self._take(size - 1).decode()

    def data(self) -> bytes:
        size = self._uvarint()
        return b"" if size == 0 else self._take(size - 1)

    def array(self, element: Callable[[], T]) -> list[T]:
        count = max(self._uvarint() - 1, 0)
        if count > len(self._data) - self._at:
            raise ValueError(f"an array claims {count} elements")
        return [element() for _ in range(count)]

    def slots(self) -> Slots:
        found: list[tuple[bytes, int]] = []

        def topic() -> None:
            topic_id = self._take(_ID_BYTES)
            found.extend((topic_id, each) for each in self.array(lambda: self.number(">i")))
            self.tags()

        self.array(topic)
        return frozenset(found)

    def tags(self) -> dict[int, bytes]:
        return {self._uvarint(): self._take(self._uvarint()) for _ in range(self._uvarint())}

    def _uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                return value
            shift += 7

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise ValueError(f"a length of {size}")
        data = self._data[self._at : self._at + size]
        self._at += size
        return bytes(data)
