"""AddPartitionsToTxn, AddOffsetsToTxn and EndTxn as librdkafka sends them, decoded and answered without kio.

`small_produce` gives the reasons. A transaction of TV1 has an end, and an addition for each topic or group. Any other
form, and all that is wrong, is left to the usual decoder (`messages.Schema`).
"""

import struct
from typing import Final, NamedTuple

from oncelog.protocol.frames import LENGTH_BYTES, Frame

VERSIONS: Final = range(3)
"""The versions of all three APIs that are not flexible."""
PARTITIONS_MAX: Final = 100
"""The most partitions in a request that is answered in one step of the event loop."""

_HEAD: Final = struct.Struct(">hhih")
_NAME: Final = struct.Struct(">h")
_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_AND_END: Final = struct.Struct(">qhB")
_COUNT: Final = struct.Struct(">i")
_DONE: Final = struct.Struct(">iiih")
_ADDED: Final = struct.Struct(">iiii")
_ADDED_ONE: Final = struct.Struct(">ih")


class SmallRequest(NamedTuple):
    """The fields with which AddPartitionsToTxn, AddOffsetsToTxn and EndTxn all begin; `rest` is the position behind
    them."""

    correlation_id: int
    client_id: str | None
    transactional_id: str
    rest: int


class SmallEndTxn(NamedTuple):
    request: SmallRequest
    producer_id: int
    producer_epoch: int
    commit: bool


class SmallAddition(NamedTuple):
    request: SmallRequest
    producer_id: int
    producer_epoch: int
    topic: str
    partitions: tuple[int, ...]


class SmallOffsets(NamedTuple):
    request: SmallRequest
    producer_id: int
    producer_epoch: int
    group_id: str


def read_small_end_txn(frame: Frame) -> SmallEndTxn | None:
    """Decode an EndTxn request of one of VERSIONS. None: it has another form, and the usual decoder must read it."""
    try:
        request = _read_head(frame)
        if request is None or len(frame) != request.rest + _PRODUCER_AND_END.size:
            return None
        producer_id, producer_epoch, commit = _PRODUCER_AND_END.unpack_from(frame, request.rest)
        is_boolean = commit in (0, 1)
        return (
            SmallEndTxn(request, producer_id, producer_epoch, commit == 1) if is_boolean else None
        )
    except (struct.error, UnicodeDecodeError):
        return None


def read_small_addition(frame: Frame) -> SmallAddition | None:
    """Read an AddPartitionsToTxn request of one of VERSIONS that names one topic, and no partition twice. None: it has
    another form, and the usual decoder must read it."""
    try:
        request = _read_head(frame)
        if request is None:
            return None
        producer_id, producer_epoch = _PRODUCER.unpack_from(frame, request.rest)
        topics_at = request.rest + _PRODUCER.size
        (topics,) = _COUNT.unpack_from(frame, topics_at)
        topic, end = _read_name(frame, topics_at + _COUNT.size)
        (count,) = _COUNT.unpack_from(frame, end)
        begin = end + _COUNT.size
        is_usual = topics == 1 and topic is not None and 0 < count <= PARTITIONS_MAX
        if not is_usual or len(frame) != begin + 4 * count:
            return None
        partitions = struct.unpack_from(f">{count}i", frame, begin)
        if len(set(partitions)) < count:
            return None
        assert topic is not None
        return SmallAddition(request, producer_id, producer_epoch, topic, partitions)
    except (struct.error, UnicodeDecodeError):
        return None


def read_small_offsets(frame: Frame) -> SmallOffsets | None:
    """Decode an AddOffsetsToTxn request of one of VERSIONS. None: it has another form, and the usual decoder must read
    it."""
    try:
        request = _read_head(frame)
        if request is None:
            return None
        producer_id, producer_epoch = _PRODUCER.unpack_from(frame, request.rest)
        group_id, end = _read_name(frame, request.rest + _PRODUCER.size)
        if group_id is None or len(frame) != end:
            return None
        return SmallOffsets(request, producer_id, producer_epoch, group_id)
    except (struct.error, UnicodeDecodeError):
        return None


def small_answer(asked: SmallEndTxn | SmallOffsets) -> bytes:
    """Return the response's frame of an EndTxn or AddOffsetsToTxn that succeeded."""
    size = _DONE.size - LENGTH_BYTES
    return _DONE.pack(size, asked.request.correlation_id, 0, 0)


def small_addition_answer(asked: SmallAddition) -> bytes:
    """Return the response's frame of an AddPartitionsToTxn whose partitions were all added."""
    name = asked.topic.encode()
    topic = _NAME.pack(len(name)) + name + _COUNT.pack(len(asked.partitions))
    results = b"".join([_ADDED_ONE.pack(partition, 0) for partition in asked.partitions])
    size = _ADDED.size - LENGTH_BYTES + len(topic) + len(results)
    return _ADDED.pack(size, asked.request.correlation_id, 0, 1) + topic + results


def _read_head(frame: Frame) -> SmallRequest | None:
    _, version, correlation_id, client_size = _HEAD.unpack_from(frame, 0)
    id_at = _HEAD.size + max(client_size, 0)
    name, rest = _read_name(frame, id_at)
    if version not in VERSIONS or client_size < -1 or not name:
        return None
    client = None if client_size < 0 else str(frame[_HEAD.size : id_at], "utf-8", "replace")
    return SmallRequest(correlation_id, client, name, rest)


def _read_name(frame: Frame, at: int) -> tuple[str | None, int]:
    """Return the string at a position, None for null, and the position behind it."""
    (size,) = _NAME.unpack_from(frame, at)
    end = at + _NAME.size + max(size, 0)
    return (None if size < 0 else str(frame[at + _NAME.size : end], "utf-8")), end
