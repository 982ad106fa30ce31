"""Certificates of every process end under a producer of transactions, which notices nothing: they were renewed."""

import functools
import time
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.secure_clients import confluent_of
from tests.targets import cluster_folder

from oncelog.security import pki
from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import ClusterShape

WAIT_S = 30
DAY_S = 86_400
VALID_S = 40
"""Longer than the cluster takes to start."""
AFTER_S = 8
"""Streams that stand on an old certificate end within a second."""
COMMIT_MAX_S = 5.0
PARTITIONS = 3


@pytest.fixture
def cluster(monkeypatch):
    soon = functools.partial(pki.make_development_pki, days=VALID_S / DAY_S)
    monkeypatch.setattr(pki, "make_development_pki", soon)
    shape = ClusterShape(storage=2, coordinators=2, marker_senders=1, listeners=1)
    with cluster_folder() as folder, Cluster(folder, shape, is_secure=True) as running:
        yield running


def renew(folder):
    """As cert-manager does: the same names and CA, new keys, before the old ones end. Returns when those will."""
    ends_s = time.time() + VALID_S
    for role in pki.ROLES:
        names = (f"{role}.{pki.CLUSTER_NAME}", pki.CLUSTER_NAME, "localhost", "127.0.0.1")
        pki.make_certificate(folder, role, names, days=30)
    return ends_s


def committed_values(cluster, topic):
    settings = confluent_of(cluster, group_id="reader", isolation_level="read_committed")
    values = []
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, one, 0) for one in range(PARTITIONS)])
        while batch := consumer.consume(10_000, 5):
            values += [message.value() for message in batch]
    return values


@pytest.mark.slow
def test_a_producer_commits_through_the_end_of_every_certificate(cluster):
    client = AdminClient(confluent_of(cluster))
    client.create_topics([NewTopic("ledger", PARTITIONS, 2)])["ledger"].result(WAIT_S)
    producer = Producer(confluent_of(cluster, transactional_id="pay"))
    producer.init_transactions(WAIT_S)
    ends_s = renew(cluster.folder / "security")
    sent, slowest_s = [], 0.0
    while time.time() < ends_s + AFTER_S:
        began_s = time.monotonic()
        producer.begin_transaction()
        for partition in range(PARTITIONS):
            sent.append(f"{len(sent)}".encode())
            producer.produce("ledger", sent[-1], partition=partition)
        producer.commit_transaction(WAIT_S)
        slowest_s = max(slowest_s, time.monotonic() - began_s)
    assert sorted(committed_values(cluster, "ledger")) == sorted(sent)
    assert slowest_s < COMMIT_MAX_S
    ended = [
        name
        for name in (one.name for one in cluster.members)
        if "certificate expired" in cluster.log_of(name).read_text()
    ]
    print(f"{len(sent)} records, slowest commit {slowest_s:.2f} s, streams ended at {ended}")
    assert ended, "no certificate ended: the test shows nothing"
