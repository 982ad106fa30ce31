"""Apache Kafka 4.4 with the face of `tests/targets.py`: one node, or three with three replicas of everything."""

import os
import time
import uuid
from base64 import urlsafe_b64encode

import pytest
from tests.conformance.java_programs import CACHE, SOURCES, fetched_jars
from tests.conformance.kafka_broker import CLUSTER_ID, JVM, PROPERTIES, START_TIMEOUT_S
from tests.free_ports import free_block

from oncelog.broker_config import BROKER_CONFIGS
from oncelog_server.demo.processes import OwnProcess

NODES_VARIABLE = "ONCELOG_TEST_KAFKA_NODES"
HOST = "127.0.0.1"
MORE = """\
auto.create.topics.enable=true
default.replication.factor={copies}
offsets.topic.replication.factor={copies}
transaction.state.log.replication.factor={copies}
transaction.state.log.min.isr={in_sync}
controlled.shutdown.enable=false
log.cleaner.backoff.ms=200
log.retention.check.interval.ms=300000
group.consumer.min.heartbeat.interval.ms=100
group.consumer.min.session.timeout.ms=1000
"""
NAME_OF_SETTING = {
    f"ONCELOG_{one.setting.replace('.', '_').upper()}": name
    for name, one in BROKER_CONFIGS.items()
    if one.setting and one.divisor == 1
}
"""Our variables under Kafka's names."""


class KafkaTarget:
    def __init__(self, folder, *, advertised_port=None, environment=None):
        count = int(os.environ.get(NODES_VARIABLE, "1"))
        if advertised_port is not None and count > 1:
            pytest.skip("one proxy stands before one node")
        self._folder = folder
        self._jars = fetched_jars(CACHE, SOURCES / "broker" / "pom.xml")
        self._ports = free_block(2 * count)
        self._advertised_port = advertised_port
        given = {**os.environ, **(environment or {})}
        self._given = {
            name: given[variable] for variable, name in NAME_OF_SETTING.items() if variable in given
        }
        self._nodes = range(1, count + 1)
        self._processes = {}
        self.bootstrap = ",".join(f"{HOST}:{self._ports[number - 1]}" for number in self._nodes)

    @property
    def address(self):
        return HOST, self._ports[0]

    @property
    def gateway(self):
        pytest.skip("Apache Kafka has no gateway")

    @property
    def pid(self):
        return self._processes[1].pid

    @property
    def is_running(self):
        return bool(self._processes)

    def _properties(self, number):
        return self._folder / f"node-{number}.properties"

    def _write_properties(self, number):
        count = len(self._nodes)
        broker, controller = self._ports[number - 1], self._ports[count + number - 1]
        text = PROPERTIES.format(
            protocol="PLAINTEXT",
            controller=controller,
            broker=broker,
            folder=self._folder / f"node-{number}",
        )
        text += MORE.format(copies=count, in_sync=2 if count > 2 else 1)
        controllers = ",".join(f"{HOST}:{port}" for port in self._ports[count:])
        told = self._advertised_port or broker
        own = {
            "node.id": number,
            "controller.quorum.bootstrap.servers": controllers,
            "advertised.listeners": f"PLAINTEXT://{HOST}:{told}",
            **self._given,
        }
        # The last of two lines with one name counts.
        text += "".join(f"{name}={value}\n" for name, value in own.items())
        self._properties(number).write_text(text)

    def _run(self, name, main_class, *words):
        log = self._folder / f"{name}-{uuid.uuid4().hex[:8]}.log"
        return OwnProcess([*JVM, "-cp", f"{self._jars}/*", main_class, *words], log)

    def _format(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        count = len(self._nodes)
        ids = [urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=") for _ in self._nodes]
        voters = ",".join(
            f"{number}@{HOST}:{self._ports[count + number - 1]}:{one}"
            for number, one in zip(self._nodes, ids, strict=True)
        )
        for number in self._nodes:
            self._write_properties(number)
            tool = self._run(
                "format",
                "kafka.tools.StorageTool",
                "format",
                "--initial-controllers",
                voters,
                "-t",
                CLUSTER_ID,
                "-c",
                str(self._properties(number)),
            )
            assert tool.wait(START_TIMEOUT_S) == 0, tool.log_tail()

    def start(self):
        if not self._properties(1).exists():
            self._format()
        for number in self._nodes:
            words = ("kafka.Kafka", str(self._properties(number)))
            self._processes[number] = self._run(f"node-{number}", *words)
        deadline = time.monotonic() + START_TIMEOUT_S
        for process in self._processes.values():
            while "Kafka Server started" not in process.log.read_text():
                if process.exit_code is not None or time.monotonic() > deadline:
                    self.kill()
                    raise AssertionError(process.log_tail())
                time.sleep(0.1)

    def kill(self):
        for process in self._processes.values():
            process.kill_group()
        self._processes.clear()

    def stop(self):
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.stop()
        self._processes.clear()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
