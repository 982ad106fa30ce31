"""Real clients that log in and feel the ACLs of their groups and transactional ids."""

import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AdminClient, ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewTopic
from tests.integration.listener.secured_log import produced

TXN = ResourceType.TRANSACTIONAL_ID
SOON_S = 20


def prepared(secured, *users):
    """A topic with one record that the users may read."""
    secured.admin.create_topics([NewTopic("orders", 1)])["orders"].result(10)
    for user in users:
        secured.add_user(user)
        secured.allow(user, ResourceType.TOPIC, "orders", AclOperation.READ)
    assert produced({"bootstrap.servers": secured.inside}) is None


def polled(config, group="billing", timeout_s=SOON_S, **more):
    """The first record or error, and the consumer."""
    consumer = Consumer(
        {**config, "group.id": group, "auto.offset.reset": "earliest", **more}, logger=None
    )
    consumer.subscribe(["orders"])
    deadline = time.monotonic() + timeout_s
    message = None
    while message is None and time.monotonic() < deadline:
        message = consumer.poll(1)
    assert message is not None, "neither a record nor an error"
    return message, consumer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_needs_its_group(secured, protocol):
    prepared(secured, "alice")
    config = {**secured.login("alice"), "group.protocol": protocol}
    message, consumer = polled(config)
    assert "Group authorization failed" in str(message.error())
    consumer.close()
    secured.allow("alice", ResourceType.GROUP, "billing", AclOperation.READ)
    message, consumer = polled(config)
    assert (message.error(), message.value()) == (None, b"value")
    (committed,) = consumer.commit(asynchronous=False)
    assert (committed.offset, committed.error) == (1, None)
    consumer.close()


def test_a_prefix_stands_for_every_group_of_a_team(secured):
    prepared(secured, "alice")
    secured.allow(
        "alice",
        ResourceType.GROUP,
        "team-",
        AclOperation.READ,
        ResourcePatternType.PREFIXED,
    )
    message, consumer = polled(secured.login("alice"), "team-a")
    assert message.error() is None
    consumer.close()
    message, consumer = polled(secured.login("alice"), "other-team")
    assert message.error().code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    consumer.close()


def test_a_transaction_needs_its_id_and_its_group(secured):
    prepared(secured, "alice")
    secured.allow("alice", ResourceType.TOPIC, "orders", AclOperation.WRITE)
    config = {**secured.login("alice"), "transactional.id": "pay"}
    with pytest.raises(KafkaException) as refused:
        Producer(config, logger=None).init_transactions(SOON_S)
    code = refused.value.args[0].code()
    assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    secured.allow("alice", TXN, "pay", AclOperation.WRITE)
    assert committed(config, secured, "billing") == KafkaError.GROUP_AUTHORIZATION_FAILED
    secured.allow("alice", ResourceType.GROUP, "billing", AclOperation.READ)
    assert committed(config, secured, "billing") is None


def committed(config, secured, group):
    """The code with which a transaction failed that writes, and commits offsets; None: it is committed."""
    producer = Producer(config, logger=None)
    producer.init_transactions(SOON_S)
    producer.begin_transaction()
    producer.produce("orders", b"paid")
    # The metadata of the group come from a consumer that is allowed everything.
    consumer = Consumer({"bootstrap.servers": secured.inside, "group.id": group})
    metadata = consumer.consumer_group_metadata()
    try:
        offsets = [TopicPartition("orders", 0, 1)]
        producer.send_offsets_to_transaction(offsets, metadata, SOON_S)
        producer.commit_transaction(SOON_S)
    except KafkaException as failed:
        return failed.args[0].code()
    finally:
        consumer.close()
    return None


def test_an_idempotent_producer_needs_only_its_topic(secured):
    prepared(secured, "alice")
    config = {**secured.login("alice"), "enable.idempotence": True}
    producer = Producer(config, logger=None)
    with pytest.raises(KafkaException) as refused:
        producer.poll(SOON_S)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
    secured.allow("alice", ResourceType.TOPIC, "orders", AclOperation.WRITE)
    assert produced(config) is None


def test_an_admin_sees_the_groups_it_may_describe(secured):
    prepared(secured, "alice", "bob")
    for user in ("alice", "bob"):
        secured.allow(user, ResourceType.GROUP, user, AclOperation.READ)
        message, consumer = polled(secured.login(user), user)
        assert message.error() is None
        consumer.close()
    admin = AdminClient(secured.login("alice"))
    assert [one.group_id for one in admin.list_consumer_groups().result(SOON_S).valid] == ["alice"]
    described = admin.describe_consumer_groups(["alice", "bob"])
    assert described["alice"].result(SOON_S).group_id == "alice"
    with pytest.raises(KafkaException) as refused:
        described["bob"].result(SOON_S)
    assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups(["alice"])["alice"].result(SOON_S)
    assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
    secured.allow("alice", ResourceType.GROUP, "alice", AclOperation.DELETE)
    assert admin.delete_consumer_groups(["alice"])["alice"].result(SOON_S) is None
