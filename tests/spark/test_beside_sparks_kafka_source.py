"""The same options give the same rows with Spark's Kafka source and ours, on oncelog and on Apache Kafka."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.conformance.java_programs import CACHE, SOURCES, fetched_jars
from tests.conformance.kafka_broker import KafkaBroker
from tests.free_ports import free_block
from tests.spark.oncelog_process import OncelogProcess
from tests.spark.topic_tools import ROOT

TOPIC = "orders-a"
DRIVER_TIMEOUT_S = 500
FIRST_MS = 1_700_000_000_000

pytestmark = [pytest.mark.slow, pytest.mark.timeout(DRIVER_TIMEOUT_S + 120)]


@contextmanager
def oncelog(folder):
    folder.mkdir()
    server = OncelogProcess(folder)
    server.start()
    try:
        yield str(server.address)
    finally:
        server.stop()


@contextmanager
def kafka(folder):
    broker, controller = free_block(2)
    with KafkaBroker(folder, broker=broker, controller=controller) as running:
        yield running.bootstrap


def filled(bootstrap):
    """Plain records and transactions of every outcome in two partitions of unlike length."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for topic, partitions in ((TOPIC, 2), ("orders-b", 1)):
        # The records are years old.
        new = NewTopic(topic, partitions, 1, config={"retention.ms": "-1"})
        admin.create_topics([new])[topic].result()
    plain = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(100):
        plain.produce(
            TOPIC,
            f"plain-{number}".encode(),
            key=f"k{number}".encode(),
            partition=0,
            timestamp=FIRST_MS + number,
            headers=[("h", str(number).encode())] if number % 3 else None,
        )
        plain.flush()
    plain.produce("orders-b", b"other", timestamp=FIRST_MS)
    plain.flush()
    for number, end in enumerate(["commit", "abort"] * 4):
        producer = transaction(bootstrap, f"t{number % 3}", number)
        getattr(producer, f"{end}_transaction")()
    return transaction(bootstrap, "open", 100)


def transaction(bootstrap, name, number):
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "transaction.timeout.ms": 1000 * DRIVER_TIMEOUT_S,
        }
    )
    producer.init_transactions()
    producer.begin_transaction()
    for partition in (0, 1):
        for value in range(5):
            producer.produce(
                TOPIC,
                None if value == 4 else f"{name}-{number}-{value}".encode(),
                partition=partition,
                timestamp=FIRST_MS + number,
            )
    producer.flush()
    return producer


@pytest.mark.parametrize("log", [oncelog, kafka])
def test_both_sources_give_the_same_rows(log, tmp_path):
    jars = sorted(fetched_jars(CACHE, SOURCES / "spark" / "pom.xml").glob("*.jar"))
    command = [sys.executable, str(ROOT / "tests" / "spark" / "both_sources.py")]
    with log(tmp_path / "log") as bootstrap:
        holder = filled(bootstrap)
        result = subprocess.run(
            [*command, bootstrap, TOPIC, *map(str, jars)],
            capture_output=True,
            text=True,
            check=False,
            timeout=DRIVER_TIMEOUT_S,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
        )
        holder.abort_transaction()
    told = [line for line in result.stderr.splitlines() if not line.startswith("\t")]
    assert result.returncode == 0, "\n".join(told[-20:])
    found = json.loads(result.stdout.splitlines()[-1])
    for way, (theirs, _, ours, _) in found.items():
        assert ours == theirs, way
        assert theirs, way
    assert found["as six tasks"][3] >= 6
    assert found["whole"][1] == found["whole"][3] == 2
    assert len(found["uncommitted"][2]) > len(found["whole"][2])
    assert found["stream"][3] > 1
