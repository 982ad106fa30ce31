"""The deep check of a producer's batch: every record inside is whole, counted and within bounds.

`read_single_batch` has checked the header and the CRC; a broken client can still put anything behind them, and what a
log has accepted it must be able to serve for ever. Kafka's leader checks the same (docs/kafka-facts.md, 3 "Produce",
KIP-32, KIP-98).

Where `oncelog.record.walk` is compiled it finds sound batches sound, at a tenth of the time. The others, and all where
it is not compiled, are read by `oncelog.record.bulk`, which finds what is wrong.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode, KafkaError, RecordsRefused
from oncelog.ids import NO_PRODUCER_EPOCH, NO_TIMESTAMP
from oncelog.record import walk
from oncelog.record.batch import (
    CREATE_TIME,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    BatchHeader,
    Buffer,
    Codec,
    stamp_max_timestamp,
)
from oncelog.record.bulk import (
    BulkRecord,
    attributes_are_single_bytes,
    compiled_records,
    corrupt_errors,
    may_have_long_numbers,
    uncompressed,
    with_short_numbers,
)
from oncelog.record.codecs import DECOMPRESSED_BYTES_MAX
from oncelog.record.records import decode_batch, encode_batch

_BYTES_PER_RECORD_MIN: Final = 7
"""The least bytes of a record: length, attributes, two deltas, two null lengths and a header count of one byte each."""

_COMPRESSED_BYTES_LARGE: Final = 8_192
_RECORDS_LARGE: Final = 20_000
_RECORDS_AT_ONCE: Final = 500
_WALKED_BYTES_MAX: Final = 8 << 20
"""The most bytes that compiled code walks, as it keeps the interpreter's lock: 40 ms at most, where all records are
tiny."""
_ERRORS_TOLD_MAX: Final = 1_000
"""The most faulty records that one answer names."""
IS_WALK_COMPILED: Final = not walk.__file__.endswith((".py", ".pyc"))


class CheckRules(NamedTuple):
    """A topic's requirements for records. Timestamps are milliseconds since 1970, both bounds included."""

    is_compacted: bool = False
    timestamp_min: int = -(2**63)
    timestamp_max: int = 2**63 - 1
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX
    is_log_append_time: bool = False


def is_long_check(size_bytes: int, header: BatchHeader) -> bool:
    """Return True if checking a batch of this size may hold up all others for too long: tens of milliseconds."""
    if header.record_count > _RECORDS_LARGE:
        return True
    return header.codec != Codec.NONE and size_bytes > _COMPRESSED_BYTES_LARGE


def check_producer_batch(
    records: bytes, header: BatchHeader, rules: CheckRules, pause: Callable[[], None] | None = None
) -> bytes:
    """Return the batch as a log may keep it; its CRC and length are already known to be good.

    It is `records` itself where its header is right. Clients write wrong maximum timestamps, and retention and searches
    go by them. So the maximum is the records', as in Kafka. Raises KafkaError for a batch that a client may not append:

    INVALID_RECORD: a control batch, no records, a count or offsets that do not fit. Also a record without key on a
    compacted topic, a producer id without sequence, and bytes that Kafka's reader makes no records of: a retry would
    not help. INVALID_TIMESTAMP: outside the rules. UNSUPPORTED_COMPRESSION_TYPE, MESSAGE_TOO_LARGE: what the bytes
    inside say. In a thread, `pause` is called now and then, so that others can run.
    """
    try:
        return _checked(records, header, rules, pause)
    except KafkaError as error:
        if error.error_code != ErrorCode.CORRUPT_MESSAGE:
            raise
        # Clients send a corrupt message again, which helps if the network did it. The CRC says that it did not.
        raise _invalid(error.message) from error


def _checked(
    records: bytes, header: BatchHeader, rules: CheckRules, pause: Callable[[], None] | None
) -> bytes:
    _check_header(header)
    says_append_time = bool(header.attributes & LOG_APPEND_TIME)
    if says_append_time:
        # The records' own timestamps are read then.
        records = _with_max_timestamp(records, header.max_timestamp)
    plain = uncompressed(records, rules.decompressed_bytes_max, as_kafka=True)
    if header.record_count * _BYTES_PER_RECORD_MIN > len(plain) - HEADER_BYTES:
        raise _invalid(f"{header.record_count} records do not fit into the batch's bytes")
    largest = _walked(plain, header, rules) if _may_walk(plain) else walk.LOOK_CLOSER
    if largest == walk.LOOK_CLOSER:
        largest = _read(plain, header, rules, pause)
    if says_append_time and (rules.is_log_append_time or header.max_timestamp == NO_TIMESTAMP):
        raise KafkaError(
            ErrorCode.INVALID_TIMESTAMP,
            "a producer's batch says LogAppendTime; only the leader may set that timestamp type",
        )
    if header.base_timestamp > largest and not rules.is_log_append_time:
        return _with_first_timestamp(plain, header)
    return records if largest == header.max_timestamp else _with_max_timestamp(records, largest)


def _may_walk(plain: Buffer) -> bool:
    return IS_WALK_COMPILED and len(plain) <= _WALKED_BYTES_MAX


def _walked(plain: Buffer, header: BatchHeader, rules: CheckRules) -> int:
    return walk.largest_timestamp(
        bytes(plain),
        HEADER_BYTES,
        len(plain),
        header.record_count,
        header.base_timestamp,
        rules.timestamp_min,
        rules.timestamp_max,
        rules.is_compacted,
    )


def _read(
    plain: Buffer, header: BatchHeader, rules: CheckRules, pause: Callable[[], None] | None
) -> int:
    """Return the records' largest timestamp. Raises KafkaError for what is wrong with them."""
    _check_attributes(plain, header.record_count, pause)
    try:
        largest = _largest_timestamp(_paused(compiled_records(plain), pause), header, rules)
    except UnicodeDecodeError:
        # A header's key may be any bytes, and the compiled reader wants text.
        largest = _largest_timestamp(_paused(decode_batch(plain), pause), header, rules)
    if _may_walk(plain) or may_have_long_numbers(plain):
        _check_numbers(plain, header.record_count, pause)
    return largest


def _with_max_timestamp(records: bytes, max_timestamp: int) -> bytes:
    changed = bytearray(records)
    stamp_max_timestamp(changed, CREATE_TIME, max_timestamp)
    return bytes(changed)


def _with_first_timestamp(plain: Buffer, header: BatchHeader) -> bytes:
    """Return the batch with its first record's timestamp as its base: `largest_timestamp` counts on that."""
    batch = encode_batch(
        list(decode_batch(plain)),
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        codec=Codec(header.codec),
    )
    return bytes(batch)


def _check_header(header: BatchHeader) -> None:
    if header.base_offset != 0:
        raise _invalid(f"record batch has base offset {header.base_offset}; producers write 0")
    if header.is_control:
        raise _invalid("clients may not write control records")
    if header.record_count <= 0:
        raise _invalid(f"record batch says {header.record_count} records")
    if header.last_offset_delta != header.record_count - 1:
        raise _invalid(
            f"{header.record_count} records cannot end at offset delta {header.last_offset_delta}"
        )
    if header.has_producer_id:
        if header.base_sequence < 0:
            raise _invalid(
                f"producer id {header.producer_id} comes with sequence {header.base_sequence};"
                " it must be 0 or more"
            )
        if header.producer_epoch < NO_PRODUCER_EPOCH:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer id {header.producer_id} comes with epoch {header.producer_epoch};"
                " the lowest is -1, which means none",
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
            raise _invalid("record batch ends inside its records") from None
        if not are_single_bytes:
            raise _invalid(f"a record has attributes of {plain[at]}; Kafka has none, and writes 0")


def _check_numbers(plain: Buffer, record_count: int, pause: Callable[[], None] | None) -> None:
    at = HEADER_BYTES
    for first in range(0, record_count, _RECORDS_AT_ONCE):
        if pause is not None:
            pause()
        try:
            at = with_short_numbers(plain, at, min(_RECORDS_AT_ONCE, record_count - first))
        except ValueError as error:
            raise _invalid(f"record batch holds malformed records: {error}") from None


def _paused(
    records: Iterable[BulkRecord], pause: Callable[[], None] | None
) -> Iterable[BulkRecord]:
    return records if pause is None else _with_pauses(records, pause)


def _with_pauses(records: Iterable[BulkRecord], pause: Callable[[], None]) -> Iterable[BulkRecord]:
    for index, record in enumerate(records):
        if index % _RECORDS_AT_ONCE == 0:
            pause()
        yield record


def _largest_timestamp(
    records: Iterable[BulkRecord], header: BatchHeader, rules: CheckRules
) -> int:
    """Return the records' largest timestamp, -1 for none. Raises KafkaError, UnicodeDecodeError."""
    expected, largest = header.base_offset, int(NO_TIMESTAMP)
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
            elif timestamp > largest:
                largest = timestamp
            expected += 1
    except UnicodeDecodeError:
        raise
    except corrupt_errors() as error:
        raise _invalid(f"record batch holds malformed records: {error}") from error
    if faults:
        raise _refused(faults, count, header.record_count)
    return largest


class _Fault(NamedTuple):
    error_code: ErrorCode
    record_index: int
    message: str


def _fault(
    index: int, timestamp: int | None, key: bytes | None, rules: CheckRules
) -> _Fault | None:
    """Return the fault of one record, None if it has none. As in Kafka, a missing key comes before a bad timestamp."""
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
    """Return the error of a batch with these faults.
    One bad timestamp makes its code INVALID_TIMESTAMP, as in Kafka."""
    codes = {fault.error_code for fault in faults}
    by_time = ErrorCode.INVALID_TIMESTAMP in codes
    return RecordsRefused(
        ErrorCode.INVALID_TIMESTAMP if by_time else ErrorCode.INVALID_RECORD,
        f"{count} of {record_count} records are refused, so none is written: {faults[0].message}",
        [(fault.record_index, fault.message) for fault in faults],
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
