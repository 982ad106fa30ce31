"""The login of a blocking connection: the TLS handshake, and SASL in Kafka's own requests.

```
 SaslHandshake(mechanism) ─▶ SaslAuthenticate … ─▶ the user's, until the session ends ─▶ the same again
```

A refused login is an OncelogError, and no repetition changes it. A broken connection is an OSError or a KafkaError, and
worth another try.
"""

import socket
import ssl
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from typing import Final

from oncelog.client.access_token import fetch_token
from oncelog.client.core.login import ClientLogin
from oncelog.errors import ErrorCode, OncelogError, error_code_of
from oncelog.protocol import versions
from oncelog.protocol.any_version import AnyMessage
from oncelog.protocol.messages import Schema, schema_of
from oncelog.security.oauth_bearer import OAuthBearerClient
from oncelog.security.plain import PlainClient
from oncelog.security.sasl import OAUTHBEARER, PLAIN, SaslAuthenticationError, SaslClient
from oncelog.security.scram import ScramClient
from oncelog.security.tls import TlsFileError, TlsFiles, client_context

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 1
"""SaslAuthenticate's first version that tells how long the session lasts (KIP-368)."""

Exchange = Generator[tuple[Schema, object], AnyMessage, timedelta | None]


def tls_context(login: ClientLogin) -> ssl.SSLContext:
    """Return the TLS context of this login. Raises OncelogError for files that cannot be used."""
    files = TlsFiles(
        certificate_chain=_path(login.certificate),
        key=_path(login.key),
        authorities=_path(login.ca),
    )
    try:
        return client_context(
            files, checks_host_name=login.checks_host_name, key_password=login.key_password
        )
    except TlsFileError as error:
        raise OncelogError(str(error)) from error


def with_tls(stream: socket.socket, host: str, login: ClientLogin) -> socket.socket:
    """Wrap the socket in TLS, within the timeout of the socket.
    Raises OSError, or OncelogError for files and certificates."""
    context = tls_context(login)
    try:
        return context.wrap_socket(stream, server_hostname=host)
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError):
        raise  # The broker went away in the middle, as when it stops.
    except ssl.SSLCertVerificationError as error:
        raise OncelogError(
            f"{host} shows a certificate that is not trusted: {error.verify_message}; its CA belongs into the file of "
            "ssl.ca.location"
        ) from error
    except ssl.SSLError as error:
        said = str(error.reason or error).replace("_", " ").lower()
        raise OncelogError(f"{host} and this client find no common TLS: {said}") from error


def login_exchange(where: str, login: ClientLogin) -> Exchange:
    """Run a login as a generator: it yields each request with its schema, and gets the answer by `send`.

    It returns how long the session lasts; None: it does not end. Raises OncelogError for a login that is refused;
    `where` is the broker in its text.
    """
    handshake = schema_of(versions.SASL_HANDSHAKE, _HANDSHAKE_VERSION)
    answer = yield (
        handshake,
        handshake.request_types.SaslHandshakeRequest(mechanism=login.mechanism),
    )
    if error_code_of(answer.error_code.value) is not ErrorCode.NONE:
        enabled = ", ".join(answer.mechanisms)
        raise OncelogError(
            f"{where} does not take SASL mechanism {login.mechanism}; it takes {enabled or 'none'}"
        )
    authenticate = schema_of(versions.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION)
    client = _client(login)
    challenge, lifetime = b"", timedelta(0)
    try:
        while not client.is_complete:
            message = client.evaluate(challenge)
            if client.is_complete:
                break
            answer = yield (
                authenticate,
                authenticate.request_types.SaslAuthenticateRequest(auth_bytes=message),
            )
            if error_code_of(answer.error_code.value) is not ErrorCode.NONE:
                raise SaslAuthenticationError(answer.error_message or "no reason was given")
            challenge, lifetime = answer.auth_bytes, answer.session_lifetime
    except SaslAuthenticationError as error:
        who = f"user {login.user!r}" if login.user else "this token"
        raise OncelogError(f"{where} refused the login of {who}: {error}") from error
    return lifetime or None


def _client(login: ClientLogin) -> SaslClient:
    try:
        if login.mechanism == PLAIN:
            return PlainClient(login.user, login.password)
        if login.mechanism == OAUTHBEARER:
            return OAuthBearerClient(fetch_token(login).text)
        return ScramClient(login.mechanism, login.user, login.password)
    except ValueError as error:
        raise OncelogError(f"this login cannot be: {error}") from error


def _path(text: str) -> Path | None:
    return Path(text) if text else None
