"""Apache Kafka itself, one JVM a node, with the options of its own start script: the broker that people run.

Its jars come from Maven, into `.cache`. Where Maven or Java is missing, the rows have no number of Kafka, and
`make bench` says why.
"""

import socket
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.maven_jars import NoJarsError, fetched_jars

from oncelog_server.cluster.plan import FreePorts
from oncelog_server.demo.processes import OwnProcess

ROOT: Final = Path(__file__).resolve().parents[1]
POM: Final = ROOT / "tests/conformance/java/broker/pom.xml"
CACHE: Final = ROOT / ".cache" / "java-client"
VERSION: Final = "4.4.0"
SERVES: Final = "Kafka Server started"
"""A node's log has this when it serves."""
START_TIMEOUT_S: Final = 120
POLL_S: Final = 0.01
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
# These are the options of kafka-server-start.sh and kafka-run-class.sh.
JVM: Final = (
    "java",
    "-Xms1G",
    "-Xmx1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)
# What Kafka's own config/server.properties says for one node; the rest are Kafka's defaults.
PROPERTIES: Final = """\
process.roles=broker,controller
node.id={node}
controller.quorum.bootstrap.servers={controllers}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data-{node}
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
transaction.state.log.num.partitions={shards}
share.coordinator.state.topic.replication.factor={copies}
share.coordinator.state.topic.min.isr={in_sync}
"""


class ApacheKafka:
    """A cluster of Apache Kafka: one node, or three whose internal topics have three replicas.
    Raises NoJarsError where it cannot run."""

    def __init__(self, folder: Path, *, nodes: int = 1, shards: int = 50) -> None:
        self.jars = fetched_jars(CACHE, POM)
        self.nodes: Final = range(1, nodes + 1)
        self._folder = folder
        self._processes: list[OwnProcess] = []
        # A client that tries to reach a dead node may get its port for its own end. These it does not get.
        ports = FreePorts()
        brokers = [ports.next_port() for _ in self.nodes]
        controllers = [ports.next_port() for _ in self.nodes]
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in brokers)
        self._voters = ",".join(
            f"{node}@127.0.0.1:{port}:{_directory_id()}"
            for node, port in zip(self.nodes, controllers, strict=True)
        )
        for node, broker, controller in zip(self.nodes, brokers, controllers, strict=True):
            self._properties(node).write_text(
                PROPERTIES.format(
                    node=node,
                    broker=broker,
                    controller=controller,
                    controllers=",".join(f"127.0.0.1:{port}" for port in controllers),
                    folder=folder,
                    copies=nodes,
                    in_sync=min(2, nodes),
                    shards=shards,
                )
            )

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(one.pid for one in self._processes)

    @property
    def log(self) -> str:
        """Return the output of all nodes since the first start."""
        return "".join(self.log_of(node).read_text() for node in self.nodes)

    def log_of(self, node: int) -> Path:
        return self._folder / f"node-{node}.log"

    def command_of(self, node: int) -> list[str]:
        """Return the command that runs this node, for a process that is not started here."""
        return self._command("kafka.Kafka", str(self._properties(node)))

    def format(self) -> None:
        """Format the folders of all nodes; this comes before the first start."""
        words = ("format", "--initial-controllers", self._voters, "-t", CLUSTER_ID)
        tools = [
            self._run(node, "kafka.tools.StorageTool", *words, "-c", str(self._properties(node)))
            for node in self.nodes
        ]
        for tool in tools:
            if tool.wait(START_TIMEOUT_S) != 0:
                raise AssertionError(tool.log_tail())

    def start(self) -> None:
        """Start all nodes and wait until each logs that it serves."""
        seen = {node: len(self.log_of(node).read_bytes()) for node in self.nodes}
        self._processes = [
            OwnProcess(self.command_of(node), self.log_of(node)) for node in self.nodes
        ]
        deadline = time.monotonic() + START_TIMEOUT_S
        for node, process in zip(self.nodes, self._processes, strict=True):
            while SERVES.encode() not in process.log.read_bytes()[seen[node] :]:
                if process.exit_code is not None or time.monotonic() > deadline:
                    self.kill()
                    raise AssertionError(process.log_tail())
                time.sleep(POLL_S)

    def stop(self) -> None:
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.stop()

    def kill(self) -> None:
        """Send SIGKILL to every node."""
        for process in self._processes:
            process.kill_group()

    def _properties(self, node: int) -> Path:
        return self._folder / f"node-{node}.properties"

    def _command(self, main_class: str, *words: str) -> list[str]:
        return [*JVM, "-cp", f"{self.jars}/*", main_class, *words]

    def _run(self, node: int, main_class: str, *words: str) -> OwnProcess:
        return OwnProcess(self._command(main_class, *words), self.log_of(node))


@contextmanager
def formatted_kafka(*, nodes: int = 1, shards: int = 50) -> Iterator[ApacheKafka | None]:
    """Yield a Kafka that can be started, on a folder that is removed with it; None where it cannot run,
    after a line that says why."""
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-kafka-") as folder:
        try:
            kafka = ApacheKafka(Path(folder), nodes=nodes, shards=shards)
        except NoJarsError as error:
            print(f"without Apache Kafka: {error}")
            yield None
            return
        kafka.format()
        try:
            yield kafka
        finally:
            kafka.stop()


@contextmanager
def apache_kafka(*, nodes: int = 1) -> Iterator[ApacheKafka | None]:
    """Yield a Kafka that runs; None where it cannot run."""
    with formatted_kafka(nodes=nodes) as kafka:
        if kafka is not None:
            kafka.start()
        yield kafka


def free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens, for processes whose addresses must be known before they run."""
    probes = [socket.socket() for _ in range(count)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _directory_id() -> str:
    """Return a random uuid in Kafka's notation."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
