"""Workloads of the process: how soon it is ready, what it uses when idle, how soon it is back after a crash."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition

from bench.apache_kafka import formatted_kafka, free_ports
from bench.brokers import create_topic, oncelog, resident_bytes
from bench.client_workloads import (
    CALL_TIMEOUT_S,
    Rounds,
    rounds_of,
    row,
    transactional_producer,
)
from bench.results import Measurement
from bench.runner import ShowStep
from oncelog_server.demo.processes import OncelogServer

START_BAR_S = 1.0
START_KAFKA_BAR = 0.25
IDLE_BAR_MB = 90
RECOVERY_BAR_S = 2.0
IDLE_AFTER_S = 3.0
OPEN_TRANSACTIONS = 100
RECORD_BYTES = 1_000


def start(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the time from the start of the process to the first committed transaction, by a client that starts
    when oncelog is ready. (A client that is already waiting adds a timer of its own: librdkafka looks for a
    coordinator twice a second.)"""
    seconds: Rounds = {}
    resident: Rounds = {}
    for turn in range(rounds_of(is_quick)):
        with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
            show_step(f"oncelog, round {turn + 1}")
            server = OncelogServer(Path(folder) / "data", port=free_ports(1)[0])
            started_at = time.perf_counter()
            with server:
                _first_commit(server.bootstrap)
                seconds.setdefault("oncelog", []).append(time.perf_counter() - started_at)
                time.sleep(IDLE_AFTER_S)
                resident.setdefault("oncelog", []).append(resident_bytes(server.pid) / 1e6)
        with formatted_kafka() as kafka:
            if kafka is None:
                continue
            show_step(f"kafka, round {turn + 1}")
            started_at = time.perf_counter()
            kafka.start()
            _first_commit(kafka.bootstrap)
            seconds.setdefault("kafka", []).append(time.perf_counter() - started_at)
            time.sleep(IDLE_AFTER_S)
            resident.setdefault("kafka", []).append(resident_bytes(kafka.pids[0]) / 1e6)
    yield row(
        "start",
        "process start to first commit",
        "s",
        seconds,
        is_lower_better=True,
        bar=START_BAR_S,
        kafka_bar=START_KAFKA_BAR,
    )
    what = "resident when idle"
    yield row("start", what, "MB", resident, is_lower_better=True, bar=IDLE_BAR_MB)


def _first_commit(bootstrap: str) -> None:
    producer = transactional_producer(bootstrap, "first")
    producer.begin_transaction()
    producer.produce("first", b"x", partition=0)
    producer.commit_transaction(CALL_TIMEOUT_S)


def recovery(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure recovery after SIGKILL with 1 GB of log and 100 open transactions: from process start to ready,
    and to a read of the log."""
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
