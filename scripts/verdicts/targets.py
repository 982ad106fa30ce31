"""The targets of published verdicts: Apache Kafka with one node and with three, `oncelog up`, and a cluster of oncelog.

Each is started as processes of this machine, with a pid file for each process that faults strike.
"""

import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench.apache_kafka import SERVES, ApacheKafka
from scripts.maven_jars import NoJarsError
from scripts.verdicts import node
from scripts.verdicts.cluster_node import write_pid_file
from scripts.verdicts.node import Node

from oncelog.errors import OncelogError
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import GATEWAY, ClusterShape, FreePorts

KAFKA, ONCELOG = "Apache Kafka", "oncelog"
BROKER_JAR: Final = "kafka_2.13-"
LISTENERS: Final = 3
"""The listeners of the cluster. Clients take them for brokers, and topics get as many replicas as there are brokers."""


@dataclass(frozen=True, slots=True)
class Running:
    """A target that runs."""

    bootstrap: str
    version: str
    pid_files: tuple[Path, ...]
    """The pid files of the processes that faults strike."""
    restart: str
    """The command that starts the process of VERIFY_PID_FILE."""
    data: tuple[Path, ...]
    """The folders with the data of the brokers."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target, in words for the table, and how it is run: in a folder, until the block ends."""

    name: str
    product: str
    nodes: str
    replicas: str
    run: Callable[[Path], AbstractContextManager[Running]]


@contextmanager
def _kafka(folder: Path, *, nodes: int) -> Iterator[Running]:
    """Raises NoJarsError where Kafka cannot run, OncelogError where it does not start."""
    if shutil.which("java") is None:
        # Jars that were fetched once are there all the same.
        raise NoJarsError("Apache Kafka needs java, which is not installed: make jdk")
    kafka = ApacheKafka(folder, nodes=nodes)
    try:
        kafka.format()
    except AssertionError as error:
        raise OncelogError(f"Apache Kafka cannot format its folders: {error}") from error
    found = [
        Node(
            f"kafka-{one}",
            tuple(kafka.command_of(one)),
            str(kafka.log_of(one)),
            ready_line=SERVES,
        )
        for one in kafka.nodes
    ]
    with _started(found, folder) as pid_files:
        yield Running(
            bootstrap=kafka.bootstrap,
            version=version_of(kafka.jars),
            pid_files=pid_files,
            restart=_command("node"),
            data=tuple(folder / f"data-{one}" for one in kafka.nodes),
        )


def version_of(jars: Path) -> str:
    """Return the version of Apache Kafka in a folder of jars. Raises OncelogError if its broker is not there."""
    for jar in jars.glob(f"{BROKER_JAR}*.jar"):
        return jar.stem.removeprefix(BROKER_JAR)
    raise OncelogError(f"there is no {BROKER_JAR}*.jar among Kafka's jars")


@contextmanager
def _oncelog_up(folder: Path) -> Iterator[Running]:
    """Raises OncelogError where it does not start."""
    ports = FreePorts()
    port, gateway_port = ports.next_port(), ports.next_port()
    data, ready_file = folder / "data", folder / "ready.json"
    words = ("--port", port, "--gateway-port", gateway_port)
    files = ("--data", data, "--ready-file", ready_file)
    command = (sys.executable, "-m", "oncelog_server", "up", *words, *files)
    one = Node(
        "oncelog-1",
        tuple(str(word) for word in command),
        str(folder / "oncelog-1.log"),
        ready_file=str(ready_file),
    )
    with _started([one], folder) as pid_files:
        yield Running(
            bootstrap=f"127.0.0.1:{port}",
            version=version("oncelog"),
            pid_files=pid_files,
            restart=_command("node"),
            data=(data,),
        )


@contextmanager
def _oncelog_cluster(folder: Path) -> Iterator[Running]:
    """Raises OncelogError where it does not start."""
    pids = folder / "pids"
    pids.mkdir()
    cluster = Cluster(folder / "cluster", ClusterShape(listeners=LISTENERS))
    with cluster:
        # No client of Kafka needs a gateway.
        members = [one for one in cluster.members if one.role != GATEWAY.role]
        pid_files = tuple(pids / f"{one.name}.pid" for one in members)
        for pid_file in pid_files:
            write_pid_file(cluster, pid_file)
        yield Running(
            bootstrap=cluster.bootstrap,
            version=version("oncelog"),
            pid_files=pid_files,
            restart=_command("cluster_node", str(cluster.folder)),
            data=tuple(
                one for one in cluster.folder.iterdir() if one.is_dir() and one.name != "logs"
            ),
        )


@contextmanager
def _started(nodes: Sequence[Node], folder: Path) -> Iterator[tuple[Path, ...]]:
    """Start these nodes and yield their pid files. At the end the processes that these name then are ended."""
    pid_files = tuple(one.pid_file(folder) for one in nodes)
    try:
        for one in nodes:
            one.write(folder)
        node.start(nodes, folder)
        yield pid_files
    finally:
        # One more Ctrl-C would leave processes running.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            node.stop(pid_files)
        finally:
            signal.signal(signal.SIGINT, before)


def _command(module: str, *words: str) -> str:
    return shlex.join([sys.executable, "-m", f"scripts.verdicts.{module}", *words])


TARGETS: Final = {
    one.name: one
    for one in (
        Target(
            "kafka-1",
            KAFKA,
            "1, broker and controller in one process",
            "1",
            partial(_kafka, nodes=1),
        ),
        Target(
            "kafka-3",
            KAFKA,
            "3, each broker and controller in one process",
            "3, `min.insync.replicas` 2 (`__consumer_offsets`: 1, the default)",
            partial(_kafka, nodes=3),
        ),
        Target("oncelog-up", ONCELOG, "1 process, `oncelog up`", "1", _oncelog_up),
        Target(
            "oncelog-cluster",
            ONCELOG,
            "3 storage nodes, 2 controllers, 2 coordinators, 2 marker senders, 3 listeners",
            "3, `min.insync.replicas` 2",
            _oncelog_cluster,
        ),
    )
}
