"""Apache Kafka itself, of one node in one JVM, with the options of its own start script: the peer that people run.

Its jars come from Maven, into `.cache`. Where Maven or Java is missing, the rows have no number of Kafka, and
`make bench` says why.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from scripts.maven_jars import NoJarsError, fetched_jars

from oncelog_server.demo.processes import OwnProcess

ROOT: Final = Path(__file__).resolve().parents[1]
POM: Final = ROOT / "tests/conformance/java/broker/pom.xml"
CACHE: Final = ROOT / ".cache" / "java-client"
VERSION: Final = "4.4.0"
START_TIMEOUT_S: Final = 120
CLUSTER_ID: Final = "4L6g3nShT-eMCtK--X86sw"
# As kafka-server-start.sh and kafka-run-class.sh have them.
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
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={folder}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


class ApacheKafka:
    """One node. A context manager; raises NoJarsError where it cannot run."""

    def __init__(self, folder: Path, *, broker_port: int, controller_port: int) -> None:
        self.bootstrap = f"127.0.0.1:{broker_port}"
        self._jars = fetched_jars(CACHE, POM)
        self._folder = folder
        self._properties = folder / "server.properties"
        self._properties.write_text(
            PROPERTIES.format(folder=folder, broker=broker_port, controller=controller_port)
        )
        self._process: OwnProcess | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "start() comes first"
        return self._process.pid

    def start(self) -> None:
        """Until it says that it serves. The first time its folder is formatted."""
        if not (self._folder / "data").exists():
            words = ("format", "--standalone", "-t", CLUSTER_ID, "-c", str(self._properties))
            tool = self._run("kafka.tools.StorageTool", *words)
            if tool.wait(START_TIMEOUT_S) != 0:
                raise AssertionError(tool.log_tail())
        self._process = process = self._run("kafka.Kafka", str(self._properties))
        deadline = time.monotonic() + START_TIMEOUT_S
        while "Kafka Server started" not in process.log.read_text():
            if process.exit_code is not None or time.monotonic() > deadline:
                process.kill_group()
                raise AssertionError(process.log_tail())
            time.sleep(0.01)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()

    def _run(self, main_class: str, *words: str) -> OwnProcess:
        command = [*JVM, "-cp", f"{self._jars}/*", main_class, *words]
        return OwnProcess(command, self._folder / "log")


@contextmanager
def apache_kafka(broker_port: int, controller_port: int) -> Iterator[ApacheKafka | None]:
    """A running node on a folder that goes away with it; None, with a line why, where it cannot run."""
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-kafka-") as folder:
        try:
            kafka = ApacheKafka(
                Path(folder), broker_port=broker_port, controller_port=controller_port
            )
        except NoJarsError as error:
            print(f"without Apache Kafka: {error}")
            yield None
            return
        try:
            kafka.start()
            yield kafka
        finally:
            kafka.stop()
