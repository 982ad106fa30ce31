"""What is measured: `oncelog up`, and as a yardstick librdkafka's mock cluster, each in a process of its own.

The mock is C code that keeps a little in memory, writes no disk and decides no transaction. It shows what the client
and the machine allow at best. So a ratio to it says more than a number that depends on the machine.
"""

import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

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
    """The bootstrap address of a mock cluster with one broker."""
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
    """A running oncelog on a data folder that goes away with it."""
    with (
        tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder,
        OncelogServer(Path(folder) / "data") as server,
    ):
        yield server


@contextmanager
def both() -> Iterator[dict[str, str]]:
    """Bootstrap addresses by name, oncelog's and the mock's, running side by side."""
    with oncelog() as server, mock_cluster() as mock:
        yield {"oncelog": server.bootstrap, "mock": mock}


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Create `topic` and wait for it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for future in admin.create_topics([NewTopic(topic, partitions, replication_factor=1)]).values():
        future.result(ADMIN_TIMEOUT_S)


def create_topics(brokers: Mapping[str, str], *topics: str) -> None:
    """Create each topic with MOCK_PARTITIONS partitions on both brokers.

    The mock has no CreateTopics; it makes a topic, always of that size, when somebody asks for its metadata.
    """
    for topic in topics:
        create_topic(brokers["oncelog"], topic, MOCK_PARTITIONS)
        AdminClient({"bootstrap.servers": brokers["mock"], "log_level": 0}).list_topics(
            topic, ADMIN_TIMEOUT_S
        )


def free_port() -> int:
    """A port nobody listens on, for a process whose address must be known before it runs."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def resident_bytes(pid: int) -> int:
    """Resident memory of a process now. Linux only."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no VmRSS")
