"""The records of a fetch answer, decoded when the program takes them.

Until then the bytes of the answer wait in memory. `sighted` walks the headers of an answer's batches, at two
microseconds a batch. It says which position follows, so the next fetch can leave. `Chunk.take` then decodes as many
records as are asked for. aiokafka's compiled reader does that (ADR 0012) in 1.1 µs a record. By way of Arrow columns a
record takes 12 µs, for a program wants Python objects.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from itertools import dropwhile, islice
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from oncelog.client.core.visibility import AbortedTransaction, sight_batches
from oncelog.client.errors import SerializationError
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import LOG_APPEND_TIME, BatchHeader, Buffer, crc_is_valid, iter_headers
from oncelog.record.records import Record, decode_batch

CREATE_TIME, LOG_APPEND = 0, 1
_NO_HEADERS: Final[tuple[tuple[str, bytes | None], ...]] = ()


Deserialized: TypeAlias = Any
"""A key or a value: bytes, or of the type that the program's own deserializer makes."""


class ConsumerRecord(NamedTuple):
    """A record as the consumer read it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    """0: the time is the producer's; 1: the leader's, of the append."""
    key: Deserialized
    """The key: bytes, or what the deserializer makes of them; None: the record has no key."""
    value: Deserialized
    """The value: bytes, or what the deserializer makes of them; None is a tombstone."""
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int
    """The epoch of the leader that appended the record; -1 where it is not known."""

    @property
    def topic_partition(self) -> Partition:
        return Partition(self.topic, self.partition)


Deserializer = Callable[[bytes], Deserialized]
"""A function that decodes a key or a value. It is not called for None."""


class Deserializers(NamedTuple):
    key: Deserializer | None
    value: Deserializer | None

    def applied(
        self, records: list[ConsumerRecord]
    ) -> tuple[list[ConsumerRecord], SerializationError | None]:
        """Return the deserialized records before the first one that fails, and that record's error; None if none
        fails."""
        done: list[ConsumerRecord] = []
        for record in records:
            try:
                done.append(self._one(record))
            except SerializationError as error:
                return done, error
        return done, None

    def _one(self, record: ConsumerRecord) -> ConsumerRecord:
        key, value = record.key, record.value
        what = "key"
        try:
            if self.key is not None and key is not None:
                key = self.key(key)
            what = "value"
            if self.value is not None and value is not None:
                value = self.value(value)
        except Exception as error:
            raise SerializationError(
                f"the {what}_deserializer failed at offset {record.offset} of {record.topic_partition}: {error!r}; "
                "seek behind it to go on without it"
            ) from error
        return record._replace(key=key, value=value)


class ReadRecord(Protocol):
    """The fields of one record, as aiokafka's compiled reader or our own returns it."""

    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Iterable[tuple[str, bytes | None]]: ...


ReaderOf = Callable[[Buffer], Iterable[ReadRecord]]


def reader_class() -> ReaderOf:
    """Load aiokafka's compiled reader. It takes a tenth of a second, so a consumer does it at its start."""
    module = import_module("aiokafka.record._crecords.default_records")
    found: ReaderOf = module.DefaultRecordBatch
    return found


class Sighted(NamedTuple):
    """The batches of a fetch answer that the consumer may see, and the offset from which to fetch next."""

    visible: tuple[tuple[int, BatchHeader], ...]
    next_offset: int
    leader_epoch: int
    """The leader's epoch of the last batch; -1 without a batch."""


def sighted(
    records: Buffer, position: int, aborted: Sequence[AbortedTransaction] | None
) -> Sighted:
    """Walk the batch headers of a fetch answer. Return the batches that the consumer may see, and the offset behind the
    last batch.

    `aborted` lists the aborted transactions, whose batches are skipped; None: the consumer reads uncommitted records,
    too. Raises KafkaError(CORRUPT_MESSAGE).
    """
    visible: list[tuple[int, BatchHeader]] = []
    next_offset, epoch = position, -1
    walk: Iterator[tuple[int, BatchHeader, bool]]
    if aborted is None:
        walk = ((at, header, not header.is_control) for at, header in iter_headers(records))
    else:
        walk = iter(sight_batches(records, aborted))
    for at, header, is_visible in walk:
        behind = header.next_offset
        if behind <= position:
            continue
        next_offset, epoch = max(next_offset, behind), header.leader_epoch
        if is_visible and header.record_count:
            visible.append((at, header))
    return Sighted(tuple(visible), next_offset, epoch)


class Chunk:
    """The visible batches of one partition from one fetch answer, not decoded yet: offsets from `start` to before
    `next_offset`."""

    __slots__ = (
        "_at",
        "_batches",
        "_checks_crc",
        "_damage",
        "_next",
        "_partition",
        "_reader",
        "_records",
        "leader_epoch",
        "next_offset",
        "size_bytes",
    )

    def __init__(
        self, partition: Partition, records: Buffer, start: int, seen: Sighted, checks_crc: bool
    ) -> None:
        self._partition = partition
        self._records = records
        self._batches = seen.visible
        self._at = 0
        self._reader: tuple[BatchHeader, Iterator[ReadRecord]] | None = None
        self._checks_crc = checks_crc
        self._damage: KafkaError | None = None
        self._next = start
        self.next_offset = seen.next_offset
        self.leader_epoch = seen.leader_epoch
        self.size_bytes = len(records)

    def take(self, reader_of: ReaderOf, count: int) -> list[ConsumerRecord]:
        """Decode and return the next records, `count` at most. Fewer: the chunk has no more.

        Each call raises KafkaError(CORRUPT_MESSAGE) once the records before a damaged batch are taken.
        """
        if self._damage is not None:
            raise self._damage
        found: list[ConsumerRecord] = []
        try:
            while len(found) < count and not self.is_used_up:
                header, reader = self._reader or self._open(reader_of)
                wanted = count - len(found)
                read = self._read(header, reader, wanted)
                if len(read) < wanted:
                    self._reader = None
                if read:
                    self._next = read[-1].offset + 1
                    found = found + read if found else read
        except KafkaError as error:
            self._damage = error
            if not found:
                raise
        return found

    @property
    def is_used_up(self) -> bool:
        return self._reader is None and self._at == len(self._batches)

    def _open(self, reader_of: ReaderOf) -> tuple[BatchHeader, Iterator[ReadRecord]]:
        at, header = self._batches[self._at]
        if self._checks_crc and not crc_is_valid(self._records, header, at):
            raise self._corrupt(header, "fails its CRC-32C")
        whole = memoryview(self._records)[at : at + header.size_bytes]
        # The compiled reader cannot be iterated twice, and every `islice` asks it to be.
        reader: Iterator[ReadRecord] = islice(reader_of(whole), None)
        if header.base_offset < self._next:
            start = self._next
            reader = dropwhile(lambda record: record.offset < start, reader)
        self._reader = header, reader
        self._at += 1
        return self._reader

    def _read(
        self, header: BatchHeader, reader: Iterator[ReadRecord], count: int
    ) -> list[ConsumerRecord]:
        topic, partition = self._partition
        new, kind, epoch = tuple.__new__, ConsumerRecord, header.leader_epoch
        time_type = LOG_APPEND if header.attributes & LOG_APPEND_TIME else CREATE_TIME
        none = _NO_HEADERS
        try:
            return [
                new(
                    kind,
                    (
                        topic,
                        partition,
                        record.offset,
                        record.timestamp,
                        time_type,
                        record.key,
                        record.value,
                        tuple(headers) if (headers := record.headers) else none,
                        epoch,
                    ),
                )
                for record in islice(reader, count)
            ]
        except UnicodeDecodeError:
            # The name of a header is no UTF-8, which the compiled reader does not take. The plain one keeps its bytes.
            reader = (one for one in self._decoded() if one.offset >= self._next)
            self._reader = header, reader
            return self._read(header, reader, count)
        except KafkaError:
            raise
        except Exception as error:
            # The compiled reader has exceptions of its own, and those of the codecs.
            raise self._corrupt(header, f"cannot be read: {error!r}") from error

    def _decoded(self) -> Iterator[Record]:
        return decode_batch(self._records, self._batches[self._at - 1][0])

    def _corrupt(self, header: BatchHeader, what: str) -> KafkaError:
        text = f"{self._partition}: the batch at offset {header.base_offset} {what}"
        return KafkaError(ErrorCode.CORRUPT_MESSAGE, text)
