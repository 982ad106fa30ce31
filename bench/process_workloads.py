"""Workloads of the process: how soon it is of use, what it holds when idle, how soon it is back after a crash."""

import os
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.brokers import create_topic, free_port, oncelog, resident_bytes
from bench.client_workloads import CALL_TIMEOUT_S, ShowStep, transactional_producer
from bench.results import Measurement, percentile
from oncelog_server.demo.processes import OncelogServer

START_BAR_S = 1.0
IDLE_BAR_MB = 120
RECOVERY_BAR_S = 2.0
IDLE_AFTER_S = 3.0
OPEN_TRANSACTIONS = 100
RECORD_BYTES = 1_000


def start(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """From the start of the process to the first committed transaction, by a client that starts when oncelog says it is
    ready. (One that is already waiting adds a timer of its own: librdkafka asks for a coordinator twice a second.)"""
    seconds, resident = [], []
    for turn in range(1 if is_quick else 5):
        show_step(f"start {turn + 1}")
        with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
            server = OncelogServer(Path(folder) / "data", port=free_port())
            started_at = time.perf_counter()
            with server:
                producer = Producer(
                    {
                        "bootstrap.servers": server.bootstrap,
                        "transactional.id": "first",
                        "linger.ms": 0,
                        "log_level": 0,
                    }
                )
                producer.init_transactions(CALL_TIMEOUT_S)
                producer.begin_transaction()
                producer.produce("first", b"x", partition=0)
                producer.commit_transaction(CALL_TIMEOUT_S)
                seconds.append(time.perf_counter() - started_at)
                time.sleep(IDLE_AFTER_S)
                resident.append(resident_bytes(server.pid) / 1e6)
    return [
        Measurement(
            "start",
            "process start to first commit",
            "s",
            percentile(seconds, 0.5),
            is_lower_better=True,
            bar=START_BAR_S,
        ),
        Measurement(
            "start",
            "resident when idle",
            "MB",
            percentile(resident, 0.5),
            is_lower_better=True,
            bar=IDLE_BAR_MB,
        ),
    ]


def recovery(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """SIGKILL with 1 GB of log and 100 open transactions; then from process start to ready, and to a read of it."""
    records = 100_000 if is_quick else 1_000_000
    gigabytes = records * RECORD_BYTES / 1e9
    with oncelog() as server:
        show_step(f"writing {gigabytes:.1f} GB")
        _fill(server.bootstrap, records)
        producers = [
            transactional_producer(server.bootstrap, f"open-{n}") for n in range(OPEN_TRANSACTIONS)
        ]
        for producer in producers:
            producer.begin_transaction()
            producer.produce("log", b"open", partition=0)
            assert producer.flush(CALL_TIMEOUT_S) == 0
        show_step("killing and starting again")
        server.kill()
        started_at = time.perf_counter()
        server.start()
        ready_s = time.perf_counter() - started_at
        _read_one(server.bootstrap)
        read_s = time.perf_counter() - started_at
    what = f"{gigabytes:.1f} GB, {OPEN_TRANSACTIONS} open transactions"
    return [
        Measurement(
            "recovery",
            f"SIGKILL to ready, {what}",
            "s",
            ready_s,
            is_lower_better=True,
            bar=RECOVERY_BAR_S,
        ),
        Measurement(
            "recovery", f"SIGKILL to first read, {what}", "s", read_s, is_lower_better=True
        ),
    ]


def _fill(bootstrap: str, records: int) -> None:
    create_topic(bootstrap, "log", 4)
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.kbytes": 200_000,
            "log_level": 0,
        }
    )
    content = os.urandom(1_000_000)
    for number in range(records):
        start = number * 7 % (len(content) - RECORD_BYTES)
        while True:
            try:
                producer.produce("log", content[start : start + RECORD_BYTES], partition=number % 4)
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(CALL_TIMEOUT_S * 5) == 0


def _read_one(bootstrap: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "reconnect.backoff.ms": 5,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition("log", 0, 0)])
    message = consumer.poll(CALL_TIMEOUT_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
