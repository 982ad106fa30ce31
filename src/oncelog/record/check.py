"""The deep check of a producer's batch: every record inside is whole, counted and within bounds.

`read_single_batch` has checked the header and the CRC; a broken client can still put anything behind them, and what a
log has accepted it must be able to serve for ever. Kafka's leader checks the same (facts 3 "Produce", KIP-32, KIP-98).

The records are read by `oncelog.record.bulk`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from oncelog.errors import ErrorCode, KafkaError, RecordsRefused
from oncelog.ids import NO_TIMESTAMP
from oncelog.record.batch import HEADER_BYTES, LOG_APPEND_TIME, BatchHeader, Buffer, Codec
from oncelog.record.bulk import (
    attributes_are_single_bytes,
    corrupt_errors,
    records_of,
    uncompressed,
)
from oncelog.record.codecs import DECOMPRESSED_BYTES_MAX

_BYTES_PER_RECORD_MIN: Final = 7
"""Length, attributes, two deltas, two null lengths and a header count of one byte each."""

_COMPRESSED_BYTES_LARGE: Final = 8_192
_RECORDS_LARGE: Final = 20_000
_RECORDS_AT_ONCE: Final = 500
_ERRORS_TOLD_MAX: Final = 1_000
"""Records at fault that one answer names."""


class CheckRules(NamedTuple):
    """What a topic asks of its records. Timestamps are milliseconds since 1970, both bounds included."""

    is_compacted: bool = False
    timestamp_min: int = -(2**63)
    timestamp_max: int = 2**63 - 1
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


def is_long_check(size_bytes: int, header: BatchHeader) -> bool:
    """Whether checking a batch of this size may take longer than everybody else should wait: tens of milliseconds."""
    if header.record_count > _RECORDS_LARGE:
        return True
    return header.codec != Codec.NONE and size_bytes > _COMPRESSED_BYTES_LARGE


def check_producer_batch(
    records: bytes, header: BatchHeader, rules: CheckRules, pause: Callable[[], None] | None = None
) -> None:
    """Raise KafkaError unless a client may append this batch, whose CRC and length are already known to be good.

    INVALID_RECORD: a control batch, no records, a count or offsets that do not fit. Also a record without key on a
    compacted topic, and a producer id without epoch or sequence. INVALID_TIMESTAMP: outside the rules.
    UNSUPPORTED_COMPRESSION_TYPE, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE: what the bytes inside say. A thread has `pause`
    called now and then, for others.
    """
    _check_header(header)
    plain = uncompressed(records, rules.decompressed_bytes_max)
    if header.record_count * _BYTES_PER_RECORD_MIN > len(plain) - HEADER_BYTES:
        raise _invalid(f"{header.record_count} records do not fit into the batch's bytes")
    _check_attributes(plain, header.record_count, pause)
    found = records_of(plain)
    _check_records(found if pause is None else _with_pauses(found, pause), header, rules)


def _check_header(header: BatchHeader) -> None:
    if header.is_control:
        raise _invalid("clients may not write control records")
    if header.attributes & LOG_APPEND_TIME:
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            "a producer's batch says LogAppendTime; only the leader may set that timestamp type",
        )
    if header.record_count <= 0:
        raise _invalid(f"record batch says {header.record_count} records")
    if header.last_offset_delta != header.record_count - 1:
        raise _invalid(
            f"{header.record_count} records cannot end at offset delta {header.last_offset_delta}"
        )
    if header.has_producer_id:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise _invalid(
                f"producer id {header.producer_id} comes with epoch {header.producer_epoch} and"
                f" sequence {header.base_sequence}; both must be 0 or more"
            )
    elif header.is_transactional:
        raise _invalid("a transactional batch carries no producer id")


def _check_attributes(plain: Buffer, record_count: int, pause: Callable[[], None] | None) -> None:
    at = HEADER_BYTES
    for first in range(0, record_count, _RECORDS_AT_ONCE):
        if pause is not None:
            pause()
        try:
            count = min(_RECORDS_AT_ONCE, record_count - first)
            are_single_bytes, at = attributes_are_single_bytes(plain, at, count)
        except (IndexError, ValueError):
            raise KafkaError(
                ErrorCode.CORRUPT_MESSAGE, "record batch ends inside its records"
            ) from None
        if not are_single_bytes:
            raise _invalid(f"a record has attributes of {plain[at]}; Kafka has none, and writes 0")


def _with_pauses(records: Iterable[Any], pause: Callable[[], None]) -> Iterable[Any]:
    for index, record in enumerate(records):
        if index % _RECORDS_AT_ONCE == 0:
            pause()
        yield record


def _check_records(records: Iterable[Any], header: BatchHeader, rules: CheckRules) -> None:
    expected = header.base_offset
    low, high, needs_key = rules.timestamp_min, rules.timestamp_max, rules.is_compacted
    faults: list[_Fault] = []
    count = 0
    try:
        for record in records:
            timestamp = record.timestamp
            if (
                record.offset != expected
                or timestamp is None
                or not low <= timestamp <= high
                or (needs_key and record.key is None)
            ):
                index = expected - header.base_offset
                if record.offset != expected:
                    raise _invalid(
                        f"record {index} says offset delta {record.offset - header.base_offset};"
                        " deltas count up from 0"
                    )
                fault = _fault(index, timestamp, record.key, rules)
                count += fault is not None
                if fault is not None and len(faults) < _ERRORS_TOLD_MAX:
                    faults.append(fault)
            expected += 1
    except corrupt_errors() as error:
        raise KafkaError(
            ErrorCode.CORRUPT_MESSAGE, f"record batch holds malformed records: {error}"
        ) from error
    if faults:
        raise _refused(faults, count, header.record_count)


class _Fault(NamedTuple):
    error_code: ErrorCode
    record_index: int
    message: str


def _fault(
    index: int, timestamp: int | None, key: bytes | None, rules: CheckRules
) -> _Fault | None:
    """What is wrong with one record. As in Kafka, a missing key comes before a bad timestamp."""
    if rules.is_compacted and key is None:
        return _Fault(
            ErrorCode.INVALID_RECORD,
            index,
            f"record {index} has no key; a compacted topic needs one",
        )
    if (
        timestamp is not None
        and timestamp != NO_TIMESTAMP
        and not rules.timestamp_min <= timestamp <= rules.timestamp_max
    ):
        return _Fault(
            ErrorCode.INVALID_TIMESTAMP,
            index,
            f"timestamp {timestamp} of record {index} is outside"
            f" [{rules.timestamp_min}, {rules.timestamp_max}]; see message.timestamp.before.max.ms"
            " and message.timestamp.after.max.ms",
        )
    return None


def _refused(faults: list[_Fault], count: int, record_count: int) -> RecordsRefused:
    """One bad timestamp makes the batch's code INVALID_TIMESTAMP, as in Kafka."""
    codes = {fault.error_code for fault in faults}
    by_time = ErrorCode.INVALID_TIMESTAMP in codes
    return RecordsRefused(
        ErrorCode.INVALID_TIMESTAMP if by_time else ErrorCode.INVALID_RECORD,
        f"{count} of {record_count} records are refused, so none is written: {faults[0].message}",
        [(fault.record_index, fault.message) for fault in faults],
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
