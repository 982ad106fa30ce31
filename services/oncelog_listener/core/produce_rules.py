"""The rules that a Produce request must meet before it is sent on to the partitions' leaders (docs/kafka-facts.md, 3).

Only the header of each batch is read here; the leader checks lengths, CRC and records.
"""

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeGuard

from oncelog.errors import ErrorCode
from oncelog.record.batch import CODEC_MASK, CONTROL, HEADER_BYTES, MAGIC, TRANSACTIONAL, Codec

VALID_ACKS: Final = (-1, 0, 1)
ZSTD_FROM_VERSION: Final = 7

_ATTRIBUTES_LOW_BYTE_AT: Final = 22
_MAGIC_AT: Final = 16
_PRODUCER_ID: Final = struct.Struct(">q")
_PRODUCER_ID_AT: Final = 43


class Refusal(NamedTuple):
    error_code: ErrorCode
    message: str


def refused_request(
    acks: int, transactional_id: str | None, batches: Iterable[bytes | None]
) -> Refusal | None:
    """Return why the whole Produce request is refused, such as wrong acks or batches of two producers; None: it is
    good."""
    if acks not in VALID_ACKS:
        return Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"acks={acks} is none of -1, 0 and 1")
    producer_id = None
    for records in batches:
        if not is_transactional(records):
            continue
        if not transactional_id:
            return Refusal(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "a transactional batch needs a transactional.id in its request",
            )
        found = _PRODUCER_ID.unpack_from(records, _PRODUCER_ID_AT)[0]
        if producer_id not in (None, found):
            return Refusal(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"one request holds transactional batches of producers {producer_id} and {found}",
            )
        producer_id = found
    return None


def transaction_of(transactional_id: str | None, batches: Iterable[bytes | None]) -> str | None:
    """Return the request's transactional.id if one of its batches is transactional; otherwise None, as the id does not
    matter then, as in Kafka."""
    if transactional_id is None or not any(is_transactional(records) for records in batches):
        return None
    return transactional_id


def refused_records(version: int, records: bytes | None) -> Refusal | None:
    """Return why this partition's record batch is refused, such as a control batch from a client; None: it is good."""
    if not records:
        return Refusal(ErrorCode.INVALID_RECORD, "no record batch")
    if not _is_readable(records):
        return None
    attributes = records[_ATTRIBUTES_LOW_BYTE_AT]
    if attributes & CONTROL:
        return Refusal(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if version < ZSTD_FROM_VERSION and attributes & CODEC_MASK == Codec.ZSTD:
        return Refusal(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {ZSTD_FROM_VERSION} or later, this is {version}",
        )
    return None


def has_producer_id(records: bytes | None) -> bool:
    """True if the batch has a producer id, so its leader recognises a repetition by its sequence."""
    return _is_readable(records) and _PRODUCER_ID.unpack_from(records, _PRODUCER_ID_AT)[0] >= 0


def is_transactional(records: bytes | None) -> TypeGuard[bytes]:
    return _is_readable(records) and records[_ATTRIBUTES_LOW_BYTE_AT] & TRANSACTIONAL != 0


def _is_readable(records: bytes | None) -> TypeGuard[bytes]:
    return records is not None and len(records) >= HEADER_BYTES and records[_MAGIC_AT] == MAGIC
