"""aiokafka, kafka-python and librdkafka log in by each way there is, and their transactions work then."""

import asyncio
import time

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonsTokenProvider
from tests.conformance.test_java_logs_in import prepare
from tests.integration.listener.secured_log import (
    NAME_OF_CERTIFICATE,
    PASSWORD,
    secured_log,
    settings_of,
    tls,
    token_of,
)

from oncelog.client.core.login import ClientLogin
from oncelog.client.login import tls_context
from oncelog.security.plain import hash_password

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
WAIT_S = 20


class Tokens(AbstractTokenProvider):
    async def token(self):
        return token_of()


class TokensOfKafkaPython(KafkaPythonsTokenProvider):
    def token(self):
        return token_of()


def by_confluent(bootstrap, authority, mechanism, files):
    settings = {
        "bootstrap.servers": bootstrap,
        "transactional.id": f"confluent-{mechanism}",
        "security.protocol": "SASL_SSL" if mechanism else "SSL",
        "ssl.ca.location": str(authority.pem),
    }
    if files is not None:
        settings["ssl.certificate.location"] = str(files.certificate_chain)
        settings["ssl.key.location"] = str(files.key)
    if mechanism == "OAUTHBEARER":
        settings["oauth_cb"] = lambda _: (token_of(), time.time() + 300)
    elif mechanism:
        settings |= {"sasl.username": "alice", "sasl.password": PASSWORD}
    if mechanism:
        settings["sasl.mechanism"] = mechanism
    producer = Producer(settings)
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"value")
    producer.commit_transaction(WAIT_S)


def by_kafka_python(bootstrap, authority, mechanism, files):
    settings = {"ssl_cafile": str(authority.pem)}
    if files is not None:
        settings |= {"ssl_certfile": str(files.certificate_chain), "ssl_keyfile": str(files.key)}
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = TokensOfKafkaPython()
    elif mechanism:
        settings |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        transactional_id=f"kafka-python-{mechanism}",
        security_protocol="SASL_SSL" if mechanism else "SSL",
        sasl_mechanism=mechanism or None,
        **settings,
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"value").get(WAIT_S)
    producer.commit_transaction()
    producer.close()


def by_aiokafka(bootstrap, authority, mechanism, files):
    own = (
        {}
        if files is None
        else {"certificate": str(files.certificate_chain), "key": str(files.key)}
    )
    settings = {"ssl_context": tls_context(ClientLogin("SSL", ca=str(authority.pem), **own))}
    if mechanism == "OAUTHBEARER":
        settings["sasl_oauth_token_provider"] = Tokens()
    elif mechanism:
        settings |= {"sasl_plain_username": "alice", "sasl_plain_password": PASSWORD}
    if mechanism:
        settings["sasl_mechanism"] = mechanism

    async def commit():
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            transactional_id=f"aiokafka-{mechanism}",
            security_protocol="SASL_SSL" if mechanism else "SSL",
            **settings,
        )
        async with producer, producer.transaction():
            await producer.send_and_wait("orders", b"value")

    asyncio.run(asyncio.wait_for(commit(), WAIT_S))


CLIENTS = [by_confluent, by_kafka_python, by_aiokafka]


def test_by_each_mechanism(authority, tmp_path):
    users = tmp_path / "users"
    users.write_text(f"alice:{hash_password(PASSWORD)}\n")
    settings = tls(authority, "SASL_SSL") | settings_of(tmp_path)
    settings |= {
        "sasl_enabled_mechanisms": ",".join(MECHANISMS),
        "sasl_plain_users_file": str(users),
    }
    with secured_log(tmp_path, **settings) as secured:
        secured.add_user("alice")
        prepare(secured, "alice")
        for commit in CLIENTS:
            for mechanism in MECHANISMS:
                commit(secured.outside, authority, mechanism, None)


@pytest.mark.parametrize("user", ["", "carol"], ids=["SSL", "mTLS"])
def test_by_certificates(authority, tmp_path, user):
    settings = {"ssl_client_auth": "required"} if user else {}
    with secured_log(tmp_path, **tls(authority, **settings, **NAME_OF_CERTIFICATE)) as secured:
        prepare(secured, user or "ANONYMOUS")
        files = authority.issue(user) if user else None
        for commit in CLIENTS:
            commit(secured.outside, authority, "", files)
