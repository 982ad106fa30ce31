"""One record batch of a producer, from its first record to its answer.

```
open ──append──▶ open ──close──▶ closed ──sent──▶ under way ──▶ done, once
                                   ▲────── retried ──────┘
```

A batch is encoded once. Its producer id, epoch and sequence are written into its header when it is sent, and again
when it begins a new sequence; only the checksum changes with them.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Final, NamedTuple, Protocol

from oncelog.client.errors import ClientError
from oncelog.ids import NO_SEQUENCE, Partition, next_sequence
from oncelog.record import records as log_records
from oncelog.record.batch import HEADER_BYTES, MAGIC, Codec, stamp_producer
from oncelog.record.recompress import recompressed

RECORD_OVERHEAD_BYTES: Final = 21
"""The most bytes that a record of format 2 has beside its key, value and headers."""
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1

Headers = list[tuple[str, bytes | None]]


class Builder(Protocol):
    """The encoder of one batch, from aiokafka (ADR 0012)."""

    def append(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        /,
    ) -> object:
        """Append a record. None: there is no room."""
        ...

    def size(self) -> int: ...
    def build(self) -> bytearray: ...


BuilderOf = Callable[..., Builder]


class _Ended:
    """A placeholder for the encoder of a batch that is encoded: it takes no more records, and frees the real one's
    memory."""

    def append(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        /,
    ) -> object:
        return None

    def size(self) -> int:
        return 0

    def build(self) -> bytearray:
        raise AssertionError("the batch is encoded already")


_ENDED: Final = _Ended()
Order = tuple[int, ...]
"""A batch's place in the order of sending. Parts of a split batch stand where it stood: (5, 0), (5, 1), then (6,)."""


class Record(NamedTuple):
    topic: str
    partition: int | None
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def builder_class() -> BuilderOf:
    """Load aiokafka's compiled builder (ADR 0012). It takes a tenth of a second, so a producer does it at its start."""
    module = import_module("aiokafka.record._crecords.default_records")
    found: BuilderOf = module.DefaultRecordBatchBuilder
    return found


def size_bound(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """Return an upper bound, in bytes, for a batch with only this record."""
    size = HEADER_BYTES + RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
    for name, content in headers:
        size += 10 + 3 * len(name) + len(content or b"")
    return size


class ProducerBatch:
    __slots__ = (
        "_append",
        "_builder",
        "appended_bytes",
        "attempts",
        "base_offset",
        "base_sequence",
        "callbacks",
        "children",
        "created_ms",
        "error",
        "is_done",
        "is_id_refused",
        "is_open",
        "is_under_way",
        "leader_epoch",
        "log_append_ms",
        "may_be_written",
        "order",
        "partition",
        "producer_epoch",
        "producer_id",
        "record_count",
        "record_errors",
        "records",
        "reserved_bytes",
        "retry_at_ms",
        "topic_id",
        "watchers",
    )

    def __init__(
        self,
        build: BuilderOf,
        partition: Partition,
        *,
        order: Order,
        created_ms: float,
        size_max: int,
        reserved_bytes: int,
        is_transactional: bool,
    ) -> None:
        self.partition = partition
        self.order = order
        """The batch's place among all batches of the producer."""
        self.created_ms = created_ms
        self.reserved_bytes = reserved_bytes
        self.record_count = 0
        self.attempts = 0
        self.retry_at_ms = 0.0
        self.topic_id = b""
        """The id of the topic that the batch was sent to; empty: the cluster has no ids."""
        self.is_id_refused = False
        """True if a leader said that it has no such topic."""
        self.leader_epoch = -1
        """The leader's epoch under which the batch was sent last."""
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence: int = NO_SEQUENCE
        self.records: bytearray | None = None
        self.is_open = True
        self.is_under_way = False
        self.may_be_written = False
        """True if a try was not answered, or answered so that the outcome is unknown."""
        self.is_done = False
        self.error: ClientError | None = None
        self.record_errors: dict[int, ClientError] | None = None
        """The errors of single records, where the broker named them."""
        self.appended_bytes = 0
        """Bytes before compression, once the batch is closed."""
        self.base_offset = NO_OFFSET
        self.log_append_ms = NO_TIMESTAMP
        self.children: list[tuple[int, ProducerBatch]] | None = None
        """The parts of a split batch: (index of the part's first record in this batch, part)."""
        self.callbacks: list[tuple[int, Callable[[], None]]] | None = None
        """The callbacks of records: (index of the record, callback)."""
        self.watchers: list[Callable[[], None]] | None = None
        """Functions that are called once, when the batch is done."""
        self._builder: Builder = build(
            magic=MAGIC,
            compression_type=Codec.NONE,
            is_transactional=int(is_transactional),
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=size_max,
        )
        self._append = self._builder.append

    def append(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> bool:
        """Append a record. False: there is no room, and the batch is closed. The first record always finds room."""
        if self.is_open and self._append(self.record_count, timestamp_ms, key, value, headers):
            self.record_count += 1
            return True
        if self.is_open:
            self.is_open, self.appended_bytes = False, self._builder.size()
        return False

    @property
    def size_bytes(self) -> int:
        """The batch's bytes so far, before compression; after `close` the bytes that will be sent."""
        if self.records is not None:
            return len(self.records)
        size: int = self._builder.size()
        return size

    @property
    def has_sequence(self) -> bool:
        return self.base_sequence != NO_SEQUENCE

    @property
    def next_sequence(self) -> int:
        """The sequence number that follows this batch's last record, with which the next batch begins."""
        return next_sequence(self.base_sequence, self.record_count)

    def close(self, codec: Codec, level: int | None) -> float:
        """Encode and compress the batch. Returns the compression ratio, 1.0 without compression."""
        self.is_open = False
        if self.records is not None:
            return 1.0
        plain = bytes(self._builder.build())
        self.appended_bytes = len(plain)
        self._builder, self._append = _ENDED, _ENDED.append
        if codec is Codec.NONE:
            self.records = bytearray(plain)
            return 1.0
        self.records = bytearray(recompressed(plain, codec, level))
        return len(self.records) / len(plain)

    def assign(self, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
        """Write producer id, epoch and sequence into the header; `close` came before."""
        assert self.records is not None
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        self.base_sequence = base_sequence
        stamp_producer(self.records, producer_id, producer_epoch, base_sequence)

    def decoded(self) -> Iterator[log_records.Record]:
        """Return the batch's records, as they were appended."""
        assert self.records is not None
        return log_records.decode_batch(self.records)

    # ---------------------------------------------------------------------------------------------- the end

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` once, when the batch is delivered or has failed."""
        if self.watchers is None:
            self.watchers = [watcher]
        else:
            self.watchers.append(watcher)

    def complete(self, base_offset: int, log_append_ms: int = NO_TIMESTAMP) -> bool:
        """End the batch as delivered. False: it was done already, for example given up before its answer came."""
        if self.is_done:
            return False
        self.base_offset, self.log_append_ms = base_offset, log_append_ms
        self._finish()
        return True

    def fail(self, error: ClientError, record_errors: dict[int, ClientError] | None = None) -> bool:
        """End the batch with an error. False: it was done already."""
        if self.is_done:
            return False
        self.error, self.record_errors = error, record_errors
        self._finish()
        return True

    def split_into(self, children: list[tuple[int, "ProducerBatch"]]) -> None:
        """Replace the batch, which was too large, by smaller ones with its records.

        The batch's watchers are called when all parts are done; a callback goes with its record.
        """
        self.children, self.records = children, None
        left = len(children)

        def child_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._finish()

        callbacks, self.callbacks = self.callbacks or [], None
        for first, child in children:
            last = first + child.record_count
            child.callbacks = [
                (index - first, call) for index, call in callbacks if first <= index < last
            ]
            child.watchers = [child_done]

    def leaf(self, index: int) -> tuple["ProducerBatch", int]:
        """Return the batch in which the record was finally sent, after all splits, and its index there."""
        batch = self
        while batch.children is not None:
            first, child = next(one for one in reversed(batch.children) if one[0] <= index)
            batch, index = child, index - first
        return batch, index

    def _finish(self) -> None:
        self.is_done = True
        self.records = None
        self._builder, self._append = _ENDED, _ENDED.append
        callbacks, self.callbacks = self.callbacks, None
        for _, call in callbacks or ():
            call()
        watchers, self.watchers = self.watchers, None
        for watch in watchers or ():
            watch()
