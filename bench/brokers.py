"""The brokers that are measured: `oncelog up`, Apache Kafka, and librdkafka's mock cluster, each in its own process.

The mock is C code that keeps a little in memory, writes no disk and decides no transaction. It shows what the client
and the machine allow at best. So a ratio to it says more than a number that depends on the machine.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psutil
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.apache_kafka import apache_kafka
from oncelog_server.demo.processes import OncelogServer

ADMIN_TIMEOUT_S = 30
MOCK_PARTITIONS = 4
MOCK_PROGRAM = """
import sys
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 0})
(broker,) = producer.list_topics(timeout=30).brokers.values()
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


@contextmanager
def mock_cluster() -> Iterator[str]:
    """Yield the bootstrap address of a mock cluster with one broker."""
    process = subprocess.Popen(
        [sys.executable, "-c", MOCK_PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(30)


@contextmanager
def oncelog() -> Iterator[OncelogServer]:
    """Yield a running oncelog on a data folder that is removed with it."""
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder,
        OncelogServer(Path(folder) / "data") as server,
    ):
        yield server


class Broker(NamedTuple):
    """A broker that runs."""

    bootstrap: str
    pids: tuple[int, ...] = ()
    """The ids of the broker's processes; empty: its processor time is not measured."""

    def cpu_s(self) -> float:
        """The processor time that the broker has used until now, in seconds, with all that its processes started."""
        times = [one.cpu_times() for one in self._processes()]
        return float(sum(one.user + one.system for one in times))

    def resident_mb(self) -> float:
        return float(sum(one.memory_info().rss for one in self._processes())) / 1e6

    def _processes(self) -> Iterator[psutil.Process]:
        for pid in self.pids:
            process = psutil.Process(pid)
            yield from (process, *process.children(recursive=True))


@contextmanager
def log_and_kafka() -> Iterator[dict[str, Broker]]:
    """Yield the brokers that run, by name: oncelog, and kafka where Java and Maven are there."""
    with oncelog() as server, apache_kafka() as kafka:
        found = {"oncelog": Broker(server.bootstrap, (server.pid,))}
        if kafka is not None:
            found["kafka"] = Broker(kafka.bootstrap, kafka.pids)
        yield found


@contextmanager
def side_by_side() -> Iterator[dict[str, Broker]]:
    """Yield oncelog, kafka where Java and Maven are there, and the mock, by name."""
    with log_and_kafka() as found, mock_cluster() as mock:
        yield {**found, "mock": Broker(mock)}


def create_topic(
    bootstrap: str, topic: str, partitions: int, *, replicas: int = 1, timeout_s: float = 30
) -> None:
    """Create `topic` and wait until it exists."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    wanted = NewTopic(topic, partitions, replication_factor=replicas)
    for future in admin.create_topics([wanted], request_timeout=timeout_s).values():
        future.result(timeout_s)


def create_topics(brokers: Mapping[str, Broker], *topics: str, replicas: int = 1) -> None:
    """Create each topic with MOCK_PARTITIONS partitions on each broker.

    The mock has no CreateTopics; it makes a topic, always of that size, when somebody asks for its metadata.
    """
    for name, broker in brokers.items():
        for topic in topics:
            if name == "mock":
                admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
                admin.list_topics(topic, ADMIN_TIMEOUT_S)
            else:
                create_topic(broker.bootstrap, topic, MOCK_PARTITIONS, replicas=replicas)


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process now, in bytes. Linux only."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no VmRSS")
