"""Workloads of one Kafka client, confluent-kafka, against oncelog and the mock in turn.

Rounds alternate between the two, so that a busy moment of the machine hits both.
"""

import threading
import time
from collections.abc import Callable

from confluent_kafka import Producer

from bench.brokers import MOCK_PARTITIONS, both, create_topics
from bench.results import Measurement, percentile

CALL_TIMEOUT_S = 60
ROUNDS = 3
RECORD_BYTES_SMALL = 100
RECORD_BYTES_LARGE = 1_000
COMMIT_RATIO_BAR = 1.5
THROUGHPUT_BAR = 300_000
COMMIT_PARTITIONS = (1, 10)
PRODUCER_COUNTS = (1, 8, 64)

ShowStep = Callable[[str], None]


def transactional_producer(bootstrap: str, transactional_id: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "linger.ms": 0,
            "log_level": 0,
        }
    )
    producer.init_transactions(CALL_TIMEOUT_S)
    return producer


def one_transaction(producer: Producer, topic: str, partitions: int) -> None:
    """A record to each of `partitions` partitions, MOCK_PARTITIONS of them in a topic, committed."""
    producer.begin_transaction()
    for number in range(partitions):
        topic_number, partition = divmod(number, MOCK_PARTITIONS)
        producer.produce(f"{topic}-{topic_number}", b"x" * RECORD_BYTES_SMALL, partition=partition)
    producer.commit_transaction(CALL_TIMEOUT_S)


def commit_latency(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """From begin to the answer of commit, one record to each of 1 and 10 partitions."""
    transactions = 100 if is_quick else 400
    measurements = []
    with both() as brokers:
        for partitions in COMMIT_PARTITIONS:
            topic = f"commit-{partitions}"
            create_topics(
                brokers, *(f"{topic}-{n}" for n in range(-(-partitions // MOCK_PARTITIONS)))
            )
            producers = {}
            for name, bootstrap in brokers.items():
                producers[name] = transactional_producer(bootstrap, topic)
                for _ in range(30):
                    one_transaction(producers[name], topic, partitions)
            latencies: dict[str, list[float]] = {name: [] for name in brokers}
            for turn in range(ROUNDS):
                for name, producer in producers.items():
                    show_step(f"{partitions} partitions, {name}, round {turn + 1} of {ROUNDS}")
                    for _ in range(transactions // ROUNDS):
                        started_at = time.perf_counter()
                        one_transaction(producer, topic, partitions)
                        latencies[name].append((time.perf_counter() - started_at) * 1_000)
            measurements += [
                Measurement(
                    "commit-latency",
                    f"{label}, {partitions} partition{'s' if partitions > 1 else ''}",
                    "ms",
                    percentile(latencies["oncelog"], share),
                    percentile(latencies["mock"], share),
                    is_lower_better=True,
                    bar=COMMIT_RATIO_BAR if share == 0.5 else None,
                    is_bar_a_ratio=True,
                )
                for label, share in (("p50", 0.5), ("p99", 0.99))
            ]
    return measurements


def transaction_rate(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Transactions of one record a second, from 1, 8 and 64 producers at once."""
    seconds = 1.0 if is_quick else 3.0
    measurements = []
    with both() as brokers:
        for count in PRODUCER_COUNTS:
            rates: dict[str, list[float]] = {name: [] for name in brokers}
            topic = f"rate-{count}"
            create_topics(brokers, topic)
            for turn in range(ROUNDS if not is_quick else 1):
                for name, bootstrap in brokers.items():
                    show_step(f"{count} producers, {name}, round {turn + 1}")
                    rates[name].append(_rate(bootstrap, topic, count, seconds))
            measurements.append(
                Measurement(
                    "transaction-rate",
                    f"{count} producer{'s' if count > 1 else ''}",
                    "tx/s",
                    percentile(rates["oncelog"], 0.5),
                    percentile(rates["mock"], 0.5),
                )
            )
    return measurements


def _rate(bootstrap: str, topic: str, count: int, seconds: float) -> float:
    producers = [transactional_producer(bootstrap, f"{topic}-{n}") for n in range(count)]
    done = [0] * count
    started = threading.Barrier(count + 1)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        producer = producers[number]
        started.wait()
        deadline = time.perf_counter() + seconds
        try:
            while time.perf_counter() < deadline:
                producer.begin_transaction()
                producer.produce(
                    topic, b"x" * RECORD_BYTES_SMALL, partition=number % MOCK_PARTITIONS
                )
                producer.commit_transaction(CALL_TIMEOUT_S)
                done[number] += 1
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    started.wait()
    started_at = time.perf_counter()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return sum(done) / (time.perf_counter() - started_at)


def throughput(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Records a second of one idempotent producer, until the last one is acknowledged."""
    measurements = []
    with both() as brokers:
        for size, count in ((RECORD_BYTES_SMALL, 1_000_000), (RECORD_BYTES_LARGE, 200_000)):
            topic = f"throughput-{size}"
            create_topics(brokers, topic)
            rates: dict[str, list[float]] = {name: [] for name in brokers}
            for turn in range(ROUNDS if not is_quick else 1):
                for name, bootstrap in brokers.items():
                    show_step(f"{count:,} records of {size} B, {name}, round {turn + 1}")
                    rates[name].append(send_many(bootstrap, topic, size, count))
            measurements.append(
                Measurement(
                    "throughput",
                    f"idempotent, {size} B",
                    "records/s",
                    percentile(rates["oncelog"], 0.5),
                    percentile(rates["mock"], 0.5),
                    bar=THROUGHPUT_BAR if size == RECORD_BYTES_SMALL else None,
                )
            )
    return measurements


def send_many(bootstrap: str, topic: str, size: int, count: int, partitions: int = 1) -> float:
    """Send `count` records of `size` bytes and wait for every acknowledgement. Returns records a second."""
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "batch.num.messages": 100_000,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_000_000,
            "error_cb": failures.append,
            "log_level": 0,
        }
    )
    producer.list_topics(topic, CALL_TIMEOUT_S)
    value = b"x" * size
    started_at = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(CALL_TIMEOUT_S)
    elapsed_s = time.perf_counter() - started_at
    assert left == 0, f"{left} records were not acknowledged: {failures[:3]}"
    return count / elapsed_s
