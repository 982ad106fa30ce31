"""Broker and group configs by unmodified admin clients: described, changed while oncelog runs, kept over a restart."""

import asyncio
import warnings
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
)
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource as PythonResource
from tests.integration.listener.secured_log import running_log
from tests.worlds.listener.listener_requests import in_words
from tests.worlds.listener.wire_client import WireClient

BROKER, TOPIC = ConfigResource.Type.BROKER, ConfigResource.Type.TOPIC
VERIFICATION = "transaction.partition.verification.enable"
SEED_KEYS = [
    "transaction.state.log.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.segment.bytes",
    "transaction.state.log.load.buffer.size",
    "transaction.max.timeout.ms",
    "transactional.id.expiration.ms",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.remove.expired.transaction.cleanup.interval.ms",
    "transaction.two.phase.commit.enable",
    "transaction.partition.verification.enable",
    "producer.id.expiration.ms",
    "producer.id.expiration.check.interval.ms",
]


@pytest.fixture
def admin(bootstrap):
    return AdminClient({"bootstrap.servers": bootstrap})


async def called(bootstrap, api_key, version, **words):
    """An answer that the Python clients do not ask for: they refuse a broker whose name is no number."""
    client = await WireClient.connect(int(bootstrap.rpartition(":")[2]))
    answer = await client.call(api_key, version, request=in_words(api_key, version, **words))
    client.close()
    return answer


async def set_for_all(bootstrap, configs):
    """What is set for all brokers afterwards."""
    of_all = {"resource_type": 4, "resource_name": "", "configuration_keys": None}
    for name, value in configs.items():
        answer = await called(bootstrap, 44, 1, **of_all, name=name, value=value)
        assert [one.error_code for one in answer.responses] == [0]
    answer = await called(bootstrap, 32, 4, **of_all)
    return {one.name: one.value for one in answer.results[0].configs}


async def error_of_describing(bootstrap, broker):
    answer = await called(bootstrap, 32, 4, resource_type=4, resource_name=broker)
    return answer.results[0].error_code


async def told_interval_ms(bootstrap):
    """What a new member of the group is told."""
    words = {"group_id": "readers", "subscribed_topic_names": ("orders",), "topic_partitions": ()}
    answer = await called(bootstrap, 68, 0, **words, rebalance_timeout=timedelta(seconds=30))
    assert answer.error_code == 0, answer
    return answer.heartbeat_interval // timedelta(milliseconds=1)


def described(admin, kind, name):
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return future.result(30)


def change(admin, kind, name, key, value, operation=AlterConfigOpType.SET):
    entry = ConfigEntry(key, value, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource]).values()
    return future.result(30)


def refusal(admin, *arguments):
    try:
        change(admin, *arguments)
    except KafkaException as error:
        return error.args[0].name()
    return None


def test_every_key_of_the_transaction_reference_is_described(bootstrap, admin, tmp_path):
    configs = described(admin, BROKER, "1")
    assert [key for key in SEED_KEYS if key not in configs] == []
    assert configs["advertised.listeners"].value == f"PLAINTEXT://{bootstrap}"
    assert configs["transaction.state.log.num.partitions"].value == "50"
    assert configs["transaction.state.log.replication.factor"].value == "1"
    assert configs["transaction.max.timeout.ms"].source == ConfigSource.DEFAULT_CONFIG.value
    assert configs["transaction.max.timeout.ms"].is_read_only
    assert not configs[VERIFICATION].is_read_only
    assert not any(entry.is_sensitive for entry in configs.values())
    # What differs from Kafka's default is told as it is.
    delay = configs["group.initial.rebalance.delay.ms"]
    assert (delay.value, delay.source) == ("200", ConfigSource.STATIC_BROKER_CONFIG.value)
    assert Path(configs["log.dirs"].value) == tmp_path / "logs"


def test_changes_count_in_order_of_precedence(tmp_path):
    with running_log(tmp_path) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for_all = {"producer.id.expiration.ms": "3600000", "log.retention.ms": "1234567"}
        assert asyncio.run(set_for_all(bootstrap, for_all)) == for_all
        change(admin, BROKER, "1", "producer.id.expiration.ms", "7200000")
        (future,) = admin.create_topics([NewTopic("orders", 1)]).values()
        future.result(30)
        assert refusal(admin, BROKER, "1", "log.dirs", "/tmp") == "INVALID_REQUEST"
        assert refusal(admin, BROKER, "1", "nonsense", "1") == "INVALID_CONFIG"
        assert refusal(admin, BROKER, "1", "socket.send.buffer.bytes", "1") == "INVALID_REQUEST"
        # 42 is INVALID_REQUEST.
        for stranger in ("01", "\u0661", "9" * 5000):
            assert asyncio.run(error_of_describing(bootstrap, stranger)) == 42
    with running_log(tmp_path) as bootstrap:
        admin = AdminClient({"bootstrap.servers": bootstrap})
        entry = described(admin, BROKER, "1")["producer.id.expiration.ms"]
        assert (entry.value, entry.source) == (
            "7200000",
            ConfigSource.DYNAMIC_BROKER_CONFIG.value,
        )
        retention = described(admin, TOPIC, "orders")["retention.ms"]
        assert (retention.value, retention.source) == (
            "1234567",
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value,
        )
        change(admin, BROKER, "1", "producer.id.expiration.ms", None, AlterConfigOpType.DELETE)
        entry = described(admin, BROKER, "1")["producer.id.expiration.ms"]
        assert (entry.value, entry.source) == (
            "3600000",
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value,
        )
        for kind, name in ((BROKER, "1"), (TOPIC, "orders")):
            throttle = "follower.replication.throttled.rate"
            change(admin, kind, name, throttle, None, AlterConfigOpType.DELETE)


def test_alter_configs_replaces_all_that_was_set(admin):
    """API 33, which clients sent before IncrementalAlterConfigs: what is not named goes back to its default."""
    topic = NewTopic("orders", 1, config={"retention.ms": "1000", "segment.ms": "2000"})
    (future,) = admin.create_topics([topic]).values()
    future.result(30)
    relogin, expiration = "sasl.kerberos.min.time.before.relogin", "producer.id.expiration.ms"
    for key, value in ((relogin, "58000"), (expiration, "7200000")):
        change(admin, BROKER, "1", key, value)
    for kind, name, config in (
        (TOPIC, "orders", {"segment.ms": "3000"}),
        (BROKER, "1", {relogin: "59000"}),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            resource = ConfigResource(kind, name, set_config=config)
            (future,) = admin.alter_configs([resource]).values()
            future.result(30)
    configs = described(admin, TOPIC, "orders")
    assert (configs["segment.ms"].value, configs["retention.ms"].value) == ("3000", "604800000")
    configs = described(admin, BROKER, "1")
    assert (configs[relogin].value, configs[expiration].value) == ("59000", "86400000")


def test_what_is_set_for_the_topics_of_one_node_counts_there(bootstrap, admin):
    """librdkafka's suite appends to a broker's log.cleanup.policy, and takes it back."""
    policy = "log.cleanup.policy"
    (future,) = admin.create_topics([NewTopic("orders", 1)]).values()
    future.result(30)
    change(admin, BROKER, "1", policy, "compact", AlterConfigOpType.APPEND)
    assert described(admin, BROKER, "1")[policy].value == "delete,compact"
    entry = described(admin, TOPIC, "orders")["cleanup.policy"]
    assert (entry.value, entry.source) == (
        "delete,compact",
        ConfigSource.DYNAMIC_BROKER_CONFIG.value,
    )
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    failures = []
    producer.produce("orders", b"no key", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(10) == 0
    assert failures[0].name() == "INVALID_RECORD", "the storage node compacts its topics now"
    change(admin, BROKER, "1", policy, "compact", AlterConfigOpType.SUBTRACT)
    assert described(admin, TOPIC, "orders")["cleanup.policy"].value == "delete"
    producer.produce("orders", b"no key", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(10) == 0
    assert failures[1] is None


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
def test_configs_of_internal_topics_may_be_altered(bootstrap, admin, topic):
    """As Kafka allows; but for those with which a coordinator would forget what it has answered."""
    change(admin, TOPIC, topic, "segment.bytes", "1048576")
    change(admin, TOPIC, topic, "compression.type", "zstd")
    assert described(admin, TOPIC, topic)["segment.bytes"].value == "1048576"
    for name, value in (("cleanup.policy", "delete"), ("unclean.leader.election.enable", "true")):
        assert refusal(admin, TOPIC, topic, name, value) == "INVALID_CONFIG"
    with pytest.raises(KafkaException, match="could not be written; it must stay at least 1048588"):
        change(admin, TOPIC, topic, "max.message.bytes", "1000")
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "pay"})
    producer.init_transactions(10)


def test_group_configs_and_the_list_of_resources(bootstrap):
    """KIP-848's group configs and KIP-1142's list, by kafka-python."""
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        admin.create_topics(["orders"])
        wanted = {"consumer.session.timeout.ms": "30000"}
        admin.alter_configs([PythonResource("GROUP", "readers", wanted)])
        found = admin.describe_configs([PythonResource("GROUP", "readers")], config_filter="all")
        group = found["group"]["readers"]
        assert group["consumer.session.timeout.ms"]["value"] == "30000"
        assert group["consumer.heartbeat.interval.ms"]["value"] == "5000"
        interval = {"consumer.heartbeat.interval.ms": "1234"}
        assert asyncio.run(told_interval_ms(bootstrap)) == 5000
        admin.alter_configs([PythonResource("GROUP", "readers", interval)])
        assert asyncio.run(told_interval_ms(bootstrap)) == 1234
        listed = str(admin.list_config_resources())
        assert all(name in listed for name in ("readers", "orders", "__consumer_offsets"))
