"""OAUTHBEARER: the messages of RFC 7628 as Kafka reads and writes them."""

import pytest

from oncelog.security.oauth_bearer import OAuthBearerClient, OAuthBearerServer
from oncelog.security.principal import Principal
from oncelog.security.sasl import (
    AcceptedToken,
    IllegalSaslStateError,
    SaslAuthenticationError,
    TokenRefusedError,
)
from oncelog.security.sasl_servers import make_sasl_server


class Tokens:
    """A `TokenValidator` that knows one token."""

    def validate(self, token):
        if token != "good.one":
            raise TokenRefusedError("it is not the good one")
        return AcceptedToken("al=ice", 1_800_000_000_000)


class NoTokens:
    tokens = None


def server(**given):
    return OAuthBearerServer(Tokens(), **given)


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\x01auth=Bearer good.one\x01\x01",
        b"n,,\x01auth=bearer   good.one\x01\x01",
        b"n,a=al=3Dice,\x01auth=Bearer good.one\x01\x01",
        b"n,,\x01host=server.example.com\x01port=143\x01auth=Bearer good.one\x01\x01",
        b"n,,\x01propA=valueA1, valueA2\x01auth=Bearer good.one\x01propB=b=c\x01\x01",
    ],
)
def test_a_good_token_completes_the_exchange(message):
    one = server()
    assert one.evaluate(message) == b""
    assert one.is_complete
    assert one.principal == Principal("User", "al=ice")
    assert one.session_expires_at_ms == 1_800_000_000_000
    with pytest.raises(IllegalSaslStateError):
        one.evaluate(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"good.one",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer good.one\x01",
        b"n,,\x01auth=good.one\x01\x01",
        b"n,,\x01auth=Basic good.one\x01\x01",
        b"n,,\x01auth=Bearer good one\x01\x01",
        b"n,,\x01auth=Bearer =\x01\x01",
        b"n,,\x01auth=Bearer bad\x01auth=Bearer good.one\x01\x01",
        b"n,,\x0119=42\x01auth=Bearer good.one\x01\x01",
        b"n,,\x01key=\x00\x01auth=Bearer good.one\x01\x01",
        b"y,,\x01auth=Bearer good.one\x01\x01",
        b"n,a=,\x01auth=Bearer good.one\x01\x01",
        b"n,a=b=c,\x01auth=Bearer good.one\x01\x01",
        b"n,,\x01auth=Bearer good.one\x01\x01\n",
        b"\xff",
    ],
)
def test_a_malformed_message_is_refused_in_kafkas_words(message):
    one = server(is_reauthentication=True)
    with pytest.raises(SaslAuthenticationError) as refused:
        one.evaluate(message)
    assert str(refused.value) == (
        "Authentication failed during re-authentication due to invalid credentials "
        "with SASL mechanism OAUTHBEARER"
    )
    assert "malformed" in refused.value.reason
    with pytest.raises(IllegalSaslStateError):
        one.evaluate(b"n,,\x01auth=Bearer good.one\x01\x01")


@pytest.mark.parametrize("confirmation", [b"\x01", b"", b"n,,\x01auth=Bearer good.one\x01\x01"])
def test_a_bad_token_is_answered_before_the_end(confirmation):
    one = server()
    assert one.evaluate(b"n,,\x01auth=Bearer bad\x01\x01") == b'{"status":"invalid_token"}'
    assert not one.is_complete
    with pytest.raises(SaslAuthenticationError) as refused:
        one.evaluate(confirmation)
    assert str(refused.value) == '{"status":"invalid_token"}'
    assert refused.value.reason == "the access token is refused: it is not the good one"
    with pytest.raises(IllegalSaslStateError):
        one.evaluate(b"\x01")
    with pytest.raises(IllegalSaslStateError):
        assert one.principal


def test_an_authorization_id_must_be_the_tokens_name():
    with pytest.raises(SaslAuthenticationError) as refused:
        server().evaluate(b"n,a=admin,\x01auth=Bearer good.one\x01\x01")
    assert str(refused.value) == (
        "Authentication failed: Client requested an authorization id (admin) "
        "that is different from the token's principal name (al=ice)"
    )


def test_the_client_writes_the_message_of_rfc_7628():
    client = OAuthBearerClient("123.345.567", {"nineteen": "42"})
    assert client.evaluate(b"") == b"n,,\x01auth=Bearer 123.345.567\x01nineteen=42\x01\x01"
    assert client.evaluate(b"") == b""
    assert client.is_complete


def test_the_client_confirms_an_error():
    client, one = OAuthBearerClient("bad"), server()
    confirmation = client.evaluate(one.evaluate(client.evaluate(b"")))
    assert confirmation == b"\x01"
    assert not client.is_complete
    with pytest.raises(SaslAuthenticationError, match="invalid_token"):
        one.evaluate(confirmation)


@pytest.mark.parametrize("token", ["", "two words", "a\x01b", "ä", "="])
def test_a_client_refuses_a_token_without_showing_it(token):
    with pytest.raises(ValueError, match="the access token has signs") as refused:
        OAuthBearerClient(token)
    assert not token or repr(token) not in str(refused.value)


@pytest.mark.parametrize("extension", [{"auth": "x"}, {"19": "x"}, {"key": ""}, {"key": "a\x01b"}])
def test_a_client_names_a_malformed_extension(extension):
    (name,) = extension
    with pytest.raises(ValueError, match=f"extension '{name}'"):
        OAuthBearerClient("good.one", extension)


def test_a_listener_without_keys_makes_no_server():
    with pytest.raises(ValueError, match="OAUTHBEARER needs the keys"):
        make_sasl_server("OAUTHBEARER", NoTokens())


def test_an_unknown_mechanism_is_named():
    with pytest.raises(ValueError, match="'GSSAPI' is no SASL mechanism of oncelog: PLAIN, SCRAM"):
        make_sasl_server("GSSAPI", NoTokens())
