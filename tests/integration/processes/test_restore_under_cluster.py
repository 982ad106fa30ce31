"""An older dump of Postgres that is restored while the cluster runs loses nothing in silence (ADR 0039)."""

from contextlib import closing

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.controller.sql_databases import copied, put_back
from tests.integration.processes.deadlines import eventually
from tests.targets import cluster_folder

from oncelog_server.cluster.cluster import Cluster
from oncelog_server.cluster.plan import ClusterShape

SHAPE = ClusterShape(1, 1, 1, 1, 1, 1)
FOLLOWERS = ("storage-1", "coordinator-1", "marker-sender-1", "listener-1", "gateway-1")
VALUES = [f"payment-{number}" for number in range(40)]
WAIT_S = 90


def make_topics(bootstrap, *names):
    """Those that were made."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topics = [NewTopic(name, 1, 1) for name in names]
    made = []
    for name, answer in admin.create_topics(topics, request_timeout=5).items():
        try:
            answer.result(WAIT_S)
            made.append(name)
        except KafkaException:
            pass
    return made


def send(bootstrap):
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    failures = []
    for value in VALUES:
        producer.produce(
            "payments",
            value,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(WAIT_S) == 0
    assert not failures


def values_of(bootstrap):
    configs = {"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0}
    with closing(Consumer(configs)) as consumer:
        consumer.assign([TopicPartition("payments", 0, 0)])
        found = consumer.consume(len(VALUES), WAIT_S)
        return [one.value().decode() for one in found]


def has_ended(cluster, name):
    return cluster.state_of(name) == "dead"


@pytest.mark.slow
def test_an_older_postgres_under_a_cluster_stops_it_and_says_why():
    with cluster_folder() as folder, Cluster(folder, SHAPE) as cluster:
        url = cluster.state.postgres_url
        older = copied(url)
        assert make_topics(cluster.bootstrap, "payments") == ["payments"]
        send(cluster.bootstrap)
        newer = copied(url)
        put_back(url, older)
        # The controller that runs notices with its first write; its next process knows nothing of the newer copy.
        assert make_topics(cluster.bootstrap, "other") == []
        eventually(lambda: has_ended(cluster, "controller-1"))
        assert "the controller cannot go on: the metadata is older than" in said(
            cluster, "controller-1"
        )
        cluster.start_one("controller-1")
        for name in FOLLOWERS:
            eventually(lambda: has_ended(cluster, name))  # noqa: B023
            assert "must end: KAFKA_STORAGE_ERROR the metadata is older than" in said(cluster, name)
        put_back(url, newer)
        cluster.kill("controller-1")
        cluster.start_dead()
        assert values_of(cluster.bootstrap) == VALUES


def said(cluster, name):
    return cluster.log_of(name).read_text()
