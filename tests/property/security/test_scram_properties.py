"""SCRAM for any user and password: who knows it gets in; a changed byte, a replay or another password does not."""

import functools

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oncelog.security.sasl import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    IllegalSaslStateError,
    SaslAuthenticationError,
)
from oncelog.security.scram import ScramClient, ScramServer, make_credential
from oncelog.security.scram_salts import unknown_salt

mechanisms = st.sampled_from([SCRAM_SHA_256, SCRAM_SHA_512])
users = st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1, max_size=30)
passwords = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
salts = st.binary(max_size=40)
KEY = b"a secret of this cluster"


def server_of(mechanism, user, password, salt=b"some salt"):
    credential = make_credential(mechanism, password, salt=salt)
    salt = functools.partial(unknown_salt, KEY, mechanism, forms=())
    return ScramServer(mechanism, {user: credential}.get, unknown_salt=salt)


@given(mechanisms, users, passwords, salts)
@settings(max_examples=60)
def test_any_user_with_any_password_gets_in(mechanism, user, password, salt):
    server = server_of(mechanism, user, password, salt)
    client = ScramClient(mechanism, user, password)
    proof = client.evaluate(server.evaluate(client.evaluate(b"")))
    assert client.evaluate(server.evaluate(proof)) == b""
    assert server.is_complete
    assert client.is_complete
    assert server.principal.name == user


@given(mechanisms, users, passwords, passwords)
@settings(max_examples=40)
def test_another_password_does_not_get_in(mechanism, user, password, other):
    assume(password != other)
    server = server_of(mechanism, user, password)
    client = ScramClient(mechanism, user, other)
    proof = client.evaluate(server.evaluate(client.evaluate(b"")))
    with pytest.raises(SaslAuthenticationError):
        server.evaluate(proof)
    assert not server.is_complete


@given(mechanisms, st.integers(0, 3), st.data())
@settings(max_examples=200)
def test_a_changed_byte_is_refused_by_one_side(mechanism, which, data):
    """`which` message of the four gets another byte. Nobody may then believe that the exchange is complete."""
    server, client = (
        server_of(mechanism, "user", "pencil"),
        ScramClient(mechanism, "user", "pencil"),
    )

    def changed(message):
        at = data.draw(st.integers(0, len(message) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != message[at]))
        return message[:at] + bytes([byte]) + message[at + 1 :]

    def exchange():
        message = b""
        for index in range(5):
            message = (server if index % 2 else client).evaluate(message)
            message = changed(message) if index == which else message

    with pytest.raises(SaslAuthenticationError):
        exchange()
    assert not client.is_complete
    assert server.is_complete == (which == 3)


@given(mechanisms, st.integers(1, 2))
@settings(max_examples=20)
def test_a_replayed_exchange_is_refused(mechanism, replayed_count):
    server, client = (
        server_of(mechanism, "user", "pencil"),
        ScramClient(mechanism, "user", "pencil"),
    )
    first = client.evaluate(b"")
    final = client.evaluate(server.evaluate(first))
    server.evaluate(final)
    for _ in range(replayed_count):
        again = server_of(mechanism, "user", "pencil")
        again.evaluate(first)
        with pytest.raises(SaslAuthenticationError):
            again.evaluate(final)
        assert not again.is_complete
    with pytest.raises(IllegalSaslStateError):
        server.evaluate(final)


@given(mechanisms, st.lists(st.binary(max_size=80), min_size=1, max_size=4))
@settings(max_examples=200)
def test_garbage_never_gets_in_and_never_breaks_a_server(mechanism, messages):
    server = server_of(mechanism, "user", "pencil")
    for message in messages:
        with pytest.raises((SaslAuthenticationError, IllegalSaslStateError)):
            server.evaluate(message)
    assert not server.is_complete
