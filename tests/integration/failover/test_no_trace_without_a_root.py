"""Coordinators are killed under load, and each trace that anything of arrived has its root (ADR 0028).

A coordinator's process dies with what waits in its exporter. `make failover` kills twenty times.
"""

import contextlib
import itertools
import os
import threading
import time

import confluent_kafka
import pytest
from tests.integration.failover.victims import coordinator_of, image_of
from tests.integration.processes.deadlines import eventually
from tests.integration.telemetry.trace_receiver import receiving
from tests.targets import asked_security, cluster_folder

from oncelog.rpc.metadata import TRANSACTION
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import COORDINATOR

KILLS = 20 if "ONCELOG_FAILOVER_FULL" in os.environ else 2
PRODUCERS = 4
COMMITS_BETWEEN = 20
CALL_TIMEOUT_S = 120
SPANS_WAIT_MS = 5_000
"""OpenTelemetry's default, and longer than a coordinator lives after its last completion here."""
TOPIC = "loaded"
pytestmark = pytest.mark.timeout(300 + 120 * KILLS)


class Load:
    """Producers that commit one transaction after the other, each under its own id."""

    def __init__(self, bootstrap):
        self._bootstrap = bootstrap
        self._committed = itertools.count()
        self._is_ending = threading.Event()
        self.count = 0
        self.failures = []
        self._threads = [
            threading.Thread(target=self._run, args=(name,))
            for name in (f"loaded-{number}" for number in range(PRODUCERS))
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._is_ending.set()
        for thread in self._threads:
            thread.join()

    def await_more(self, count):
        until = self.count + count
        deadline = time.monotonic() + CALL_TIMEOUT_S
        while self.count < until:
            assert time.monotonic() < deadline, f"{self.count} of {until}: {self.failures}"
            self._is_ending.wait(0.05)

    def _run(self, transactional_id):
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self._bootstrap,
                "transactional.id": transactional_id,
                "log_level": 0,
            }
        )
        try:
            producer.init_transactions(CALL_TIMEOUT_S)
            while not self._is_ending.is_set():
                producer.begin_transaction()
                producer.produce(TOPIC, b"x")
                producer.commit_transaction(CALL_TIMEOUT_S)
                self.count = next(self._committed) + 1
        except confluent_kafka.KafkaException as error:
            self.failures.append(error)


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    with receiving(tmp_path_factory.mktemp("traces")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(receiver):
    environment = receiver.environment(OTEL_BSP_SCHEDULE_DELAY=str(SPANS_WAIT_MS))
    with (
        cluster_folder() as folder,
        Cluster(folder, environment=environment, **asked_security()) as one,
    ):
        yield one


def owners(cluster):
    shards = image_of(cluster).shards.items()
    return {shard.coordinator for (kind, _), shard in shards if kind == TRANSACTION}


def whole(receiver):
    """How many transactions of the load have their root."""
    names = {f"transaction loaded-{number}" for number in range(PRODUCERS)}
    return sum(any(root.name in names for root in trace.roots) for trace in receiver.traces)


def incomplete(receiver):
    """Of traces without a root the names of their spans. A killed process may have sent a span without its parent."""
    return [[one.name for one in trace.spans] for trace in receiver.traces if not trace.roots]


def test_killed_coordinators_leave_no_trace_without_root(cluster, receiver):
    coordinators = len(cluster.of_role(COORDINATOR))
    with Load(cluster.bootstrap) as load:
        for number in range(KILLS):
            load.await_more(COMMITS_BETWEEN)
            victim = coordinator_of(cluster, f"loaded-{number % PRODUCERS}")
            cluster.kill(victim)
            load.await_more(COMMITS_BETWEEN)
            cluster.start_one(victim)
            print(f"{number + 1} kills, {load.count} commits", flush=True)
            eventually(lambda: len(owners(cluster)) == coordinators, CALL_TIMEOUT_S)
    assert not load.failures
    # What the others still keep leaves with their next batch.
    with contextlib.suppress(AssertionError):
        eventually(lambda: whole(receiver) >= load.count and not incomplete(receiver))
    left = incomplete(receiver)
    print(f"{KILLS} kills, {load.count} commits, {whole(receiver)} roots, {len(left)} orphaned")
    assert whole(receiver) >= load.count
    assert not left, left[:5]
