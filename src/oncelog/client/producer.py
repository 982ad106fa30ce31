"""A producer on asyncio: idempotent by default, and transactional with a `transactional_id`.

    async with Producer("localhost:9092", transactional_id="pay") as producer:
        async with producer.transaction() as tx:
            tx.send("payments", b"12.50", key=b"alice")

The records of a partition stand in the order of the calls of `send`, whatever is retried.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import fields
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, Unpack

from oncelog.client.core.line import Line
from oncelog.client.core.prepared import Completion, PreparedTransaction
from oncelog.client.core.producer_batch import Record
from oncelog.client.core.producer_settings import ProducerSettings, producer_settings
from oncelog.client.core.producing import Partitioner
from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.core.transactions import State
from oncelog.client.delivery import Delivery, OnDelivery
from oncelog.client.errors import (
    ClientError,
    FatalError,
    IllegalStateError,
    TimedOutError,
)
from oncelog.client.interceptors import Interceptor, guarded
from oncelog.client.metrics import hide, of_producer, show
from oncelog.client.network.brokers import START_TIMEOUT_MS
from oncelog.client.network.producer_loop import ProducerLoop
from oncelog.client.options import ProducerOptions
from oncelog.client.outgoing import HeaderPairs, Outgoing, Serializer
from oncelog.client.reaching import split_settings
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from oncelog.client.tracing import Tracing

logger = logging.getLogger(__name__)

PRODUCER_NAMES: Final = tuple(one.name for one in fields(ProducerSettings))
SENDS_OF_A_TURN: Final = 500
"""Records that `send_all` takes before the network has its turn."""
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Transaction:
    """The open transaction of a producer, inside `async with producer.transaction()`."""

    def __init__(self, producer: "Producer") -> None:
        self._producer = producer

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
        """Send a record in this transaction. The arguments and the result are those of `Producer.send`."""
        return self._producer.send(
            topic,
            value,
            key,
            partition=partition,
            timestamp_ms=timestamp_ms,
            headers=headers,
            on_delivery=on_delivery,
        )

    async def send_offsets(
        self, offsets: Mapping[Partition, int | OffsetToCommit], group: str | GroupMember
    ) -> None:
        """Commit a consumer's offsets (the next to read) to its group as part of this transaction."""
        await self._producer.send_offsets_to_transaction(offsets, group)

    async def prepare(self) -> PreparedTransaction:
        """Deliver all records, and prepare this transaction, the first half of a two-phase commit (KIP-939).

        After this an exception in the block does not abort the transaction. `complete_transaction` ends it, here or in
        the next producer of its transactional id.
        """
        return await self._producer.prepare_transaction()


class Producer:
    """An asynchronous producer. Use it with `async with`, or call `start` and `close`. It belongs to one event loop.

    `config` takes Kafka's names (`{"linger.ms": 5}`), and a login; keywords are the same with underscores. Raises
    ConfigError.
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
        given, self._network = split_settings(bootstrap_servers, config, options, PRODUCER_NAMES)
        self.settings = producer_settings(given)
        self.outgoing = Outgoing(key_serializer, value_serializer, tuple(interceptors), tracing)
        serializers = (key_serializer, value_serializer)
        self._is_plain = serializers == (None, None) and not interceptors and tracing is None
        self._metrics = metrics
        self._partitioner = partitioner
        self._run: ProducerLoop | None = None
        self._is_closing = False
        self._is_in_callback = False

    # ---------------------------------------------------------------------------------------------- begin and end

    async def start(self) -> Self:
        """Reach the cluster; with a transactional id, also fence the producers that had it before.

        With two-phase commit their open transaction stays: `prepared` tells of it, and `complete_transaction` comes
        next. It may take 30 s, or `max.block.ms` if that is less. If it fails, it raises the reason, and the producer
        is closed.
        """
        if self._run is not None:
            return self
        run = self._run = ProducerLoop(self.settings, self._network, self._partitioner)
        show(self._metrics, self, lambda: of_producer(run))
        try:
            await run.brokers.reach(self.settings.max_block_ms)
            if self.settings.is_transactional:
                await self.init_transactions(min(START_TIMEOUT_MS, self.settings.max_block_ms))
        except BaseException:
            await self.close(0)
            raise
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Abort an open transaction that is not prepared, and close the producer."""
        run = self._run
        if run is not None and self.settings.is_transactional and run.core.transactions.is_open:
            try:
                await self.abort_transaction()
            except ClientError as failure:
                logger.warning("the open transaction was left to its time-out: %s", failure)
        await self.close()

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver the buffered records within `timeout_s`, then fail the rest. None: within `delivery.timeout.ms`.

        In a callback it does not wait: it acts as `close(0)`.
        """
        run = self._run
        if run is None or self._is_closing:
            return
        self._is_closing = True
        wait_s = self.settings.delivery_timeout_ms / 1000 if timeout_s is None else timeout_s
        if self._is_in_callback or run.core.transactions.is_open:
            wait_s = 0.0
        run.core.accumulator.is_closed = True
        run.wake()
        try:
            async with asyncio.timeout(wait_s):
                await run.all_done()
        except TimeoutError:
            pass
        finally:
            hide(self._metrics, self)
            await run.close(FatalError("the producer is closed"))

    # ---------------------------------------------------------------------------------------------- records

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
        """Send a record: put it into the buffer, and return at once. Await the `Delivery` for the record's offset or
        its error.

        Keys and values are bytes, or text, or what the serializers take. Raises SerializationError, IllegalStateError
        for a call that the producer's state does not allow, and BufferExhaustedError if no room is left and the program
        awaits nothing.
        """
        run = self._started()
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        if (
            self._is_plain
            and on_delivery is None
            and value.__class__ is bytes
            and (key is None or key.__class__ is bytes)
        ):
            # Most records go this short way, which makes an object less for each.
            pairs = list(headers) if headers else []
            batch = run.core.append_to_open(topic, partition, timestamp_ms, key, value, pairs)
            if batch is not None:
                return Delivery(batch, timestamp_ms, -1 if key is None else len(key), len(value))
        record, on_delivery = self.outgoing.record(
            topic, value, key, partition, timestamp_ms, headers, on_delivery
        )
        delivery = Delivery.of(record)
        self.accept(record, delivery, on_delivery)
        return delivery

    async def send_all(
        self,
        topic: str,
        records: Iterable[tuple[object, object]],
        *,
        partition: int | None = None,
        headers: HeaderPairs = (),
        into: list[Delivery] | None = None,
    ) -> list[Delivery]:
        """Send many records, each a key and a value. It waits for room in the buffer, and lets the network run in
        between.

        The list `into` receives each delivery as its record is taken. So the program has them after a cancellation or
        an error, too. Raises as `send` does.
        """
        found = [] if into is None else into
        await self.send_each(topic, records, partition, headers, found.append)
        return found

    async def send_each(
        self,
        topic: str,
        records: Iterable[tuple[object, object]],
        partition: int | None,
        headers: HeaderPairs,
        took: Callable[[Delivery], None],
    ) -> None:
        line = self.line
        for number, (key, value) in enumerate(records, 1):
            took(self.send(topic, value, key, partition=partition, headers=headers))
            if line:
                await self.ready()
            elif number % SENDS_OF_A_TURN == 0:
                await asyncio.sleep(0)

    def accept(
        self, record: Record, delivery: Delivery, on_delivery: OnDelivery | None = None
    ) -> None:
        """Put a serialized record into the buffer: the part of `send` that must run on the event loop. Raises as `send`
        does."""
        run = self._started()
        batch = run.core.append_to_open(*record)
        if batch is not None:
            delivery.placed(batch)
        else:
            self._place(run, record, delivery)
        if on_delivery is not None or self.outgoing.interceptors:
            self._call_when_done(delivery, on_delivery)

    def take(self, record: Record, delivery: Delivery, on_delivery: OnDelivery | None) -> None:
        """Put a serialized record from another thread into the buffer. Errors that `accept` would raise go to the
        delivery instead."""
        try:
            self.accept(record, delivery, on_delivery)
        except ClientError as error:
            delivery.failed(error)
            self._call_when_done(delivery, on_delivery)

    def check_may_send(self) -> None:
        """Raise IllegalStateError if the producer's state allows no `send`. It only reads, so any thread may ask."""
        run = self._started()
        if self.settings.is_transactional:
            try:
                run.core.transactions.check_may_send()
            except IllegalStateError:
                raise
            except ClientError:
                pass  # The delivery tells it.

    @property
    def line(self) -> Line:
        """The records that are in no batch yet, because they wait for metadata or for memory."""
        return self._started().core.line

    def _place(self, run: ProducerLoop, record: Record, delivery: Delivery) -> None:
        core = run.core
        try:
            batch = core.append(record, run.now_ms())
            if batch is not None:
                delivery.placed(batch)
                if batch.record_count == 1:
                    run.wake()
                return
            core.stand_in_line(record, run.now_ms(), delivery.settled)
            run.brokers.need([record.topic])
            run.wake()
        except (IllegalStateError, TimedOutError):
            raise
        except ClientError as error:
            if self.settings.is_transactional:
                core.transactions.failed(error)
            delivery.failed(error)

    async def ready(self) -> None:
        """Wait until no record waits for memory. A loop that awaits this sends as fast as brokers take records."""
        await self._started().no_line()

    async def flush(self) -> None:
        """Return when each record sent before is delivered or has failed. It raises no record's error."""
        if self._is_in_callback:
            raise IllegalStateError("flush() in a callback would wait for itself")
        run = self._started()
        run.core.accumulator.is_flushing += 1
        run.wake()
        try:
            await run.all_done()
        finally:
            run.core.accumulator.is_flushing -= 1

    async def partitions_for(self, topic: str) -> int:
        """Return the topic's number of partitions. Raises TimedOutError if there is no topic after `max.block.ms`."""
        brokers = self._started().brokers

        async def attempt() -> int:
            view = await brokers.refresh([topic])
            known = view.topics.get(topic)
            if known is None or not known.leaders:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else known.error
                raise KafkaError(code, f"topic {topic!r}")
            return known.partition_count

        return await brokers.retrying(attempt, self.settings.max_block_ms, f"metadata of {topic!r}")

    # ---------------------------------------------------------------------------------------------- transactions

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Fence the producers that had the transactional id before.

        `start` has done this already. Call it for a producer whose user was refused at first, and has been allowed by
        an ACL since.
        """
        run = self._transactional()
        if run.core.transactions.state is not State.READY:
            limit_ms = self.settings.max_block_ms if timeout_ms is None else timeout_ms
            operation = run.core.transactions.initialize()
            await run.operation(operation, "init_transactions()", limit_ms)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction, and commit it at the end of the block. An exception aborts it, and is raised again."""
        self.begin_transaction()
        try:
            yield Transaction(self)
        except BaseException:
            if self._transactional().core.transactions.is_open:
                try:
                    await self.abort_transaction()
                except ClientError as failure:
                    logger.warning("the abort failed as well: %s", failure)
            raise
        try:
            await self.commit_transaction()
        except BaseException:
            if self._transactional().core.transactions.is_open:
                await self.abort_transaction()
            raise

    def begin_transaction(self) -> None:
        """Open a transaction. Raises IllegalStateError if one is open."""
        run = self._transactional()
        run.core.transactions.has_tv2 = run.brokers.has_tv2
        run.core.transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Partition, int | OffsetToCommit], group: str | GroupMember
    ) -> None:
        """Commit a consumer's offsets (the next to read) with the transaction.

        `group` is what the consumer's `group_metadata()` returns, or the group's name if the group has no members.
        """
        run = self._transactional()
        member = GroupMember(group) if isinstance(group, str) else group
        if not member.group_id:
            raise IllegalStateError("the group has no name: give the consumer a group.id")
        run.core.transactions.check_may_send()
        wanted = {
            Partition(*partition): at if isinstance(at, OffsetToCommit) else OffsetToCommit(at)
            for partition, at in offsets.items()
        }
        if wanted:
            operation = run.core.transactions.send_offsets(member, wanted)
            await run.operation(
                operation, "send_offsets_to_transaction()", self.settings.max_block_ms
            )

    async def commit_transaction(self) -> None:
        """Deliver all records, then commit. After TimedOutError the outcome is unknown: call it again."""
        run = self._transactional()
        operation = run.core.transactions.commit()
        await run.operation(operation, "commit_transaction()", self.settings.max_block_ms)

    async def abort_transaction(self) -> None:
        """Drop the records that were not sent, and abort the transaction. After TimedOutError call it again."""
        run = self._transactional()
        operation = run.core.transactions.abort()
        await run.operation(operation, "abort_transaction()", self.settings.max_block_ms)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Deliver all records, and prepare: the transaction then waits, without a time-out, to be completed (KIP-939).

        Store the text of the result in the other system's transaction, and commit that. Then complete this one. Raises
        IllegalStateError without `transaction.two.phase.commit.enable`, UnsupportedError without TV2.
        """
        run = self._transactional()
        operation = run.core.transactions.prepare()
        await run.operation(operation, "prepare_transaction()", self.settings.max_block_ms)
        prepared = run.core.transactions.prepared
        assert prepared is not None
        return prepared

    @property
    def prepared(self) -> PreparedTransaction | None:
        """The prepared transaction that still must be committed or aborted, perhaps one of a former producer; None if
        there is none."""
        found = self._transactional().core.transactions.prepared
        return found if found is not None and found.has_transaction else None

    async def complete_transaction(self, stored: PreparedTransaction | str | None) -> Completion:
        """Commit the prepared transaction if it is `stored`, the one that the other system holds; otherwise abort it.

        A program with two-phase commit calls this first after a start. It returns what was done: NOTHING if no
        transaction was open. After TimedOutError call it again.
        """
        if not isinstance(stored, PreparedTransaction):
            stored = PreparedTransaction.parse(stored)
        run = self._transactional()
        operation, completion = run.core.transactions.complete(stored)
        if operation is not None:
            limit_ms = self.settings.max_block_ms
            await run.operation(operation, "complete_transaction()", limit_ms)
        return completion

    # ---------------------------------------------------------------------------------------------- inside

    def _started(self) -> ProducerLoop:
        if self._run is None or self._is_closing:
            raise _not_running()
        return self._run

    def _transactional(self) -> ProducerLoop:
        run = self._started()
        if not self.settings.is_transactional:
            raise IllegalStateError("this producer has no transactional_id: give it one")
        return run

    def _call_when_done(self, delivery: Delivery, on_delivery: OnDelivery | None) -> None:
        """Call `on_delivery` and the interceptors once, in the order of the records of a partition."""

        def call() -> None:
            error = delivery.exception()
            metadata = None if error is not None else delivery.result()
            self._is_in_callback = True
            try:
                for interceptor in self.outgoing.interceptors:
                    guarded(interceptor.on_acknowledgement, metadata, error)
                if on_delivery is not None:
                    guarded(on_delivery, metadata, error)
            finally:
                self._is_in_callback = False

        delivery.call_in_order(call)


def _not_running() -> IllegalStateError:
    return IllegalStateError(
        "the producer is closed, or was not started: use `async with Producer(…)`"
    )
