"""Workloads of a whole cluster: replication factor 3, one process per role, beside three nodes of Apache Kafka.

All processes share the machine's cores, so a row says what the whole cluster costs.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer

from bench.apache_kafka import formatted_kafka
from bench.brokers import Broker, create_topics, resident_bytes
from bench.client_workloads import (
    CALL_TIMEOUT_S,
    COUNTS,
    Brokers,
    CommitBars,
    Rounds,
    commits,
    memory_row,
    reading_back,
    rounds_of,
    row,
    writing,
)
from bench.results import Measurement
from bench.runner import ShowStep
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import STORAGE

COMMIT_BARS = CommitBars({}, {0.5: 0.6}, cpu_ms=6.0)
BULK_KAFKA_BAR = 1.0
THROUGHPUT_BAR_MB_S = 100.0
STORAGE_BAR_MB = 400.0
IDLE_BAR_PERCENT = 5.0
PARTITIONS = 4
BATCH_BYTES = 1_000_000
SETTLE_S = 5.0
IDLE_S = 10.0
REPLICAS = 3


@contextmanager
def a_cluster(environment: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """Yield a running cluster of the shape of `make cluster`, on a folder that is removed with it."""
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
        cluster = Cluster(Path(folder) / "cluster", environment=environment)
        with cluster:
            yield cluster


def cluster(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure start, idle, commits, records in and out, and memory, of all processes of a cluster together."""
    with formatted_kafka(nodes=REPLICAS) as kafka:
        show_step("starting")
        started_at = time.perf_counter()
        with a_cluster() as running:
            start_s = {"oncelog": [time.perf_counter() - started_at]}
            pids = tuple(one.pid for one in running.state.running.values())
            brokers = {"oncelog": Broker(running.bootstrap, pids)}
            if kafka is not None:
                started_at = time.perf_counter()
                kafka.start()
                start_s["kafka"] = [time.perf_counter() - started_at]
                brokers["kafka"] = Broker(kafka.bootstrap, kafka.pids)
            yield row("cluster", "start of all processes", "s", start_s, is_lower_better=True)
            yield from _idle(brokers, show_step)
            yield from _load(brokers, is_quick, show_step)
            yield memory_row("cluster", brokers)
            storage_mb = max(
                resident_bytes(process.pid) / 1e6
                for member in running.of_role(STORAGE)
                if (process := running.process(member.name)) is not None
            )
            yield Measurement(
                "cluster",
                "largest storage node after that",
                "MB",
                storage_mb,
                is_lower_better=True,
                bar=STORAGE_BAR_MB,
            )


def _idle(brokers: Brokers, show_step: ShowStep) -> Iterator[Measurement]:
    show_step("idle")
    time.sleep(SETTLE_S)
    resident = {name: [broker.resident_mb()] for name, broker in brokers.items()}
    yield row("cluster", "resident when idle", "MB", resident, is_lower_better=True)
    before = {name: broker.cpu_s() for name, broker in brokers.items()}
    time.sleep(IDLE_S)
    percent = {
        name: [(broker.cpu_s() - before[name]) * 100 / IDLE_S] for name, broker in brokers.items()
    }
    what = "CPU when idle"
    yield row("cluster", what, "% of a core", percent, is_lower_better=True, bar=IDLE_BAR_PERCENT)


def _load(brokers: Brokers, is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    rounds = rounds_of(is_quick)
    for partitions in (1, 10):
        yield from commits(
            "cluster",
            brokers,
            partitions,
            count=20 if is_quick else 60,
            rounds=rounds,
            bars=COMMIT_BARS,
            shares=(0.5, 0.99),
            replicas=REPLICAS,
            show_step=show_step,
        )
    for size, full in COUNTS.items():
        count = full // (40 if is_quick else 4)
        yield from writing(
            "cluster",
            brokers,
            size,
            count,
            rounds=rounds,
            kafka_bar=BULK_KAFKA_BAR,
            replicas=REPLICAS,
            show_step=show_step,
        )
        yield from reading_back(
            "cluster",
            brokers,
            size,
            count,
            rounds=rounds,
            kafka_bar=BULK_KAFKA_BAR,
            replicas=REPLICAS,
            show_step=show_step,
        )
    create_topics(brokers, "batches", replicas=REPLICAS)
    rates: Rounds = {name: [] for name in brokers}
    for turn in range(rounds):
        for name, broker in brokers.items():
            show_step(f"1 MB batches, {name}, round {turn + 1}")
            rates[name].append(_megabytes_a_second(broker.bootstrap, 20 if is_quick else 100))
    yield row(
        "cluster",
        "1 MB batches",
        "MB/s",
        rates,
        bar=THROUGHPUT_BAR_MB_S,
        kafka_bar=BULK_KAFKA_BAR,
    )


def _megabytes_a_second(bootstrap: str, batches: int) -> float:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.size": BATCH_BYTES,
            "message.max.bytes": 2 * BATCH_BYTES,
            "queue.buffering.max.kbytes": 64_000,
            "log_level": 0,
        }
    )
    producer.list_topics("batches", CALL_TIMEOUT_S)
    value = b"x" * 10_000
    count = batches * (BATCH_BYTES // len(value))
    # Asking for an id and connecting to each leader take the client a second or two with any broker.
    for partition in range(PARTITIONS):
        producer.produce("batches", value, partition=partition)
    assert producer.flush(CALL_TIMEOUT_S) == 0
    started_at = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce("batches", value, partition=number // 100 % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(CALL_TIMEOUT_S * 2) == 0
    return count * len(value) / 1e6 / (time.perf_counter() - started_at)
