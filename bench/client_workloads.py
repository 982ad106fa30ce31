"""Workloads of one Kafka client, confluent-kafka, against oncelog, Apache Kafka and the mock in turn.

Rounds alternate, so that a busy moment of the machine affects all of them.
"""

import threading
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers import MOCK_PARTITIONS, Broker, create_topics, log_and_kafka, side_by_side
from bench.results import Measurement, percentile, spread
from bench.runner import ShowStep
from oncelog.wording import counted

CALL_TIMEOUT_S = 60
ROUNDS = 5
WARM_UP = 30
RECORD_BYTES_SMALL = 100
RECORD_BYTES_LARGE = 1_000
WRITE_BARS = {RECORD_BYTES_SMALL: 300_000, RECORD_BYTES_LARGE: None}
RATE_KAFKA_BARS = {1: None, 8: 3.0, 64: 3.0}
PRODUCER_COUNTS = (1, 8, 64)
COUNTS = {RECORD_BYTES_SMALL: 1_000_000, RECORD_BYTES_LARGE: 300_000}


class CommitBars(NamedTuple):
    """The bars of a commit: percentiles as a ratio to the mock's (1 partition) and to Kafka's, and
    milliseconds of processor time."""

    mock: Mapping[float, float]
    kafka: Mapping[float, float]
    cpu_ms: float | None = None


COMMIT_BARS = CommitBars({0.5: 1.4}, {0.5: 0.5, 0.99: 0.3})
WRITE_KAFKA_BARS = {RECORD_BYTES_SMALL: 1.3, RECORD_BYTES_LARGE: 1.5}
READ_KAFKA_BARS = {RECORD_BYTES_SMALL: 1.5, RECORD_BYTES_LARGE: 1.0}
READ_CPU_KAFKA_BAR = 1.5

Brokers = Mapping[str, Broker]
Rounds = dict[str, list[float]]


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
    """Commit a transaction with one record to each of `partitions` partitions, MOCK_PARTITIONS of them in a topic."""
    producer.begin_transaction()
    for number in range(partitions):
        topic_number, partition = divmod(number, MOCK_PARTITIONS)
        producer.produce(f"{topic}-{topic_number}", b"x" * RECORD_BYTES_SMALL, partition=partition)
    producer.commit_transaction(CALL_TIMEOUT_S)


def rounds_of(is_quick: bool) -> int:
    return 2 if is_quick else ROUNDS


def commit_latency(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the time from begin to the response of commit, and the server's CPU, with a record to
    each of 1 and 10 partitions."""
    with side_by_side() as brokers:
        for partitions in (1, 10):
            yield from commits(
                "commit-latency",
                brokers,
                partitions,
                count=50 if is_quick else 400,
                rounds=rounds_of(is_quick),
                bars=COMMIT_BARS,
                shares=(0.5, 0.99, 0.999),
                show_step=show_step,
            )


def commits(
    workload: str,
    brokers: Brokers,
    partitions: int,
    *,
    count: int,
    rounds: int,
    bars: CommitBars,
    shares: tuple[float, ...],
    show_step: ShowStep,
    replicas: int = 1,
) -> Iterator[Measurement]:
    """Yield the percentiles of a commit, and the server's processor time for one."""
    what = counted(partitions, "partition")
    topic = f"commit-{partitions}"
    topics = (f"{topic}-{number}" for number in range(-(-partitions // MOCK_PARTITIONS)))
    create_topics(brokers, *topics, replicas=replicas)
    producers = {}
    for name, broker in brokers.items():
        producers[name] = transactional_producer(broker.bootstrap, topic)
        for _ in range(WARM_UP):
            one_transaction(producers[name], topic, partitions)
    latencies: Rounds = {name: [] for name in brokers}
    cpu_ms: Rounds = {name: [] for name, broker in brokers.items() if broker.pids}
    for turn in range(rounds):
        for name, producer in producers.items():
            show_step(f"{what}, {name}, round {turn + 1}")
            taken_s = brokers[name].cpu_s()
            for _ in range(count):
                started_at = time.perf_counter()
                one_transaction(producer, topic, partitions)
                latencies[name].append((time.perf_counter() - started_at) * 1_000)
            if name in cpu_ms:
                cpu_ms[name].append((brokers[name].cpu_s() - taken_s) * 1_000 / count)
    for share in shares:
        found = {name: percentile(values, share) for name, values in latencies.items()}
        yield Measurement(
            workload,
            f"begin to committed, p{share * 100:g}, {what}",
            "ms",
            found["oncelog"],
            found.get("mock"),
            is_lower_better=True,
            bar=bars.mock.get(share) if partitions == 1 else None,
            is_bar_a_ratio=True,
            kafka=found.get("kafka"),
            kafka_bar=bars.kafka.get(share),
        )
    cpu = f"server CPU a transaction, {what}"
    bar = bars.cpu_ms if partitions == 1 else None
    yield row(workload, cpu, "ms", cpu_ms, is_lower_better=True, bar=bar)


def row(
    workload: str,
    what: str,
    unit: str,
    rounds: Mapping[str, list[float]],
    *,
    is_lower_better: bool = False,
    bar: float | None = None,
    kafka_bar: float | None = None,
) -> Measurement:
    """Return a row with the medians of each broker's rounds."""
    medians = {name: percentile(values, 0.5) for name, values in rounds.items()}
    return Measurement(
        workload,
        what,
        unit,
        medians["oncelog"],
        medians.get("mock"),
        is_lower_better=is_lower_better,
        bar=bar,
        kafka=medians.get("kafka"),
        kafka_bar=kafka_bar,
        spread=spread(rounds["oncelog"]) if len(rounds["oncelog"]) > 1 else None,
    )


def transaction_rate(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the transactions of one record a second, from 1, 8 and 64 producers at once."""
    seconds = 1.0 if is_quick else 3.0
    with side_by_side() as brokers:
        for count in PRODUCER_COUNTS:
            rates: Rounds = {name: [] for name in brokers}
            cpu_ms: Rounds = {name: [] for name, broker in brokers.items() if broker.pids}
            topic = f"rate-{count}"
            create_topics(brokers, topic)
            what = counted(count, "producer")
            for turn in range(rounds_of(is_quick)):
                for name, broker in brokers.items():
                    show_step(f"{what}, {name}, round {turn + 1}")
                    rate, cpu_s = _rate(broker, topic, count, seconds)
                    rates[name].append(rate)
                    if name in cpu_ms:
                        cpu_ms[name].append(cpu_s * 1_000)
            bar = RATE_KAFKA_BARS[count]
            yield row("transaction-rate", what, "tx/s", rates, kafka_bar=bar)
            cpu = f"server CPU a transaction, {what}"
            yield row("transaction-rate", cpu, "ms", cpu_ms, is_lower_better=True)
        yield memory_row("transaction-rate", brokers)


def _rate(broker: Broker, topic: str, count: int, seconds: float) -> tuple[float, float]:
    """Return transactions a second, and the seconds of the server's processor time for one."""
    producers = [transactional_producer(broker.bootstrap, f"{topic}-{n}") for n in range(count)]
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
    taken_s = broker.cpu_s()
    started.wait()
    started_at = time.perf_counter()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    elapsed_s = time.perf_counter() - started_at
    return sum(done) / elapsed_s, (broker.cpu_s() - taken_s) / max(1, sum(done))


def throughput(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the records a second of one idempotent producer, until the last is acknowledged, and the
    server's CPU and memory."""
    with side_by_side() as brokers:
        for size, count in COUNTS.items():
            yield from writing(
                "throughput",
                brokers,
                size,
                count // 10 if is_quick else count,
                rounds=rounds_of(is_quick),
                bar=WRITE_BARS[size],
                kafka_bar=WRITE_KAFKA_BARS[size],
                show_step=show_step,
            )
        yield memory_row("throughput", brokers)


def memory_row(workload: str, brokers: Brokers) -> Measurement:
    resident = {name: [one.resident_mb()] for name, one in brokers.items() if one.pids}
    return row(workload, "resident after that", "MB", resident, is_lower_better=True)


def writing(
    workload: str,
    brokers: Brokers,
    size: int,
    count: int,
    *,
    rounds: int,
    bar: float | None = None,
    kafka_bar: float | None = None,
    replicas: int = 1,
    show_step: ShowStep,
) -> Iterator[Measurement]:
    """Yield the records a second, and the server's processor time for a megabyte."""
    topic = f"writing-{size}"
    create_topics(brokers, topic, replicas=replicas)
    rates: Rounds = {name: [] for name in brokers}
    cpu_ms: Rounds = {name: [] for name, broker in brokers.items() if broker.pids}
    for turn in range(rounds):
        for name, broker in brokers.items():
            show_step(f"writing {count:,} records of {size} B, {name}, round {turn + 1}")
            taken_s = broker.cpu_s()
            rates[name].append(send_many(broker.bootstrap, topic, size, count))
            if name in cpu_ms:
                cpu_ms[name].append((broker.cpu_s() - taken_s) * 1e9 / (size * count))
    what = f"idempotent, {size} B"
    yield row(workload, what, "records/s", rates, bar=bar, kafka_bar=kafka_bar)
    cpu = f"server CPU a megabyte, {what}"
    yield row(workload, cpu, "ms", cpu_ms, is_lower_better=True)


def reading(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the records a second of one consumer at read_committed from the start of a topic, and the
    server's CPU and memory.

    The mock keeps a few megabytes of a partition, and drops the rest.
    """
    with log_and_kafka() as brokers:
        for size, count in COUNTS.items():
            yield from reading_back(
                "reading",
                brokers,
                size,
                count // 10 if is_quick else count,
                rounds=rounds_of(is_quick),
                kafka_bar=READ_KAFKA_BARS[size],
                cpu_kafka_bar=READ_CPU_KAFKA_BAR,
                show_step=show_step,
            )
        yield memory_row("reading", brokers)


def reading_back(
    workload: str,
    brokers: Brokers,
    size: int,
    count: int,
    *,
    rounds: int,
    kafka_bar: float | None = None,
    cpu_kafka_bar: float | None = None,
    replicas: int = 1,
    show_step: ShowStep,
) -> Iterator[Measurement]:
    """Write `count` records into one partition, then read them again and again."""
    topic = f"reading-{size}"
    create_topics(brokers, topic, replicas=replicas)
    for broker in brokers.values():
        send_many(broker.bootstrap, topic, size, count)
    rates: Rounds = {name: [] for name in brokers}
    cpu_ms: Rounds = {name: [] for name in brokers}
    for turn in range(rounds + 1):
        for name, broker in brokers.items():
            show_step(f"reading {count:,} records of {size} B, {name}, round {turn}")
            taken_s = broker.cpu_s()
            rate = read_many(broker.bootstrap, topic, count)
            if turn:  # The first is to get warm.
                rates[name].append(rate)
                cpu_ms[name].append((broker.cpu_s() - taken_s) * 1e9 / (size * count))
    what = f"read_committed, {size} B"
    yield row(workload, what, "records/s", rates, kafka_bar=kafka_bar)
    cpu = f"server CPU a megabyte, {what}"
    yield row(workload, cpu, "ms", cpu_ms, is_lower_better=True, kafka_bar=cpu_kafka_bar)


def read_many(bootstrap: str, topic: str, count: int) -> float:
    """Read `count` records of partition 0 from its start. Returns records a second, from the first record on."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    got = len(consumer.consume(1, CALL_TIMEOUT_S))
    started_at = time.perf_counter()
    while got < count:
        found = consumer.consume(min(10_000, count - got), CALL_TIMEOUT_S)
        assert found, f"{got:,} of {count:,} records came, then none in {CALL_TIMEOUT_S} s"
        got += len(found)
    elapsed_s = time.perf_counter() - started_at
    # Looking at each record's error would take longer than the reading.
    assert found[-1].offset() == count - 1
    consumer.close()
    return count / elapsed_s


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
    # Connecting and asking for an id takes the client up to a second with any broker.
    producer.produce(topic, value, partition=0)
    assert producer.flush(CALL_TIMEOUT_S) == 0
    started_at = time.perf_counter()
    for number in range(1, count):
        while True:
            try:
                producer.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.01)
    left = producer.flush(CALL_TIMEOUT_S)
    elapsed_s = time.perf_counter() - started_at
    assert left == 0, f"{left} records were not acknowledged: {failures[:3]}"
    return (count - 1) / elapsed_s
