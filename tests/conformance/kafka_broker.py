"""Apache Kafka itself on this machine: the judge of what we answer."""

import shutil
import time

import pytest
from tests.conformance.java_programs import CACHE, SOURCES, fetched_jars

from oncelog_server.demo.processes import OwnProcess

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
JVM = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_TIMEOUT_S = 90
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=127.0.0.1:{controller}
listeners={protocol}://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners={protocol}://127.0.0.1:{broker}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocol}:{protocol}
inter.broker.listener.name={protocol}
log.retention.check.interval.ms=500
log.initial.task.delay.ms=500
log.dirs={folder}/data
num.partitions=1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


LOGIN_PROPERTIES = """\
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:admin;User:ANONYMOUS
"""

SCRAM_PROPERTIES = """\
listeners=PLAINTEXT://127.0.0.1:{broker},SCRAM://127.0.0.1:{scram},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker},SCRAM://127.0.0.1:{scram}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SCRAM:SASL_PLAINTEXT
listener.name.scram.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
listener.name.scram.scram-sha-256.sasl.jaas.config={module} required;
listener.name.scram.scram-sha-512.sasl.jaas.config={module} required;
"""
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


class KafkaBroker:
    """A broker and controller in one process. A context manager; skips without Java.

    With `users` they log in by SASL PLAIN, and its StandardAuthorizer judges them; without, everybody may all.
    `broker` and `controller`: its ports; `scram`: that of a second listener, where a login by SCRAM is asked for.
    `more`: lines of its properties.
    """

    def __init__(self, folder, users=(), password="", *, broker, controller, scram=None, more=""):
        self.folder = folder
        for tool in ("mvn", "java"):
            if shutil.which(tool) is None:
                pytest.skip(f"Apache Kafka's broker needs {tool}, which is not installed: make jdk")
        CACHE.mkdir(parents=True, exist_ok=True)
        self._jars = fetched_jars(CACHE, SOURCES / "broker" / "pom.xml")
        self.bootstrap = f"127.0.0.1:{broker}"
        folder.mkdir()
        self._properties = folder / "server.properties"
        protocol = "SASL_PLAINTEXT" if users else "PLAINTEXT"
        words = {"controller": controller, "broker": broker, "folder": folder}
        text = PROPERTIES.format(protocol=protocol, **words)
        text += LOGIN_PROPERTIES if users else ""
        # The last of two lines with one name counts.
        text += SCRAM_PROPERTIES.format(scram=scram, module=SCRAM_MODULE, **words) if scram else ""
        self._properties.write_text(text + more)
        self._jaas = folder / "jaas"
        words = " ".join(f'user_{one}="{password}"' for one in users)
        module = "org.apache.kafka.common.security.plain.PlainLoginModule"
        login = f'username="admin" password="{password}"'
        self._jaas.write_text(f"KafkaServer {{ {module} required {login} {words}; }};")

    def _run(self, main_class, *words):
        options = (f"-Djava.security.auth.login.config={self._jaas}", "-cp", f"{self._jars}/*")
        return OwnProcess([*JVM, *options, main_class, *words], self.folder / "log")

    def __enter__(self):
        words = ("format", "--standalone", "-t", CLUSTER_ID, "-c", str(self._properties))
        tool = self._run("kafka.tools.StorageTool", *words)
        assert tool.wait(START_TIMEOUT_S) == 0, tool.log_tail()
        self.start()
        return self

    def start(self):
        """Also again, on the same data, after `kill`."""
        log = self.folder / "log"
        before = log.stat().st_size
        self._process = self._run("kafka.Kafka", str(self._properties))
        deadline = time.monotonic() + START_TIMEOUT_S
        while b"Kafka Server started" not in log.read_bytes()[before:]:
            if self._process.exit_code is not None or time.monotonic() > deadline:
                self._process.kill_group()
                raise AssertionError(self._process.log_tail())
            time.sleep(0.1)

    def kill(self):
        """SIGKILL."""
        self._process.kill_group()

    def __exit__(self, *_):
        self._process.stop()
