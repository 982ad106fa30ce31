"""Control batches: the commit and abort markers that end a transaction in one partition (facts 4).

A marker is an ordinary batch of one record with the transactional and control bits set, 78 bytes long, that clients
skip. Key: version i16, type i16. Value: version i16, coordinatorEpoch i32.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.batch import CONTROL, TRANSACTIONAL, Buffer, read_header
from oncelog.record.records import Record, decode_batch, encode_batch

MARKER_BYTES: Final = 78

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class MarkerType(IntEnum):
    ABORT = 0
    COMMIT = 1


@dataclass(frozen=True, slots=True)
class Marker:
    marker_type: MarkerType
    coordinator_epoch: int

    @property
    def is_commit(self) -> bool:
        return self.marker_type is MarkerType.COMMIT


def marker_record(marker: Marker, timestamp: int) -> Record:
    """The one record of a control batch."""
    return Record(
        _KEY.pack(0, marker.marker_type), _VALUE.pack(0, marker.coordinator_epoch), timestamp
    )


def encode_marker(
    marker: Marker,
    *,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch of this marker, 78 bytes, `timestamp` in milliseconds."""
    return encode_batch(
        [marker_record(marker, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        extra_attributes=CONTROL | TRANSACTIONAL,
    )


def decode_marker(buffer: Buffer, position: int = 0) -> Marker | None:
    """The marker of the control batch at `position`; None for an empty or a KRaft control batch, both no-ops here.

    A newer version's longer key or value is read as version 0. Raises KafkaError(CORRUPT_MESSAGE).
    """
    if read_header(buffer, position).record_count == 0:
        return None
    record = next(decode_batch(buffer, position))
    try:
        _, marker_type = _KEY.unpack_from(record.key or b"")
        if marker_type not in (MarkerType.ABORT, MarkerType.COMMIT):
            return None
        _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
    except struct.error as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"control record at offset {record.offset} is malformed"
        ) from error
    return Marker(MarkerType(marker_type), coordinator_epoch)
