"""The results of `Producer.send`: a promise of the place that the record gets in its partition."""

import asyncio
from collections.abc import Callable, Generator
from typing import NamedTuple, Self

from oncelog.client.core.producer_batch import NO_OFFSET, NO_TIMESTAMP, ProducerBatch, Record
from oncelog.client.errors import ClientError, IllegalStateError


class RecordMetadata(NamedTuple):
    """The place where a record was written. `offset` is -1 with acks=0, and for a batch that the leader had already."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """The producer's time in milliseconds, or the leader's where the topic says LogAppendTime."""
    serialized_key_size: int
    """The size of the serialized key in bytes; -1: there is no key."""
    serialized_value_size: int


OnDelivery = Callable[[RecordMetadata | None, ClientError | None], None]
"""A program's callback: with the metadata and None, or with None and the record's error."""


class Delivery:
    """The pending result of `send`. Awaiting it returns the record's `RecordMetadata`, or raises the record's
    `ClientError`.

    It may be awaited often, by several tasks, or by none.
    """

    __slots__ = (
        "_batch",
        "_error",
        "_index",
        "_key_size",
        "_timestamp_ms",
        "_value_size",
        "_watchers",
    )

    def __init__(
        self,
        batch: ProducerBatch | None,
        timestamp_ms: int,
        key_size: int,
        value_size: int,
    ) -> None:
        """Make the delivery of the record that was appended last to `batch`; None: the record is in no batch yet."""
        self._batch = batch
        self._index = -1 if batch is None else batch.record_count - 1
        self._error: ClientError | None = None
        self._watchers: list[Callable[[], None]] | None = None
        self._timestamp_ms = timestamp_ms
        self._key_size = key_size
        self._value_size = value_size

    @classmethod
    def of(cls, record: Record) -> Self:
        """Return the delivery of a record that is in no batch yet."""
        key, value = record.key, record.value
        key_size, value_size = -1 if key is None else len(key), -1 if value is None else len(value)
        return cls(None, record.timestamp_ms, key_size, value_size)

    def done(self) -> bool:
        """Return True once it is known whether the record was delivered."""
        if self._batch is None:
            return self._error is not None
        return self._batch.leaf(self._index)[0].is_done

    def result(self) -> RecordMetadata:
        """Return the record's metadata. Raises the record's error, and IllegalStateError before `done()`."""
        error = self.exception()
        if error is not None:
            raise error
        assert self._batch is not None
        batch, index = self._batch.leaf(self._index)
        has_offset, has_time = batch.base_offset != NO_OFFSET, batch.log_append_ms != NO_TIMESTAMP
        return RecordMetadata(
            batch.partition.topic,
            batch.partition.partition,
            batch.base_offset + index if has_offset else NO_OFFSET,
            batch.log_append_ms if has_time else self._timestamp_ms,
            self._key_size,
            self._value_size,
        )

    def exception(self) -> ClientError | None:
        """Return the record's error, or None if the record was delivered. Raises IllegalStateError before `done()`."""
        if self._error is not None:
            return self._error
        if self._batch is not None:
            batch, index = self._batch.leaf(self._index)
        if self._batch is None or not batch.is_done:
            raise IllegalStateError("the record is not delivered yet: await it")
        return batch.error and (batch.record_errors or {}).get(index, batch.error)

    def watch(self, watcher: Callable[[], None]) -> None:
        """Call `watcher` once, when the delivery is done; at once if it is done already."""
        if self.done():
            watcher()
        elif self._batch is None:
            self._watchers = [
                *(self._watchers or ()),
                lambda: watcher() if self.done() else self.watch(watcher),
            ]
        else:
            self._batch.watch(watcher)

    def call_in_order(self, call: Callable[[], None]) -> None:
        """Call `call` once the delivery is done. Calls of one batch come in the order of its records."""
        if self._batch is None or self.done():
            self._calls_in_order(call)
            return
        batch, index = self._batch.leaf(self._index)
        if batch.callbacks is None:
            batch.callbacks = [(index, call)]
        else:
            batch.callbacks.append((index, call))

    def _calls_in_order(self, call: Callable[[], None]) -> None:
        if self.done():
            call()
        else:
            self._watchers = [
                *(self._watchers or ()),
                lambda: call() if self.done() else self.call_in_order(call),
            ]

    def placed(self, batch: ProducerBatch) -> None:
        """Set the batch to which the record was appended last; its outcome becomes the delivery's."""
        # The index first: another thread may look at any time.
        self._index = batch.record_count - 1
        self._batch = batch
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher()

    def settled(self, batch: ProducerBatch | None, error: ClientError | None) -> None:
        """End the record's wait for metadata or memory: it went into `batch`, or failed with `error`."""
        if batch is not None:
            self.placed(batch)
        elif error is not None:
            self.failed(error)

    def failed(self, error: ClientError) -> None:
        """End the delivery with an error: the record was never put into a batch."""
        self._error = error
        watchers, self._watchers = self._watchers, None
        for watcher in watchers or ():
            watcher()

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        if not self.done():
            future = asyncio.get_running_loop().create_future()
            self.watch(lambda: None if future.done() else future.set_result(None))
            yield from future
        return self.result()
