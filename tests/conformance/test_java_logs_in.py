"""Kafka's Java client logs in by each way there is, and its transactions work then."""

import re
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from tests.conformance.clients.face import ClientFailed, commit
from tests.conformance.clients.java import Java, JavaProcess
from tests.integration.listener.secured_log import (
    NAME_OF_CERTIFICATE,
    PASSWORD,
    secured_log,
    settings_of,
    tls,
    token_of,
)

from oncelog.security.plain import hash_password

MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
BEARER = "org.apache.kafka.common.security.oauthbearer."


@pytest.fixture
def logged_in(java_classpath, tmp_path):
    """A Java client with these properties, in a process of its own."""

    @contextmanager
    def client(properties, *options):
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        process = JavaProcess(
            java_classpath, "TransactionDriver", f"-Doncelog.login={file}", *options
        )
        try:
            yield Java(process)
        finally:
            process.close()

    return client


def prepare(secured, user):
    for resource in (ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID):
        secured.allow(user, resource, "*", AclOperation.ALL)
    secured.create_topic("orders")


def has_transactions(java, bootstrap, name):
    """Commits, aborts and commits again; a read_committed consumer sees the first and the last."""
    producer = java.producer(bootstrap, name)
    producer.init()
    commit(producer, "orders", name.encode())
    producer.begin()
    producer.send("orders", b"aborted")
    producer.abort()
    last = f"{name} again".encode()
    commit(producer, "orders", last)
    values = [one.value for one in java.read(bootstrap, "orders", until=last)]
    return {name.encode(), last} <= set(values) and b"aborted" not in values


def with_tls(authority, protocol):
    return {
        "security.protocol": protocol,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": authority.pem,
    }


def test_by_certificate_of_the_server_alone(logged_in, authority, tmp_path):
    with secured_log(tmp_path, **tls(authority)) as secured:
        prepare(secured, "ANONYMOUS")
        with logged_in(with_tls(authority, "SSL")) as java:
            assert has_transactions(java, secured.outside, "ssl")


def test_by_a_certificate_of_its_own(logged_in, authority, tmp_path):
    with secured_log(
        tmp_path, **tls(authority, ssl_client_auth="required", **NAME_OF_CERTIFICATE)
    ) as secured:
        prepare(secured, "carol")
        files = authority.issue("carol")
        keystore = tmp_path / "carol.pem"
        keystore.write_bytes(files.key.read_bytes() + files.certificate_chain.read_bytes())
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": keystore}
        with logged_in(with_tls(authority, "SSL") | own) as java:
            assert has_transactions(java, secured.outside, "mtls")


def test_by_each_mechanism_with_a_password(logged_in, authority, tmp_path):
    users = tmp_path / "users"
    users.write_text(f"alice:{hash_password(PASSWORD)}\n")

    def login(mechanism, password=PASSWORD):
        return with_tls(authority, "SASL_SSL") | {
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f'{MODULES[mechanism]} required username="alice" password="{password}";',
        }

    passwords = {
        "sasl_enabled_mechanisms": ",".join(MODULES),
        "sasl_plain_users_file": str(users),
    }
    with secured_log(tmp_path, **tls(authority, "SASL_SSL", **passwords)) as secured:
        secured.add_user("alice")
        prepare(secured, "alice")
        for mechanism in MODULES:
            with logged_in(login(mechanism)) as java:
                assert has_transactions(java, secured.outside, mechanism)
            with logged_in(login(mechanism, "guessed")) as java, pytest.raises(ClientFailed) as no:
                java.producer(secured.outside, "guessed").init()
            assert re.search("authentication", str(no.value), re.IGNORECASE), mechanism


def test_by_a_token(logged_in, authority, tmp_path):
    file = tmp_path / "token"
    place = f"file://{file}"
    login = with_tls(authority, "SASL_SSL") | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{BEARER}OAuthBearerLoginModule required;",
        "sasl.login.callback.handler.class": f"{BEARER}OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": place,
    }
    allowed = (
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={place}",
        f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={file}",
    )
    with secured_log(tmp_path, **tls(authority, "SASL_SSL") | settings_of(tmp_path)) as secured:
        prepare(secured, "alice")
        file.write_text(token_of())
        with logged_in(login, *allowed) as java:
            assert has_transactions(java, secured.outside, "token")
        file.write_text(token_of(aud="other"))
        with logged_in(login, *allowed) as java, pytest.raises(ClientFailed, match="invalid_token"):
            java.producer(secured.outside, "other").init()
