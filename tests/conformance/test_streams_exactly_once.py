"""Kafka Streams under exactly_once_v2: repartition, join, stores with changelogs; killed, with oncelog killed, exact.

`java/StreamsApp.java` tells what each payment yields. The output is read by another client, read_committed.
"""

import os
import threading
import uuid
from collections import defaultdict

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.conformance.java_programs import Program

# The starts of a JVM, and of Apache Kafka, are in it.
pytestmark = pytest.mark.timeout(300)

ACCOUNTS = 7
PARTITIONS = 2
CALL_TIMEOUT_S = 30
KILLS_MAX = 5
"""So many kills may fall between two transactions."""
ROUNDS = int(os.environ.get("ONCELOG_TEST_JAVA_ROUNDS", "1"))
"""How often each of the two is killed. The gate kills each once; `make conformance-java` more often."""


class Payments:
    """Payments that come one by one from a thread, until they are stopped."""

    PAUSE_S = 0.004

    def __init__(self, bootstrap, topic):
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
        )
        self._topic = topic
        self._stop = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(self.PAUSE_S):
            self._producer.produce(
                self._topic,
                f"a{self.count % ACCOUNTS}:{self.count}",
                key=str(self.count),
            )
            self._producer.poll(0)
            self.count += 1

    def stop(self):
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(CALL_TIMEOUT_S) == 0


def expected(count):
    """Account → its outputs' (count, owner) in order, and its last sum."""
    sums = defaultdict(int)
    counts = defaultdict(int)
    for number in range(count):
        sums[f"a{number % ACCOUNTS}"] += number
        counts[f"a{number % ACCOUNTS}"] += 1
    return {name: ([*range(1, counts[name] + 1)], sums[name]) for name in sums}


def read(bootstrap, topic, isolation):
    """(key, value) of all records there are."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "reader", "isolation.level": isolation}
        | {"enable.auto.commit": False, "enable.partition.eof": True, "log_level": 0}
    )
    metadata = consumer.list_topics(topic, timeout=CALL_TIMEOUT_S).topics[topic]
    consumer.assign([TopicPartition(topic, one, 0) for one in metadata.partitions])
    found, ends = [], 0
    while ends < len(metadata.partitions):
        message = consumer.poll(CALL_TIMEOUT_S)
        assert message is not None, f"nothing comes of {topic}"
        if message.error() is None:
            found.append(((message.key() or b"").decode(), message.value().decode()))
        else:
            ends += 1
    consumer.close()
    return found


@pytest.fixture
def application(server, admin):
    """A fresh application id whose topics exist and whose table is filled."""
    name = f"streams-{uuid.uuid4().hex[:8]}"
    topics = [NewTopic(f"{name}-{one}", PARTITIONS) for one in ("owners", "payments", "balances")]
    for future in admin.create_topics(topics).values():
        future.result(CALL_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": server.bootstrap, "partitioner": "murmur2_random"})
    for number in range(ACCOUNTS):
        producer.produce(f"{name}-owners", f"owner{number}", key=f"a{number}")
    assert producer.flush(CALL_TIMEOUT_S) == 0
    return name


def test_streams_output_is_exact_through_kills_of_both_sides(
    java_classpath, server, application, tmp_path
):
    def start():
        return Program(java_classpath, "StreamsApp", server.bootstrap, application, str(tmp_path))

    app = start()
    app.wait_for_more("state RUNNING", 1)
    payments = Payments(server.bootstrap, f"{application}-payments")
    for _ in range(ROUNDS):
        for _ in range(KILLS_MAX):
            app.wait_for_more("payment", 100)
            app.kill()
            is_open = has_open_transaction(server.bootstrap, application)
            app = start()
            if is_open:
                break
        else:
            raise AssertionError("no kill fell into a transaction that had written something")
        app.wait_for_more("payment", 100)
        server.kill()
        server.start()
        app.wait_for_more("payment", 100)
    payments.stop()
    balances = f"{application}-balances"
    app.wait_for(lambda: len(read(server.bootstrap, balances, "read_committed")) >= payments.count)
    app.close()
    check_exact(read(server.bootstrap, balances, "read_committed"), payments.count)


def has_open_transaction(bootstrap, application):
    """Asked when no application runs: what it wrote last is neither committed nor aborted yet."""
    topics = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0}).list_topics(
        timeout=CALL_TIMEOUT_S
    )
    written = (f"{application}-balances", f"{application}-KSTREAM-REPARTITION")
    return any(
        len(read(bootstrap, name, "read_uncommitted"))
        > len(read(bootstrap, name, "read_committed"))
        for name in topics.topics
        if name.startswith(written) and not name.endswith("-changelog")
    )


def check_exact(outputs, count):
    found = defaultdict(list)
    for account, balance in outputs:
        number, total, owner = balance.split(":")
        assert owner == account.replace("a", "owner")
        found[account].append((int(number), int(total)))
    assert {
        account: ([number for number, _ in balances], balances[-1][1])
        for account, balances in found.items()
    } == expected(count)
