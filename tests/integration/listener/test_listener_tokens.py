"""Clients that log in with access tokens, from a provider or a file, and keys that change while the listener runs."""

import asyncio
import re
import time

import pytest
from confluent_kafka.admin import AclOperation, ResourceType
from tests.access_tokens import jwk_of, key_set, make_key
from tests.integration.listener.secured_log import (
    KEY,
    SASL_AUTHENTICATION_FAILED,
    logged_in,
    secured_log,
    settings_of,
    token_of,
    topics_seen,
)
from tests.token_provider import token_provider

from oncelog.client.core.login import login_of
from oncelog.errors import OncelogError
from oncelog.protocol.versions import METADATA
from oncelog_server.cli import run


async def test_a_refused_token_says_only_that_it_is_invalid(tmp_path):
    with secured_log(tmp_path, **settings_of(tmp_path)) as secured:
        wire, answers = await logged_in(secured, token_of(aud="other"))
        assert [one.error_code for one in answers] == [0, SASL_AUTHENTICATION_FAILED]
        assert answers[0].auth_bytes == b'{"status":"invalid_token"}'
        assert answers[1].error_message == '{"status":"invalid_token"}'
        assert await wire.is_closed_by_peer()


async def test_a_session_ends_with_its_token(tmp_path):
    with secured_log(tmp_path, **settings_of(tmp_path)) as secured:
        token = token_of(exp=int(time.time()) + 2)
        wire, (answer,) = await logged_in(secured, token)
        assert 0 < answer.session_lifetime.total_seconds() <= 2
        assert (await wire.call(METADATA, 1, topics=())).brokers
        await asyncio.sleep(2.1)
        with pytest.raises(asyncio.IncompleteReadError):
            await wire.call(METADATA, 1, topics=())


async def test_a_new_key_of_the_provider_is_found(tmp_path):
    with secured_log(tmp_path, **settings_of(tmp_path)) as secured:
        _, answers = await logged_in(secured, token_of())
        assert answers[-1].error_code == 0
        new = make_key("ES256")
        (tmp_path / "keys.json").write_text(key_set(jwk_of(new, "second")))
        await asyncio.sleep(1.1)
        _, answers = await logged_in(secured, token_of(key=new, kid="second"))
        assert answers[-1].error_code == 0
        _, answers = await logged_in(secured, token_of())
        assert answers[-1].error_code == SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"sasl_oauthbearer_jwks": ""}, "OAUTHBEARER needs the keys that sign tokens"),
        ({"sasl_oauthbearer_jwks": "http://a/keys"}, "keys come over https"),
        ({"sasl_oauthbearer_issuer": ""}, "need an expected issuer"),
        ({"sasl_oauthbearer_audience": " , "}, "need an expected audience"),
    ],
)
def test_settings_that_check_too_little_are_refused(tmp_path, changed, said):
    settings = settings_of(tmp_path, **changed)
    with pytest.raises(OncelogError) as refused, secured_log(tmp_path, **settings):
        pass
    text = str(refused.value)
    assert re.search(rf"{said}.*ONCELOG_LISTENER_SASL_OAUTHBEARER_JWKS", text), text


SECRET = "hidden: 100% +/="
TOKEN = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}


def of_provider(endpoint, secret=SECRET):
    return TOKEN | {
        "sasl.oauthbearer.token.endpoint.url": endpoint,
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": secret,
        "sasl.oauthbearer.scope": "kafka",
    }


def prepare(secured):
    for operation in (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.READ):
        secured.allow("alice", ResourceType.TOPIC, "orders", operation)
    secured.allow("alice", ResourceType.GROUP, "*", AclOperation.READ)
    secured.create_topic("orders")


def test_a_token_comes_from_its_provider_or_from_a_file(tmp_path):
    file = tmp_path / "token"
    with secured_log(tmp_path, **settings_of(tmp_path)) as secured:
        prepare(secured)
        with token_provider(KEY, "first", {"alice": SECRET}) as (endpoint, calls):
            assert topics_seen(secured, login_of(of_provider(endpoint))) == {"orders": 1}
            form = {"grant_type": ["client_credentials"], "scope": ["kafka"]}
            assert calls == [("alice", form)]
            with pytest.raises(OncelogError, match="answered 401") as refused:
                topics_seen(secured, login_of(of_provider(endpoint, secret="guessed")))
            assert "guessed" not in str(refused.value)
        with pytest.raises(OncelogError, match="no token from"):
            topics_seen(secured, login_of(of_provider(endpoint)))
        in_file = TOKEN | {"sasl.oauthbearer.token.endpoint.url": f"file://{file}"}
        with pytest.raises(OncelogError, match="cannot read the token"):
            topics_seen(secured, login_of(in_file))
        file.write_text(token_of())
        assert topics_seen(secured, login_of(in_file)) == {"orders": 1}
        file.write_text(token_of(aud="other"))
        with pytest.raises(OncelogError, match="refused the login of this token"):
            topics_seen(secured, login_of(in_file))


def test_commands_and_librdkafka_log_in_with_a_token(tmp_path, capsys):
    config = tmp_path / "client.properties"
    with secured_log(tmp_path, **settings_of(tmp_path)) as secured:
        prepare(secured)
        with token_provider(KEY, "first", {"alice": SECRET}) as (endpoint, _):
            lines = [f"{name}={value}" for name, value in of_provider(endpoint).items()]
            config.write_text("\n".join(lines))
            there = ["--config", str(config), "--bootstrap", secured.outside]
            assert run(["topics", "list", *there]) == 0
            assert "orders" in capsys.readouterr().out
            assert run(["consume", "orders", *there]) == 0
        assert run(["topics", "list", *there]) == 1
        assert "no token from" in capsys.readouterr().err
