"""Answers of a token provider that are none: each gets a sentence that names the place, and never the secret."""

import base64
import json
import socket
import threading
from contextlib import contextmanager

import pytest

from oncelog.client.access_token import expiry_of, fetch_token
from oncelog.client.core.login import ClientLogin
from oncelog.errors import OncelogError

SECRET = "hidden"


@contextmanager
def answering(content):
    """A server that says this to the first request; yields its address and what was asked of it."""
    calls = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            stream, _ = server.accept()
            with stream:
                calls.append(stream.recv(65_536))
                stream.sendall(content)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/token", calls
        thread.join(10)


def login_at(endpoint):
    return ClientLogin(
        "SASL_SSL",
        "OAUTHBEARER",
        token_endpoint=endpoint,
        client_id="etl",
        client_secret=SECRET,
    )


def http(status, body=b"", *headers):
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no http\r\n\r\n", "no token from"),
        (b"", "no token from"),
        (http("200 OK", b"no json"), "no token from"),
        (http("200 OK", b'["a list"]'), "has no access_token"),
        (http("200 OK", b'{"access_token": 7}'), "has no access_token"),
        (http("401 Unauthorized"), "answered 401 Unauthorized; are id, secret and scope right?"),
        (http("503 Busy"), "answered 503"),
    ],
)
def test_what_is_no_answer_is_said_with_its_place(content, said):
    with answering(content) as (endpoint, _), pytest.raises(OncelogError) as refused:
        fetch_token(login_at(endpoint))
    assert said in str(refused.value)
    assert endpoint in str(refused.value)
    assert SECRET not in str(refused.value)


def test_the_secret_does_not_follow_a_redirect():
    with answering(http("200 OK", b'{"access_token": "t"}')) as (elsewhere, calls):
        moved = http("302 Found", b"", f"Location: {elsewhere}")
        with answering(moved) as (endpoint, _), pytest.raises(OncelogError, match="answered 302"):
            fetch_token(login_at(endpoint))
        assert calls == []
        assert fetch_token(login_at(elsewhere)).text == "t"


def test_a_token_says_itself_when_it_ends():
    def token(claims):
        return f"h.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.s"

    assert expiry_of(token({"exp": 1_800_000_000})) == 1_800_000_000
    opaque = ("opaque", "a.b.c", "a.é.c", token(["exp"]), token({}), token({"exp": "soon"}))
    assert [expiry_of(one) for one in opaque] == [None] * len(opaque)
