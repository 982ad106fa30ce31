"""Writes one record for an operator: by itself, or in a transaction of its own that commits or aborts.

It speaks Kafka's newest transaction protocol (TV2), in which the leader adds the partition to the transaction. It has
one transaction at a time, and a new transactional.id with each start of a gateway. A write without an answer is not
tried again, because nobody could tell whether it is there twice. Its transaction then ends by the coordinator's
timeout.
"""

import asyncio
import base64
import contextlib
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Final, Literal, NamedTuple, TypeVar

from oncelog.api.v1 import coordinator_pb2, storage_pb2
from oncelog.client.core.key_hash import positive_murmur2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.records import Record, encode_batch
from oncelog.runtime.clock import Clock
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.operators import Operator
from oncelog_gateway.record_resources import WriteRecordRequest, WrittenRecord
from oncelog_gateway.roles import Roles, raise_for

TRANSACTION_TIMEOUT_MS: Final = 30_000
TRIES_MAX: Final = 20
TRY_AGAIN_S: Final = 0.05
PERHAPS_DONE: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Errors after which a write may have been done all the same. Its outcome is unknown and no refusal, so no script is
told to try again.
"""
_AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors after which a request is sent again. Under TV2 the epoch tells a repetition, so that is safe."""
_TV2: Final = 2
_ALL: Final = -1
_OUTCOMES: Final = {
    "none": "",
    "commit": ", in a transaction that committed",
    "abort": ", in a transaction that aborted",
}
T = TypeVar("T")


class _Producer(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int


class RecordWriter:
    def __init__(self, roles: Roles, audit: AuditLog, clock: Clock) -> None:
        self._roles = roles
        self._audit = audit
        self._clock = clock
        self._lock = asyncio.Lock()
        self._transactional_id = f"oncelog-console-{uuid.uuid4().hex[:8]}"

    async def write(
        self, operator: Operator, topic: str, asked: WriteRecordRequest
    ) -> WrittenRecord:
        """Write one record. Raises KafkaError. The audit log has the sizes of key and value, not their content."""
        record = _record_of(asked, self._clock.now())
        target = {
            "topic": topic,
            "partition": asked.partition,
            "transaction": asked.transaction,
            "key_bytes": None if record.key is None else len(record.key),
            "value_bytes": None if record.value is None else len(record.value),
        }
        async with self._audit.attempt(operator, "produce", target) as attempt:
            partition = self._partition_of(topic, asked.partition, record)
            if asked.transaction == "none":
                offset = await _or_unknown(self._append(partition, record, None))
                transactional_id = None
            else:
                async with self._lock:
                    offset = await self._in_transaction(partition, record, asked.transaction)
                transactional_id = self._transactional_id
            attempt.detail = f"offset {offset} of {partition}" + _OUTCOMES[asked.transaction]
        return WrittenRecord(
            topic=topic,
            partition=partition.partition,
            offset=offset,
            timestamp_ms=record.timestamp,
            transaction=asked.transaction,
            transactional_id=transactional_id,
            audit_id=attempt.audit_id,
            detail=attempt.detail,
        )

    async def refused(self, operator: Operator, topic: str, error: KafkaError) -> None:
        """Write both audit lines for a record that the caller was not allowed to write."""
        await self._audit.refused(operator, {"action": "produce", "topic": topic}, error)

    def _partition_of(self, topic: str, number: int | None, record: Record) -> Partition:
        """Return the partition to write to. With a key it is the one that a Java producer would choose, without one any
        partition that has a leader.
        """
        found = self._roles.topic(topic)
        if found.internal:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is written by coordinators only"
            )
        if number is None:
            led = [one.partition for one in found.partitions if one.leader >= 0]
            if record.key is not None:
                number = positive_murmur2(record.key) % len(found.partitions)
            else:
                number = random.choice(led) if led else 0
        partition = Partition(topic, number)
        self._roles.leader_of(partition)
        return partition

    async def _in_transaction(
        self, partition: Partition, record: Record, outcome: Literal["commit", "abort"]
    ) -> int:
        producer = await self._begin()
        try:
            offset = await self._append(partition, record, producer)
        except KafkaError:
            with contextlib.suppress(KafkaError):
                await self._end(producer, is_commit=False)
            raise
        await _or_unknown(self._end(producer, is_commit=outcome == "commit"))
        return offset

    async def _begin(self) -> _Producer:
        request = coordinator_pb2.InitProducerIdRequest(
            transactional_id=self._transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            producer_id=-1,
            producer_epoch=-1,
        )
        answer = await _until_settled(lambda: self._roles.init_producer_id(request))
        return _Producer(self._transactional_id, answer.producer_id, answer.producer_epoch)

    async def _end(self, producer: _Producer, *, is_commit: bool) -> None:
        request = coordinator_pb2.EndTxnRequest(
            transactional_id=producer.transactional_id,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            committed=is_commit,
            client_transaction_version=_TV2,
        )
        await _until_settled(lambda: self._roles.end_transaction(request))

    async def _append(
        self, partition: Partition, record: Record, producer: _Producer | None
    ) -> int:
        if producer is None:
            batch = encode_batch([record])
        else:
            batch = encode_batch(
                [record],
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=0,
                is_transactional=True,
            )
        request = storage_pb2.ProduceRequest(
            transactional_id=producer.transactional_id if producer else "",
            acks=_ALL,
            timeout_ms=self._roles.timeout_ms,
            verification_mode=storage_pb2.ADD_PARTITION,
            partitions=[
                storage_pb2.PartitionRecords(
                    topic=partition.topic, partition=partition.partition, records=bytes(batch)
                )
            ],
            client_id="oncelog-console",
        )
        answer = await self._roles.ask_leader(partition, lambda storage: storage.Produce, request)
        (found,) = answer.partitions
        reasons = "; ".join(one.message for one in found.record_errors)
        raise_for(found.error_code, reasons or found.error_message or str(partition))
        return found.base_offset


async def _or_unknown(work: Awaitable[T]) -> T:
    """Await a write and return its result. If it fails in a way that leaves open whether the record was written,
    KafkaError(REQUEST_TIMED_OUT) is raised, which says so.
    """
    try:
        return await work
    except KafkaError as error:
        if error.error_code not in PERHAPS_DONE:
            raise
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"it is not known whether the record is written; look before you write it again: {error}",
        ) from error


async def _until_settled(call: Callable[[], Awaitable[T]]) -> T:
    """Send a request, and repeat it for a while if the coordinator refuses it for now. It does while markers of the
    last transaction are on their way, or its shard moves.
    """
    for _ in range(TRIES_MAX - 1):
        try:
            return await call()
        except KafkaError as error:
            if error.error_code not in _AGAIN:
                raise
        await asyncio.sleep(TRY_AGAIN_S)
    return await call()


def _record_of(asked: WriteRecordRequest, now_ms: int) -> Record:
    """Return the record that REST asks to write. Raises KafkaError(INVALID_REQUEST)."""
    return Record(
        _bytes_of("key", asked.key, asked.key_base64),
        _bytes_of("value", asked.value, asked.value_base64),
        now_ms,
        headers=tuple(
            (
                _text("header's name", one.name).decode(),
                _bytes_of("header", one.value, one.value_base64),
            )
            for one in asked.headers
        ),
    )


def _bytes_of(name: str, text: str | None, in_base64: str | None) -> bytes | None:
    if text is not None and in_base64 is not None:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"give the {name} as text or in base64, not both"
        )
    if text is not None:
        return _text(name, text)
    return None if in_base64 is None else base64.b64decode(in_base64, validate=True)


def _text(name: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the {name} holds half of a character, which UTF-8 cannot carry",
        ) from None
