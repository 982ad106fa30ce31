"""SCRAM byte by byte: the RFC's vector, Kafka's forms of a message, and what is refused."""

import base64
import functools
import hashlib

import pytest
from kafka.net.sasl.scram import ScramClient as KafkaPythonClient

from oncelog.security.principal import Principal
from oncelog.security.sasl import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    IllegalSaslStateError,
    SaslAuthenticationError,
)
from oncelog.security.scram import (
    ScramClient,
    ScramServer,
    credential_of_salted_password,
    make_credential,
)
from oncelog.security.scram_salts import unknown_salt

MECHANISMS = [SCRAM_SHA_256, SCRAM_SHA_512]
KEY = b"a secret of this cluster"
# RFC 7677, section 3.
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def server(users=None, mechanism=SCRAM_SHA_256, **given):
    credentials = users or {"user": make_credential(mechanism, "pencil", salt=SALT)}
    salt = functools.partial(unknown_salt, KEY, mechanism, forms=())
    return ScramServer(mechanism, credentials.get, unknown_salt=salt, **given)


def exchange(client, server):
    """To the end, or to the error."""
    message = client.evaluate(b"")
    while not server.is_complete:
        message = client.evaluate(server.evaluate(message))
    assert client.is_complete
    return server.principal


def test_the_server_speaks_as_rfc_7677():
    one = server(nonce=SERVER_NONCE)
    assert one.evaluate(CLIENT_FIRST) == SERVER_FIRST
    assert one.evaluate(CLIENT_FINAL) == SERVER_FINAL
    assert one.principal == Principal("User", "user")
    assert one.session_expires_at_ms is None


def test_the_client_speaks_as_rfc_7677():
    one = ScramClient(SCRAM_SHA_256, "user", "pencil", nonce=CLIENT_NONCE)
    assert one.evaluate(b"") == CLIENT_FIRST
    assert one.evaluate(SERVER_FIRST) == CLIENT_FINAL
    assert one.evaluate(SERVER_FINAL) == b""
    assert one.is_complete


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_client_of_kafka_python_is_understood(mechanism):
    client = KafkaPythonClient("alice", "päss word", mechanism)
    one = server({"alice": make_credential(mechanism, "päss word", 8192)}, mechanism)
    client.process_server_first_message(one.evaluate(client.first_message()))
    client.process_server_final_message(one.evaluate(client.final_message()))
    assert one.principal == Principal("User", "alice")


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_salted_password_makes_the_same_credential(mechanism):
    name = mechanism.removeprefix("SCRAM-").replace("-", "").lower()
    salted = hashlib.pbkdf2_hmac(name, b"pencil", SALT, 4096)
    made = credential_of_salted_password(mechanism, salted, SALT, 4096)
    assert made == make_credential(mechanism, "pencil", salt=SALT)


@pytest.mark.parametrize("user", ["a", "=", ",", "=2C", "=3D", "a=b,c", "with space", "\n"])
def test_user_names_with_signs_of_the_syntax_work(user):
    users = {user: make_credential(SCRAM_SHA_256, "pencil")}
    client = ScramClient(SCRAM_SHA_256, user, "pencil")
    assert exchange(client, server(users)) == Principal("User", user)


@pytest.mark.parametrize("user", ["", "zoë", "a\0b"])
def test_a_user_name_that_kafka_refuses_is_named(user):
    with pytest.raises(ValueError, match="user name") as refused:
        ScramClient(SCRAM_SHA_256, user, "pencil")
    assert repr(user) in str(refused.value)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=abc",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=abc",
        b"n,,n=us=2cer,r=abc",
        b"n,,n=zo\xc3\xab,r=abc",
        b"n,,m=ext,n=user,r=abc",
        b"n,,n=user,r=ab c",
        b"n,,n=user,r=abc,tokenauth",
        b"n,,n=user,r=abc\n",
        b"y,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,user,n=user,r=abc",
        CLIENT_FINAL,
    ],
)
def test_a_malformed_first_message_ends_the_exchange(message):
    one = server()
    with pytest.raises(SaslAuthenticationError, match="due to invalid credentials") as refused:
        one.evaluate(message)
    assert refused.value.reason not in str(refused.value)
    with pytest.raises(IllegalSaslStateError):
        one.evaluate(CLIENT_FIRST)


def test_an_authorization_id_must_be_the_user():
    same = server(nonce=SERVER_NONCE)
    assert same.evaluate(b"n,a=user,n=user,r=" + CLIENT_NONCE.encode()) == SERVER_FIRST
    with pytest.raises(SaslAuthenticationError, match="different from username"):
        server().evaluate(b"n,a=admin,n=user,r=abc")


def test_a_kafka_client_may_bind_without_its_authorization_id():
    one = server(nonce=SERVER_NONCE)
    one.evaluate(b"n,a=user,n=user,r=" + CLIENT_NONCE.encode())
    assert one.evaluate(CLIENT_FINAL) == SERVER_FINAL


@pytest.mark.parametrize("value", [b"true", b"TRUE"])
def test_delegation_tokens_are_refused_in_clear_words(value):
    with pytest.raises(SaslAuthenticationError, match=r"delegation tokens .* not supported"):
        server().evaluate(b"n,,n=user,r=abc,tokenauth=" + value)


def test_an_unknown_extension_is_covered_by_the_proof():
    one = server(nonce=SERVER_NONCE)
    extended = CLIENT_FIRST + b",hello=world,tokenauth=false"
    assert one.evaluate(extended) == SERVER_FIRST
    with pytest.raises(SaslAuthenticationError):
        one.evaluate(CLIENT_FINAL)  # its proof is of a message without extensions


@pytest.mark.parametrize(
    "changed",
    [
        CLIENT_FINAL.replace(b"p=dHz", b"p=dHy"),
        CLIENT_FINAL.replace(
            b"VQ=", b"VR="
        ),  # the same bytes, if one ignores what base64 leaves over
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL.replace(b"k0,p", b"k1,p"),
        CLIENT_FINAL.replace(b"k0,p", b"k0,x=y,p"),
        CLIENT_FINAL[:-5] + b"=",
        CLIENT_FINAL.replace(b"p=", b"p=AAAA"),
        b"c=biws,r=" + CLIENT_NONCE.encode() + SERVER_NONCE.encode(),
        b"",
    ],
)
def test_a_changed_final_message_is_refused(changed):
    one = server(nonce=SERVER_NONCE)
    one.evaluate(CLIENT_FIRST)
    with pytest.raises(SaslAuthenticationError, match="due to invalid credentials"):
        one.evaluate(changed)
    assert not one.is_complete
    with pytest.raises(IllegalSaslStateError):
        one.evaluate(CLIENT_FINAL)
    with pytest.raises(IllegalSaslStateError):
        assert one.principal


def refusal(one, user, password="pencil"):
    client = ScramClient(SCRAM_SHA_256, user, password, nonce=CLIENT_NONCE)
    challenge = one.evaluate(client.evaluate(b""))
    with pytest.raises(SaslAuthenticationError) as refused:
        one.evaluate(client.evaluate(challenge))
    return challenge.partition(b",s=")[2], str(refused.value)


def test_an_unknown_user_looks_like_a_wrong_password():
    tools_salt = b"1ko0gj6ry4jkkmqfhxbxl3tuvb"  # of the form that kafka-configs chooses
    users = {"user": make_credential(SCRAM_SHA_256, "pencil", salt=tools_salt)}
    known, known_text = refusal(server(users), "user", "wrong")
    unknown, unknown_text = refusal(server(users), "mallory")
    assert unknown_text == known_text
    assert abs(len(known) - len(unknown)) <= 4  # 25 or 26 letters
    assert unknown.endswith(b",i=4096")
    assert base64.b64decode(unknown.removesuffix(b",i=4096")).isalnum()


def test_a_user_whom_oncelog_makes_looks_like_an_unknown_one():
    users = {"user": make_credential(SCRAM_SHA_256, "pencil")}
    for user in ("user", "mallory"):
        first, _ = refusal(server(users), user, "wrong")
        salt = base64.b64decode(first.removesuffix(b",i=4096"))
        assert salt.isalnum(), user
        assert 20 < len(salt) <= 26, user


def test_a_credential_with_too_few_iterations_is_no_credential():
    weak = make_credential(SCRAM_SHA_256, "pencil")
    weak = type(weak)(weak.salt, weak.stored_key, weak.server_key, 4095)
    assert refusal(server({"user": weak}), "user") == refusal(server({"x": weak}), "user")


@pytest.mark.parametrize("iterations", [0, 4095, 16385])
def test_iterations_out_of_bounds_are_named(iterations):
    with pytest.raises(ValueError, match=f"^{iterations} iterations: SCRAM takes 4096 to 16384"):
        make_credential(SCRAM_SHA_256, "pencil", iterations)


def test_an_error_about_a_password_does_not_show_it():
    with pytest.raises(ValueError, match="surrogate") as refused:
        make_credential(SCRAM_SHA_256, "secret\ud800")
    assert "secret" not in repr(refused.value)


@pytest.mark.parametrize(
    ("challenge", "said"),
    [
        (b"", "malformed"),
        (SERVER_FIRST.replace(b"r=rO", b"r=rX"), "does not extend"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not extend"),
        (SERVER_FIRST.replace(b"4096", b"4095"), "4095 iterations"),
        (SERVER_FIRST.replace(b"4096", b"999999999"), "999999999 iterations"),
        (b"m=x," + SERVER_FIRST, "malformed"),
    ],
)
def test_a_client_does_not_trust_a_bad_challenge(challenge, said):
    one = ScramClient(SCRAM_SHA_256, "user", "pencil", nonce=CLIENT_NONCE)
    one.evaluate(b"")
    with pytest.raises(SaslAuthenticationError, match=said):
        one.evaluate(challenge)
    with pytest.raises(IllegalSaslStateError):
        one.evaluate(SERVER_FIRST)


@pytest.mark.parametrize(
    ("final", "said"),
    [
        (SERVER_FINAL.replace(b"v=6", b"v=7"), "does not know the password"),
        (b"e=other-error", "it says other-error"),
        (b"ok", "malformed"),
    ],
)
def test_a_client_does_not_trust_a_server_without_proof(final, said):
    one = ScramClient(SCRAM_SHA_256, "user", "pencil", nonce=CLIENT_NONCE)
    one.evaluate(b"")
    one.evaluate(SERVER_FIRST)
    with pytest.raises(SaslAuthenticationError, match=said):
        one.evaluate(final)
    assert not one.is_complete
