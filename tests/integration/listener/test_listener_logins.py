"""Clients that log in by SASL, and ACLs that they feel: real clients against every role in one process."""

import asyncio
import time

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)
from tests.integration.listener.secured_log import (
    PASSWORD,
    SASL_AUTHENTICATION_FAILED,
    produced,
    secured_log,
)
from tests.worlds.listener.wire_client import WireClient

from oncelog.protocol.versions import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from oncelog.security.scram import ScramClient

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ILLEGAL_SASL_STATE, UNSUPPORTED_SASL_MECHANISM = 34, 33


def test_a_user_logs_in_and_writes(secured):
    secured.add_user("alice")
    secured.create_topic("orders")
    config = secured.login("alice")
    assert produced(config) == "TOPIC_AUTHORIZATION_FAILED"
    secured.allow("alice", ResourceType.TOPIC, "orders", AclOperation.WRITE)
    assert produced(config) is None


def test_describe_configs_tells_how_a_listener_is_secured(tmp_path):
    """librdkafka's suite reads connections.max.reauth.ms there."""
    changed = {"connections_max_reauth_ms": "5000", "sasl_enabled_mechanisms": "SCRAM-SHA-256"}
    with secured_log(tmp_path, **changed) as secured:
        configs = described(secured.admin)
        assert configs["listeners"] == f"PLAINTEXT://{secured.inside},OUTSIDE://{secured.outside}"
        assert (
            configs["listener.security.protocol.map"]
            == "PLAINTEXT:PLAINTEXT,OUTSIDE:SASL_PLAINTEXT"
        )
        assert configs["connections.max.reauth.ms"] == "5000"
        assert configs["sasl.enabled.mechanisms"] == "SCRAM-SHA-256"
        assert configs["authorizer.class.name"] == "acl"
        assert configs["max.connections.per.ip"] == "2147483647"
        secured.add_user("alice")
        secured.allow("alice", ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS)
        outside = AdminClient(secured.login("alice", mechanism="SCRAM-SHA-256"))
        assert described(outside)["advertised.listeners"] == f"OUTSIDE://{secured.outside}"


def described(admin):
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    return {name: entry.value for name, entry in future.result(30).items()}


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("alice", "")]
)
async def test_whoever_is_not_known_learns_nothing(secured, user, password):
    secured.add_user("alice")
    wire = await secured.wire()
    began = time.monotonic()
    answer = await logged_in(wire, ScramClient("SCRAM-SHA-256", user, password))
    assert answer.error_code == SASL_AUTHENTICATION_FAILED
    assert answer.error_message.endswith("invalid credentials with SASL mechanism SCRAM-SHA-256")
    assert time.monotonic() - began >= 0.1
    assert await wire.is_closed_by_peer()


async def logged_in(wire, scram):
    shaken = await wire.call(SASL_HANDSHAKE, 1, mechanism="SCRAM-SHA-256")
    assert shaken.error_code == 0
    answer = await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=scram.evaluate(b""))
    if answer.error_code:
        return answer
    answer = await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=scram.evaluate(answer.auth_bytes))
    if not answer.error_code:
        scram.evaluate(answer.auth_bytes)
    return answer


async def test_a_session_ends_unless_the_client_logs_in_again(tmp_path):
    with secured_log(tmp_path, connections_max_reauth_ms="1000") as secured:
        secured.add_user("alice")
        wire = await secured.wire()
        for _ in range(2):
            answer = await logged_in(wire, ScramClient("SCRAM-SHA-256", "alice", PASSWORD))
            assert answer.session_lifetime.total_seconds() == pytest.approx(1, abs=0.2)
            await asyncio.sleep(0.6)
            await wire.call(METADATA, 1, topics=())
        await asyncio.sleep(0.6)
        with pytest.raises(asyncio.IncompleteReadError):
            await wire.call(METADATA, 1, topics=())


async def test_nothing_is_answered_before_the_login(secured):
    wire = await secured.wire()
    assert (await wire.call(18, 0)).error_code == 0
    with pytest.raises(asyncio.IncompleteReadError):
        await wire.call(METADATA, 1, topics=())


async def test_a_mechanism_that_is_not_enabled_is_named(secured):
    wire = await secured.wire()
    answer = await wire.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    assert answer.error_code == UNSUPPORTED_SASL_MECHANISM
    assert set(answer.mechanisms) == set(MECHANISMS)
    assert await wire.is_closed_by_peer()


async def test_a_listener_without_sasl_says_so(secured):
    wire = await WireClient.connect(int(secured.inside.rpartition(":")[2]))
    shaken = await wire.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
    answer = await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=b"x")
    assert shaken.error_code == answer.error_code == ILLEGAL_SASL_STATE
    assert (await wire.call(METADATA, 1, topics=())).brokers


async def test_connections_that_do_not_log_in_are_closed(tmp_path):
    limits = {"unauthenticated_per_address_max": "3", "authentication_timeout_ms": "1000"}
    with secured_log(tmp_path, **limits) as secured:
        wires = [await secured.wire() for _ in range(4)]
        assert await wires[3].is_closed_by_peer()  # one too many
        began = time.monotonic()
        assert await wires[0].is_closed_by_peer()
        assert time.monotonic() - began < 8


async def test_a_frame_before_the_login_is_small(secured):
    wire = await secured.wire()
    wire.writer.write((600_000).to_bytes(4, "big"))
    assert await wire.is_closed_by_peer()


def test_acls_are_listed_and_deleted(secured):
    secured.allow("alice", ResourceType.TOPIC, "orders", AclOperation.READ)
    secured.allow(
        "alice", ResourceType.TOPIC, "pay", AclOperation.WRITE, ResourcePatternType.PREFIXED
    )
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = secured.admin.describe_acls(everything).result(30)
    assert {(acl.name, acl.operation) for acl in found} == {
        ("orders", AclOperation.READ),
        ("pay", AclOperation.WRITE),
    }
    (deleted,) = [future.result(30) for future in secured.admin.delete_acls([everything]).values()]
    assert len(deleted) == 2
    assert secured.admin.describe_acls(everything).result(30) == []


def test_scram_users_are_listed_and_deleted(secured):
    secured.add_user("alice")
    found = secured.admin.describe_user_scram_credentials().result(30)
    infos = found["alice"].scram_credential_infos
    assert {info.mechanism for info in infos} == {
        ScramMechanism.SCRAM_SHA_256,
        ScramMechanism.SCRAM_SHA_512,
    }
    gone = UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256)
    for future in secured.admin.alter_user_scram_credentials([gone]).values():
        future.result(30)
    again = secured.admin.alter_user_scram_credentials([gone])["alice"]
    with pytest.raises(KafkaException, match="no such credential"):
        again.result(30)


TXN = ResourceType.TRANSACTIONAL_ID
SOON_S = 20


def prepared(secured):
    """A topic with one record that alice may read."""
    secured.create_topic("orders")
    secured.add_user("alice")
    secured.allow("alice", ResourceType.TOPIC, "orders", AclOperation.READ)
    assert produced({"bootstrap.servers": secured.inside}) is None


def polled(config):
    """The first record or error, and the consumer."""
    consumer = Consumer(
        {**config, "group.id": "billing", "auto.offset.reset": "earliest"}, logger=None
    )
    consumer.subscribe(["orders"])
    message = consumer.poll(SOON_S)
    assert message is not None, "neither a record nor an error"
    return message, consumer


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_needs_its_group(secured, protocol):
    prepared(secured)
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


def test_a_transaction_needs_its_id_and_its_group(secured):
    prepared(secured)
    secured.allow("alice", ResourceType.TOPIC, "orders", AclOperation.WRITE)
    config = {**secured.login("alice"), "transactional.id": "pay"}
    with pytest.raises(KafkaException) as refused:
        Producer(config, logger=None).init_transactions(SOON_S)
    code = refused.value.args[0].code()
    assert code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    secured.allow("alice", TXN, "pay", AclOperation.WRITE)
    assert committed(config, secured) == KafkaError.GROUP_AUTHORIZATION_FAILED
    secured.allow("alice", ResourceType.GROUP, "billing", AclOperation.READ)
    assert committed(config, secured) is None


def committed(config, secured):
    """The code with which a transaction failed that writes, and commits offsets; None: it is committed."""
    producer = Producer(config, logger=None)
    producer.init_transactions(SOON_S)
    producer.begin_transaction()
    producer.produce("orders", b"paid")
    # The metadata of the group come from a consumer that is allowed everything.
    consumer = Consumer({"bootstrap.servers": secured.inside, "group.id": "billing"})
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
