"""Reads batches in a log's bytes: header fields without objects, the check of the CRC, the change of producer state.

Recovery walks hundreds of thousands of batches and a fetch checks each batch it serves. So this module reads the header
as a tuple (`HEADER.unpack_from`) where `oncelog.record` gives a dataclass.
"""

import struct
from typing import Final

from crc32c import crc32c

from oncelog.record.batch import (
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    MAGIC,
    BatchHeader,
    Buffer,
)
from oncelog.record.control import MARKER_BYTES, MarkerType, decode_marker
from oncelog_storage.core.producer_state import CompletedTransaction, ProducerStates

HeaderFields = tuple[int, int, int, int, int, int, int, int, int, int, int, int, int]
"""The fields of a batch header in `HEADER`'s order. The names below give each field's place, as `fields[LEADER_EPOCH]`.

A tuple and whole numbers are fast: a NamedTuple would cost a call for each batch that recovery walks.
"""
BASE_OFFSET: Final = 0
BATCH_LENGTH: Final = 1
"""The batch's bytes behind this field. The whole batch has LENGTH_PREFIX_BYTES more."""
LEADER_EPOCH: Final = 2
BATCH_MAGIC: Final = 3
BATCH_CRC: Final = 4
ATTRIBUTES: Final = 5
LAST_OFFSET_DELTA: Final = 6
"""The last offset less the base offset. A batch that was cleaned keeps it."""
BASE_TIMESTAMP: Final = 7
BATCH_MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9
PRODUCER_EPOCH: Final = 10
BASE_SEQUENCE: Final = 11
RECORD_COUNT: Final = 12

CUT_HEADER: Final = "a batch header is cut"
CUT_BATCH: Final = "a batch is cut"
CUT: Final = (CUT_HEADER, CUT_BATCH)
"""The reasons that more bytes might cure: the batch, or its header, is cut."""

_CRC_FROM: Final = 21
_MARKER_HEAD: Final = bytes((0x20, 0, 0, 0, 0x08))
"""The record length, attributes, both deltas and key length of a marker as every writer writes it."""
_MARKER_BODY: Final = struct.Struct(">hhBhi")


def whole_batch_at(buffer: memoryview, at: int, expected_offset: int) -> tuple[HeaderFields, str]:
    """Return (header, "") of the whole, sound batch at `at`, or (header, reason) if the bytes are none.

    `expected_offset` is the lowest base offset that may stand here, -1 if unknown. The CRC does not cover the base
    offset. In a compacted log it may be higher, and then the caller must look at what follows (`batch_walk.check_gap`).
    """
    if len(buffer) - at < HEADER_BYTES:
        return _NO_HEADER, CUT_HEADER
    fields: HeaderFields = HEADER.unpack_from(buffer, at)
    size_bytes = fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES
    if size_bytes < HEADER_BYTES:
        return fields, f"batch length {fields[BATCH_LENGTH]} is below a header's"
    if fields[BATCH_MAGIC] != MAGIC:
        return fields, f"magic {fields[BATCH_MAGIC]} is not {MAGIC}"
    if fields[LAST_OFFSET_DELTA] < 0 or (
        expected_offset >= 0 and fields[BASE_OFFSET] < expected_offset
    ):
        return fields, f"offset {fields[BASE_OFFSET]} stands where {expected_offset} was expected"
    if at + size_bytes > len(buffer):
        return fields, CUT_BATCH
    if crc32c(buffer[at + _CRC_FROM : at + size_bytes]) != fields[BATCH_CRC]:
        return fields, f"the batch at offset {fields[BASE_OFFSET]} fails its CRC-32C"
    return fields, ""


_NO_HEADER: Final[HeaderFields] = (-1, 0, -1, MAGIC, 0, 0, 0, -1, -1, -1, -1, -1, 0)


def replay_batch(
    producers: ProducerStates, fields: HeaderFields, buffer: memoryview, at: int
) -> CompletedTransaction | None:
    """Apply a batch from the log to producer state, unchecked. Returns the transaction that a marker ended."""
    producer_id = fields[PRODUCER_ID]
    if producer_id < 0:
        return None
    base_offset = fields[BASE_OFFSET]
    if not fields[ATTRIBUTES] & CONTROL:
        producers.apply_batch(BatchHeader(*fields), base_offset)
        return None
    marker = read_marker(buffer, at, fields[BATCH_LENGTH] + LENGTH_PREFIX_BYTES)
    if marker is None:
        return None
    is_commit, coordinator_epoch = marker
    return producers.apply_marker(
        producer_id=producer_id,
        producer_epoch=fields[PRODUCER_EPOCH],
        coordinator_epoch=coordinator_epoch,
        is_commit=is_commit,
        marker_offset=base_offset,
        timestamp=fields[BATCH_MAX_TIMESTAMP],
    )


def read_marker(buffer: Buffer, at: int, size_bytes: int) -> tuple[bool, int] | None:
    """Return (True for a commit, coordinator epoch) of a control batch; None if it ends no transaction.

    Raises KafkaError(CORRUPT_MESSAGE).
    """
    record_at = at + HEADER_BYTES
    if size_bytes == MARKER_BYTES and buffer[record_at : record_at + 5] == _MARKER_HEAD:
        _, marker_type, _, _, coordinator_epoch = _MARKER_BODY.unpack_from(buffer, record_at + 5)
        if marker_type in (MarkerType.ABORT, MarkerType.COMMIT):
            return marker_type == MarkerType.COMMIT, coordinator_epoch
    marker = decode_marker(buffer, at)
    return None if marker is None else (marker.is_commit, marker.coordinator_epoch)
