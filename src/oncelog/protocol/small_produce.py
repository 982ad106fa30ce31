"""The usual Produce request, with one batch for one partition, decoded and answered without kio.

A transaction has many of these: librdkafka sends one for each partition. kio's objects, and the walks over them, cost
more than the append. Any other form, and all that is wrong, is left to the usual decoder (`messages.Schema`).
"""

import struct
from typing import Final, NamedTuple

from oncelog.protocol.frames import LENGTH_BYTES, Frame, FrameError, read_uvarint

VERSIONS: Final = range(9, 13)
"""The versions that are flexible and name topics."""

_HEAD: Final = struct.Struct(">hhih")
_ACKS: Final = struct.Struct(">hiBB")
_PARTITION: Final = struct.Struct(">Bi")
_LONG: Final = 0x80
"""The bit that a length of more than one byte has in its first byte."""
_ONE: Final = 2
"""The written length of an array of one element."""
_NO_TAGS: Final = bytes(3)
"""The empty tags of the partition, the topic and the request."""
_ANSWER_HEAD: Final = struct.Struct(">iiBBB")
_ANSWER: Final = struct.Struct(">BihqqqBBBBiB")
_NOTHING: Final = 1
"""The written length of an empty array."""


class SmallProduce(NamedTuple):
    version: int
    correlation_id: int
    client_id: str | None
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topic: str
    partition: int
    records: bytes


def read_small_produce(frame: Frame) -> SmallProduce | None:
    """Decode a Produce request with one batch, of one of VERSIONS. None: it has another form, or is no such request."""
    try:
        _, version, correlation_id, client_size = _HEAD.unpack_from(frame, 0)
        tags_at = _HEAD.size + client_size if client_size > 0 else _HEAD.size
        id_at = tags_at + 1
        id_size = frame[id_at]
        acks_at = id_at + (id_size or 1)
        acks, timeout_ms, topics, name_size = _ACKS.unpack_from(frame, acks_at)
        name_at = acks_at + _ACKS.size
        name_end = name_at + name_size - 1
        partitions, index = _PARTITION.unpack_from(frame, name_end)
        size, records_at = read_uvarint(frame, name_end + _PARTITION.size)
        end = records_at + size - 1
        if (
            version not in VERSIONS
            or frame[tags_at]
            or not id_size < _LONG
            or not topics == partitions == _ONE
            or not 1 < name_size < _LONG
            or size <= 1
            or frame[end:] != _NO_TAGS
        ):
            return None
        return SmallProduce(
            version,
            correlation_id,
            None if client_size < 0 else str(frame[_HEAD.size : tags_at], "utf-8", "replace"),
            str(frame[id_at + 1 : acks_at], "utf-8") if id_size else None,
            acks,
            timeout_ms,
            str(frame[name_at:name_end], "utf-8"),
            index,
            bytes(frame[records_at:end]),
        )
    except (IndexError, struct.error, FrameError, UnicodeDecodeError):
        return None


def small_produce_answer(
    asked: SmallProduce, base_offset: int, log_append_time_ms: int, log_start_offset: int
) -> bytes:
    """Return the response's frame for a batch that was written."""
    name = asked.topic.encode()
    size = _ANSWER_HEAD.size - LENGTH_BYTES + len(name) + _ANSWER.size
    return b"".join(
        (
            _ANSWER_HEAD.pack(size, asked.correlation_id, 0, _ONE, len(name) + 1),
            name,
            _ANSWER.pack(
                _ONE,
                asked.partition,
                0,
                base_offset,
                log_append_time_ms,
                log_start_offset,
                _NOTHING,
                0,
                0,
                0,
                0,
                0,
            ),
        )
    )
