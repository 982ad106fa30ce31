r"""OAUTHBEARER (RFC 7628, KIP-255), both sides: the client shows an access token.

```
client                                                server
n,,\x01auth=Bearer <token>\x01\x01        ──────────▶  is the token valid?
                                          ◀──────────  nothing: the exchange is complete
                                          ◀──────────  or {"status":"invalid_token"}
\x01                                      ──────────▶  the exchange fails
```

The session ends with the token (KIP-368). A client may send extensions as further `key=value` (KIP-342). They are
checked for their form and not used, as by Kafka's own validator.
"""

import json
import re
from collections.abc import Mapping

from oncelog.security.principal import Principal
from oncelog.security.sasl import (
    OAUTHBEARER,
    IllegalSaslStateError,
    SaslAuthenticationError,
    SaslServer,
    TokenRefusedError,
    TokenValidator,
)

_SEPARATOR = "\x01"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PAIR = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]+)")
_INITIAL = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01"
)
_BEARER = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)
_REASON_LETTERS_MAX = 500
"""The most letters of a refusal's reason: a token may be long, and parts of it go to the log."""


class OAuthBearerServer(SaslServer):
    may_block = True

    def __init__(self, tokens: TokenValidator, *, is_reauthentication: bool = False) -> None:
        super().__init__(OAUTHBEARER, is_reauthentication=is_reauthentication)
        self._tokens = tokens
        self._error: str | None = None
        """The error that the client was sent. The client confirms it before the exchange ends."""
        self._reason = ""
        self._has_ended = False

    def evaluate(self, message: bytes) -> bytes:
        if self._has_ended:
            raise IllegalSaslStateError("the OAUTHBEARER exchange has ended")
        self._has_ended = True
        if self._error is not None:
            raise SaslAuthenticationError(self._error, self._reason)
        token, authorization_id = self._parse(message)
        try:
            accepted = self._tokens.validate(token)
        except TokenRefusedError as refused:
            self._has_ended = False
            self._error = json.dumps({"status": "invalid_token"}, separators=(",", ":"))
            self._reason = f"the access token is refused: {refused}"[:_REASON_LETTERS_MAX]
            return self._error.encode()
        if authorization_id not in ("", accepted.name):
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({authorization_id}) "
                f"that is different from the token's principal name ({accepted.name})"
            )
        self._principal = Principal.user(accepted.name)
        self.session_expires_at_ms = accepted.expires_at_ms
        return b""

    def _parse(self, message: bytes) -> tuple[str, str]:
        """Return the access token and the authorization id in the client's message."""
        initial = _INITIAL.fullmatch(message.decode("utf-8", "replace"))
        if initial is None:
            raise self._malformed("it has not the form of RFC 7628")
        pairs = [
            (pair["key"], pair["value"])
            for text in initial["pairs"].split(_SEPARATOR)[:-1]
            if (pair := _PAIR.fullmatch(text))
        ]
        if len(dict(pairs)) != len(pairs):
            raise self._malformed("a key is there twice")
        bearer = _BEARER.fullmatch(dict(pairs).get("auth", ""))
        if bearer is None:
            raise self._malformed("auth holds no bearer token")
        authorization_id = (initial["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
        return bearer["token"], authorization_id

    def _malformed(self, reason: str) -> SaslAuthenticationError:
        return self._refused(f"the client's first message is malformed: {reason}")


class OAuthBearerClient:
    """The client's side of one login by OAUTHBEARER."""

    def __init__(self, token: str, extensions: Mapping[str, str] | None = None) -> None:
        if not _BEARER.fullmatch(f"bearer {token}"):
            raise ValueError("the access token has signs that no bearer token has, or is empty")
        pairs = [f"auth=Bearer {token}"]
        for key, value in (extensions or {}).items():
            if key == "auth" or not _PAIR.fullmatch(f"{key}={value}"):
                raise ValueError(f"the OAUTHBEARER extension {key!r} has a malformed name or value")
            pairs.append(f"{key}={value}")
        self._message = f"n,,{_SEPARATOR}{_SEPARATOR.join([*pairs, '', ''])}"
        self._is_sent = False
        self.is_complete = False

    def evaluate(self, challenge: bytes) -> bytes:
        if self.is_complete:
            raise IllegalSaslStateError("the OAUTHBEARER exchange has ended")
        if not self._is_sent:
            self._is_sent = True
            return self._message.encode()
        if challenge:  # the server's error; it ends the exchange once it is confirmed
            return _SEPARATOR.encode()
        self.is_complete = True
        return b""
