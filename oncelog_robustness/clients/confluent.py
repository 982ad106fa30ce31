"""The adapter of confluent-kafka (librdkafka). The library has threads, so it runs against processes only, not in
the simulator.

librdkafka repeats EndTxn without telling, so a commit that is fenced may have happened at an earlier try. Its
statistics count requests; only when EndTxn was sent once is a refusal believed. The adapter speaks TV1 (the
transaction protocol before KIP-890), and sends the group member's generation with offsets.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.contract import Consumer, Fenced, Refused, Unanswered
from oncelog_robustness.clients.login import confluent_login
from oncelog_robustness.clients.thread import CallThread
from oncelog_robustness.history import Isolation, Partition, Read

CALL_TIMEOUT_S: Final = 20.0
"""The time-out of a call in librdkafka, in seconds; the adapter waits a little longer before it gives the call up."""
MARGIN_S: Final = 5.0
CLOSE_TIMEOUT_S: Final = 3.0
STATISTICS_MS: Final = 200
RECORDS_MAX: Final = 500
POLL_S: Final = 0.05

_SETTINGS: Final[Mapping[str, Any]] = {
    # Otherwise librdkafka 2.16 hangs in send_offsets when it has found no listener for a moment.
    "metadata.recovery.strategy": "none",
    "socket.timeout.ms": 8_000,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 20_000,
    "statistics.interval.ms": STATISTICS_MS,
    "log_level": 0,
}
_FENCED: Final = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
_REFUSED_END: Final = (KafkaError.INVALID_TXN_STATE, KafkaError.INVALID_PRODUCER_ID_MAPPING)
_REFUSED_OFFSETS: Final = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
)


class ConfluentClients:
    """A factory of confluent-kafka clients against the brokers at `bootstrap`, a list of `host:port`."""

    library = "confluent-kafka"

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap: Sequence[str] = list(bootstrap)

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> "ConfluentProducer":
        return ConfluentProducer(self._settings(client), transactional_id, timeout_ms)

    async def consumer(
        self, client: str, isolation: Isolation, group: str | None
    ) -> "ConfluentConsumer":
        return ConfluentConsumer(self._settings(client), client, isolation, group)

    async def admin(self, client: str) -> WireAdmin:
        return WireAdmin(self.bootstrap, client)

    def _settings(self, client: str) -> dict[str, Any]:
        return {
            **_SETTINGS,
            **confluent_login(),
            "bootstrap.servers": ",".join(self.bootstrap),
            "client.id": client,
        }


class _Requests:
    """The number of requests of each kind that were sent to brokers, from librdkafka's own statistics, which come
    in a thread of the library."""

    def __init__(self) -> None:
        self._reports = 0
        self._counts: dict[str, int] = {}

    def add_report(self, report: str) -> None:
        counts: dict[str, int] = {}
        for broker in json.loads(report)["brokers"].values():
            for kind, count in broker["req"].items():
                counts[kind] = counts.get(kind, 0) + count
        self._counts = counts
        self._reports += 1

    def last_known(self, kind: str) -> int:
        return self._counts.get(kind, 0)

    def count(self, kind: str, poll: Callable[[float], Any]) -> int | None:
        """Return how many requests of this kind have been sent by now. Polls until a new report of statistics
        comes; None if none comes."""
        # The first report to come may have been made before.
        wanted = self._reports + 2
        for _ in range(20):
            if self._reports >= wanted:
                return self.last_known(kind)
            poll(STATISTICS_MS / 1000)
        return None


class ConfluentProducer:
    protocol = "TV1"
    sends_generation = True

    def __init__(
        self, settings: dict[str, Any], transactional_id: str | None, timeout_ms: int
    ) -> None:
        self._settings = settings
        self._transactional_id = transactional_id
        self._requests = _Requests()
        options: dict[str, Any] = {"enable.idempotence": True, "linger.ms": 0}
        options["message.timeout.ms"] = int(CALL_TIMEOUT_S * 1000)
        if transactional_id is not None:
            options["transactional.id"] = transactional_id
            options["transaction.timeout.ms"] = timeout_ms
            options["message.timeout.ms"] = min(timeout_ms, int(CALL_TIMEOUT_S * 1000))
        options["stats_cb"] = self._requests.add_report
        self._client: Any = confluent_kafka.Producer(settings | options)
        self._thread = CallThread(f"producer {settings['client.id']}")
        self._under_way = 0
        self._pump: asyncio.Task[None] | None = None
        self._failed = ""
        """The reason why this transaction must not be committed; empty if it may be."""
        self._dead: Refused | None = None

    async def init_transactions(self) -> None:
        await self._transact(lambda: self._client.init_transactions(CALL_TIMEOUT_S))

    async def begin(self) -> None:
        if self._dead is not None:
            raise self._dead
        self._failed = ""
        await self._transact(self._client.begin_transaction)

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        if self._dead is not None:
            raise self._dead
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()

        def delivered(error: KafkaError | None, message: Any) -> None:
            # This runs in the library's thread.
            failure = None if error is None else self._not_delivered(error)
            offset = -1 if message is None else message.offset()
            loop.call_soon_threadsafe(_settle, future, offset, failure)

        topic, number = partition
        try:
            self._client.produce(
                topic, _bytes(value), _bytes(key), partition=number, on_delivery=delivered
            )
        except BufferError as error:
            raise Refused(f"its queue is full: {error!r}") from error
        except KafkaException as error:
            self._failed = str(error)
            raise self._mapped(error) from error
        is_done = False
        self._under_way += 1
        if self._pump is None or self._pump.done():
            self._pump = loop.create_task(self._serve())
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S + MARGIN_S):
                offset = await future
            is_done = True
        except TimeoutError as error:
            self._dead = Refused("a send was not answered; a new producer is needed")
            raise Unanswered(f"{partition}: no delivery report") from error
        finally:
            self._under_way -= 1
            if not is_done:
                self._failed = self._failed or f"a batch for {partition} was given up"
        if offset < 0:
            self._failed = f"{partition} told no offset"
            raise Unanswered(self._failed)
        return offset

    async def _serve(self) -> None:
        while self._under_way:
            await self._thread.call(MARGIN_S, lambda: self._poll(POLL_S))

    def _poll(self, timeout_s: float) -> None:
        """Run the callbacks of librdkafka that are due. A fatal error is ignored: it is raised here only once, and
        the callbacks report what became of each record."""
        with contextlib.suppress(KafkaException):
            self._client.poll(timeout_s)

    def _not_delivered(self, error: KafkaError) -> Refused | Unanswered:
        if self._transactional_id is None:
            # An earlier try of it may be in the log.
            return Unanswered(error.str())
        return self._mapped_error(error)

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: Consumer | str
    ) -> None:
        wanted = _placed(offsets)

        def send() -> None:
            if isinstance(consumer, str):
                settings = {**self._settings, "group.id": consumer}
                metadata = confluent_kafka.Consumer(settings).consumer_group_metadata()
            else:
                assert isinstance(consumer, ConfluentConsumer), "a member is of the same library"
                metadata = consumer.group_metadata
                if metadata is None:
                    raise Refused("its group has taken its partitions back")
            self._client.send_offsets_to_transaction(wanted, metadata, CALL_TIMEOUT_S)

        try:
            await self._transact(send)
        except (Refused, Unanswered) as error:
            self._failed = f"offsets: {error}"
            raise

    async def commit(self) -> None:
        if self._dead is not None:
            raise self._dead
        if self._failed:
            raise Refused(f"{self._failed}; only an abort is possible")
        if self._under_way:
            raise Refused(f"{self._under_way} sends are not answered yet")
        before = self._requests.last_known("EndTxn")

        def commit() -> tuple[KafkaError, int | None] | None:
            try:
                self._client.commit_transaction(CALL_TIMEOUT_S)
            except KafkaException as error:
                return error.args[0], self._requests.count("EndTxn", self._poll)
            return None

        try:
            failure = await self._thread.call(CALL_TIMEOUT_S + 2 * MARGIN_S, commit)
        except Unanswered:
            self._dead = Refused("its last commit was not answered; a new producer is needed")
            raise
        if failure is None:
            return
        error, after = failure
        sent_count = 2 if after is None else after - before
        refusal = _end_of_commit(error, sent_count)
        if refusal is None:
            self._dead = Refused("its last commit was not answered; a new producer is needed")
            raise Unanswered(f"{error.str()} after {sent_count} tries")
        self._failed = error.str()
        if isinstance(refusal, Fenced) or not error.txn_requires_abort():
            self._dead = refusal
        raise refusal

    async def abort(self) -> None:
        if self._dead is not None:
            raise self._dead if isinstance(self._dead, Fenced) else Unanswered(str(self._dead))
        try:
            await self._transact(lambda: self._client.abort_transaction(CALL_TIMEOUT_S))
        except Fenced:
            raise
        except Refused as error:
            self._dead = error
            raise Unanswered(str(error)) from error

    async def close(self) -> None:
        self._dead = self._dead or Refused("closed")
        self._thread.end()

    async def _transact(self, step: Callable[[], Any]) -> None:
        """Run a blocking call of librdkafka in its thread, and repeat it while librdkafka calls its error
        retriable. Raises Refused, Fenced or Unanswered."""
        deadline_s = asyncio.get_running_loop().time() + CALL_TIMEOUT_S
        while True:
            try:
                await self._thread.call(CALL_TIMEOUT_S + MARGIN_S, step)
                return
            except KafkaException as error:
                is_over = asyncio.get_running_loop().time() > deadline_s
                if not error.args[0].retriable() or is_over:
                    raise self._mapped(error) from error
            except Unanswered as error:
                self._dead = Refused(f"{error}; a new producer is needed")
                raise
            await asyncio.sleep(POLL_S)

    def _mapped(self, error: KafkaException) -> Refused | Unanswered:
        return self._mapped_error(error.args[0])

    def _mapped_error(self, error: KafkaError) -> Refused | Unanswered:
        if error.fatal():
            kind = Fenced if _is_fenced(error) else Refused
            self._dead = kind(error.str())
            return self._dead
        if error.retriable() or error.code() == KafkaError._TIMED_OUT:
            self._dead = Refused(f"{error.str()}; a new producer is needed")
            return Unanswered(error.str())
        return Refused(error.str())


def _is_fenced(error: KafkaError) -> bool:
    return error.code() in _FENCED or "fenced" in error.str()


def _end_of_commit(error: KafkaError, sent_count: int) -> Refused | None:
    """Return the error that a failed commit proves: Refused or Fenced. None if the transaction may have committed
    all the same. `sent_count` is how many EndTxn may have reached a coordinator."""
    if sent_count > 1:
        return None
    if error.fatal() and _is_fenced(error):
        return Fenced(error.str())
    if sent_count == 0 and error.txn_requires_abort():
        return Refused(error.str())
    return Refused(error.str()) if error.code() in _REFUSED_END else None


class ConfluentConsumer:
    """A consumer that reads newly assigned partitions only after the workload could record its new positions in the
    history."""

    def __init__(
        self, settings: dict[str, Any], client: str, isolation: Isolation, group: str | None
    ) -> None:
        self.group = group
        self.isolation = isolation
        self.group_metadata: Any = None
        """librdkafka's metadata of the group, which names the generation in which the last records were returned.
        None while the consumer has no partitions."""
        self._requests = _Requests()
        self._client: Any = confluent_kafka.Consumer(
            settings
            | {
                "group.id": group if group is not None else f"{client}-alone",
                "isolation.level": isolation.value,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                # The consumer is given its position, and must not jump when that offset does not exist.
                "auto.offset.reset": "error",
                "session.timeout.ms": 6_000,
                "heartbeat.interval.ms": 2_000,
                "max.poll.interval.ms": 60_000,
                "fetch.wait.max.ms": 500,
                "allow.auto.create.topics": False,
                "check.crcs": True,
                "stats_cb": self._requests.add_report,
            }
        )
        self._thread = CallThread(f"consumer {client}")
        self._positions: dict[Partition, int] = {}
        self._given: list[Any] | None = None
        """The partitions that the group has assigned, until the next poll finds their positions. None at any other
        time."""
        self._new_positions: Mapping[Partition, int] | None = None
        self._error: KafkaError | None = None

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        self._positions = dict(positions)
        await self._call(lambda: self._client.assign(_placed(positions)))

    async def subscribe(self, topics: Sequence[str]) -> None:
        def subscribe() -> None:
            self._client.subscribe(
                list(topics), on_assign=self._assigned, on_revoke=self._gone, on_lost=self._gone
            )

        await self._call(subscribe)

    def _assigned(self, client: Any, partitions: list[Any]) -> None:
        client.assign([])
        self._positions = {}
        self._given = partitions

    def _gone(self, client: Any, partitions: list[Any]) -> None:
        self._positions = {}
        self._given = None
        self.group_metadata = None

    async def poll(self, timeout_ms: int) -> Sequence[Read]:
        if self._error is not None:
            error, self._error = self._error, None
            raise _unread(error)
        if self._given is not None:
            await self._call(self._settle)
            return ()
        messages = await self._call(lambda: self._poll(timeout_ms / 1000))
        reads = []
        for message in messages:
            place = (message.topic(), message.partition())
            if message.error() is None:
                key, value = _text(message.key()), _text(message.value())
                reads.append(Read(*place, message.offset(), value, key))
                self._positions[place] = message.offset() + 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                self._positions[place] = max(self._positions.get(place, 0), message.offset())
            elif reads:
                self._error = message.error()
            else:
                raise _unread(message.error())
        return reads or ()

    def _poll(self, timeout_s: float) -> list[Any]:
        first = self._client.poll(timeout_s)
        return [] if first is None else [first, *self._client.consume(RECORDS_MAX, 0)]

    def _settle(self) -> None:
        assert self._given is not None
        positions = {}
        for found in self._client.committed(self._given, CALL_TIMEOUT_S):
            if found.error is not None:
                raise KafkaException(found.error)
            offset = found.offset
            if offset < 0:
                offset, _ = self._client.get_watermark_offsets(found, CALL_TIMEOUT_S)
            positions[(found.topic, found.partition)] = offset
        self._client.assign(_placed(positions))
        self.group_metadata = self._client.consumer_group_metadata()
        self._positions = dict(positions)
        self._new_positions = positions
        self._given = None

    def take_new_positions(self) -> Mapping[Partition, int] | None:
        taken, self._new_positions = self._new_positions, None
        return taken

    async def position(self, partition: Partition) -> int:
        if partition not in self._positions:
            raise Refused(f"it does not read {partition}")
        return self._positions[partition]

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        if not offsets.keys() <= self._positions.keys():
            raise Refused("it was not given all of these")
        before = self._requests.last_known("OffsetCommit")

        def commit() -> tuple[KafkaError, int | None] | None:
            try:
                answers = self._client.commit(offsets=_placed(offsets), asynchronous=False)
                error = next((one.error for one in answers if one.error is not None), None)
            except KafkaException as raised:
                error = raised.args[0]
            if error is None:
                return None
            # Polling here would take records away from the application: the old count will do.
            return error, self._requests.last_known("OffsetCommit")

        failure = await self._call(commit)
        if failure is None:
            return
        error, after = failure
        is_sent_once = after is not None and after - before <= 1
        if error.code() in _REFUSED_OFFSETS and is_sent_once:
            raise Refused(error.str())
        raise Unanswered(error.str())

    async def close(self) -> None:
        # What does not end in time is abandoned, as by an application that exits.
        with contextlib.suppress(Unanswered, KafkaException, RuntimeError):
            await self._thread.call(CLOSE_TIMEOUT_S, self._client.close)
        self._thread.end()

    async def _call(self, step: Callable[[], Any]) -> Any:
        try:
            return await self._thread.call(2 * CALL_TIMEOUT_S + MARGIN_S, step)
        except KafkaException as error:
            raise Unanswered(error.args[0].str()) from error


def _unread(error: KafkaError) -> Refused | Unanswered:
    is_gone = error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
    return Refused(error.str()) if is_gone else Unanswered(error.str())


def _placed(offsets: Mapping[Partition, int]) -> list[Any]:
    return [TopicPartition(*partition, offset) for partition, offset in offsets.items()]


def _settle(future: "asyncio.Future[int]", offset: int, failure: BaseException | None) -> None:
    if future.done():
        return
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(offset)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="backslashreplace")
