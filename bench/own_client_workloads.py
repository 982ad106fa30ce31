"""Workloads of `oncelog.client` beside other Python clients, on the same broker, in turns.

The second number of a row is the other client's. Commits are measured on Apache Kafka as well.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Final

import aiokafka
from confluent_kafka import Producer as ConfluentProducer

from bench.apache_kafka import apache_kafka
from bench.brokers import create_topic, oncelog
from bench.client_workloads import (
    CALL_TIMEOUT_S,
    RECORD_BYTES_SMALL,
    transactional_producer,
)
from bench.results import Measurement, percentile
from bench.runner import ShowStep
from oncelog.client import Consumer, Partition, Producer

ROUNDS: Final = 5
COMMIT_BAR: Final = 0.9
RATE_BAR: Final = 1.5
PAUSE_S: Final = 0.05
"""A pause after each commit, in seconds. Apache Kafka answers a commit before its markers are written. A transaction
that begins meanwhile waits at the broker, whichever its client; one that begins after this pause does not."""
LINGER_MS: Final = 5
TOPIC: Final = "own-client"
PARTITIONS: Final = 4
VALUE: Final = b"x" * RECORD_BYTES_SMALL

Rate = Callable[[str, int], Awaitable[float]]


def own_client(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure commit latency beside confluent-kafka, and records/s of an idempotent producer and of a
    consumer beside aiokafka."""
    with oncelog() as server:
        create_topic(server.bootstrap, TOPIC, PARTITIONS)
        measurements = _commits("oncelog", server.bootstrap, is_quick, show_step)
        with apache_kafka() as kafka:
            if kafka is not None:
                create_topic(kafka.bootstrap, TOPIC, PARTITIONS)
                where = kafka.bootstrap, is_quick, show_step
                measurements += _commits("Apache Kafka", *where)
                measurements += _commits("Apache Kafka, 50 ms apart", *where, pause_s=PAUSE_S)
        measurements += asyncio.run(_rates(server.bootstrap, is_quick, show_step))
    return measurements


def _commits(
    name: str, bootstrap: str, is_quick: bool, show_step: ShowStep, *, pause_s: float = 0
) -> list[Measurement]:
    count = 40 if is_quick else 200
    ours: list[float] = []
    theirs: list[float] = []
    peer = transactional_producer(bootstrap, "bench-confluent")
    with asyncio.Runner() as runner:
        producer = Producer(bootstrap, transactional_id="bench-own", linger_ms=0)
        runner.run(producer.start())
        for turn in range(ROUNDS + 1):
            show_step(f"commits on {name}, round {turn} of {ROUNDS}")
            own = runner.run(_own_commits(producer, count, pause_s))
            other = _confluent_commits(peer, count, pause_s)
            if turn:  # The first is to get warm.
                ours += own
                theirs += other
        runner.run(producer.close())
    return [
        Measurement(
            "own-client",
            f"commit {label} on {name}",
            "ms",
            percentile(ours, share),
            percentile(theirs, share),
            is_lower_better=True,
            bar=COMMIT_BAR if share == 0.5 else None,
            is_bar_a_ratio=True,
            peer="confluent-kafka",
        )
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]


async def _own_commits(producer: Producer, count: int, pause_s: float) -> list[float]:
    found = []
    for _ in range(count):
        await asyncio.sleep(pause_s)
        started = time.perf_counter()
        async with producer.transaction() as transaction:
            transaction.send(TOPIC, VALUE, partition=0)
        found.append((time.perf_counter() - started) * 1_000)
    return found


def _confluent_commits(producer: ConfluentProducer, count: int, pause_s: float) -> list[float]:
    found = []
    for _ in range(count):
        time.sleep(pause_s)
        started = time.perf_counter()
        producer.begin_transaction()
        producer.produce(TOPIC, VALUE, partition=1)
        producer.commit_transaction(CALL_TIMEOUT_S)
        found.append((time.perf_counter() - started) * 1_000)
    return found


async def _rates(bootstrap: str, is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    count = 50_000 if is_quick else 300_000
    rows: dict[str, tuple[Rate, Rate]] = {
        "idempotent producer, 100 B": (_own_sends, _aiokafka_sends),
        "consumer, 100 B": (_own_reads, _aiokafka_reads),
    }
    bars = {"idempotent producer, 100 B": RATE_BAR, "consumer, 100 B": RATE_BAR}
    measurements = []
    for what, pair in rows.items():
        rates: tuple[list[float], list[float]] = ([], [])
        for turn in range(ROUNDS):
            for one, found in zip(pair, rates, strict=True):
                show_step(f"{what}, round {turn + 1} of {ROUNDS}")
                found.append(await one(bootstrap, count))
        measurements.append(
            Measurement(
                "own-client",
                what,
                "records/s",
                median(rates[0]),
                median(rates[1]),
                bar=bars[what],
                is_bar_a_ratio=True,
                peer="aiokafka",
            )
        )
    return measurements


async def _own_sends(bootstrap: str, count: int) -> float:
    async with Producer(bootstrap, linger_ms=LINGER_MS) as producer:
        await producer.send(TOPIC, VALUE)
        started = time.perf_counter()
        for number in range(count):
            producer.send(TOPIC, VALUE)
            if number % 1_000 == 0:
                await producer.ready()
        await producer.flush()
        return count / (time.perf_counter() - started)


async def _aiokafka_sends(bootstrap: str, count: int) -> float:
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, linger_ms=LINGER_MS
    )
    await producer.start()
    try:
        await producer.send_and_wait(TOPIC, VALUE)
        started = time.perf_counter()
        for _ in range(count):
            await producer.send(TOPIC, VALUE)
        await producer.flush()
        return count / (time.perf_counter() - started)
    finally:
        await producer.stop()


async def _own_reads(bootstrap: str, count: int) -> float:
    async with Consumer(bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([Partition(TOPIC, number) for number in range(PARTITIONS)])
        got = len(await consumer.poll(CALL_TIMEOUT_S))
        started, first = time.perf_counter(), got
        while got < count:
            got += len(await consumer.poll(CALL_TIMEOUT_S))
        return (got - first) / (time.perf_counter() - started)


async def _aiokafka_reads(bootstrap: str, count: int) -> float:
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    await consumer.start()
    try:
        consumer.assign([aiokafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)])
        got = await _many(consumer)
        started, first = time.perf_counter(), got
        while got < count:
            got += await _many(consumer)
        return (got - first) / (time.perf_counter() - started)
    finally:
        await consumer.stop()


async def _many(consumer: aiokafka.AIOKafkaConsumer) -> int:
    found = await consumer.getmany(timeout_ms=CALL_TIMEOUT_S * 1_000)
    return sum(map(len, found.values()))
