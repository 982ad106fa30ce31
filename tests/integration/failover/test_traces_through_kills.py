"""A process dies in the middle of a transaction, and its trace is one tree all the same (ADR 0028).

`make failover` does each twenty times.
"""

import os
from collections import Counter

import confluent_kafka
import pytest
from tests.integration.failover.victims import coordinator_of, image_of, leader_of
from tests.integration.processes.deadlines import eventually
from tests.integration.telemetry.trace_receiver import names, receiving
from tests.targets import asked_security, cluster_folder

from oncelog.rpc.metadata import TRANSACTION
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import MARKER_SENDER

ROUNDS = 20 if "ONCELOG_FAILOVER_FULL" in os.environ else 1
TRACED = "traced"
"""The topic, and the transactional.id."""
pytestmark = pytest.mark.timeout(90 + 30 * ROUNDS)


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    with receiving(tmp_path_factory.mktemp("traces")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(receiver):
    environment = receiver.environment()
    with (
        cluster_folder() as folder,
        Cluster(folder, environment=environment, **asked_security()) as one,
    ):
        yield one


@pytest.fixture(scope="module")
def producer(cluster):
    made = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": TRACED}
    )
    made.init_transactions(30)
    return made


def commit_without_markers(cluster, producer):
    """Decided, and answered; the marker senders are frozen."""
    producer.begin_transaction()
    producer.produce(TRACED, b"x")
    producer.flush()
    senders = [one.name for one in cluster.of_role(MARKER_SENDER)]
    for name in senders:
        cluster.pause(name)
    producer.commit_transaction(30)
    return senders


def has_both_coordinators(cluster):
    """The one that came back has its share of the shards. A shard that moves during a transaction is no victim's."""
    shares = Counter(
        shard.coordinator
        for (kind, _), shard in image_of(cluster).shards.items()
        if kind == TRANSACTION
    )
    return len(shares) == 2 and max(shares.values()) - min(shares.values()) <= 1


def follow(cluster, receiver, kill, producer, count):
    eventually(lambda: has_both_coordinators(cluster))
    senders = commit_without_markers(cluster, producer)
    victim = kill(cluster, TRACED)
    cluster.kill(victim)
    for name in senders:
        cluster.resume(name)
    trace = receiver.transaction(TRACED, ("client EndTxn", f"marker {TRACED}-0"), count, 60)
    cluster.start_one(victim)
    return trace


@pytest.mark.parametrize("kill", [coordinator_of, leader_of], ids=["coordinator", "leader"])
def test_a_kill_between_decision_and_markers_leaves_one_tree(cluster, receiver, producer, kill):
    before = sum(
        root.name == "transaction traced" for trace in receiver.traces for root in trace.roots
    )
    for done in range(ROUNDS):
        trace = follow(cluster, receiver, kill, producer, before + done + 1)
        assert trace.is_connected, (trace.roots, trace.orphans)
        assert trace.roots[0].attributes["oncelog.state"] == "CompleteCommit"
        services = {one.service for one in trace.spans}
        assert services >= {"oncelog-listener", "oncelog-storage", "oncelog-marker-sender"}
        if kill is coordinator_of:
            # Decided by one, delivered by the next.
            deciders = {
                one.instance
                for one in trace.spans
                if one.name.endswith("EndTxn") and "coordinator" in one.service
            }
            senders = {one.instance for one in trace.spans if one.name == "markers"}
            assert senders - deciders or not deciders, names(trace)
