"""Producer, consumer and administrator of both shells, by TLS and every login that a listener takes, with ACLs."""

import asyncio
import time

import pytest
from confluent_kafka.admin import AclOperation, ResourcePatternType, ResourceType
from tests.certificates import Authority
from tests.integration.client.writers import fresh
from tests.integration.listener.secured_log import (
    KEY,
    NAME_OF_CERTIFICATE,
    PASSWORD,
    secured_log,
    settings_of,
    tls,
)
from tests.token_provider import token_provider

from oncelog import client
from oncelog.client import AuthenticationError, AuthorizationError, blocking
from oncelog.security.plain import hash_password

WAIT_S = 30
SECRET = "hidden: 100% +/="
TOPIC = "orders"
BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LOGINS = ("mTLS", "OAUTHBEARER", *BY_PASSWORD)


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def allow_all(secured, user):
    for kind in (ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID, ResourceType.GROUP):
        secured.allow(user, kind, "o", AclOperation.ALL, ResourcePatternType.PREFIXED)


@pytest.fixture(scope="module")
def with_sasl(tmp_path_factory, authority):
    """A log whose listener wants TLS and a login, by any mechanism. Its user alice may do things with names of o…"""
    folder = tmp_path_factory.mktemp("sasl")
    users = folder / "users"
    users.write_text(f"alice:{hash_password(PASSWORD)}\n")
    settings = {
        **tls(authority, "SASL_SSL", sasl_plain_users_file=str(users)),
        **settings_of(folder),
        "sasl_enabled_mechanisms": ",".join((*BY_PASSWORD, "OAUTHBEARER")),
    }
    with secured_log(folder, **settings) as secured:
        secured.add_user("alice")
        allow_all(secured, "alice")
        secured.create_topic(TOPIC)
        yield secured


@pytest.fixture(scope="module")
def with_certificates(tmp_path_factory, authority):
    """A log that knows its users by their certificates."""
    folder = tmp_path_factory.mktemp("mtls")
    settings = tls(authority, ssl_client_auth="required", **NAME_OF_CERTIFICATE)
    with secured_log(folder, **settings) as secured:
        allow_all(secured, "carol")
        secured.create_topic(TOPIC)
        yield secured


@pytest.fixture(scope="module")
def provider():
    with token_provider(KEY, "first", {"alice": SECRET}) as (url, _):
        yield url


def by_certificate(secured, authority):
    files = authority.issue("carol", password="of the key")
    return {
        "bootstrap.servers": secured.outside,
        "security.protocol": "SSL",
        "ssl.ca.location": str(authority.pem),
        "ssl.certificate.location": str(files.certificate_chain),
        "ssl.key.location": str(files.key),
        "ssl.key.password": "of the key",
    }


def by_sasl(secured, authority, mechanism, **more):
    return {
        "bootstrap.servers": secured.outside,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.pem),
        "sasl.mechanism": mechanism,
        **more,
    }


def by_token(secured, authority, url, secret=SECRET):
    return by_sasl(
        secured,
        authority,
        "OAUTHBEARER",
        **{
            "sasl.oauthbearer.token.endpoint.url": url,
            "sasl.oauthbearer.client.credentials.client.id": "alice",
            "sasl.oauthbearer.client.credentials.client.secret": secret,
        },
    )


def by_password(secured, authority, mechanism, password=PASSWORD):
    given = {"sasl.username": "alice", "sasl.password": password}
    return by_sasl(secured, authority, mechanism, **given)


@pytest.fixture(params=LOGINS)
def login(request, authority):
    if request.param == "mTLS":
        return by_certificate(request.getfixturevalue("with_certificates"), authority)
    secured = request.getfixturevalue("with_sasl")
    if request.param == "OAUTHBEARER":
        return by_token(secured, authority, request.getfixturevalue("provider"))
    return by_password(secured, authority, request.param)


# ---------------------------------------------------------------------------------------------- both shells


async def test_the_clients_of_asyncio_log_in(login):
    value, group = fresh("v").encode(), fresh("o")
    async with client.Producer(config=login, transactional_id=fresh("o")) as producer:
        async with producer.transaction() as tx:
            sent = tx.send(TOPIC, value)
        place = client.Partition(TOPIC, (await sent).partition)
        async with client.Consumer(
            config=login, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([TOPIC])
            async for record in consumer:
                if record.value == value:
                    break
            await consumer.commit()
    async with client.Admin(config=login) as admin:
        assert await admin.list_topics() == [TOPIC]
        assert (await admin.list_group_offsets(group))[place].offset > record.offset
        with pytest.raises(AuthorizationError):
            (await admin.create_topics([client.NewTopic("payments")])).check()


def test_the_clients_of_threads_log_in(login):
    value, group = fresh("v").encode(), fresh("o")
    with blocking.Producer(config=login, transactional_id=fresh("o")) as producer:
        with producer.transaction() as tx:
            sent = tx.send(TOPIC, value)
        place = client.Partition(TOPIC, sent.result(WAIT_S).partition)
        with blocking.Consumer(
            config=login, group_id=group, auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe([TOPIC])
            for record in consumer:
                if record.value == value:
                    break
            consumer.commit()
    with blocking.Admin(config=login) as admin:
        assert admin.list_topics() == [TOPIC]
        assert admin.list_group_offsets(group)[place].offset > record.offset
        with pytest.raises(AuthorizationError):
            admin.create_topics([client.NewTopic("payments")]).check()


# ---------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize("kind", ["Producer", "Consumer", "Admin"])
async def test_a_wrong_login_ends_a_client_at_once(kind, with_sasl, authority, provider):
    """It is final: nothing is tried again until a time-out."""
    wrong = [by_password(with_sasl, authority, one, "guessed") for one in BY_PASSWORD]
    wrong.append({**by_password(with_sasl, authority, "PLAIN"), "ssl.ca.location": ""})
    for config in (*wrong, by_token(with_sasl, authority, provider, "guessed")):
        began = time.monotonic()
        with pytest.raises(AuthenticationError) as refused:
            await getattr(client, kind)(config=config).start()
        assert time.monotonic() - began < WAIT_S / 2
        assert "guessed" not in str(refused.value)
        with pytest.raises(AuthenticationError) as again:
            await asyncio.to_thread(getattr(blocking, kind)(config=config).start)
        assert type(again.value) is type(refused.value)


async def test_a_session_that_ends_is_renewed_under_traffic(tmp_path, authority):
    with secured_log(
        tmp_path, **tls(authority, "SASL_SSL"), connections_max_reauth_ms="700"
    ) as secured:
        secured.add_user("alice")
        allow_all(secured, "alice")
        secured.create_topic(TOPIC)
        login = by_password(secured, authority, "SCRAM-SHA-512")
        async with (
            client.Producer(config=login) as producer,
            client.Consumer(config=login, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([client.Partition(TOPIC, 0)])
            found, sent, ends_at = [], [], time.monotonic() + 3
            while time.monotonic() < ends_at:
                value = b"%d" % len(sent)
                await producer.send(TOPIC, value)
                sent.append(value)
                found += [record.value for record in await consumer.poll(0.02)]
            async with asyncio.timeout(WAIT_S):
                while len(found) < len(sent):
                    found += [record.value for record in await consumer.poll(1)]
            assert found == sent
