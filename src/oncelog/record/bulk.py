"""Records in bulk: aiokafka's compiled reader, about 0.25 µs a record where plain Python takes 5.

That reader tests no bounds inside a varint, so it is only given data in which no varint can run over the end: either
the last byte has its high bit clear, or zeros lie behind the part it may see.

The reader also reads a record's attributes, one byte in Kafka, as a varint. It would take other bytes for the key and
the value where that byte is 128 or more. `attributes_are_single_bytes` finds such a record. The reader takes ten bytes
for a number of 32 bits, where Kafka's readers stop after five: `with_short_numbers` finds that. And it wants UTF-8 in
the keys of headers, where Kafka takes any bytes: `oncelog.record.records` reads such a batch.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from itertools import islice
from typing import Final, Protocol

from oncelog.record.batch import (
    CODEC_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    Buffer,
    Codec,
)
from oncelog.record.codecs import DECOMPRESSED_BYTES_MAX, decompress, decompress_as_kafka
from oncelog.record.records import decode_batch, read_varint

_CODEC_AT: Final = 22
"""The position of the lower byte of the attributes."""
_PADDING: Final = bytes(16)
"""Zeros behind the records, more than the longest varint has bytes."""
_INT_BYTES_MAX: Final = 5
_PYTHON_BYTES_MAX: Final = 1 << 20
"""The bytes that `few_records_of` reads without the compiled reader: some 10,000 records, 50 ms."""


class BulkRecord(Protocol):
    """A record as aiokafka's compiled reader yields it, or `oncelog.record.records`, the reader in Python."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int | None:
        """The time in ms. The compiled reader gives None for -1."""

    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


def uncompressed(
    batch: Buffer, size_max: int = DECOMPRESSED_BYTES_MAX, *, as_kafka: bool = False
) -> Buffer:
    """Return the batch as it would be without compression: a header with codec 0, then the records.

    `as_kafka`: only what Kafka's reader takes. Raises KafkaError, also for records of more than `size_max` bytes.
    """
    codec = batch[_CODEC_AT] & CODEC_MASK
    if codec == Codec.NONE:
        return batch
    fields = list(HEADER.unpack_from(batch))
    read = decompress_as_kafka if as_kafka else decompress
    body = read(codec, memoryview(batch)[HEADER_BYTES:], size_max)
    fields[1] = HEADER_BYTES - LENGTH_PREFIX_BYTES + len(body)
    fields[5] &= ~CODEC_MASK
    return HEADER.pack(*fields) + body


def records_of(plain: Buffer) -> Iterator[BulkRecord]:
    """Yield each record of an uncompressed batch, with `offset`, `timestamp`, `key`, `value`, `headers`.

    Raises the errors of `corrupt_errors()`, and KafkaError.
    """
    count = 0
    try:
        for record in compiled_records(plain):
            yield record
            count += 1
    except UnicodeDecodeError:
        yield from islice(decode_batch(plain), count, None)


class _ReadInPython:
    """The number of bytes that `few_records_of` has read in plain Python, in this process."""

    size_bytes = 0


def few_records_of(plain: Buffer) -> Iterator[BulkRecord]:
    """Yield the records of an uncompressed batch, for callers that mostly read a few.

    The first megabyte of a process is read in plain Python: to load the compiled reader takes as long, and stops all
    else. Later records are read with it, as `records_of` does.
    """
    if _compiled_reader.cache_info().currsize or _ReadInPython.size_bytes >= _PYTHON_BYTES_MAX:
        yield from records_of(plain)
    else:
        _ReadInPython.size_bytes += len(plain)
        yield from decode_batch(plain)


def compiled_records(plain: Buffer) -> Iterable[BulkRecord]:
    """Parse an uncompressed batch and yield its records, with aiokafka's compiled reader (a C extension).

    A header key that is no UTF-8 raises UnicodeDecodeError; `records_of` goes on in plain Python there.
    """
    reader, _ = _compiled_reader()
    if plain[-1] & 0x80:
        plain = memoryview(bytes(plain) + _PADDING)[: len(plain)]
    records: Iterable[BulkRecord] = reader(plain)
    return records


def attributes_are_single_bytes(plain: Buffer, start: int, count: int) -> tuple[bool, int]:
    """Return True if `count` records from `start` have attributes of one byte, and where the records end.

    Raises IndexError where they are cut.
    """
    at = start
    for _ in range(count):
        length = plain[at]
        at += 1
        if length > 0x7F:
            second = plain[at]
            if second <= 0x7F:
                at += 1
                length = length & 0x7F | second << 7
            else:
                whole, at = read_varint(plain, at - 1)
                length = whole << 1
        if plain[at] > 0x7F:
            return False, at
        at += length >> 1
    return True, at


def may_have_long_numbers(plain: Buffer) -> bool:
    """Return True if these sound records may have a number in more bytes than Kafka reads, which `with_short_numbers`
    finds.

    That is slow, so this looks for a sign first. Numbers of sound records fit into 28 bits. So the fifth byte of a
    longer number adds nothing, and its last byte is 0. A null written as a number below -1 in six bytes and more is not
    found; no client is known that writes it.
    """
    return b"\x80\x00" in bytes(plain)


def with_short_numbers(plain: Buffer, start: int, count: int) -> int:
    """Return where `count` sound records end. Raises ValueError for a number of 32 bits in more than five bytes."""
    at = start
    for _ in range(count):
        _, at = _read_int(plain, at)
        _, at = read_varint(plain, at + 1)
        _, at = _read_int(plain, at)
        at = _after_bytes(plain, _after_bytes(plain, at))
        headers, at = _read_int(plain, at)
        for _ in range(2 * headers):
            at = _after_bytes(plain, at)
    return at


def _after_bytes(plain: Buffer, at: int) -> int:
    length, at = _read_int(plain, at)
    return at + max(length, 0)


def _read_int(plain: Buffer, at: int) -> tuple[int, int]:
    value, end = read_varint(plain, at)
    if end - at > _INT_BYTES_MAX:
        raise ValueError(f"a number takes {end - at} bytes; Kafka's readers take {_INT_BYTES_MAX}")
    return value, end


def corrupt_errors(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return the errors that reading malformed records raises, and `others`.

    Call it in the `except` clause: it loads the compiled reader.
    """
    return (*others, *_compiled_reader()[1])


def warm_up() -> None:
    """Load the compiled reader now (about 60 ms, 7 MB) instead of with the first batch that it reads."""
    _compiled_reader()


@cache
def _compiled_reader() -> tuple[
    Callable[[Buffer], Iterable[BulkRecord]], tuple[type[Exception], ...]
]:
    """Return (reader class, its errors). It is imported late: with aiokafka's package that takes tens of milliseconds.

    The package itself comes first: two threads that import different modules of it would each wait for the other.
    Python then hands one of them a module that is half there.
    """
    import_module("aiokafka")
    from aiokafka.errors import CorruptRecordException
    from aiokafka.record._crecords import DefaultRecordBatch

    corrupt = (CorruptRecordException, ValueError, OverflowError, MemoryError)
    return DefaultRecordBatch, corrupt
