"""oncelog's own client, which Spark and the command line use, logs in as every other does."""

import dataclasses
import time

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType
from tests.integration.listener.secured_log import (
    NAME_OF_CERTIFICATE,
    PASSWORD,
    secured_log,
    tls,
    topics_seen,
)

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.addresses import parse_addresses
from oncelog.client.core.login import ClientLogin
from oncelog.errors import KafkaError, OncelogError
from oncelog.security.plain import hash_password
from oncelog.security.sasl import MECHANISMS, OAUTHBEARER, PLAIN

TIMEOUT_MS = 10_000
WITH_PASSWORD = [one for one in MECHANISMS if one != OAUTHBEARER]
USER = ClientLogin("SASL_SSL", "SCRAM-SHA-512", "alice", PASSWORD)


def connected(secured, login):
    (address,) = parse_addresses(secured.outside)
    return Connection.connect(address, "test", Deadline(TIMEOUT_MS), login)


def test_a_user_logs_in_by_each_mechanism_and_acls_count(tmp_path, authority):
    users = tmp_path / "users"
    users.write_text(f"alice:{hash_password(PASSWORD)}\n")
    mechanisms = {
        "sasl_enabled_mechanisms": ",".join(WITH_PASSWORD),
        "sasl_plain_users_file": str(users),
    }
    with secured_log(tmp_path, **tls(authority, "SASL_SSL", **mechanisms)) as secured:
        secured.add_user("alice")
        secured.allow("alice", ResourceType.TOPIC, "orders", AclOperation.DESCRIBE)
        secured.create_topic("orders")
        for mechanism in WITH_PASSWORD:
            login = dataclasses.replace(USER, mechanism=mechanism, ca=str(authority.pem))
            assert topics_seen(secured, login) == {"orders": 1}, mechanism
        for wrong, said in (
            ({"password": "guessed"}, "invalid credentials"),
            ({"user": "nobody"}, "invalid credentials"),
            ({"mechanism": PLAIN, "password": "guessed"}, "refused the login of user 'alice'"),
            ({"ca": ""}, "certificate that is not trusted"),
            ({"ca": str(tmp_path / "none")}, "none"),
        ):
            login = dataclasses.replace(USER, **{"ca": str(authority.pem)} | wrong)
            with pytest.raises(OncelogError, match=said) as refused:
                connected(secured, login)
            assert not isinstance(refused.value, KafkaError), "a repetition changes nothing"
            assert PASSWORD not in str(refused.value)
            assert "guessed" not in str(refused.value)


def test_a_mechanism_that_is_not_enabled_is_named(tmp_path, authority):
    with secured_log(tmp_path, **tls(authority, "SASL_SSL")) as secured:
        login = dataclasses.replace(USER, mechanism=PLAIN, ca=str(authority.pem))
        with pytest.raises(
            OncelogError, match="does not take SASL mechanism PLAIN; it takes SCRAM"
        ):
            connected(secured, login)


def test_a_client_certificate_is_shown_with_its_password(tmp_path, authority):
    files = authority.issue("carol", password="of the key")
    with secured_log(
        tmp_path, **tls(authority, ssl_client_auth="required", **NAME_OF_CERTIFICATE)
    ) as secured:
        secured.allow(
            "carol", ResourceType.TOPIC, "o", AclOperation.ALL, ResourcePatternType.PREFIXED
        )
        secured.create_topic("orders")
        login = ClientLogin(
            "SSL",
            ca=str(authority.pem),
            certificate=str(files.certificate_chain),
            key=str(files.key),
            key_password="of the key",
        )
        assert topics_seen(secured, login) == {"orders": 1}
        with pytest.raises(OncelogError, match="is its password right"):
            connected(secured, dataclasses.replace(login, key_password="another"))


def test_a_session_is_prolonged_on_the_same_connection(tmp_path, authority):
    with secured_log(
        tmp_path, **tls(authority, "SASL_SSL"), connections_max_reauth_ms="500"
    ) as secured:
        secured.add_user("alice")
        login = dataclasses.replace(USER, ca=str(authority.pem))
        settings = ClientSettings(login=login)
        with Cluster(parse_addresses(secured.outside), settings) as cluster:
            (address,) = parse_addresses(secured.outside)
            with cluster.open_connection(address) as connection:
                schema = cluster.schema(address, 3)
                request = schema.request_types.MetadataRequest(
                    topics=(),
                    allow_auto_topic_creation=False,
                    include_cluster_authorized_operations=False,
                    include_topic_authorized_operations=False,
                )
                ends_at = time.monotonic() + 1.5
                while time.monotonic() < ends_at:
                    connection.call(schema, request, Deadline(TIMEOUT_MS))
                    time.sleep(0.02)
