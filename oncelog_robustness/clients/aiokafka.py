"""The adapter of aiokafka. The library is pure asyncio, so it runs unchanged in the simulator and against
processes.

This adapter adds exact endings, because aiokafka repeats requests without telling:

    EndTxn asked twice, refused the second time     the first may have committed: Unanswered
    EndTxn asked once, refused                      Refused or Fenced
    a batch was given up                            aiokafka would commit the rest: the adapter refuses to ask
    a call takes too long                           Unanswered; from then on the client may send nothing any more

The adapter speaks TV1 (the transaction protocol before KIP-890). It sends offsets without the group member's
generation, so only its transactional id fences it (KIP-447 needs a client that does both).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import aiokafka
from aiokafka import TopicPartition, errors
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.producer.transaction_manager import TransactionState

from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.contract import Consumer, Fenced, Refused, Unanswered
from oncelog_robustness.clients.login import aiokafka_login
from oncelog_robustness.clients.membership import Member, Membership
from oncelog_robustness.history import Isolation, Partition, Read

CALL_TIMEOUT_S: Final = 20.0
"""Seconds that a call may take: longer than two requests in a row that get no response."""
CLOSE_TIMEOUT_S: Final = 2.0
REQUEST_TIMEOUT_MS: Final = 8_000
"""The request timeout: longer than a rebalance, at whose end JoinGroup is answered."""
RETRY_BACKOFF_MS: Final = 100
METADATA_MAX_AGE_MS: Final = 20_000
SESSION_TIMEOUT_MS: Final = 6_000
HEARTBEAT_INTERVAL_MS: Final = 2_000
FETCH_MAX_WAIT_MS: Final = 500
POLL_INTERVAL_MAX_MS: Final = 60_000
"""The longest time between two polls; a consumer whose application hangs then loses its partitions."""

_REFUSED_END: Final = (
    errors.InvalidTxnState,
    errors.InvalidProducerIdMapping,
    errors.TransactionalIdAuthorizationFailed,
)
"""The errors of EndTxn which prove that this request ended no transaction."""
_FENCED: Final = (errors.ProducerFenced, errors.InvalidProducerEpoch)
_UNREADABLE: Final = (
    errors.OffsetOutOfRangeError,
    errors.NoOffsetForPartitionError,
    errors.RecordTooLargeError,
)


class AiokafkaClients:
    """A factory of aiokafka clients against the brokers at `bootstrap`, a list of `host:port`."""

    library = "aiokafka"

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap: Sequence[str] = list(bootstrap)

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> "AiokafkaProducer":
        producer = AiokafkaProducer(self._settings(client), transactional_id, timeout_ms)
        if transactional_id is None:
            await producer.start()
        return producer

    async def consumer(
        self, client: str, isolation: Isolation, group: str | None
    ) -> "AiokafkaConsumer":
        consumer = AiokafkaConsumer(self._settings(client), isolation, group)
        await consumer.start()
        return consumer

    async def admin(self, client: str) -> WireAdmin:
        return WireAdmin(self.bootstrap, client)

    def _settings(self, client: str) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap,
            "client_id": client,
            "request_timeout_ms": REQUEST_TIMEOUT_MS,
            "retry_backoff_ms": RETRY_BACKOFF_MS,
            "metadata_max_age_ms": METADATA_MAX_AGE_MS,
            **aiokafka_login(),
        }


class _Requests:
    """The requests of one aiokafka client, counted by kind if they may have reached a broker. When `is_cut` is set,
    no further request is sent."""

    def __init__(self, client: Any) -> None:
        self.counts: Counter[str] = Counter()
        self.duplicates: set[Partition] = set()
        """The partitions whose leader has a batch already, and did not say where; aiokafka then makes an offset up."""
        self.is_cut = False
        self._send = client.send
        client.send = self.send

    async def send(self, node_id: Any, request: Any, **options: Any) -> Any:
        name = type(request).__name__
        if self.is_cut:
            raise errors.KafkaError(f"the client was given up; {name} is not sent any more")
        self.counts[name] += 1
        try:
            response = await self._send(node_id, request, **options)
        except errors.NodeNotReadyError:
            self.counts[name] -= 1
            raise
        if name == "ProduceRequest":
            for topic, partitions in response.topics:
                for partition, error_code, *_ in partitions:
                    if error_code == errors.DuplicateSequenceNumber.errno:
                        self.duplicates.add((topic, partition))
        return response


class _Producer(aiokafka.AIOKafkaProducer):  # type: ignore[misc]
    """aiokafka's producer without the warning that it was not closed: workloads kill it on purpose."""

    def __del__(self) -> None:
        return


class _Consumer(aiokafka.AIOKafkaConsumer):  # type: ignore[misc]
    def __del__(self) -> None:
        return


class AiokafkaProducer:
    protocol = "TV1"
    sends_generation = False

    def __init__(
        self, settings: Mapping[str, Any], transactional_id: str | None, timeout_ms: int
    ) -> None:
        self._transactional_id = transactional_id
        options: dict[str, Any] = {"enable_idempotence": True}
        if transactional_id is not None:
            options["transactional_id"] = transactional_id
            options["transaction_timeout_ms"] = timeout_ms
        self._client: Any = _Producer(**settings, **options)
        self._requests = _Requests(self._client.client)
        self._queueing = asyncio.Lock()
        """The lock that queues sends in the order of the calls, which aiokafka alone does not do."""
        self._transaction = 0
        """The number of the newest transaction."""
        self._failed = ""
        """The reason why this transaction must not be committed, such as a batch that was
        given up; empty if it may be."""
        self._dead: Refused | None = None
        """The error because of which no other transaction can begin; None if one can."""

    async def start(self) -> None:
        async with self._answered("start"):
            try:
                await self._client.start()
            except _FENCED as error:
                raise Fenced(repr(error)) from error
            except errors.KafkaError as error:
                raise Unanswered(repr(error)) from error

    async def init_transactions(self) -> None:
        await self.start()

    async def begin(self) -> None:
        self._check_alive()
        self._transaction += 1
        if self._failed:
            raise Refused(f"{self._failed}; its sequences are lost, a new producer is needed")
        async with self._answered("begin"):
            await self._client.begin_transaction()

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        self._check_alive()
        topic, number = partition
        transaction = self._transaction
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S), self._queueing:
                if number not in await self._client.partitions_for(topic):
                    self._client.client.force_metadata_update()
                    raise self._given_up(f"{topic} has no partition {number}")
                if transaction != self._transaction:
                    raise Refused("its transaction is over")
                future = await self._client.send(
                    topic,
                    _bytes(value),
                    key=_bytes(key),
                    partition=number,
                )
        except _FENCED as error:
            raise self._fenced(error) from error
        except (errors.KafkaError, errors.IllegalOperation, TimeoutError) as error:
            # The record never reached the queue of records to be sent.
            raise self._given_up(f"not sent: {error!r}") from error
        return await self._acknowledged(future, partition)

    async def _acknowledged(self, future: Any, partition: Partition) -> int:
        try:
            async with self._answered("send"):
                offset = int((await future).offset)
        except asyncio.CancelledError:
            self._failed = "its caller gave up a send"
            raise
        except Unanswered as error:
            self._failed = str(error)
            raise
        except _FENCED as error:
            if self._transactional_id is None:
                raise Unanswered(repr(error)) from error
            raise self._fenced(error) from error
        except errors.KafkaError as error:
            self._failed = f"a batch was given up: {error!r}"
            if self._transactional_id is None:
                # An earlier try of it may be in the log.
                raise Unanswered(self._failed) from error
            raise Refused(self._failed) from error
        if offset < 0 or partition in self._requests.duplicates:
            self._failed = f"{partition} knows the batch, not its offset"
            raise Unanswered(self._failed)
        return offset

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: Consumer | str
    ) -> None:
        self._check_alive()
        if isinstance(consumer, Member):
            # Without a generation in the request the application itself must notice a rebalance.
            consumer.check_member()
        group = consumer if isinstance(consumer, str) else consumer.group
        wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        try:
            async with self._answered("send_offsets"):
                await self._client.send_offsets_to_transaction(wanted, group)
        except Unanswered as error:
            self._failed = str(error)
            raise
        except _FENCED as error:
            raise self._fenced(error) from error
        except (errors.KafkaError, errors.IllegalOperation) as error:
            raise self._given_up(f"offsets: {error!r}") from error

    async def commit(self) -> None:
        self._check_alive()
        if self._failed:
            raise Refused(f"{self._failed}; only an abort is possible")
        before = self._requests.counts["EndTxnRequest"]
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._client.commit_transaction()
        except (errors.KafkaError, TimeoutError) as error:
            self._requests.is_cut = True
            sent_count = self._requests.counts["EndTxnRequest"] - before
            self._dead = _end_of_commit(error, sent_count)
            if self._dead is None:
                self._dead = Refused(f"its last commit was not answered: {error!r}")
                raise Unanswered(f"commit: {error!r}") from error
            raise self._dead from error

    async def abort(self) -> None:
        if isinstance(self._dead, Fenced):
            raise self._dead
        # After an error of its own aiokafka would only pretend to abort.
        if self._dead is not None or self._state is not TransactionState.IN_TRANSACTION:
            self._requests.is_cut = True
            raise Unanswered(f"cannot abort any more: {self._dead or self._state}")
        try:
            async with self._answered("abort"):
                await self._client.abort_transaction()
        except _FENCED as error:
            raise self._fenced(error) from error
        except errors.KafkaError as error:
            self._dead = Refused(f"its last abort failed: {error!r}")
            raise Unanswered(f"abort: {error!r}") from error

    async def close(self) -> None:
        """Stop the client without sending anything more: a flush could decide a transaction, which the caller did
        not ask for."""
        self._requests.is_cut = True
        await _stop(self._client, self._client.client)

    @property
    def _state(self) -> TransactionState:
        return self._client._txn_manager.state

    def _check_alive(self) -> None:
        if self._dead is not None:
            raise self._dead
        if self._transactional_id is None or self._state is not TransactionState.FATAL_ERROR:
            return
        error = self._client._txn_manager.wait_for_transaction_end().exception()
        if isinstance(error, _FENCED):
            raise self._fenced(error)
        self._dead = Refused(f"{error!r} {error.__cause__!r}")
        raise self._dead

    def _fenced(self, error: BaseException) -> Fenced:
        self._dead = Fenced(repr(error))
        return self._dead

    def _given_up(self, reason: str) -> Refused:
        if self._transactional_id is not None:
            self._failed = reason
        return Refused(reason)

    @asynccontextmanager
    async def _answered(self, call: str) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                yield
        except TimeoutError as error:
            self._requests.is_cut = True
            self._dead = Refused(f"{call} was not answered; a new producer is needed")
            raise Unanswered(f"{call}: no answer in {CALL_TIMEOUT_S} s") from error


def _end_of_commit(error: BaseException, sent_count: int) -> Refused | None:
    """Return the error that a failed commit proves: Refused or Fenced. None if the transaction may have committed
    all the same. `sent_count` is how many EndTxn may have reached a coordinator."""
    if sent_count > 1 or (isinstance(error, TimeoutError) and sent_count):
        return None
    if isinstance(error, _FENCED):
        return Fenced(repr(error))
    if sent_count == 0 or isinstance(error.__cause__ or error, _REFUSED_END):
        return Refused(f"{error!r} {error.__cause__!r}")
    return None


class AiokafkaConsumer(ConsumerRebalanceListener):  # type: ignore[misc]
    """A consumer that, after a rebalance, returns records only once the workload could record its new positions."""

    def __init__(self, settings: Mapping[str, Any], isolation: Isolation, group: str | None):
        self.group = group
        self.isolation = isolation
        self._client: Any = _Consumer(
            **settings,
            group_id=group,
            isolation_level=isolation.value,
            enable_auto_commit=False,
            # A reader that was told where to read must not jump when that is not there.
            auto_offset_reset="none" if group is None else "earliest",
            fetch_max_wait_ms=FETCH_MAX_WAIT_MS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
        )
        self._requests = _Requests(self._client._client)
        self._admin = WireAdmin(settings["bootstrap_servers"], settings["client_id"])
        self._rebalances = 0
        self._is_moved = False
        """True if partitions came or went, and the application has not polled since."""
        self._new_positions: Mapping[Partition, int] | None = None
        self._membership: Membership | None = None

    async def start(self) -> None:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._client.start()
        except (errors.KafkaError, TimeoutError) as error:
            await self.close()
            raise Unanswered(f"start: {error!r}") from error

    async def assign(self, positions: Mapping[Partition, int]) -> None:
        self._client.assign([TopicPartition(*partition) for partition in positions])
        for partition, offset in positions.items():
            self._client.seek(TopicPartition(*partition), offset)

    async def subscribe(self, topics: Sequence[str]) -> None:
        self._client.subscribe(list(topics), listener=self)

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        self._is_moved = True

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        self._rebalances += 1
        self._is_moved = True
        self._client.pause(*sorted(assigned))

    async def poll(self, timeout_ms: int) -> Sequence[Read]:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._is_moved:
                    await self._settle()
                    return ()
                found = await self._client.getmany(timeout_ms=timeout_ms)
        except TimeoutError:
            return ()
        except _UNREADABLE as error:
            raise Refused(repr(error)) from error
        except errors.CorruptRecordException:
            raise
        except errors.KafkaError as error:
            raise Unanswered(repr(error)) from error
        return [
            Read(one.topic, one.partition, one.offset, _text(one.value), _text(one.key))
            for partition in sorted(found)
            for one in found[partition]
        ]

    async def _settle(self) -> None:
        """Find the offsets from which newly assigned partitions are read, and seek to them.

        aiokafka fetches offsets as clients before KIP-447 did. Behind a committed transaction whose marker is still
        on its way, it would receive the older offset. So this method fetches the stable offsets.
        """
        rebalance = self._rebalances
        if rebalance == 0 or self._client._subscription.reassignment_in_progress:
            await self._client._subscription.wait_for_assignment()
            return
        assigned = sorted(self._client.assignment())
        positions = {}
        for partition in assigned:
            try:
                positions[tuple(partition)] = await self._client.position(partition)
            except errors.IllegalStateError:
                # The partition was taken away meanwhile; the next poll finds the new assignment.
                await asyncio.sleep(RETRY_BACKOFF_MS / 1000)
                return
        if self.group is not None:
            stable = await self._admin.committed(self.group, list(positions))
            positions |= {one: offset for one, offset in stable.items() if offset >= 0}
        if rebalance != self._rebalances or self._client._subscription.reassignment_in_progress:
            return
        for one, offset in positions.items():
            self._client.seek(TopicPartition(*one), offset)
        coordinator = self._client._coordinator
        self._membership = Membership(coordinator.generation, coordinator.member_id)
        self._new_positions = positions
        self._is_moved = False
        self._client.resume(*assigned)

    def take_new_positions(self) -> Mapping[Partition, int] | None:
        taken, self._new_positions = self._new_positions, None
        return taken

    @property
    def membership(self) -> Membership | None:
        return self._membership

    def check_member(self) -> None:
        if self._is_moved:
            raise Refused("its group has rebalanced since it read")

    async def position(self, partition: Partition) -> int:
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                return int(await self._client.position(TopicPartition(*partition)))
        except errors.IllegalStateError as error:
            raise Refused(repr(error)) from error
        except (errors.KafkaError, TimeoutError) as error:
            raise Unanswered(repr(error)) from error

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        self.check_member()
        wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
        before = self._requests.counts["OffsetCommitRequest"]
        try:
            async with asyncio.timeout(CALL_TIMEOUT_S):
                await self._client.commit(wanted)
        except (errors.KafkaError, errors.IllegalOperation, TimeoutError) as error:
            sent_count = self._requests.counts["OffsetCommitRequest"] - before
            is_answered = sent_count == 1 and isinstance(error, errors.CommitFailedError)
            if is_answered or (sent_count == 0 and isinstance(error, errors.IllegalStateError)):
                raise Refused(repr(error)) from error
            raise Unanswered(repr(error)) from error

    async def close(self) -> None:
        await self._admin.close()
        await _stop(self._client, self._client._client)


async def _stop(library: Any, client: Any) -> None:
    """Close the library's client if that is possible in time; else abandon it, as an application that exits does."""
    for step in (library.stop, client.close):
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await step()
        except (errors.KafkaError, OSError, TimeoutError, AssertionError):
            continue
        except asyncio.CancelledError:
            # The library cancels its own tasks, and one that had not begun yet passes the cancellation on.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode(errors="backslashreplace")
