"""Administration as clients do it: topics, configs, and the transaction calls of KIP-664."""

import uuid

import kafka
import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic
from kafka.admin import KafkaAdminClient
from tests.conformance.clients.confluent import Confluent
from tests.conformance.clients.face import values
from tests.conformance.clients.kafka_python import KafkaPython
from tests.conformance.group_members import eventually

CALL_TIMEOUT_S = 20


def fresh_name():
    return f"t-{uuid.uuid4().hex[:12]}"


def result_of(futures):
    (future,) = futures.values()
    return future.result(CALL_TIMEOUT_S)


def failure_of(futures):
    with pytest.raises(KafkaException) as failure:
        result_of(futures)
    return failure.value.args[0].code()


@pytest.fixture(scope="module")
def python_admin(server):
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap)
    yield admin
    admin.close()


def test_a_topic_is_made_seen_and_gone(admin):
    name = fresh_name()
    result_of(admin.create_topics([NewTopic(name, 3)]))
    made = eventually(lambda: admin.list_topics(timeout=CALL_TIMEOUT_S).topics.get(name))
    assert len(made.partitions) == 3
    result_of(admin.delete_topics([name]))
    eventually(lambda: name not in admin.list_topics(timeout=CALL_TIMEOUT_S).topics)


def test_a_topic_that_exists_is_not_made_again(admin, topic):
    assert failure_of(admin.create_topics([NewTopic(topic, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(
    ("name", "settings", "code"),
    [
        ("a b", {}, KafkaError.TOPIC_EXCEPTION),
        ("replicas", {"replication_factor": 7}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("config", {"config": {"no.such.config": "1"}}, KafkaError.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused(admin, name, settings, code):
    assert failure_of(admin.create_topics([NewTopic(name, 1, **settings)])) == code


def test_deleting_what_is_not_there_is_an_error(admin):
    assert failure_of(admin.delete_topics([fresh_name()])) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_validate_only_makes_nothing(admin):
    name = fresh_name()
    result_of(admin.create_topics([NewTopic(name, 1)], validate_only=True))
    assert name not in admin.list_topics(timeout=CALL_TIMEOUT_S).topics


def test_partitions_are_added_and_can_be_written_to(admin, server, topic, make_producer):
    result_of(admin.create_partitions([NewPartitions(topic, 4)]))
    make_producer(Confluent()).send(topic, b"new", partition=3)
    assert Confluent().read(server.bootstrap, topic, partition=3, until=b"new")


def test_kafka_pythons_admin_makes_and_describes_topics(python_admin):
    name = fresh_name()
    python_admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1}})
    assert name in python_admin.list_topics()
    (description,) = python_admin.describe_topics([name])
    assert len(description["partitions"]) == 2
    python_admin.delete_topics([name])


def test_an_open_transaction_is_listed_and_described(
    python_admin, topic, transactional_id, make_producer
):
    producer = make_producer(Confluent(), transactional_id)
    producer.begin()
    producer.send(topic, b"open")
    assert transactional_id in str(python_admin.list_transactions())
    described = str(python_admin.describe_transactions([transactional_id]))
    assert "Ongoing" in described
    assert topic in described
    partition = kafka.TopicPartition(topic, 0)
    assert "producer_id" in str(python_admin.describe_producers([partition]))
    producer.commit()
    eventually(
        lambda: "CompleteCommit" in str(python_admin.describe_transactions([transactional_id]))
    )


def test_every_client_reads_what_a_topic_recompressed(admin, server, client, make_producer):
    sent = [b"x" * 200_000, b"last"]
    is_bare = isinstance(
        client, KafkaPython
    )  # Its other codecs are packages that are not installed.
    for codec in ("uncompressed", "gzip", *(() if is_bare else ("snappy", "lz4", "zstd"))):
        name = fresh_name()
        result_of(admin.create_topics([NewTopic(name, 1, config={"compression.type": codec})]))
        producer = make_producer(Confluent(), compression="snappy")
        for value in sent:
            producer.send(name, value)
        assert values(client.read(server.bootstrap, name, until=b"last")) == sent


def test_a_topic_is_copied_with_every_config_that_was_described(admin, new_topic):
    """What a mirror does; the keys of features that oncelog lacks are taken at their defaults."""

    def configs_of(topic):
        described = admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
        return {name: entry.value for name, entry in result_of(described).items()}

    configs = configs_of(new_topic(retention_ms=60_000, compression_type="lz4"))
    assert (configs["retention.ms"], configs["compression.type"]) == ("60000", "lz4")
    copy = fresh_name()
    result_of(admin.create_topics([NewTopic(copy, 1, config=configs)]))
    assert configs_of(copy) == configs
