"""A process dies in the middle of a transaction, and its trace is one tree all the same (ADR 0028).

`make failover` does each twenty times.
"""

import os
from collections import Counter

import confluent_kafka
import pytest
from tests.integration.processes.deadlines import eventually
from tests.integration.telemetry.trace_receiver import names, receiving
from tests.targets import asked_security

from oncelog.ids import shard_of
from oncelog.rpc.metadata import TRANSACTION
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import CONTROLLER, MARKER_SENDER
from oncelog_server.cluster.view import is_active, read_image

ROUNDS = 20 if "ONCELOG_FAILOVER_FULL" in os.environ else 1
TOPIC = "traced"
pytestmark = pytest.mark.timeout(90 + 30 * ROUNDS)


@pytest.fixture(scope="module")
def receiver(tmp_path_factory):
    with receiving(tmp_path_factory.mktemp("traces")) as found:
        yield found


@pytest.fixture(scope="module")
def cluster(tmp_path_factory, receiver):
    folder = tmp_path_factory.mktemp("cluster")
    with Cluster(folder, environment=receiver.environment(), **asked_security()) as running:
        yield running


@pytest.fixture(scope="module")
def producer(cluster):
    made = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap, "transactional.id": "traced"}
    )
    made.init_transactions(30)
    return made


def image_of(cluster):
    return read_image(
        [
            one.rpc_address
            for one in cluster.of_role(CONTROLLER)
            if is_active(one.rpc_address, cluster.tls)
        ],
        cluster.tls,
    )


def member_of(cluster, node_id):
    return next(one.name for one in cluster.members if one.node_id == node_id)


def coordinator_of(cluster):
    image = image_of(cluster)
    count = sum(kind == TRANSACTION for kind, _ in image.shards)
    return member_of(cluster, image.shards[TRANSACTION, shard_of("traced", count)].coordinator)


def leader_of(cluster):
    return member_of(cluster, image_of(cluster).topics[TOPIC].partitions[0].leader)


def commit_without_markers(cluster, producer):
    """Decided, and answered; the marker senders are frozen."""
    producer.begin_transaction()
    producer.produce(TOPIC, b"x")
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
    victim = kill(cluster)
    cluster.kill(victim)
    for name in senders:
        cluster.resume(name)
    trace = receiver.transaction("traced", ("client EndTxn", f"marker {TOPIC}-0"), count, 60)
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
