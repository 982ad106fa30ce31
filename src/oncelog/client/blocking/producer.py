"""A producer for threads. Many threads may share one: the records of each thread keep their order."""

import functools
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Final, Unpack

from oncelog.client import producer
from oncelog.client.blocking.delivery import Delivery
from oncelog.client.blocking.intake import Intake
from oncelog.client.blocking.shell import Shell, does, waits
from oncelog.client.core.prepared import PreparedTransaction
from oncelog.client.core.producer_settings import ProducerSettings
from oncelog.client.core.producing import Partitioner
from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.delivery import Delivery as AsyncDelivery
from oncelog.client.delivery import OnDelivery
from oncelog.client.interceptors import Interceptor
from oncelog.client.options import ProducerOptions
from oncelog.client.outgoing import HeaderPairs, Serializer
from oncelog.ids import Partition

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from oncelog.client.tracing import Tracing

_Inner: Final = producer.Producer


class Transaction:
    """The open transaction of a producer, inside `with producer.transaction()`."""

    def __init__(self, producer: "Producer") -> None:
        self.send = producer.send
        """Sends a record in this transaction, as `Producer.send` does."""
        self._producer = producer

    def send_offsets(
        self, offsets: Mapping[Partition, int | OffsetToCommit], group: str | GroupMember
    ) -> None:
        """Commit a consumer's offsets (the next to read) to its group as part of this transaction."""
        self._producer.send_offsets_to_transaction(offsets, group)

    def prepare(self) -> PreparedTransaction:
        """Deliver all records, and prepare this transaction, the first half of a two-phase commit (KIP-939).

        After this an exception in the block does not abort the transaction. `complete_transaction` ends it, here or in
        the next producer of its transactional id.
        """
        return self._producer.prepare_transaction()


class Producer(Shell[producer.Producer]):
    """A blocking producer. Use it with `with`, or call `start` and `close`. It does not survive a fork: make one in
    each process.

    Its parameters are those of `oncelog.client.Producer`. Serializers and interceptors' `on_send` run in the thread
    that sends. The partitioner, `on_delivery` and `on_acknowledgement` run on the I/O thread, where they must not wait.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        config: Mapping[str, object] | None = None,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[Interceptor] = (),
        tracing: "Tracing | None" = None,
        metrics: "CollectorRegistry | None" = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        inner = _Inner(
            bootstrap_servers,
            config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            partitioner=partitioner,
            interceptors=interceptors,
            tracing=tracing,
            metrics=metrics,
            **options,
        )
        super().__init__(inner, "producer")
        self._intake = Intake(self._io, inner)

    @property
    def settings(self) -> ProducerSettings:
        return self._inner.settings

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Abort an open transaction that is not prepared, and close the producer."""
        self._end(functools.partial(self._inner.__aexit__, kind, error, trace))

    def close(self, timeout_s: float | None = None) -> None:
        """Deliver the buffered records within `timeout_s`, then fail the rest. None: within `delivery.timeout.ms`.

        Any thread may call this. In a callback it does not wait: it acts as `close(0)`.
        """
        wait_s = 0.0 if self._io.is_current else timeout_s
        self._end(functools.partial(self._inner.close, wait_s))

    def _end(self, close: Callable[[], Coroutine[object, object, None]]) -> None:
        if self._io.is_of_this_process:
            self._intake.close()
        super()._end(close)

    def send(
        self,
        topic: str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderPairs = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Send a record: put it into the buffer, and return at once, or after a wait for room in `buffer.memory`,
        `max.block.ms` at most.

        The `Delivery` tells the record's offset or its error. Keys and values are bytes, or text, or what the
        serializers take. Raises SerializationError, BufferExhaustedError, and IllegalStateError for a call that the
        producer's state does not allow.
        """
        io, inner = self._io, self._inner
        io.check_process()
        inner.check_may_send()
        record, on_delivery = inner.outgoing.record(
            topic, value, key, partition, timestamp_ms, headers, on_delivery
        )
        delivery = AsyncDelivery.of(record)
        if io.is_current:
            inner.take(record, delivery, on_delivery)
        else:
            self._intake.put(record, delivery, on_delivery)
        return Delivery(delivery, io)

    def send_all(
        self,
        topic: str,
        records: Iterable[tuple[object, object]],
        *,
        partition: int | None = None,
        headers: HeaderPairs = (),
        into: list[Delivery] | None = None,
    ) -> list[Delivery]:
        """Send many records, each a key and a value, and wait for room in the buffer. A record costs a third of the
        work of `send`.

        Serializers run on the I/O thread. The list `into` receives each delivery as its record is taken. So the program
        has them after a Ctrl-C or an error, too. Raises as `send` does.
        """
        io, given = self._io, list(records)
        found = [] if into is None else into

        def took(one: AsyncDelivery) -> None:
            found.append(Delivery(one, io))

        io.wait(lambda: self._inner.send_each(topic, given, partition, headers, took))
        return found

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Open a transaction, and commit it at the end of the block. An exception aborts it, and is raised again."""
        inner = self._inner.transaction()
        self._io.wait(inner.__aenter__)
        try:
            yield Transaction(self)
        except BaseException as error:
            leave = functools.partial(inner.__aexit__, type(error), error, error.__traceback__)
            self._io.wait(leave)
            raise
        self._io.wait(functools.partial(inner.__aexit__, None, None, None))

    flush = waits(_Inner.flush)
    ready = waits(_Inner.ready)
    partitions_for = waits(_Inner.partitions_for)
    init_transactions = waits(_Inner.init_transactions)
    begin_transaction = does(_Inner.begin_transaction)
    send_offsets_to_transaction = waits(_Inner.send_offsets_to_transaction)
    commit_transaction = waits(_Inner.commit_transaction)
    abort_transaction = waits(_Inner.abort_transaction)
    prepare_transaction = waits(_Inner.prepare_transaction)
    complete_transaction = waits(_Inner.complete_transaction)

    @property
    def prepared(self) -> PreparedTransaction | None:
        """The prepared transaction that still must be committed or aborted, perhaps one of a former producer; None if
        there is none."""
        return self._io.do(lambda: self._inner.prepared)
