"""Clients that log in with access tokens: real clients, and keys that change while the listener runs."""

import asyncio
import re
import time

import pytest
from tests.access_tokens import AUDIENCE, ISSUER, jwk_of, key_set, make_key, sign
from tests.integration.listener.test_listener_logins import (
    SASL_AUTHENTICATION_FAILED,
    against_secured,
)
from tests.unit.listener.wire_client import WireClient

from oncelog.errors import OncelogError
from oncelog.protocol.versions import METADATA, SASL_AUTHENTICATE, SASL_HANDSHAKE
from oncelog.security.oauth_bearer import OAuthBearerClient

KEY = make_key("ES256")


def token_of(user="alice", key=KEY, kid="first", **changed):
    return sign(key, kid=kid, now_s=int(time.time()), sub=user, **changed)


def settings_of(tmp_path, **changed):
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
    wire = await WireClient.connect(int(secured.outside.rpartition(":")[2]))
    client = OAuthBearerClient(token)
    shaken = await wire.call(SASL_HANDSHAKE, 1, mechanism="OAUTHBEARER")
    assert shaken.error_code == 0
    answers = [await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=client.evaluate(b""))]
    if answers[0].auth_bytes:
        confirmed = client.evaluate(answers[0].auth_bytes)
        answers.append(await wire.call(SASL_AUTHENTICATE, 2, auth_bytes=confirmed))
    return wire, answers


def test_a_refused_token_says_only_that_it_is_invalid(tmp_path):
    async def client(secured):
        wire, answers = await logged_in(secured, token_of(aud="other"))
        assert [one.error_code for one in answers] == [0, SASL_AUTHENTICATION_FAILED]
        assert answers[0].auth_bytes == b'{"status":"invalid_token"}'
        assert answers[1].error_message == '{"status":"invalid_token"}'
        assert await wire.is_closed_by_peer()

    against_secured(tmp_path, client, is_async=True, **settings_of(tmp_path))


def test_a_session_ends_with_its_token(tmp_path):
    async def client(secured):
        token = token_of(exp=int(time.time()) + 2)
        wire, (answer,) = await logged_in(secured, token)
        assert 0 < answer.session_lifetime.total_seconds() <= 2
        assert (await wire.call(METADATA, 1, topics=())).brokers
        await asyncio.sleep(2.1)
        with pytest.raises(asyncio.IncompleteReadError):
            await wire.call(METADATA, 1, topics=())

    against_secured(tmp_path, client, is_async=True, **settings_of(tmp_path))


def test_a_new_key_of_the_provider_is_found(tmp_path):
    settings = settings_of(tmp_path)

    async def client(secured):
        _, answers = await logged_in(secured, token_of())
        assert answers[-1].error_code == 0
        new = make_key("ES256")
        (tmp_path / "keys.json").write_text(key_set(jwk_of(new, "second")))
        await asyncio.sleep(1.1)
        _, answers = await logged_in(secured, token_of(key=new, kid="second"))
        assert answers[-1].error_code == 0
        _, answers = await logged_in(secured, token_of())
        assert answers[-1].error_code == SASL_AUTHENTICATION_FAILED

    against_secured(tmp_path, client, is_async=True, **settings)


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
    with pytest.raises((OncelogError, BaseExceptionGroup)) as refused:
        against_secured(tmp_path, lambda _: None, **settings_of(tmp_path, **changed))
    text = str(refused.value)
    assert re.search(rf"{said}.*ONCELOG_LISTENER_SASL_OAUTHBEARER_JWKS", text), text
