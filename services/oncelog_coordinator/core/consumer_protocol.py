"""What consumers of the classic protocol say in the bytes of JoinGroup and SyncGroup (Kafka's ConsumerProtocol).

```
subscription  i16 version · [topic string] · user data bytes?
              · 1: owned [topic string · [partition i32]] · 2: generation i32 · 3: rack string?
assignment    i16 version · [topic string · [partition i32]] · user data bytes?
```

The classic protocol leaves these bytes to the clients. The coordinator reads them only where a group has members of
both protocols (KIP-848), or is about to.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from oncelog_coordinator.core.consumer_group import Slots, Topics

PROTOCOL_TYPE: Final = "consumer"
_OWNED_VERSION: Final = 1
_GENERATION_VERSION: Final = 2
_RACK_VERSION: Final = 3

NamedPartitions = tuple[tuple[str, int], ...]


class Unreadable(ValueError):
    """These are not the bytes of a consumer."""


class EmbeddedSubscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    owned: NamedPartitions = ()
    rack_id: str | None = None


class EmbeddedAssignment(NamedTuple):
    partitions: NamedPartitions
    user_data: bytes


def read_subscription(data: bytes) -> EmbeddedSubscription:
    """Raises Unreadable. A version from the future is read as the newest that is known, as Kafka does."""
    try:
        read = _Reader(data)
        version = read.version()
        topics = tuple(read.text() for _ in range(read.count()))
        read.data()
        owned: NamedPartitions = ()
        rack_id = None
        if version >= _OWNED_VERSION:
            owned = tuple(read.partitions())
        if version >= _GENERATION_VERSION:
            read.number(">i")
        if version >= _RACK_VERSION:
            rack_id = read.optional_text()
    except (struct.error, UnicodeDecodeError) as error:
        raise Unreadable(f"a subscription of {len(data)} bytes: {error}") from error
    return EmbeddedSubscription(version, topics, owned, rack_id)


def read_assignment(data: bytes) -> EmbeddedAssignment:
    """Raises Unreadable. No bytes at all: nothing is assigned."""
    if not data:
        return EmbeddedAssignment((), b"")
    try:
        read = _Reader(data)
        read.version()
        return EmbeddedAssignment(tuple(read.partitions()), read.data())
    except (struct.error, UnicodeDecodeError) as error:
        raise Unreadable(f"an assignment of {len(data)} bytes: {error}") from error


def write_assignment(slots: Slots, topics: Topics, version: int) -> bytes:
    """A topic that is gone is left out. Every version has the same fields."""
    names = {shape.topic_id: name for name, shape in topics.items()}
    found: dict[str, list[int]] = {}
    for topic_id, partition in sorted(slots):
        if topic_id in names:
            found.setdefault(names[topic_id], []).append(partition)
    out = bytearray(struct.pack(">hi", version, len(found)))
    for name, partitions in found.items():
        text = name.encode()
        out += struct.pack(">h", len(text)) + text
        out += struct.pack(f">i{len(partitions)}i", len(partitions), *partitions)
    return bytes(out + struct.pack(">i", -1))


def version_of(subscription: bytes) -> int:
    """Assignments are written in the version that the member speaks."""
    return max(int.from_bytes(subscription[:2], signed=True), 0)


def slots_of(partitions: Iterable[tuple[str, int]], topics: Topics) -> Slots:
    """Those that exist."""
    return frozenset(
        (topics[name].topic_id, partition)
        for name, partition in partitions
        if name in topics and 0 <= partition < topics[name].partitions
    )


class _Reader:
    """A cursor; raises struct.error at the end of its bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return int(value)

    def version(self) -> int:
        version = self.number(">h")
        if version < 0:
            raise struct.error(f"version {version}")
        return version

    def count(self) -> int:
        count = self.number(">i")
        if not 0 <= count <= len(self._data) - self._at:
            raise struct.error(f"an array claims {count} elements")
        return count

    def text(self) -> str:
        return self._take(self.number(">h")).decode()

    def optional_text(self) -> str | None:
        size = self.number(">h")
        return None if size < 0 else self._take(size).decode()

    def data(self) -> bytes:
        size = self.number(">i")
        return b"" if size < 0 else self._take(size)

    def partitions(self) -> Iterator[tuple[str, int]]:
        for _ in range(self.count()):
            name = self.text()
            yield from [(name, self.number(">i")) for _ in range(self.count())]

    def _take(self, size: int) -> bytes:
        if size < 0:
            raise struct.error(f"a length of {size}")
        (data,) = struct.unpack_from(f">{size}s", self._data, self._at)
        self._at += size
        return bytes(data)
