"""Control batches: the commit and abort markers that end a transaction in one partition (docs/kafka-facts.md, 4).

A marker is an ordinary batch of one record with the transactional and control bits set, 78 bytes long, that clients
skip. Key: version i16, type i16. Value: version i16, coordinatorEpoch i32.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from crc32c import crc32c

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import NO_SEQUENCE
from oncelog.record.batch import (
    CONTROL,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    TRANSACTIONAL,
    Buffer,
    read_header,
)
from oncelog.record.records import Record, decode_batch

MARKER_BYTES: Final = 78

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")
_BEFORE_CRC: Final = struct.Struct(">qiib")
_CHECKED: Final = struct.Struct(">hiqqqhii5shhbhib")
"""The bytes that the CRC covers: the rest of the header, and the record with its lengths."""
_RECORD_BEGIN: Final = bytes((2 * 16, 0, 0, 0, 2 * 4))
"""The first bytes of the record: its size, no attributes, no deltas, the size of its key; lengths are zig-zag."""
_VALUE_SIZE: Final = 2 * 6


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
    """Return the one record of a control batch."""
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
    """Return the control batch of this marker, 78 bytes; `timestamp` is in milliseconds.

    Nothing in it varies in size, so it is packed as a whole: there is one for each partition of each transaction.
    """
    checked = _CHECKED.pack(
        CONTROL | TRANSACTIONAL,
        0,
        timestamp,
        timestamp,
        producer_id,
        producer_epoch,
        NO_SEQUENCE,
        1,
        _RECORD_BEGIN,
        0,
        marker.marker_type,
        _VALUE_SIZE,
        0,
        marker.coordinator_epoch,
        0,
    )
    batch = bytearray(
        _BEFORE_CRC.pack(base_offset, MARKER_BYTES - LENGTH_PREFIX_BYTES, leader_epoch, MAGIC)
    )
    batch += crc32c(checked).to_bytes(4, "big")
    batch += checked
    return batch


def decode_marker(buffer: Buffer, position: int = 0) -> Marker | None:
    """Return the marker of the control batch at `position`; None for an empty or a KRaft control batch, both no-ops
    here.

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
