"""One Spark session and one running oncelog behind a proxy for the whole run; each test has topics of its own."""

import os
import sys
import uuid
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.integration.telemetry.trace_receiver import receiving
from tests.spark.call_proxy import CallProxy
from tests.spark.kafka_lab import KafkaLab, ProxiedKafka
from tests.spark.oncelog_process import OncelogProcess
from tests.spark.session import spark_session
from tests.spark.topic_tools import Lab
from tests.targets import TargetKind, open_target, target_kind

DEADLINE_S = 300
"""A session's first query on a busy machine takes a minute; a warm one three seconds."""


def pytest_collection_modifyitems(items):
    """Every test of this folder carries the marker, so that `-m 'not spark'` leaves the session out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.spark)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(DEADLINE_S))


@pytest.fixture(scope="session")
def proxy():
    proxy = CallProxy()
    proxy.start()
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def server(proxy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("oncelog")
    # The tests' records are years old: retention, which looks every five minutes, would take them from a slow run.
    os.environ["ONCELOG_STORAGE_RETENTION_CHECK_INTERVAL_MS"] = "86400000"
    if target_kind() is TargetKind.CLUSTER:
        server = open_target(folder, advertised_port=proxy.address.port)
    else:
        server = OncelogProcess(folder, proxy.address.port)
    server.start()
    proxy.upstream = lambda: server.address
    yield server
    server.stop()


@pytest.fixture(scope="session")
def traces(tmp_path_factory):
    """Takes the spans of the session's Python workers, which record those of attempts at traced clusters only."""
    with receiving(tmp_path_factory.mktemp("traces")) as receiver:
        yield receiver


@pytest.fixture(scope="session")
def spark(traces):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with pytest.MonkeyPatch.context() as patch:
        # The JVM keeps its environment and gives it to the workers.
        for name, value in traces.environment().items():
            patch.setenv(name, value)
        spark = spark_session("oncelog-tests")
    yield spark
    spark.stop()


@pytest.fixture
def lab(spark, server, proxy, tmp_path):
    """A source topic of two partitions, a sink topic of three, a checkpoint and a name for the sink."""
    proxy.reset()
    lab = Lab(spark, proxy, tmp_path, f"t{uuid.uuid4().hex[:8]}")
    yield lab
    proxy.reset()
    lab.close()


@pytest.fixture(scope="session")
def kafka(tmp_path_factory):
    with ProxiedKafka(tmp_path_factory.mktemp("beside") / "kafka") as kafka:
        yield kafka


@pytest.fixture
def kafka_topics(kafka, tmp_path):
    """The lab on Apache Kafka, without Spark."""
    kafka.proxy.reset()
    lab = KafkaLab(None, kafka.proxy, tmp_path, f"t{uuid.uuid4().hex[:8]}")
    yield lab
    kafka.proxy.reset()
    lab.close()


@pytest.fixture
def kafka_lab(spark, kafka_topics):
    kafka_topics.spark = spark
    return kafka_topics
