"""Workloads of one Kafka client, confluent-kafka, against oncelog, Apache Kafka and the mock in turn.

Rounds alternate, so that a busy moment of the machine hits all.
"""

import threading
import time
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers import MOCK_PARTITIONS, Broker, create_topics, side_by_side
from bench.results import Measurement, percentile, spread

CALL_TIMEOUT_S = 60
ROUNDS = 5
WARM_UP = 30
RECORD_BYTES_SMALL = 100
RECORD_BYTES_LARGE = 1_000
COMMIT_RATIO_BAR = 1.4
COMMIT_KAFKA_BARS = {0.5: 0.5, 0.99: 0.3, 0.999: None}
RATE_KAFKA_BARS = {1: None, 8: 3.0, 64: 3.0}
WRITE_KAFKA_BARS = {RECORD_BYTES_SMALL: 1.3, RECORD_BYTES_LARGE: 1.5}
READ_KAFKA_BARS = {RECORD_BYTES_SMALL: 1.5, RECORD_BYTES_LARGE: 1.0}
READ_CPU_KAFKA_BAR = 1.5
THROUGHPUT_BAR = 300_000
COMMIT_PARTITIONS = (1, 10)
PRODUCER_COUNTS = (1, 8, 64)
SIZES_AND_COUNTS = ((RECORD_BYTES_SMALL, 1_000_000), (RECORD_BYTES_LARGE, 300_000))

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


def rounds_of(is_quick: bool) -> int:
    return 2 if is_quick else ROUNDS


def commit_latency(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """From begin to the answer of commit, one record to each of 1 and 10 partitions; CPU of the server for each."""
    transactions = 50 if is_quick else 200
    measurements = []
    with side_by_side() as brokers:
        for partitions in COMMIT_PARTITIONS:
            topic = f"commit-{partitions}"
            create_topics(
                brokers, *(f"{topic}-{n}" for n in range(-(-partitions // MOCK_PARTITIONS)))
            )
            producers = {}
            for name, broker in brokers.items():
                producers[name] = transactional_producer(broker.bootstrap, topic)
                for _ in range(WARM_UP):
                    one_transaction(producers[name], topic, partitions)
            latencies: dict[str, list[float]] = {name: [] for name in brokers}
            cpu_ms: dict[str, list[float]] = {name: [] for name in brokers}
            for turn in range(rounds_of(is_quick)):
                for name, producer in producers.items():
                    show_step(f"{partitions} partitions, {name}, round {turn + 1}")
                    taken_s = _cpu_s(brokers[name])
                    for _ in range(transactions):
                        started_at = time.perf_counter()
                        one_transaction(producer, topic, partitions)
                        latencies[name].append((time.perf_counter() - started_at) * 1_000)
                    taken_s = _cpu_s(brokers[name]) - taken_s
                    cpu_ms[name].append(taken_s * 1_000 / transactions)
            what = f"{partitions} partition{'s' if partitions > 1 else ''}"
            measurements += _latency_rows(what, latencies)
            del cpu_ms["mock"]
            measurements.append(
                row("commit-latency", f"server CPU, {what}", "ms", cpu_ms, is_lower_better=True)
            )
    return measurements


def _latency_rows(what: str, latencies: Mapping[str, list[float]]) -> list[Measurement]:
    return [
        Measurement(
            "commit-latency",
            f"p{share * 100:g}, {what}",
            "ms",
            percentile(latencies["oncelog"], share),
            percentile(latencies["mock"], share),
            is_lower_better=True,
            bar=COMMIT_RATIO_BAR if share == 0.5 and what == "1 partition" else None,
            is_bar_a_ratio=True,
            kafka=percentile(latencies["kafka"], share) if "kafka" in latencies else None,
            kafka_bar=kafka_bar,
        )
        for share, kafka_bar in COMMIT_KAFKA_BARS.items()
    ]


def _cpu_s(broker: Broker) -> float:
    return 0.0 if broker.pid is None else broker.cpu_s()


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
    """Medians of what each broker had in its rounds."""
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
        spread=spread(rounds["oncelog"]),
    )


def transaction_rate(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Transactions of one record a second, from 1, 8 and 64 producers at once."""
    seconds = 1.0 if is_quick else 3.0
    measurements = []
    with side_by_side() as brokers:
        for count in PRODUCER_COUNTS:
            rates: dict[str, list[float]] = {name: [] for name in brokers}
            topic = f"rate-{count}"
            create_topics(brokers, topic)
            for turn in range(rounds_of(is_quick)):
                for name, broker in brokers.items():
                    show_step(f"{count} producers, {name}, round {turn + 1}")
                    rates[name].append(_rate(broker.bootstrap, topic, count, seconds))
            what = f"{count} producer{'s' if count > 1 else ''}"
            bar = RATE_KAFKA_BARS[count]
            measurements.append(row("transaction-rate", what, "tx/s", rates, kafka_bar=bar))
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
    with side_by_side() as brokers:
        for size, count in SIZES_AND_COUNTS:
            topic = f"throughput-{size}"
            create_topics(brokers, topic)
            rates: dict[str, list[float]] = {name: [] for name in brokers}
            for turn in range(rounds_of(is_quick)):
                for name, broker in brokers.items():
                    show_step(f"{count:,} records of {size} B, {name}, round {turn + 1}")
                    rates[name].append(send_many(broker.bootstrap, topic, size, count))
            measurements.append(
                row(
                    "throughput",
                    f"idempotent, {size} B",
                    "records/s",
                    rates,
                    bar=THROUGHPUT_BAR if size == RECORD_BYTES_SMALL else None,
                    kafka_bar=WRITE_KAFKA_BARS[size],
                )
            )
    return measurements


def reading(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Records a second of one consumer at read_committed from the start of a topic, and the server's CPU for it."""
    measurements = []
    with side_by_side() as brokers:
        del brokers["mock"]  # It keeps a few megabytes of a partition, and drops the rest.
        for size, count in SIZES_AND_COUNTS:
            topic = f"reading-{size}"
            create_topics(brokers, topic)
            for name, broker in brokers.items():
                show_step(f"{count:,} records of {size} B for {name}")
                send_many(broker.bootstrap, topic, size, count)
            rates: dict[str, list[float]] = {name: [] for name in brokers}
            cpu_s: dict[str, list[float]] = {name: [] for name in brokers}
            for turn in range(1 + rounds_of(is_quick)):
                for name, broker in brokers.items():
                    show_step(f"{count:,} records of {size} B, {name}, round {turn}")
                    taken_s = broker.cpu_s()
                    rate = read_many(broker.bootstrap, topic, count)
                    if turn:  # The first is to get warm.
                        rates[name].append(rate)
                        cpu_s[name].append(broker.cpu_s() - taken_s)
            what = f"read_committed, {size} B"
            bar = READ_KAFKA_BARS[size]
            measurements += [
                row("reading", what, "records/s", rates, kafka_bar=bar),
                row(
                    "reading",
                    f"server CPU for {size * count // 1_000_000} MB of {size} B",
                    "s",
                    cpu_s,
                    is_lower_better=True,
                    kafka_bar=READ_CPU_KAFKA_BAR,
                ),
            ]
    return measurements


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
