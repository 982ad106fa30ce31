"""Clients that log in by SASL, and ACLs that they feel: real clients against every role in one process."""

import asyncio
import socket
import time

import pytest
import uvloop
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from tests.unit.listener.wire_client import WireClient

from oncelog.process.sources import Flag, Sources
from oncelog.protocol.versions import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from oncelog.security.scram import ScramClient
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings

PASSWORD = "open sesame"
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ILLEGAL_SASL_STATE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM = 34, 58, 33


class Secured:
    """An oncelog with a door for administrators on this machine, and one for those who log in."""

    def __init__(self, inside: str, outside: str) -> None:
        self.inside = inside
        self.outside = outside
        self.admin = AdminClient({"bootstrap.servers": inside})

    def login(self, user, password=PASSWORD, mechanism="SCRAM-SHA-512"):
        return {
            "bootstrap.servers": self.outside,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }

    def add_user(self, user, password=PASSWORD):
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            change = UserScramCredentialUpsertion(
                user, ScramCredentialInfo(mechanism, 4096), password.encode()
            )
            for future in self.admin.alter_user_scram_credentials([change]).values():
                future.result(10)

    def allow(self, user, resource_type, name, operation, pattern=ResourcePatternType.LITERAL):
        acl = AclBinding(
            resource_type, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW
        )
        for future in self.admin.create_acls([acl]).values():
            future.result(10)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def against_secured(tmp_path, client, *, is_async=False, **settings):
    """`client(secured)` in a thread."""

    async def scenario():
        inside, outside = free_port(), free_port()
        environment = {
            "ONCELOG_LISTENER_LISTENERS": f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
            "ONCELOG_LISTENER_LISTENER_SECURITY_PROTOCOL_MAP": "OUTSIDE:SASL_PLAINTEXT",
            "ONCELOG_LISTENER_AUTHORIZER": "acl",
            "ONCELOG_LISTENER_SUPER_USERS": "User:ANONYMOUS",
            **{f"ONCELOG_LISTENER_{name.upper()}": value for name, value in settings.items()},
        }
        embedded = EmbeddedSettings(port=inside, gateway_port=0, data=tmp_path)
        flags = {name: Flag(name, value) for name, value in environment.items()}
        async with embedded_roles(embedded, tmp_path, Sources(flags)):
            secured = Secured(f"127.0.0.1:{inside}", f"127.0.0.1:{outside}")
            if is_async:
                return await client(secured)
            return await asyncio.to_thread(client, secured)

    return uvloop.run(scenario())


def produced(config, topic="orders", timeout_s=10):
    """The error's name, or None once a record is written."""
    errors = []
    producer = Producer({**config, "message.timeout.ms": int(timeout_s * 1000)}, logger=None)
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(timeout_s + 5)
    return errors[0] and errors[0].name()


def test_a_user_logs_in_and_writes(tmp_path):
    def client(secured):
        secured.add_user("alice")
        secured.admin.create_topics([NewTopic("orders", 1)])["orders"].result(10)
        config = secured.login("alice")
        assert produced(config) == "TOPIC_AUTHORIZATION_FAILED"
        secured.allow("alice", ResourceType.TOPIC, "orders", AclOperation.WRITE)
        assert produced(config) is None

    against_secured(tmp_path, client)


def test_describe_configs_tells_how_a_listener_is_secured(tmp_path):
    """librdkafka's suite reads connections.max.reauth.ms there."""

    def client(secured):
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

    changed = {"connections_max_reauth_ms": "5000", "sasl_enabled_mechanisms": "SCRAM-SHA-256"}
    against_secured(tmp_path, client, **changed)


def described(admin):
    (future,) = admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, "1")]).values()
    return {name: entry.value for name, entry in future.result(10).items()}


@pytest.mark.parametrize(
    ("user", "password"), [("alice", "wrong"), ("nobody", PASSWORD), ("alice", "")]
)
def test_whoever_is_not_known_learns_nothing(tmp_path, user, password):
    async def client(secured):
        await asyncio.to_thread(secured.add_user, "alice")
        wire = await WireClient.connect(int(secured.outside.rpartition(":")[2]))
        began = time.monotonic()
        answer = await logged_in(wire, ScramClient("SCRAM-SHA-256", user, password))
        assert answer.error_code == SASL_AUTHENTICATION_FAILED
        assert answer.error_message.endswith(
            "invalid credentials with SASL mechanism SCRAM-SHA-256"
        )
        assert time.monotonic() - began >= 0.1
        assert await wire.is_closed_by_peer()

    against_secured(tmp_path, client, is_async=True)


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


def test_a_session_ends_unless_the_client_logs_in_again(tmp_path):
    async def client(secured):
        await asyncio.to_thread(secured.add_user, "alice")
        wire = await WireClient.connect(int(secured.outside.rpartition(":")[2]))
        for _ in range(2):
            answer = await logged_in(wire, ScramClient("SCRAM-SHA-256", "alice", PASSWORD))
            assert answer.session_lifetime.total_seconds() == pytest.approx(1, abs=0.2)
            await asyncio.sleep(0.6)
            await wire.call(METADATA, 1, topics=())
        await asyncio.sleep(0.6)
        with pytest.raises(asyncio.IncompleteReadError):
            await wire.call(METADATA, 1, topics=())

    against_secured(tmp_path, client, is_async=True, connections_max_reauth_ms="1000")


def test_nothing_is_answered_before_the_login(tmp_path):
    async def client(secured):
        wire = await WireClient.connect(int(secured.outside.rpartition(":")[2]))
        assert (await wire.call(18, 0)).error_code == 0
        with pytest.raises(asyncio.IncompleteReadError):
            await wire.call(METADATA, 1, topics=())

    against_secured(tmp_path, client, is_async=True)


def test_a_mechanism_that_is_not_enabled_is_named(tmp_path):
    async def client(secured):
        wire = await WireClient.connect(int(secured.outside.rpartition(":")[2]))
        answer = await wire.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
        assert answer.error_code == UNSUPPORTED_SASL_MECHANISM
        assert set(answer.mechanisms) == set(MECHANISMS)
        assert await wire.is_closed_by_peer()

    against_secured(tmp_path, client, is_async=True)


def test_a_listener_without_sasl_says_so(tmp_path):
    async def client(secured):
        wire = await WireClient.connect(int(secured.inside.rpartition(":")[2]))
        shaken = await wire.call(SASL_HANDSHAKE, 1, mechanism="PLAIN")
        answer = await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=b"x")
        assert shaken.error_code == answer.error_code == ILLEGAL_SASL_STATE
        assert (await wire.call(METADATA, 1, topics=())).brokers

    against_secured(tmp_path, client, is_async=True)


def test_connections_that_do_not_log_in_are_closed(tmp_path):
    async def client(secured):
        port = int(secured.outside.rpartition(":")[2])
        wires = [await WireClient.connect(port) for _ in range(4)]
        assert await wires[3].is_closed_by_peer()  # one too many
        began = time.monotonic()
        assert await wires[0].is_closed_by_peer()
        assert time.monotonic() - began < 3

    limits = {"unauthenticated_per_address_max": "3", "authentication_timeout_ms": "1000"}
    against_secured(tmp_path, client, is_async=True, **limits)


def test_a_frame_before_the_login_is_small(tmp_path):
    async def client(secured):
        wire = await WireClient.connect(int(secured.outside.rpartition(":")[2]))
        wire.writer.write((600_000).to_bytes(4, "big"))
        assert await wire.is_closed_by_peer()

    against_secured(tmp_path, client, is_async=True)


def test_acls_are_listed_and_deleted(tmp_path):
    def client(secured):
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
        found = secured.admin.describe_acls(everything).result(10)
        assert {(acl.name, acl.operation) for acl in found} == {
            ("orders", AclOperation.READ),
            ("pay", AclOperation.WRITE),
        }
        (deleted,) = [
            future.result(10) for future in secured.admin.delete_acls([everything]).values()
        ]
        assert len(deleted) == 2
        assert secured.admin.describe_acls(everything).result(10) == []

    against_secured(tmp_path, client)


def test_scram_users_are_listed_and_deleted(tmp_path):
    def client(secured):
        secured.add_user("alice")
        found = secured.admin.describe_user_scram_credentials().result(10)
        infos = found["alice"].scram_credential_infos
        assert {info.mechanism for info in infos} == {
            ScramMechanism.SCRAM_SHA_256,
            ScramMechanism.SCRAM_SHA_512,
        }
        gone = UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256)
        for future in secured.admin.alter_user_scram_credentials([gone]).values():
            future.result(10)
        again = secured.admin.alter_user_scram_credentials([gone])["alice"]
        with pytest.raises(KafkaException, match="no such credential"):
            again.result(10)

    against_secured(tmp_path, client)
