"""A producer on asyncio: idempotent without asking, transactional with a `transactional_id`.

    async with Producer("localhost:9092", transactional_id="pay") as producer:
        async with producer.transaction() as tx:
            tx.send("payments", b"12.50", key=b"alice")

What is sent to a partition stands there in the order of the calls of `send`, whatever is retried.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, fields
from types import TracebackType
from typing import Any, Final, Self, Unpack

from oncelog.client.core.addresses import Address, parse_addresses
from oncelog.client.core.login import ClientLogin
from oncelog.client.core.producer_batch import Record
from oncelog.client.core.producer_settings import ProducerSettings, producer_settings
from oncelog.client.core.producing import Partitioner
from oncelog.client.core.setting_names import merged, settings_of, split_login
from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.core.transactions import State
from oncelog.client.delivery import Delivery, RecordMetadata
from oncelog.client.errors import (
    ClientError,
    ConfigError,
    FatalError,
    IllegalStateError,
    SerializationError,
    TimedOutError,
)
from oncelog.client.interceptors import Interceptor, OutgoingRecord, guarded, intercepted
from oncelog.client.network.brokers import NetworkOptions, NetworkSettings
from oncelog.client.network.producer_loop import ProducerLoop
from oncelog.client.options import ProducerOptions
from oncelog.errors import ErrorCode, KafkaError, OncelogError
from oncelog.ids import Partition

logger = logging.getLogger(__name__)

NETWORK_NAMES: Final = tuple(one.name for one in fields(NetworkOptions))
PRODUCER_NAMES: Final = tuple(one.name for one in fields(ProducerSettings))
START_TIMEOUT_MS: Final = 30_000
"""Until a producer must have begun: an error then says why it cannot."""
_MOVED: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})

Serializer = Callable[[Any], bytes | None]
HeaderPairs = Sequence[tuple[str, bytes | None]]
OnDelivery = Callable[[RecordMetadata | None, ClientError | None], None]


class Transaction:
    """The open transaction of a producer, inside `async with producer.transaction()`."""

    def __init__(self, producer: "Producer") -> None:
        self._producer = producer

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderPairs = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """As `Producer.send`."""
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
        """As `Producer.send_offsets_to_transaction`."""
        await self._producer.send_offsets_to_transaction(offsets, group)


class Producer:
    """Use it with `async with`, or call `start` and `close`. It belongs to one event loop.

    `config` takes Kafka's names (`{"linger.ms": 5}`), and a login; keywords are the same with underscores. Raises
    ConfigError.
    """

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] = "localhost:9092",
        config: Mapping[str, object] | None = None,
        *,
        login: ClientLogin | None = None,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        interceptors: Sequence[Interceptor] = (),
        **options: Unpack[ProducerOptions],
    ) -> None:
        rest, found_login = split_login(config or {})
        servers = rest.pop("bootstrap.servers", None) or bootstrap_servers
        given = merged(options, rest, (*PRODUCER_NAMES, *NETWORK_NAMES))
        network = {name: given.pop(name) for name in NETWORK_NAMES if name in given}
        self.settings = producer_settings(given)
        text = servers if isinstance(servers, str) else ",".join(map(str, _listed(servers)))
        try:
            addresses = parse_addresses(text)
        except OncelogError as error:
            raise ConfigError(str(error)) from error
        self._network = _network_settings(addresses, login or found_login, network, self.settings)
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._partitioner = partitioner
        self._interceptors = tuple(interceptors)
        self._ignores_keys = self.settings.partitioner_ignore_keys and partitioner is None
        self._run: ProducerLoop | None = None
        self._is_closing = False
        self._is_in_callback = False

    # ---------------------------------------------------------------------------------------------- begin and end

    async def start(self) -> Self:
        """Reach the cluster; with a transactional id also fence its former producers.

        Within 30 s, or within `max.block.ms` if that is less. Otherwise it raises why it cannot, and is closed.
        """
        if self._run is not None:
            return self
        run = self._run = ProducerLoop(self.settings, self._network, self._partitioner)
        limit_ms = min(START_TIMEOUT_MS, self.settings.max_block_ms)
        try:
            await run.brokers.retrying(
                lambda: run.brokers.refresh(()), limit_ms, "reaching the cluster"
            )
            if self.settings.is_transactional:
                await self.init_transactions(limit_ms)
        except KafkaError as error:
            await self.close(0)
            raise FatalError(str(error), error.error_code) from error
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
        """Abort what is open, deliver the rest."""
        run = self._run
        if run is not None and self.settings.is_transactional and run.core.transactions.is_open:
            try:
                await self.abort_transaction()
            except ClientError as failure:
                logger.warning("the open transaction was left to its time-out: %s", failure)
        await self.close()

    async def close(self, timeout_s: float | None = None) -> None:
        """Deliver what is in the buffer, for so long at most; then everything left fails. None: `delivery.timeout.ms`.

        From a callback it does not wait: it is `close(0)`.
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
            await run.close(FatalError("the producer is closed"))

    # ---------------------------------------------------------------------------------------------- records

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: HeaderPairs = (),
        on_delivery: OnDelivery | None = None,
    ) -> Delivery:
        """Take a record, and return at once. Await the `Delivery` for its offset, or for what is wrong with the record.

        Keys and values are bytes, or text, or what the serializers take. Raises SerializationError, IllegalStateError
        for a call out of turn, and BufferExhaustedError where nobody awaits anything and no room is left.
        """
        run = self._run
        if run is None or self._is_closing:
            raise _not_running()
        if timestamp_ms is None:
            timestamp_ms = time.time_ns() // 1_000_000
        pairs = list(headers) if headers else []
        if self._interceptors:
            record = intercepted(
                self._interceptors,
                OutgoingRecord(topic, value, key, partition, timestamp_ms, pairs),
            )
            topic, value, key = record.topic, record.value, record.key
            partition, timestamp_ms = record.partition, record.timestamp_ms
            pairs = record.headers
        if key is not None and (key.__class__ is not bytes or self._key_serializer is not None):
            key = self._serialized(key, self._key_serializer, "key")
        if value is not None and (
            value.__class__ is not bytes or self._value_serializer is not None
        ):
            value = self._serialized(value, self._value_serializer, "value")
        key_size = -1 if key is None else len(key)
        value_size = -1 if value is None else len(value)
        if partition is None and (key is None or self._ignores_keys):
            batch = run.core.append_to_open(topic, timestamp_ms, key, value, pairs)
            if batch is not None:
                delivery = Delivery(batch, timestamp_ms, key_size, value_size)
                if on_delivery is not None or self._interceptors:
                    self._call_when_done(delivery, on_delivery)
                return delivery
        delivery = Delivery(None, timestamp_ms, key_size, value_size)
        self._place(run, Record(topic, partition, timestamp_ms, key, value, pairs), delivery)
        if on_delivery is not None or self._interceptors:
            self._call_when_done(delivery, on_delivery)
        return delivery

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
        """Returns when nothing stands in line for memory: a loop that awaits it sends as fast as brokers take it."""
        await self._started().no_line()

    async def flush(self) -> None:
        """Returns when everything that was sent before is delivered, or failed; it raises nothing of that."""
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
        """How many partitions the topic has. Raises TimedOutError after `max.block.ms` where it is not there."""
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

        `start` has done it. It is there for a producer whose user was refused at first, and allowed by an ACL since.
        """
        run = self._transactional()
        if run.core.transactions.state is not State.READY:
            limit_ms = self.settings.max_block_ms if timeout_ms is None else timeout_ms
            operation = run.core.transactions.initialize()
            await run.operation(operation, "init_transactions()", limit_ms)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Commit at the end of the block, with everything that was sent in it; an exception aborts, and goes on."""
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
        """Raises IllegalStateError where one is open."""
        run = self._transactional()
        run.core.transactions.has_tv2 = run.brokers.has_tv2
        run.core.transactions.begin()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Partition, int | OffsetToCommit], group: str | GroupMember
    ) -> None:
        """Commit a consumer's offsets with the transaction: the next ones to read. `group`: a consumer's
        `group_metadata()`, or a name where nobody else is in the group."""
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
        """Deliver everything, then commit. After TimedOutError nobody knows: call it again, it asks for the same."""
        run = self._transactional()
        operation = run.core.transactions.commit()
        await run.operation(operation, "commit_transaction()", self.settings.max_block_ms)

    async def abort_transaction(self) -> None:
        """Drop what was not sent, and abort. After TimedOutError call it again."""
        run = self._transactional()
        operation = run.core.transactions.abort()
        await run.operation(operation, "abort_transaction()", self.settings.max_block_ms)

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

    def _serialized(self, given: Any, serializer: Serializer | None, what: str) -> bytes | None:
        """None stays None, a tombstone: no serializer is asked."""
        if serializer is not None:
            try:
                given = serializer(given)
            except Exception as error:
                raise SerializationError(
                    f"the {what}_serializer failed for a {type(given).__name__}: {error!r}"
                ) from error
        if given is None or isinstance(given, bytes):
            return given
        if isinstance(given, str):
            return given.encode()
        if isinstance(given, bytearray | memoryview):
            return bytes(given)
        raise SerializationError(
            f"a {what} of type {type(given).__name__} cannot be sent: give bytes or text, or a {what}_serializer"
        )

    def _call_when_done(self, delivery: Delivery, on_delivery: OnDelivery | None) -> None:
        """Once, in the order of the records of a partition."""

        def call() -> None:
            error = delivery.exception()
            metadata = None if error is not None else delivery.result()
            self._is_in_callback = True
            try:
                for interceptor in self._interceptors:
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


def _listed(servers: object) -> Iterable[object]:
    if isinstance(servers, Iterable):
        return servers
    raise ConfigError(
        f"bootstrap.servers is {servers!r}: give host:port, for example localhost:9092"
    )


def _network_settings(
    addresses: tuple[Address, ...],
    login: ClientLogin | None,
    given: Mapping[str, object],
    settings: ProducerSettings,
) -> NetworkSettings:
    same = {
        name: getattr(settings, name)
        for name in ("request_timeout_ms", "retry_backoff_ms", "retry_backoff_max_ms")
    }
    checked = settings_of(NetworkOptions, given)
    return NetworkSettings(addresses, login=login, **same, **asdict(checked))


__all__ = ["Interceptor", "OutgoingRecord", "Producer", "Transaction"]
