"""How a client logs in, said in Kafka's names: what is understood, and what is refused with which words."""

import pytest
from oncelog_robustness.clients.login import librdkafka_settings

from oncelog.client.core.login import (
    NAMES,
    ClientLogin,
    login_of,
    properties_of,
)
from oncelog.client.core.properties import parse_properties
from oncelog.errors import OncelogError

SECRET = 'pa ss"word;=\\'
SCRAM = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
USER = {"sasl.username": "alice", "sasl.password": SECRET}


def jaas(module, user="alice", password=SECRET):
    escaped = password.replace("\\", "\\\\").replace('"', '\\"')
    return f'org.apache.kafka.common.security.{module} required username="{user}" password="{escaped}";'


TOKEN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CREDENTIALS = "sasl.oauthbearer.client.credentials.client"
HTTPS = {ENDPOINT: "https://id.example/token"}
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


@pytest.mark.parametrize(
    "given",
    [
        {},
        SCRAM
        | USER
        | {"ssl.ca.location": "/ca.pem", "ssl.key.location": "/key.pem"}
        | {"ssl.certificate.location": "/own.pem", "ssl.key.password": SECRET},
        SCRAM | USER | {"ssl.endpoint.identification.algorithm": "none"},
        TOKEN | HTTPS | {f"{CREDENTIALS}.id": "app", f"{CREDENTIALS}.secret": SECRET},
    ],
)
def test_a_login_is_said_again_in_kafkas_names(given):
    assert login_of(properties_of(login_of(given))) == login_of(given)


def test_nothing_given_is_plain_text_and_nobody():
    assert login_of({}) == ClientLogin()
    assert librdkafka_settings(ClientLogin()) == {"security.protocol": "PLAINTEXT"}


def test_kafkas_and_librdkafkas_names_say_the_same():
    kafkas = SCRAM | {
        "sasl.jaas.config": jaas("scram.ScramLoginModule"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
    }
    librdkafkas = {
        "security.protocol": "sasl_ssl",
        "sasl.mechanisms": "scram-sha-512",
        "ssl.ca.location": "/ca.pem",
    } | USER
    expected = ClientLogin("SASL_SSL", "SCRAM-SHA-512", "alice", SECRET, ca="/ca.pem")
    assert login_of(kafkas) == login_of(librdkafkas) == expected
    assert librdkafka_settings(expected) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": SECRET,
        "ssl.ca.location": "/ca.pem",
        "ssl.endpoint.identification.algorithm": "https",
    }


def test_three_spellings_of_a_token_provider_say_the_same():
    client = "sasl.oauthbearer.client.credentials.client."
    expected = ClientLogin(
        "SASL_SSL",
        "OAUTHBEARER",
        token_endpoint="https://id.example/token",
        client_id="etl",
        client_secret=SECRET,
        scope="kafka",
    )
    scope = {"sasl.oauthbearer.scope": "kafka"}
    escaped = SECRET.replace("\\", "\\\\").replace('"', '\\"')
    in_one = f'{BEARER} clientId="etl" clientSecret="{escaped}" scope="kafka";'
    for spelling in (
        {f"{client}id": "etl", f"{client}secret": SECRET} | scope,
        {"sasl.oauthbearer.client.id": "etl", "sasl.oauthbearer.client.secret": SECRET} | scope,
        {"sasl.jaas.config": in_one},
    ):
        assert login_of(TOKEN | HTTPS | spelling) == expected
    assert SECRET not in repr(expected)
    assert SECRET not in str(librdkafka_settings(expected))


def test_a_token_in_a_file_needs_no_client():
    login = login_of(TOKEN | {ENDPOINT: "file:///run/token"})
    assert (login.token_endpoint, login.client_id) == ("file:///run/token", "")


def test_a_keystore_in_pem_holds_key_and_certificate():
    login = login_of({"security.protocol": "SSL", "ssl.keystore.location": "/me.pem"})
    assert (login.certificate, login.key) == ("/me.pem", "")
    settings = librdkafka_settings(login)
    assert settings["ssl.certificate.location"] == settings["ssl.key.location"] == "/me.pem"


@pytest.mark.parametrize(("value", "checked"), [("https", True), ("", False), ("none", False)])
def test_the_check_of_the_host_name_can_be_switched_off(value, checked):
    name = "ssl.endpoint.identification.algorithm"
    assert login_of({"security.protocol": "SSL", name: value}).checks_host_name is checked


@pytest.mark.parametrize(
    ("given", "named", "way_out"),
    [
        ({"security.protocl": "SSL"}, "security.protocl", "did you mean security.protocol?"),
        ({"client.id": "x"}, "client.id", "leave it out"),
        ({"security.protocol": "TLS"}, "security.protocol is 'TLS'", "SASL_SSL"),
        ({"ssl.truststore.type": "JKS"}, "ssl.truststore.type is 'JKS'", "PEM"),
        ({"ssl.truststore.certificates": "-----"}, "ssl.truststore.certificates", "file"),
        ({"ssl.truststore.password": SECRET}, "ssl.truststore.password", "leave it out"),
        ({"ssl.ca.location": "/ca.pem"}, "ssl.ca.location", "security.protocol=SSL"),
        (USER, "sasl.username", "security.protocol=SASL_SSL"),
        (USER | {"security.protocol": "SSL"}, "sasl.username", "security.protocol=SASL_SSL"),
        (USER | {"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing", "SCRAM-SHA-256"),
        (SCRAM | USER | {"sasl.mechanism": "GSSAPI"}, "'GSSAPI'", "PLAIN"),
        (SCRAM, "the user is missing", "sasl.jaas.config"),
        (SCRAM | {"sasl.username": "alice"}, "the password is missing", "sasl.password"),
        (SCRAM | USER | {"sasl.jaas.config": jaas("x.ScramLoginModule")}, "sasl.username", "one"),
        (SCRAM | {"sasl.jaas.config": jaas("x.Krb5LoginModule")}, "Krb5LoginModule", "Scram"),
        (SCRAM | {"sasl.jaas.config": f"{SECRET}"}, "sasl.jaas.config", "ScramLoginModule"),
        (TOKEN, f"{ENDPOINT} is missing", "https"),
        (TOKEN | {ENDPOINT: "id.example"}, f"{ENDPOINT} is 'id.example'", "file:///"),
        (TOKEN | {ENDPOINT: "file://token"}, f"{ENDPOINT} is 'file://token'", "file:///"),
        (TOKEN | {ENDPOINT: "https://[id"}, f"{ENDPOINT} is 'https://[id'", "https"),
        (TOKEN | {ENDPOINT: "https://id:port/"}, f"{ENDPOINT} is 'https://id:port/'", "https"),
        (TOKEN | {ENDPOINT: "https:///token"}, f"{ENDPOINT} is 'https:///token'", "https"),
        (TOKEN | {ENDPOINT: "http://id.example/token"}, "http://id.example", "give https"),
        (TOKEN | HTTPS, "client.id is missing", "token provider"),
        (
            TOKEN | HTTPS | {"sasl.oauthbearer.client.id": "x"},
            "client.secret is missing",
            "provider",
        ),
        (TOKEN | HTTPS | {"sasl.oauthbearer.method": "oidc"}, "method", "leave it out"),
        ({"security.protocol": "SSL", "ssl.key.location": "k"}, "ssl.key.location", "certificate"),
        (
            {"security.protocol": "SSL", "ssl.ca.location": "a", "ssl.truststore.location": "b"},
            "ssl.truststore.location",
            "give one of them",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_shows_no_secret(given, named, way_out):
    with pytest.raises(OncelogError) as refused:
        login_of(given, "kafka.")
    said = str(refused.value)
    assert named in said
    assert way_out in said
    assert "kafka." in said
    assert SECRET not in said


def test_a_login_does_not_show_its_secrets():
    login = ClientLogin("SASL_SSL", "PLAIN", "alice", SECRET, key_password="hidden key")
    assert SECRET not in repr(login)
    assert "hidden key" not in repr(login)
    assert all(name in NAMES or name == "log_level" for name in librdkafka_settings(login))


def test_a_properties_file_is_read_as_java_reads_it():
    text = (
        "# a comment\n! another\n\n"
        "  security.protocol = SASL_SSL  \n"
        "sasl.username:al\\u0069ce\n"
        "sasl.password one=two # no comment\n"
        "sasl.jaas.config=first \\\n    second\\\\\n"
        "with\\=sign=\\tx\n"
        "empty\n"
        "security.protocol=SSL\n"
    )
    assert parse_properties(text, "f") == {
        "security.protocol": "SSL",
        "sasl.username": "alice",
        "sasl.password": "one=two # no comment",
        "sasl.jaas.config": "first second\\",
        "with=sign": "\tx",
        "empty": "",
    }


@pytest.mark.parametrize("text", ["a=1\n=secret\n", "a=1\nb=secret\\"])
def test_a_line_that_cannot_be_read_is_named_by_its_number(text):
    with pytest.raises(OncelogError, match="line 2") as refused:
        parse_properties(text, "client.properties")
    assert "secret" not in str(refused.value)
