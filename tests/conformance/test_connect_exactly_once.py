"""A Kafka Connect worker with exactly.once.source.support: killed in a transaction, every line comes once, in order."""

import json
import os
import urllib.request
import uuid

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.conformance.java_programs import Program
from tests.conformance.logins import of_java
from tests.conformance.test_streams_exactly_once import CALL_TIMEOUT_S, KILLS_MAX, read
from tests.free_ports import free_block

# The starts of a JVM, and of Apache Kafka, are in it.
pytestmark = pytest.mark.timeout(300)

LINES = 10_000
"""So many lines come for each kill: more than a transaction holds."""
ROUNDS = int(os.environ.get("ONCELOG_TEST_JAVA_ROUNDS", "1"))
"""How often the worker is killed. The gate kills it once; `make conformance-java` more often."""
DEADLINE_S = 90
PADDING = "." * 520
"""Kafka's file source holds back the lines of its 1024-character buffer that exceed a batch: here there is one."""
WORKER = """\
bootstrap.servers={bootstrap}
group.id={name}
listeners={address}
exactly.once.source.support=enabled
plugin.discovery=service_load
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
config.storage.topic={name}-configs
offset.storage.topic={name}-offsets
status.storage.topic={name}-status
config.storage.replication.factor=-1
offset.storage.replication.factor=-1
status.storage.replication.factor=-1
offset.storage.partitions=1
status.storage.partitions=1
producer.transaction.timeout.ms=10000
session.timeout.ms=6000
heartbeat.interval.ms=500
scheduled.rebalance.max.delay.ms=0
"""
SOURCE = {
    "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
    "tasks.max": "1",
    "batch.size": "20",
    "transaction.boundary": "interval",
    "transaction.boundary.interval.ms": "200",
}


class Worker:
    def __init__(self, classpath, bootstrap, folder, name):
        self.address = f"http://127.0.0.1:{free_block(1)[0]}"
        settings = folder / "worker.properties"
        logins = [of_java(prefix) for prefix in ("", "producer.", "consumer.", "admin.")]
        worker = WORKER.format(bootstrap=bootstrap, name=name, address=self.address)
        settings.write_text(worker + "".join(logins))
        self.program = Program(
            classpath, "org.apache.kafka.connect.cli.ConnectDistributed", str(settings)
        )
        self.wait_for(lambda: self.ask("GET", "/connectors") is not None)

    def ask(self, method, path, body=None):
        """The answer, or None while the worker is not ready for it."""
        request = urllib.request.Request(
            f"{self.address}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as answer:
                return json.load(answer)
        except OSError:
            return None

    def wait_for(self, condition):
        self.program.wait_for(condition, DEADLINE_S)


class Lines:
    """A file that grows."""

    def __init__(self, path):
        self.path = path
        self.all = []

    def grow(self):
        start = len(self.all)
        fresh = [f"line {number} {PADDING}" for number in range(start, start + LINES)]
        self.all += fresh
        with self.path.open("a") as file:
            file.writelines(f"{line}\n" for line in fresh)


class Ends:
    """The end of a topic's only partition for readers of each isolation level."""

    def __init__(self, bootstrap, topic):
        self._partition = TopicPartition(topic, 0)
        settings = {"bootstrap.servers": bootstrap, "group.id": "ends", "log_level": 0}
        self._committed, self._written = (
            Consumer(settings | {"isolation.level": f"read_{isolation}"})
            for isolation in ("committed", "uncommitted")
        )

    def _end(self, consumer):
        return consumer.get_watermark_offsets(self._partition, CALL_TIMEOUT_S)[1]

    def committed(self):
        return self._end(self._committed)

    def is_open(self):
        """A transaction has written something and has not ended."""
        return self.committed() < self._end(self._written)

    def close(self):
        self._committed.close()
        self._written.close()


@pytest.fixture
def ends(server, topic):
    ends = Ends(server.bootstrap, topic)
    yield ends
    ends.close()


def test_each_line_comes_once_and_in_order_through_kills(
    java_classpath, server, topic, ends, tmp_path
):
    name = f"connect-{uuid.uuid4().hex[:8]}"

    def start():
        return Worker(java_classpath, server.bootstrap, tmp_path, name)

    lines = Lines(tmp_path / "lines.txt")
    lines.grow()
    worker = start()
    source = SOURCE | {"file": str(lines.path), "topic": topic}
    started = worker.ask("PUT", f"/connectors/{name}/config", source)
    assert started is not None, worker.program.lines[-20:]
    for _ in range(ROUNDS):
        worker = kill_inside_a_transaction(worker, start, lines, ends)
    worker.wait_for(lambda: lines_of(server, topic, "read_committed") >= len(lines.all))
    worker.program.kill()
    found = [value for _, value in read(server.bootstrap, topic, "read_committed")]
    assert found == lines.all
    assert lines_of(server, topic, "read_uncommitted") > len(lines.all), "nothing was aborted"


def lines_of(server, topic, isolation):
    return len(read(server.bootstrap, topic, isolation))


def kill_inside_a_transaction(worker, start, lines, ends):
    """Returns the worker that was started in its place."""
    for _ in range(KILLS_MAX):
        before = ends.committed()
        lines.grow()
        worker.wait_for(lambda before=before: ends.committed() > before and ends.is_open())
        worker.program.kill()
        was_open = ends.is_open()
        worker = start()
        if was_open:
            return worker
    raise AssertionError("no kill fell into a transaction that had written something")
