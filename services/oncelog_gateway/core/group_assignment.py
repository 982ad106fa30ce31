"""What a member of a consumer group was assigned: the bytes its leader chose, which the cluster passes on unread.

Kafka's clients write `version int16, [topic string, [partition int32]], user data bytes` (ConsumerProtocolAssignment).
Nothing obliges them to: Connect and others write their own, and a hostile member writes what it likes.
"""

import struct
from typing import Final

PARTITIONS_MAX: Final = 100_000
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def assigned_partitions(content: bytes) -> dict[str, list[int]] | None:
    """Partitions by topic; None for bytes that are no consumer's assignment. No bytes are no partitions."""
    if not content:
        return {}
    try:
        return _topics(content)
    except (struct.error, UnicodeDecodeError, ValueError):
        return None


def _topics(content: bytes) -> dict[str, list[int]]:
    (count,) = _INT32.unpack_from(content, _INT16.size)
    position = _INT16.size + _INT32.size
    if not 0 <= count <= len(content):
        raise ValueError(count)
    found: dict[str, list[int]] = {}
    total = 0
    for _ in range(count):
        (length,) = _INT16.unpack_from(content, position)
        position += _INT16.size
        if length < 0 or position + length > len(content):
            raise ValueError(length)
        topic = content[position : position + length].decode()
        position += length
        (partitions,) = _INT32.unpack_from(content, position)
        position += _INT32.size
        total += partitions
        if partitions < 0 or total > PARTITIONS_MAX:
            raise ValueError(partitions)
        numbers = struct.unpack_from(f">{partitions}i", content, position)
        position += partitions * _INT32.size
        found.setdefault(topic, []).extend(numbers)
    return found
