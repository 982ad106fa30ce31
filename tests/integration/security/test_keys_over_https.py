"""Keys of a provider over real https: what is fetched, from whom, how much and how long."""

import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.certificates import Authority

from oncelog.security.jwks import BYTES_MAX, FETCH_TIMEOUT_S, keys_of
from oncelog.security.jwt_tokens import JwtValidator, TokenRules
from oncelog.security.oauth_bearer import OAuthBearerClient, OAuthBearerServer
from oncelog.security.principal import Principal
from oncelog.security.sasl import TokenRefusedError
from oncelog.security.tls import server_context

KEY = ec.generate_private_key(ec.SECP256R1())
PUBLIC = jwt.get_algorithm_by_name("ES256").to_jwk(KEY.public_key(), as_dict=True)


class Answer(BaseHTTPRequestHandler):
    """One path for each way a provider answers."""

    def do_GET(self):
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
        elif self.path == "/missing":
            self.send_error(404)
        else:
            self.send_response(200)
            self.end_headers()
            self._send_body()

    def _send_body(self):
        if self.path == "/large":
            self.wfile.write(b" " * (2 * BYTES_MAX))
        elif self.path == "/slow":
            self._drip()
        else:
            self.wfile.write(json.dumps({"keys": [{**PUBLIC, "kid": "one"}]}).encode())

    def _drip(self):
        """A byte now and then, so that no single read times out."""
        for _ in range(100):
            self.wfile.write(b" ")
            if self.server.is_closing.wait(0.2):
                return

    def log_message(self, *_):
        """Nothing on the terminal of the tests."""


class Provider(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Answer)
        self.is_closing = threading.Event()
        self.socket = server_context(files).wrap_socket(self.socket, server_side=True)
        self.address = f"https://localhost:{self.server_port}"

    def handle_error(self, *_):
        """A client that does not trust it, or has read enough, hangs up."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@contextmanager
def providing(files):
    server = Provider(files)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.is_closing.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def provider(authority):
    with providing(authority.issue("provider")) as server:
        yield server


def refused(url, authorities):
    with pytest.raises(TokenRefusedError) as found:
        keys_of(url, [].append, authorities=authorities).keys()
    return str(found.value)


def test_a_token_is_checked_by_fetched_keys(provider, authority):
    now = time.time()
    claims = {"iss": provider.address, "aud": "oncelog", "sub": "alice", "iat": now, "exp": now + 9}
    token = jwt.encode(claims, KEY, "ES256", {"kid": "one"})
    source = keys_of(f"{provider.address}/keys", [].append, authorities=authority.pem)
    rules = TokenRules(provider.address, frozenset({"oncelog"}))
    server = OAuthBearerServer(JwtValidator(rules, source, time.time))
    assert server.evaluate(OAuthBearerClient(token).evaluate(b"")) == b""
    assert server.principal == Principal("User", "alice")


def test_a_provider_of_a_foreign_authority_is_not_believed(provider, tmp_path):
    said = refused(f"{provider.address}/keys", Authority(tmp_path).pem)
    assert "certificate verify failed" in said


def test_a_provider_under_another_name_is_not_believed(provider, authority):
    said = refused(f"https://127.0.0.2:{provider.server_port}/keys", authority.pem)
    assert "127.0.0.2" in said


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/missing", "Not Found"),
        ("/moved", "it redirects to"),
        ("/large", f"more than {BYTES_MAX} bytes"),
    ],
)
def test_an_answer_without_keys_is_named(provider, authority, path, said):
    text = refused(provider.address + path, authority.pem)
    assert said in text
    assert provider.address + path in text


def test_a_slow_provider_holds_a_login_for_seconds(provider, authority):
    begun = time.monotonic()
    said = refused(f"{provider.address}/slow", authority.pem)
    assert f"{FETCH_TIMEOUT_S:.0f} s" in said
    assert time.monotonic() - begun < 3 * FETCH_TIMEOUT_S


def test_a_provider_that_is_away_is_named(authority):
    assert "refused" in refused("https://127.0.0.1:1/keys", authority.pem)
