"""A small producer that speaks TV2 (KIP-890), because no Python client does. Its reading side is aiokafka's.

    Produce v12            the leader adds its partition to the transaction
    TxnOffsetCommit v5     the group coordinator adds the group
    EndTxn v5              every end bumps the producer's epoch, and the answer tells the new one

So a request that comes late belongs to an epoch that is over, and sequences begin at 0 in every transaction.

Up to five batches are under way to a partition at once (`batch_line`). A batch is repeated with its sequence until it
is answered; a leader knows it again. One that overtook another is refused by its sequence, and repeated behind that.
An EndTxn is repeated with its epoch; a coordinator knows that again, too. What a refusal proves:

    Produce refused                   abort; 47 and 48 are a timeout or a successor, and the abort tells which
    EndTxn refused by epoch (90)      fenced, unless an earlier try may have decided it: then nobody knows
    EndTxn refused by state (48)      this epoch's transaction was aborted, whatever earlier tries did
"""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from aiokafka.record._crecords.default_records import DefaultRecordBatchBuilder

from oncelog.errors import ErrorCode, KafkaError, error_code_of
from oncelog.protocol import versions
from oncelog.record.batch import MAGIC, Codec
from oncelog_robustness.clients.admin import WireAdmin
from oncelog_robustness.clients.aiokafka import AiokafkaClients, AiokafkaConsumer
from oncelog_robustness.clients.batch_line import BatchLine, GivenUp, Place
from oncelog_robustness.clients.contract import Consumer, EndedByOthers, Fenced, Refused, Unanswered
from oncelog_robustness.clients.membership import Member, Membership
from oncelog_robustness.clients.wire import (
    GROUP,
    REQUEST_TIMEOUT_S,
    TRANSACTION,
    Brokers,
    Deadline,
    Lost,
    Unreachable,
    by_topic,
    check,
    retrying,
    types_of,
)
from oncelog_robustness.history import Isolation, Partition

CALL_TIMEOUT_S: Final = 20.0
BATCH_BYTES_MAX: Final = 1024 * 1024
ACKS_ALL: Final = -1
TRANSACTION_VERSION, TV2 = "transaction.version", 2
NOBODY: Final = Membership(-1, "")

_FENCED: Final = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_NOT_APPENDED: Final = frozenset(
    {
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.INVALID_RECORD,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)
"""Answers to Produce that say that this batch is not in the log, now or later."""


class Tv2Clients:
    """Makes clients that speak TV2 against the brokers at `bootstrap`, a list of `host:port`."""

    library = "oncelog"

    def __init__(self, bootstrap: Sequence[str]) -> None:
        self.bootstrap: Sequence[str] = list(bootstrap)
        self._readers = AiokafkaClients(bootstrap)

    async def producer(
        self, client: str, transactional_id: str | None, timeout_ms: int
    ) -> "Tv2Producer":
        brokers = Brokers(self.bootstrap, client)
        producer = Tv2Producer(brokers, transactional_id, timeout_ms)
        if transactional_id is None:
            await producer.init_transactions()
        return producer

    async def consumer(
        self, client: str, isolation: Isolation, group: str | None
    ) -> AiokafkaConsumer:
        return await self._readers.consumer(client, isolation, group)

    async def admin(self, client: str) -> WireAdmin:
        return WireAdmin(self.bootstrap, client)


class _Identity(NamedTuple):
    producer_id: int
    producer_epoch: int


class _Transaction:
    """What must be known to end one."""

    def __init__(self) -> None:
        self.is_attempted = False
        """Something may have been added to it at a broker."""
        self.sends_under_way = 0
        self.failure = ""
        """Why it must not be committed."""


class Tv2Producer:
    protocol = "TV2"
    sends_generation = True

    def __init__(self, brokers: Brokers, transactional_id: str | None, timeout_ms: int) -> None:
        self._brokers = brokers
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._identity: _Identity | None = None
        self._lines: dict[Partition, BatchLine] = {}
        """Of each partition that was written under this identity."""
        self._transaction: _Transaction | None = None
        self._dead: Refused | None = None

    # ------------------------------------------------------------------------------------------- transactions

    async def init_transactions(self) -> None:
        """Repeating it is safe: each answer is a newer epoch, and the newest one is ours."""
        request = types_of(versions.INIT_PRODUCER_ID).InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout=timedelta(milliseconds=self._timeout_ms),
        )

        async def attempt() -> Any:
            features = await self._brokers.check_versions()
            if self._transactional_id is None:
                response = await self._brokers.call_any(versions.INIT_PRODUCER_ID, request)
            else:
                if features.get(TRANSACTION_VERSION, 0) < TV2:
                    raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "transaction.version is not 2")
                response = await self._at_coordinator(versions.INIT_PRODUCER_ID, request)
            check(response.error_code.value, "InitProducerId")
            return response

        try:
            response = await retrying(self._brokers, attempt, CALL_TIMEOUT_S)
        except (Lost, Unreachable) as error:
            raise Unanswered(f"InitProducerId: {error}") from error
        except KafkaError as error:
            if error.error_code.is_retriable:
                raise Unanswered(str(error)) from error
            raise Refused(str(error)) from error
        self._identity = _Identity(response.producer_id, response.producer_epoch)
        self._lines.clear()

    async def begin(self) -> None:
        if self._dead is not None:
            raise self._dead
        assert self._identity is not None, "init_transactions() comes first"
        assert self._transaction is None, "one transaction at a time"
        self._transaction = _Transaction()

    async def commit(self) -> None:
        transaction = self._open_transaction()
        if transaction.failure:
            raise Refused(f"{transaction.failure}; only an abort is possible")
        if transaction.sends_under_way:
            raise Refused(f"{transaction.sends_under_way} sends are not answered yet")
        if not transaction.is_attempted:
            self._transaction = None
            return
        sent_count, code = await self._end(is_commit=True)
        if code is ErrorCode.NONE:
            self._transaction = None
        elif code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
            transaction.failure = f"EndTxn: {_name(code)}"
            is_ended = code is ErrorCode.INVALID_TXN_STATE and sent_count == 1
            raise (EndedByOthers if is_ended else Refused)(transaction.failure)
        elif sent_count > 1 or code is None:
            self._dead = Refused("its last commit was not answered; a new producer is needed")
            if not sent_count:
                raise Refused("EndTxn never reached a coordinator")
            raise Unanswered(f"EndTxn: {_name(code)} after {sent_count} tries")
        else:
            raise self._died_of(code, "EndTxn")

    async def abort(self) -> None:
        transaction = self._open_transaction()
        if not transaction.is_attempted:
            self._transaction = None
            return
        _, code = await self._end(is_commit=False)
        if code is ErrorCode.NONE:
            self._transaction = None
        elif code in _FENCED:
            raise self._died_of(code, "EndTxn")
        else:
            self._dead = Refused(f"its last abort failed: {_name(code)}; a new producer is needed")
            raise Unanswered(f"EndTxn: {_name(code)}")

    async def _end(self, is_commit: bool) -> tuple[int, ErrorCode | None]:
        """How many tries may have been received, and the last answer; None when the last try had none."""
        assert self._identity is not None
        request = types_of(versions.END_TXN).EndTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            committed=is_commit,
        )
        sent_count = 0
        deadline = Deadline(CALL_TIMEOUT_S)
        while True:
            code: ErrorCode | None = None
            try:
                response = await self._at_coordinator(versions.END_TXN, request)
                sent_count += 1
                code = error_code_of(response.error_code.value)
                if code is ErrorCode.NONE and response.producer_id >= 0:
                    self._identity = _Identity(response.producer_id, response.producer_epoch)
                    self._lines.clear()
            except Lost:
                sent_count += 1
            except (Unreachable, KafkaError):
                # The coordinator was not found, so nobody was asked.
                pass
            if code is not None and not code.is_retriable:
                return sent_count, code
            self._brokers.forget()
            if not await deadline.pause():
                return sent_count, None

    async def _at_coordinator(self, api_key: int, request: Any) -> Any:
        assert self._transactional_id is not None
        coordinator = await self._brokers.coordinator_of(TRANSACTION, self._transactional_id)
        return await self._brokers.call(coordinator, api_key, request)

    # ------------------------------------------------------------------------------------------------ records

    async def send(self, partition: Partition, value: str | None, key: str | None = None) -> int:
        transaction = None if self._transactional_id is None else self._check_open()
        if transaction is not None:
            transaction.sends_under_way += 1
        is_done = False
        try:
            if self._dead is not None:
                raise self._dead
            with self._lines.setdefault(partition, BatchLine()).place() as place:
                offset = await self._append(partition, place, value, key, transaction)
            is_done = True
            return offset
        finally:
            # A send that its caller gave up has failed as well: nobody knows its sequence any more.
            if not is_done:
                self._failed(transaction, f"a batch for {partition} was given up")
            if transaction is not None:
                transaction.sends_under_way -= 1

    async def _append(
        self,
        partition: Partition,
        place: Place,
        value: str | None,
        key: str | None,
        transaction: _Transaction | None,
    ) -> int:
        assert self._identity is not None, "init_transactions() comes first"
        batch = _batch(self._identity, transaction is not None, place.sequence, key, value)
        request = produce_request(self._transactional_id, partition, batch)
        may_be_written = False
        deadline = Deadline(CALL_TIMEOUT_S)
        while True:
            answer: object = None
            try:
                # Known before its turn comes: those behind it are sent as soon as it goes.
                leader = await self._brokers.leader_of(partition)
                await place.turn()
                if transaction is not None:
                    # Meanwhile another batch of it may have been given up: only an abort is possible.
                    if self._transaction is not transaction or transaction.failure:
                        raise Refused("its transaction is over")
                    transaction.is_attempted = True
                response = await self._brokers.call(leader, versions.PRODUCE, request)
            except GivenUp as error:
                gone = f"{partition}: a batch before it was given up"
                raise (Unanswered if may_be_written else Refused)(gone) from error
            except (Unreachable, KafkaError) as error:
                answer = error
            except Lost as error:
                answer, may_be_written = error, True
            else:
                found = response.responses[0].partition_responses[0]
                code = error_code_of(found.error_code.value)
                answer = f"{code.name} {found.error_message or ''}"
                if code is ErrorCode.NONE:
                    return int(found.base_offset)
                if code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and not place.went_first:
                    # It overtook one that was sent before it. A listener may have made a copy, which comes later.
                    place.is_under_way, may_be_written = False, True
                    continue
                if not code.is_retriable:
                    raise _refused_batch(code, answer, may_be_written, transaction is not None)
                # A leader may give up waiting for replicas after it has appended.
                may_be_written = True
            place.is_under_way = False
            self._brokers.forget()
            if not await deadline.pause():
                if may_be_written:
                    raise Unanswered(f"{partition}: {answer}")
                raise Refused(f"never sent to {partition}: {answer}")

    async def send_offsets(
        self, offsets: Mapping[Partition, int], consumer: Consumer | str
    ) -> None:
        transaction = self._check_open()
        assert self._identity is not None
        group = consumer if isinstance(consumer, str) else consumer.group
        assert group is not None, "a consumer without a group has no offsets"
        member = NOBODY
        if not isinstance(consumer, str):
            assert isinstance(consumer, Member), f"{consumer} does not know its generation"
            assert consumer.membership is not None, "it has not been handed anything yet"
            member = consumer.membership
        types = types_of(versions.TXN_OFFSET_COMMIT)
        request = types.TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=group,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.producer_epoch,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=tuple(
                types.TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=tuple(
                        types.TxnOffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offsets[(topic, number)],
                            committed_metadata="",
                        )
                        for number in numbers
                    ),
                )
                for topic, numbers in by_topic(list(offsets)).items()
            ),
        )

        async def attempt() -> None:
            coordinator = await self._brokers.coordinator_of(GROUP, group)
            transaction.is_attempted = True
            response = await self._brokers.call(coordinator, versions.TXN_OFFSET_COMMIT, request)
            for topic in response.topics:
                for one in topic.partitions:
                    check(one.error_code.value, f"offset of {topic.name} {one.partition_index}")

        try:
            await retrying(self._brokers, attempt, CALL_TIMEOUT_S)
        except (Lost, Unreachable) as error:
            self._failed(transaction, f"offsets: {error}")
            raise Unanswered(transaction.failure) from error
        except KafkaError as error:
            self._failed(transaction, f"offsets: {error}")
            raise Refused(transaction.failure) from error

    async def close(self) -> None:
        self._dead = self._dead or Refused("closed")
        self._brokers.close()

    # ------------------------------------------------------------------------------------------------- states

    def _open_transaction(self) -> _Transaction:
        if self._dead is not None:
            raise self._dead
        assert self._transaction is not None, "begin() comes first"
        return self._transaction

    def _check_open(self) -> _Transaction:
        transaction = self._open_transaction()
        if transaction.failure:
            raise Refused(f"{transaction.failure}; only an abort is possible")
        return transaction

    def _failed(self, transaction: _Transaction | None, reason: str) -> None:
        if transaction is not None:
            transaction.failure = transaction.failure or reason
        else:
            # Without transactions nothing bumps the epoch, so the sequences cannot begin anew.
            self._dead = Refused(f"{reason}; a new producer is needed")

    def _died_of(self, code: ErrorCode, what: str) -> Refused:
        kind = Fenced if code in _FENCED else Refused
        self._dead = kind(f"{what}: {code.name}")
        return self._dead


def _refused_batch(
    code: ErrorCode, answer: str, may_be_written: bool, is_transactional: bool
) -> Refused | Unanswered:
    """In a transaction that nobody may commit any more a batch is nowhere, wherever it was written."""
    if is_transactional and code is ErrorCode.INVALID_PRODUCER_EPOCH:
        return EndedByOthers(answer)
    if is_transactional and code is not ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return Refused(answer)
    if code in _NOT_APPENDED and not may_be_written:
        return Refused(answer)
    return Unanswered(answer)


def _batch(
    identity: _Identity, is_transactional: bool, sequence: int, key: str | None, value: str | None
) -> bytes:
    builder: Any = DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=Codec.NONE,
        is_transactional=int(is_transactional),
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=sequence,
        batch_size=BATCH_BYTES_MAX,
    )
    raw_key, raw_value = (None if one is None else one.encode() for one in (key, value))
    builder.append(0, time.time_ns() // 1_000_000, raw_key, raw_value, [])
    return bytes(builder.build())


def first_batch(producer_id: int, producer_epoch: int, value: str) -> bytes:
    """What a transaction sends first to a partition."""
    return _batch(_Identity(producer_id, producer_epoch), True, 0, None, value)


def produce_request(
    transactional_id: str | None, partition: Partition, batch: bytes, version: int | None = None
) -> Any:
    types = types_of(versions.PRODUCE, version)
    topic, number = partition
    data = types.PartitionProduceData(index=number, records=batch)
    return types.ProduceRequest(
        transactional_id=transactional_id,
        acks=ACKS_ALL,
        # Shorter than what we wait for, so that the leader speaks first.
        timeout=timedelta(seconds=REQUEST_TIMEOUT_S - 1),
        topic_data=(types.TopicProduceData(name=topic, partition_data=(data,)),),
    )


def _name(code: ErrorCode | None) -> str:
    return "no answer" if code is None else code.name
