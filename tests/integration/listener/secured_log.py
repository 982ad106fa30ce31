"""Every role in one process, behind two listeners: one for administrators on this machine, one for clients that log in.

Also what such clients need: certificates, tokens.
"""

import time
from contextlib import contextmanager

from anyio.from_thread import start_blocking_portal
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic
from tests.access_tokens import AUDIENCE, ISSUER, jwk_of, key_set, make_key, sign
from tests.free_ports import free_block
from tests.loops import UvLoopOfATest
from tests.worlds.listener.wire_client import WireClient

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.addresses import parse_addresses
from oncelog.process.sources import Flag, Sources
from oncelog.protocol.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE
from oncelog.security.oauth_bearer import OAuthBearerClient
from oncelog_server.composition import embedded_roles
from oncelog_server.settings import EmbeddedSettings

PASSWORD = "open sesame"
KEY = make_key("ES256")
SASL_AUTHENTICATION_FAILED = 58
NAME_OF_CERTIFICATE = {"ssl_principal_mapping_rules": "RULE:^CN=([^,]+).*$/$1/L,DEFAULT"}


class Secured:
    """How clients of both listeners connect, and what the administrator lets them do."""

    def __init__(self, inside: str, outside: str) -> None:
        self.inside = inside
        self.outside = outside
        self.admin = AdminClient({"bootstrap.servers": inside})

    async def wire(self):
        """Of who has not logged in yet."""
        return await WireClient.connect(int(self.outside.rpartition(":")[2]))

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
                future.result(30)

    def create_topic(self, name):
        self.admin.create_topics([NewTopic(name, 1)])[name].result(30)

    def allow(self, user, resource_type, name, operation, pattern=ResourcePatternType.LITERAL):
        acl = AclBinding(
            resource_type, name, pattern, f"User:{user}", "*", operation, AclPermissionType.ALLOW
        )
        for future in self.admin.create_acls([acl]).values():
            future.result(30)


@contextmanager
def running_log(data, port=0, flags=None):
    """Its bootstrap servers. It has a thread of its own, so that clients may block."""
    settings = EmbeddedSettings(port=port, gateway_port=0, data=data)
    roles = embedded_roles(settings, data, Sources(flags or {}))
    with (
        start_blocking_portal("asyncio", {"loop_factory": UvLoopOfATest}) as portal,
        portal.wrap_async_context_manager(roles) as addresses,
    ):
        yield addresses.bootstrap


@contextmanager
def secured_log(folder, **settings):
    """A `Secured` with these settings of its listener. Its data are beside other files in the folder."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    inside, outside = free_block(2)
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "listener_security_protocol_map": "OUTSIDE:SASL_PLAINTEXT",
        "authorizer": "acl",
        "super_users": "User:ANONYMOUS",
        **settings,
    }
    environment = {f"ONCELOG_LISTENER_{name.upper()}": value for name, value in settings.items()}
    flags = {name: Flag(name, value) for name, value in environment.items()}
    with running_log(data, inside, flags):
        yield Secured(f"127.0.0.1:{inside}", f"127.0.0.1:{outside}")


def topics_seen(secured, login):
    """The topics `orders` that our own client sees, by its login."""
    settings = ClientSettings(login=login, call_timeout_ms=10_000)
    with Cluster(parse_addresses(secured.outside), settings) as cluster:
        return cluster.partition_counts(["orders"])


def produced(config, topic="orders", timeout_s=10):
    """The error's name, or None once a record is written."""
    errors = []
    producer = Producer({**config, "message.timeout.ms": int(timeout_s * 1000)}, logger=None)
    producer.produce(topic, b"value", on_delivery=lambda error, _: errors.append(error))
    producer.flush(timeout_s + 5)
    return errors[0] and errors[0].name()


def tls(authority, protocol="SSL", **settings):
    """The settings of a listener whose certificate is of this authority."""
    files = authority.issue("listener")
    return {
        "listener_security_protocol_map": f"OUTSIDE:{protocol}",
        "ssl_certificate_file": str(files.certificate_chain),
        "ssl_key_file": str(files.key),
        "ssl_ca_file": str(authority.pem),
        **settings,
    }


def token_of(user="alice", key=KEY, kid="first", **changed):
    return sign(key, kid=kid, now_s=int(time.time()), sub=user, **changed)


def settings_of(tmp_path, **changed):
    """The settings of a listener that takes the tokens of `token_of`."""
    keys = tmp_path / "keys.json"
    keys.write_text(key_set(jwk_of(KEY, "first")))
    return {
        "sasl_enabled_mechanisms": "OAUTHBEARER",
        "sasl_oauthbearer_jwks": str(keys),
        "sasl_oauthbearer_issuer": ISSUER,
        "sasl_oauthbearer_audience": AUDIENCE,
        **changed,
    }


async def logged_in(secured, token):
    """The wire, and the answers to its messages, until the exchange ends."""
    wire = await secured.wire()
    client = OAuthBearerClient(token)
    shaken = await wire.call(SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER")
    assert shaken.error_code == 0
    answers = [await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=client.evaluate(b""))]
    if answers[0].auth_bytes:
        confirmed = client.evaluate(answers[0].auth_bytes)
        answers.append(await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=confirmed))
    return wire, answers
