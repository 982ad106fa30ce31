"""Workloads of a whole cluster: replication factor 3, one process per role, on the machine's two cores.

A cluster has no peer that could run beside it here, so the yardstick is the embedded log in the same run: what the hops
and the copies cost.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.brokers import ADMIN_TIMEOUT_S, create_topic, oncelog, resident_bytes
from bench.client_workloads import CALL_TIMEOUT_S, ShowStep, transactional_producer
from bench.results import Measurement, percentile
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import STORAGE

COMMIT_BAR_MS = 6.0
THROUGHPUT_BAR_MB_S = 100.0
STORAGE_BAR_MB = 400.0
PARTITIONS = 4
BATCH_BYTES = 1_000_000
WARM_UP = 50

Latencies = dict[str, list[float]]


@contextmanager
def a_cluster(environment: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A running cluster of the shape of `make cluster`, on a folder that goes away with it."""
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
        cluster = Cluster(Path(folder) / "cluster", environment=environment)
        with cluster:
            yield cluster


def replicated_topic(bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, partitions, replication_factor=3)]).values():
        future.result(ADMIN_TIMEOUT_S)


def cluster(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Commit latency of one record and throughput in 1 MB batches at replication factor 3; start and memory."""
    show_step("starting")
    started_at = time.perf_counter()
    with a_cluster() as running:
        start_s = time.perf_counter() - started_at
        replicated_topic(running.bootstrap, "cluster")
        show_step("commits")
        latencies = _commit_latencies(running.bootstrap, 100 if is_quick else 1_000)
        show_step("1 MB batches")
        rate = _megabytes_a_second(running.bootstrap, 100 if is_quick else 600)
        storage_mb = max(
            resident_bytes(process.pid) / 1e6
            for member in running.of_role(STORAGE)
            if (process := running.process(member.name)) is not None
        )
    with oncelog() as server:
        create_topic(server.bootstrap, "cluster", PARTITIONS)
        show_step("the same, embedded")
        embedded = _commit_latencies(server.bootstrap, 100 if is_quick else 1_000)
        embedded_rate = _megabytes_a_second(server.bootstrap, 100 if is_quick else 600)
    return [
        Measurement("cluster", "start, 12 processes", "s", start_s, is_lower_better=True),
        *_commit_rows(latencies, embedded),
        Measurement(
            "cluster",
            "1 MB batches (beside: embedded)",
            "MB/s",
            rate,
            embedded_rate,
            bar=THROUGHPUT_BAR_MB_S,
        ),
        Measurement(
            "cluster",
            "largest storage node after the load",
            "MB",
            storage_mb,
            is_lower_better=True,
            bar=STORAGE_BAR_MB,
        ),
    ]


def _commit_rows(replicated: Latencies, embedded: Latencies) -> list[Measurement]:
    return [
        Measurement(
            "cluster",
            f"{what}, {label} (beside: embedded)",
            "ms",
            percentile(replicated[what], share),
            percentile(embedded[what], share),
            is_lower_better=True,
            bar=COMMIT_BAR_MS if share == 0.5 else None,
        )
        for what in replicated
        for label, share in (("p50", 0.5), ("p99", 0.99))
    ]


def _commit_latencies(bootstrap: str, transactions: int) -> Latencies:
    """Milliseconds of transactions of one record: all of it, and the commit alone."""
    producer = transactional_producer(bootstrap, "cluster")
    latencies: Latencies = {"begin to committed": [], "commit alone": []}
    for number in range(transactions + WARM_UP):
        started_at = time.perf_counter()
        producer.begin_transaction()
        producer.produce("cluster", b"x" * 100, partition=number % PARTITIONS)
        assert producer.flush(CALL_TIMEOUT_S) == 0
        flushed_at = time.perf_counter()
        producer.commit_transaction(CALL_TIMEOUT_S)
        ended_at = time.perf_counter()
        if number >= WARM_UP:
            latencies["begin to committed"].append((ended_at - started_at) * 1_000)
            latencies["commit alone"].append((ended_at - flushed_at) * 1_000)
    return latencies


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
    producer.list_topics("cluster", CALL_TIMEOUT_S)
    value = b"x" * 10_000
    count = batches * (BATCH_BYTES // len(value))
    started_at = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce("cluster", value, partition=number // 100 % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(CALL_TIMEOUT_S * 2) == 0
    return count * len(value) / 1e6 / (time.perf_counter() - started_at)
