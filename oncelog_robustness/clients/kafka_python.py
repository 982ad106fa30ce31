"""The adapter of kafka-python. The library has threads, so it runs against processes only.

It speaks TV1 (the transaction protocol before KIP-890), and sends the group member's generation with offsets. The
adapter adds exact endings, because the library repeats requests without telling, and goes on after some errors (read in
version 3.0.12):

    EndTxn sent twice, refused the second time    the first may have committed: Unanswered
    a batch was given up                          the library would commit the rest: the adapter refuses to ask
    a batch is refused as fenced                  the library would ask for the next epoch of its successor, and
                                                  brokers would abort what that one has open: the adapter forbids it
    a call takes too long                         Unanswered; from then on the client may send nothing any more
"""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import kafka
from kafka import errors
from kafka.future import Future
from kafka.structs import OffsetAndMetadata, TopicPartition

from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.contract import Consumer, Fenced, Refused, Unanswered
from oncelog_robustness.clients.kafka_python_consumer import KafkaPythonConsumer
from oncelog_robustness.clients.login import kafka_python_login
from oncelog_robustness.clients.thread import CallThread
from oncelog_robustness.history import Isolation, Partition

CALL_TIMEOUT_S: Final = 20.0
"""Seconds that the library's own time-outs allow a call; the adapter waits a little longer before it gives up."""
MARGIN_S: Final = 5.0
REQUEST_TIMEOUT_MS: Final = 8_000

_SETTINGS: Final[Mapping[str, Any]] = {
    "request_timeout_ms": REQUEST_TIMEOUT_MS,
    "reconnect_backoff_max_ms": 500,
    "metadata_max_age_ms": 20_000,
    "bootstrap_timeout_ms": int(CALL_TIMEOUT_S * 1000),
    "metrics_enabled": False,
    "allow_auto_create_topics": False,
}
_FENCED: Final = (errors.ProducerFencedError, errors.InvalidProducerEpochError)
_REFUSED_END: Final = (errors.InvalidTxnStateError, errors.TransactionalIdAuthorizationFailedError)
"""Errors of EndTxn which say that this request decided nothing."""


class KafkaPythonClients:
    """A factory of kafka-python clients against the brokers at `bootstrap`, a list of `host:port`."""

    library = "kafka-python"

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap: Sequence[str] = list(bootstrap)
        # It writes every error that it also raises; a run under faults has thousands.
        logging.getLogger("kafka").setLevel(logging.CRITICAL)

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> "KafkaPythonProducer":
        producer = KafkaPythonProducer(self._settings(client), transactional_id, timeout_ms)
        if transactional_id is None:
            await producer.start()
        return producer

    async def consumer(
        self, client: str, isolation: Isolation, group: str | None
    ) -> KafkaPythonConsumer:
        consumer = KafkaPythonConsumer(self._settings(client), isolation, group)
        await consumer.start()
        return consumer

    async def admin(self, client: str) -> WireAdmin:
        return WireAdmin(self.bootstrap, client)

    def _settings(self, client: str) -> dict[str, Any]:
        own = {"bootstrap_servers": self.bootstrap, "client_id": client}
        return {**_SETTINGS, **kafka_python_login(), **own}


class _Requests:
    """The requests of one producer: this counts those that may have reached a broker, and can cut the client off."""

    def __init__(self, manager: Any) -> None:
        self.counts: Counter[str] = Counter()
        self.is_cut = False
        self._send = manager.send
        manager.send = self.send

    def send(self, request: Any, *places: Any, **options: Any) -> Any:
        name = type(request).__name__
        if self.is_cut:
            return Future().failure(
                errors.KafkaError(f"the client was given up; no {name} any more")
            )
        self.counts[name] += 1
        return self._send(request, *places, **options)


class _Producer(kafka.KafkaProducer):  # type: ignore[misc]
    """A producer that may be abandoned without being closed: the library's own `__del__` would block for a second."""

    def __del__(self) -> None:
        return


class KafkaPythonProducer:
    protocol = "TV1"
    sends_generation = True

    def __init__(
        self, settings: Mapping[str, Any], transactional_id: str | None, timeout_ms: int
    ) -> None:
        self._transactional_id = transactional_id
        limit_ms = int(CALL_TIMEOUT_S * 1000)
        options: dict[str, Any] = {"enable_idempotence": True, "linger_ms": 0}
        options |= {"max_block_ms": limit_ms, "delivery_timeout_ms": limit_ms}
        if transactional_id is not None:
            options["transactional_id"] = transactional_id
            options["transaction_timeout_ms"] = timeout_ms
            options["delivery_timeout_ms"] = max(REQUEST_TIMEOUT_MS, min(timeout_ms, limit_ms))
        self._options = {**settings, **options}
        self._thread = CallThread(f"producer {settings['client_id']}")
        self._client: Any = None
        self._requests: _Requests | None = None
        self._under_way = 0
        self._failed = ""
        """The reason why this transaction must not be committed; empty if it may be."""
        self._is_torn = False
        """True if a batch was given up: an earlier try may still arrive, so no transaction may follow."""
        self._dead: Refused | None = None
        """The error because of which no other transaction can begin; None if one can."""

    async def start(self) -> None:
        """Connect. Raises Unanswered when no broker answers, Refused for a login that the library does not take."""
        try:
            await self._call(self._connect)
        except (OSError, ValueError, AssertionError) as error:
            raise Refused(f"it cannot connect: {error!r}") from error

    def _connect(self) -> None:
        client = _Producer(**self._options)
        self._requests = _Requests(client._sender._client._manager)
        if self._transactional_id is not None:
            client._transaction_manager._supports_epoch_bump = lambda: False
        self._client = client

    async def init_transactions(self) -> None:
        await self.start()
        await self._call(self._client.init_transactions)

    async def begin(self) -> None:
        self._check_alive()
        if self._is_torn:
            raise Refused("a batch was given up; a new producer is needed")
        self._failed = ""
        await self._call(self._client.begin_transaction)

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        self._check_alive()
        self._under_way += 1
        try:
            return await self._sent(partition, value, key)
        except BaseException as error:
            self._failed = self._failed or f"a send was given up: {error!r}"
            self._is_torn = True
            raise
        finally:
            self._under_way -= 1

    async def _sent(self, partition: Partition, value: str | None, key: str | None) -> int:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        topic, number = partition

        def settle(offset: int, failure: BaseException | None) -> None:
            # The producer's own thread calls this, for a child that is killed also after its loop has ended.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(_settle, future, offset, failure)

        def send() -> None:
            try:
                sent = self._client.send(topic, _bytes(value), _bytes(key), partition=number)
            except ValueError:
                # It does not know the partition, which may be a new one.
                self._client._metadata.request_update()
                raise
            sent.add_callback(lambda found: settle(found.offset, None))
            sent.add_errback(lambda error: settle(-1, error))

        try:
            await self._in_thread(send)
        except ValueError as error:
            raise Refused(f"not sent: {error}") from error
        except errors.KafkaError as error:
            # The record never reached the queue of records to be sent.
            raise self._refusal(error) from error
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S + MARGIN_S):
                offset = await future
        except TimeoutError as error:
            self._give_up("a send")
            raise Unanswered(f"{partition}: no delivery report") from error
        except errors.KafkaError as error:
            if self._transactional_id is None:
                # An earlier try of it may be in the log.
                raise Unanswered(repr(error)) from error
            raise self._refusal(error) from error
        if offset < 0:
            raise Unanswered(f"{partition} knows the batch, not its offset")
        return offset

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: Consumer | str
    ) -> None:
        self._check_alive()
        group: Any = consumer
        if not isinstance(consumer, str):
            assert isinstance(consumer, KafkaPythonConsumer), "a member is of the same library"
            group = consumer.group_metadata
            if group is None:
                self._failed = "its group has taken its partitions back"
                raise Refused(self._failed)
        wanted = {
            TopicPartition(*partition): OffsetAndMetadata(offset, "", -1)
            for partition, offset in offsets.items()
        }
        try:
            await self._call(lambda: self._client.send_offsets_to_transaction(wanted, group))
        except (Refused, Unanswered) as error:
            self._failed = f"offsets: {error}"
            raise

    async def commit(self) -> None:
        self._check_alive()
        if self._failed:
            raise Refused(f"{self._failed}; only an abort is possible")
        if self._under_way:
            raise Refused(f"{self._under_way} sends are not answered yet")
        assert self._requests is not None, "it was started"
        before = self._requests.counts["EndTxnRequest"]
        try:
            await self._in_thread(self._client.commit_transaction)
        except Unanswered:
            self._give_up("its last commit")
            raise
        except errors.KafkaError as error:
            sent_count = self._requests.counts["EndTxnRequest"] - before
            self._give_up("its last commit")
            refusal = _end_of_commit(self._cause(error), sent_count)
            if refusal is None:
                raise Unanswered(f"{error!r} after {sent_count} tries") from error
            self._dead = refusal
            raise refusal from error

    async def abort(self) -> None:
        if isinstance(self._dead, Fenced):
            raise self._dead
        if self._dead is not None:
            raise Unanswered(str(self._dead))
        try:
            await self._call(self._client.abort_transaction)
        except Fenced:
            raise
        except Refused as error:
            self._dead = error
            raise Unanswered(str(error)) from error

    async def close(self) -> None:
        """Stop the client without sending anything more: a flush could decide a transaction, which the caller did not
        ask for."""
        self._give_up("closed")
        self._thread.end()

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise self._dead

    def _give_up(self, call: str) -> None:
        """Stop the client for good because `call` was not answered. Otherwise the library would repeat its requests for
        ever."""
        self._dead = self._dead or Refused(f"{call} was not answered; a new producer is needed")
        if self._requests is not None:
            self._requests.is_cut = True
            self._client._unregister_cleanup()
            self._client._sender.force_close()

    async def _call(self, step: Callable[[], Any]) -> None:
        try:
            await self._in_thread(step)
        except Unanswered:
            self._give_up("a call")
            raise
        except errors.KafkaError as error:
            refusal = self._refusal(error)
            if not isinstance(refusal, Fenced) and error.retriable:
                self._dead = Refused(f"{error!r}; a new producer is needed")
                raise Unanswered(repr(error)) from error
            raise refusal from error

    async def _in_thread(self, step: Callable[[], Any]) -> None:
        await self._thread.call(CALL_TIMEOUT_S + MARGIN_S, step)

    def _refusal(self, error: BaseException) -> Refused:
        cause = self._cause(error)
        if isinstance(cause, _FENCED):
            self._dead = Fenced(repr(cause))
            return self._dead
        if self._client is not None and self._client._transaction_manager.has_fatal_error():
            self._dead = Refused(repr(cause))
        return Refused(repr(cause))

    def _cause(self, error: BaseException) -> BaseException:
        """Return the error that put the producer into its error state, if `error` is one of a later call. Such an error
        has only the text of the first. Otherwise return `error` itself."""
        if self._client is None or type(error) is not errors.KafkaError:
            return error
        found: BaseException | None = self._client._transaction_manager.last_error
        return found or error


def _end_of_commit(error: BaseException, sent_count: int) -> Refused | None:
    """Return the error that a failed commit proves: Refused or Fenced. None if the transaction may have committed all
    the same. `sent_count` is how many EndTxn may have reached a coordinator."""
    if sent_count > 1:
        return None
    if isinstance(error, _FENCED):
        return Fenced(repr(error))
    if sent_count == 0 or isinstance(error, _REFUSED_END):
        return Refused(repr(error))
    return None


def _settle(future: "asyncio.Future[int]", offset: int, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(offset)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
