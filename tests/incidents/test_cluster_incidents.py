"""Incidents that need processes to die, in a cluster (docs/operations.md)."""

import threading

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.incidents.scenes import (
    WAIT_S,
    eventually,
    explained,
    new_topic,
    producer,
    shown,
    text_of,
    write,
)
from tests.integration.failover.victims import coordinator_of, name_of

from oncelog_server.cluster.plan import STORAGE

ALONE = 13
SETTLE_S = 60


pytestmark = pytest.mark.usefixtures("whole")


def topic_on(cluster, name, node_id):
    """With its only replica there."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    wanted = NewTopic(name, num_partitions=1, replica_assignment=[[node_id]])
    (created,) = admin.create_topics([wanted]).values()
    created.result(WAIT_S)
    return name


@pytest.fixture
def stuck(cluster, request):
    """A producer whose commit is decided, and whose marker waits for the only replica of its partition."""
    name = request.node.name.removeprefix("test_")[:60]
    topic = topic_on(cluster, f"alone-{name}", ALONE)
    opened = producer(cluster.bootstrap, name, "app-1")
    write(opened, topic)
    cluster.kill(name_of(cluster, ALONE))
    opened.commit_transaction(WAIT_S)
    eventually(lambda: "has no leader" in explained(cluster.gateway, name)["verdict"])
    return name, topic, opened


def test_a_marker_is_stuck_behind_a_dead_leader(cluster, stuck):
    name, topic, _ = stuck
    shown(
        cluster.gateway,
        name,
        "marker-stuck",
        f"The commit is decided, but {topic}-0 has no leader",
        f"start node {ALONE} again",
    )
    shown(cluster.gateway, f"{topic}-0", "no-leader", f"start {ALONE} again")
    cluster.start_dead()
    eventually(lambda: explained(cluster.gateway, name)["incident"] == "healthy")


def test_a_restarted_application_loops_on_an_open_transaction(cluster, stuck):
    name, topic, _ = stuck
    again = threading.Thread(target=producer, args=(cluster.bootstrap, name, "app-2"), daemon=True)
    again.start()
    loop = "InitProducerId of client 'app-2' at 127.0.0.1:"
    eventually(lambda: loop in text_of(explained(cluster.gateway, name)))
    shown(
        cluster.gateway,
        name,
        "marker-stuck",
        f"{topic}-0 has no leader",
        loop,
        "was refused with CONCURRENT_TRANSACTIONS",
        "times or more since",
        f"start node {ALONE} again",
    )
    cluster.start_dead()
    again.join(WAIT_S)
    assert not again.is_alive(), "it still loops"


def test_a_running_producer_loops_on_concurrent_transactions(cluster, stuck):
    name, topic, opened = stuck
    other = new_topic(cluster.bootstrap, f"other-{name}", 1, 3)
    again = threading.Thread(target=write, args=(opened, other), daemon=True)
    again.start()
    loop = "client 'app-1' at 127.0.0.1:"
    eventually(lambda: loop in text_of(explained(cluster.gateway, name)))
    shown(
        cluster.gateway,
        name,
        "marker-stuck",
        f"{topic}-0 has no leader",
        loop,
        "was refused with CONCURRENT_TRANSACTIONS",
    )
    cluster.start_dead()
    again.join(WAIT_S)
    opened.commit_transaction(WAIT_S)
    eventually(lambda: explained(cluster.gateway, name)["incident"] == "healthy")


def test_a_shard_that_loads_is_told_of(cluster):
    """Its coordinator died, and the next one cannot read the shard: no replica of it lives."""
    new_topic(cluster.bootstrap, "third", 1, 3)
    opened = producer(cluster.bootstrap, "waits", "app-1")
    write(opened, "third")
    victim = coordinator_of(cluster, "waits")
    for member in cluster.of_role(STORAGE):
        cluster.kill(member.name)
    cluster.kill(victim)
    loops = threading.Thread(target=opened.commit_transaction, args=(SETTLE_S,), daemon=True)
    loops.start()
    found = eventually(
        lambda: (
            (one := explained(cluster.gateway, "waits"))["incident"] == "shard-loads"
            and "is loading" in one["verdict"]
            and one
        )
    )
    shown(
        cluster.gateway,
        "waits",
        "shard-loads",
        "of __transaction_state. Until it has read the shard, clients of 'waits' are told",
        found["evidence"][0]["source"],
        "oncelog nodes list",
    )
    assert loops.is_alive(), "the client does not wait"
    cluster.start_dead()
    loops.join(SETTLE_S)
    assert not loops.is_alive(), "the client still waits"
    eventually(lambda: explained(cluster.gateway, "waits")["incident"] == "healthy")
