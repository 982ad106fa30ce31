"""Incidents that need processes to die, in a cluster (docs/operations.md)."""

import threading

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.incidents.scenes import (
    PATIENCE_S,
    eventually,
    explained,
    new_topic,
    producer,
    told,
    write,
)
from tests.integration.failover.test_kills import coordinator_of
from tests.targets import cluster_folder

from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import STORAGE

ALONE = 13


@pytest.fixture(scope="module")
def cluster():
    with cluster_folder() as folder, Cluster(folder) as running:
        yield running


@pytest.fixture(autouse=True)
def whole(cluster):
    """What a test broke is whole again before the next."""
    yield
    cluster.start_dead()


def topic_on(cluster, name, node_id):
    """With its only replica there."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = NewTopic(name, num_partitions=1, replica_assignment=[[node_id]])
    (created,) = admin.create_topics([wanted]).values()
    created.result(PATIENCE_S)
    return name


def name_of(cluster, node_id):
    return next(one.name for one in cluster.members if one.node_id == node_id)


def test_a_marker_is_stuck_behind_a_dead_leader_and_the_producer_loops(cluster):
    topic, other = topic_on(cluster, "alone", ALONE), new_topic(cluster.bootstrap, "other", 1, 3)
    opened = producer(cluster.bootstrap, "stuck", "app-1")
    write(opened, topic)
    cluster.kill(name_of(cluster, ALONE))
    opened.commit_transaction(PATIENCE_S)

    def is_stuck():
        found = explained(cluster.gateway, "stuck")
        return "has no leader" in found["verdict"] and found

    found = eventually(is_stuck)
    assert found["incident"] == "marker-stuck"
    assert "alone-0" in found["verdict"]
    assert f"start node {ALONE} again" in found["next_commands"][0]["does"]
    assert explained(cluster.gateway, "alone-0")["incident"] == "no-leader"

    again = threading.Thread(target=write, args=(opened, other), daemon=True)
    again.start()
    loop = "was refused with CONCURRENT_TRANSACTIONS"
    found = eventually(lambda: loop in told(one := explained(cluster.gateway, "stuck")) and one)
    assert found["incident"] == "marker-stuck", "the loop is its consequence"
    cluster.start_dead()
    again.join(PATIENCE_S)
    opened.commit_transaction(PATIENCE_S)
    eventually(lambda: explained(cluster.gateway, "stuck")["incident"] == "healthy")


class Named:
    transactional_id = "waits"


def test_a_shard_that_loads_is_told_of(cluster):
    """Its coordinator died, and the next one cannot read the shard: no replica of it lives."""
    new_topic(cluster.bootstrap, "third", 1, 3)
    opened = producer(cluster.bootstrap, "waits", "app-1")
    write(opened, "third")
    victim = coordinator_of(cluster, Named)
    for member in cluster.of_role(STORAGE):
        cluster.kill(member.name)
    cluster.kill(victim)
    found = eventually(
        lambda: (one := explained(cluster.gateway, "waits"))["incident"] == "shard-loads" and one
    )
    assert "of __transaction_state" in found["verdict"]
    assert "nodes list" in found["next_commands"][0]["command"]
    cluster.start_dead()
    eventually(lambda: explained(cluster.gateway, "waits")["incident"] != "shard-loads")
