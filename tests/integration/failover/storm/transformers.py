"""Consume, transform, produce: each input once in the output, by offsets that are part of the transaction.

The members of confluent's group share their partitions, and the group's generation fences who lost them (KIP-447).
aiokafka tells no generation, so exactly once it is with one member whose transactional.id does the fencing;
kafka-python goes the same way.
"""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PyPartition
from kafka.structs import OffsetAndMetadata
from tests.integration.failover.storm.ledger import value_of
from tests.integration.failover.storm.writers import (
    CALL_TIMEOUT_S,
    REQUEST_TIMEOUT_MS,
    TRANSACTION_TIMEOUT_MS,
    Writer,
    again,
)

INPUT = "storm-in"
OUTPUT_PARTITIONS = 2
BATCH, BATCH_S = 50, 0.3
SESSION_TIMEOUT_MS = 8_000
POLL_INTERVAL_MAX_MS = 60_000
"""A consumer whose application hangs gives its partitions away, as it should."""


def output_of(group: str) -> str:
    return f"storm-out-{group}"


class Transformer(Writer):
    @property
    def group(self) -> str:
        return self.name.partition(".")[0]

    def out(self, partition: int, offset: int) -> tuple[str, bytes, int]:
        return (
            output_of(self.group),
            value_of(self.name, f"{partition}/{offset}"),
            offset % OUTPUT_PARTITIONS,
        )

    def done(self) -> None:
        self.ledger.transformed_at[self.name] = time.monotonic()


class _Batch:
    """What one consumer has read and not yet moved. Callbacks empty it when its partitions are taken away."""

    def __init__(self) -> None:
        self.messages = []
        self.membership = None

    def assigned(self, consumer, _partitions) -> None:
        self.messages = []
        # Of this generation: taken later it might be of none, and nobody fences a consumer without a group.
        self.membership = consumer.consumer_group_metadata()

    def revoked(self, _consumer, _partitions) -> None:
        self.messages, self.membership = [], None

    def fetch(self, consumer) -> bool:
        self.messages = []
        until = time.monotonic() + BATCH_S
        while len(self.messages) < BATCH and (left_s := until - time.monotonic()) > 0:
            message = consumer.poll(left_s)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            self.messages.append(message)
        return bool(self.messages) and self.membership is not None


class ConfluentTransformer(Transformer):
    def lives(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "max.poll.interval.ms": POLL_INTERVAL_MAX_MS,
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "log_level": 0,
            }
        )
        producer = Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                # Otherwise librdkafka 2.16 hangs in send_offsets when it has found no listener for a moment.
                "metadata.recovery.strategy": "none",
                "socket.timeout.ms": REQUEST_TIMEOUT_MS,
                "log_level": 0,
            }
        )
        batch = _Batch()
        try:
            producer.init_transactions(CALL_TIMEOUT_S)
            consumer.subscribe(
                [INPUT], on_assign=batch.assigned, on_revoke=batch.revoked, on_lost=batch.revoked
            )
            while not self.is_ending.is_set():
                self.goes_on()
                if batch.fetch(consumer):
                    self._transform(producer, batch)
        finally:
            consumer.close()

    def _transform(self, producer, batch: _Batch) -> None:
        """Any error ends this life: the next one begins at the committed offsets."""
        producer.begin_transaction()
        ends = {}
        for message in batch.messages:
            topic, value, partition = self.out(message.partition(), message.offset())
            producer.produce(topic, value, partition=partition)
            ends[message.partition()] = message.offset() + 1
        offsets = [TopicPartition(INPUT, partition, end) for partition, end in ends.items()]
        again(
            lambda timeout: producer.send_offsets_to_transaction(offsets, batch.membership, timeout)
        )
        again(producer.commit_transaction)
        self.done()


class KafkaPythonTransformer(Transformer):
    def lives(self) -> None:
        producer = KafkaProducer(
            bootstrap_servers=self.bootstrap.split(","),
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            delivery_timeout_ms=int(CALL_TIMEOUT_S * 1000),
            max_block_ms=int(CALL_TIMEOUT_S * 1000),
        )
        consumer = None
        try:
            producer.init_transactions()
            consumer = KafkaConsumer(
                bootstrap_servers=self.bootstrap.split(","),
                group_id=self.group,
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                max_poll_interval_ms=POLL_INTERVAL_MAX_MS,
                request_timeout_ms=REQUEST_TIMEOUT_MS,
            )
            consumer.subscribe([INPUT])
            done: dict[int, int] = {}
            while not self.is_ending.is_set():
                self.goes_on()
                polled = consumer.poll(timeout_ms=int(BATCH_S * 1000), max_records=BATCH)
                batch = [
                    one
                    for records in polled.values()
                    for one in records
                    if one.offset >= done.get(one.partition, 0)
                ]
                if not batch:
                    continue
                producer.begin_transaction()
                ends = {}
                sent = []
                for one in batch:
                    topic, value, partition = self.out(one.partition, one.offset)
                    sent.append(producer.send(topic, value, partition=partition))
                    ends[one.partition] = one.offset + 1
                producer.flush(timeout=CALL_TIMEOUT_S)
                # Its commit leaves out the batches that this client gave up.
                for future in sent:
                    future.get(timeout=0)
                offsets = {
                    PyPartition(INPUT, partition): OffsetAndMetadata(end, "", -1)
                    for partition, end in ends.items()
                }
                producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
                producer.commit_transaction()
                done.update(ends)
                self.done()
        finally:
            producer.close(timeout=1.0)
            if consumer is not None:
                consumer.close(autocommit=False, timeout_ms=1_000)


class AiokafkaTransformer(Transformer):
    def lives(self) -> None:
        asyncio.run(self._lives())

    async def _lives(self) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            transactional_id=self.name,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        consumer = AIOKafkaConsumer(
            INPUT,
            bootstrap_servers=self.bootstrap,
            group_id=self.group,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        try:
            # The producer first: its start ends what its predecessor left open.
            await asyncio.wait_for(producer.start(), CALL_TIMEOUT_S)
            await asyncio.wait_for(consumer.start(), CALL_TIMEOUT_S)
            done: dict[int, int] = {}
            while not self.is_ending.is_set():
                await asyncio.wait_for(self._one(consumer, producer, done), CALL_TIMEOUT_S)
        finally:
            for stopping in (producer.stop(), consumer.stop()):
                try:
                    await asyncio.wait_for(stopping, 5.0)
                except TimeoutError as error:
                    self.ledger.complains(self.name, error)

    async def _one(self, consumer, producer, done: dict[int, int]) -> None:
        self.goes_on()
        polled = await consumer.getmany(timeout_ms=int(BATCH_S * 1000), max_records=BATCH)
        batch = [
            one
            for records in polled.values()
            for one in records
            if one.offset >= done.get(one.partition, 0)
        ]
        if not batch:
            return
        await producer.begin_transaction()
        ends = {}
        for one in batch:
            topic, value, partition = self.out(one.partition, one.offset)
            await producer.send(topic, value, partition=partition)
            ends[one.partition] = one.offset + 1
        offsets = {AioPartition(INPUT, partition): end for partition, end in ends.items()}
        await producer.send_offsets_to_transaction(offsets, self.group)
        await producer.commit_transaction()
        done.update(ends)
        self.done()


TRANSFORMERS: dict[str, type[Transformer]] = {
    "gconfluent.a": ConfluentTransformer,
    "gconfluent.b": ConfluentTransformer,
    "gpykafka.a": KafkaPythonTransformer,
    "gaiokafka.a": AiokafkaTransformer,
}
