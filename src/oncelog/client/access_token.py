"""The token that a client shows with OAUTHBEARER: from a file, or from a provider by client credentials (KIP-768).

Kafka's own retrievers are the model. The client reads a file anew for each login. It asks a provider by POST, with id
and secret in the Authorization header (RFC 6749, 4.4).
"""

import base64
import http.client
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

from oncelog.client.core.login import ClientLogin
from oncelog.errors import OncelogError

TIMEOUT_S: Final = 10.0
ANSWER_BYTES_MAX: Final = 1_048_576
UNKNOWN_LIFETIME_S: Final = 300.0
"""Seconds that a token counts as good if neither the token nor its provider says when it ends."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """An HTTP handler that follows no redirect: the request carries a secret, which must not go to another address."""

    def redirect_request(self, *_: object) -> None:
        return None


_opener: Final = urllib.request.build_opener(_NoRedirect)


class AccessToken(NamedTuple):
    text: str
    expires_at_s: float
    """The token's end in seconds since 1970; a guess if neither token nor provider says it."""


def fetch_token(login: ClientLogin) -> AccessToken:
    """Return the token for the login, from its file or its provider, after TIMEOUT_S at most.

    Raises OncelogError that names the file or address, and never the secret or the token.
    """
    if urlsplit(login.token_endpoint).scheme == "file":
        text, lifetime_s = _of_file(unquote(urlsplit(login.token_endpoint).path)), None
    else:
        text, lifetime_s = _of_provider(login)
    ends_at_s = expiry_of(text)
    if ends_at_s is None:
        ends_at_s = time.time() + (UNKNOWN_LIFETIME_S if lifetime_s is None else lifetime_s)
    return AccessToken(text, ends_at_s)


def expiry_of(token: str) -> float | None:
    """Return when a JSON Web Token ends (claim `exp`), in seconds since 1970; None if the text is no such token or has
    no `exp`.

    The signature is not checked here: the cluster checks the token.
    """
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, TypeError, KeyError):
        return None


def _of_file(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no token"
        raise OncelogError(f"cannot read the token in {path}: {why}") from error
    if len(text.split()) != 1:
        raise OncelogError(f"{path} holds no token; write one line with it")
    return text


def _of_provider(login: ClientLogin) -> tuple[str, float | None]:
    """Ask the provider for a token. Return it, and for how many seconds it is valid; None: the provider did not say."""
    place = login.token_endpoint
    who = f"{quote_plus(login.client_id)}:{quote_plus(login.client_secret)}"
    form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    request = urllib.request.Request(
        place,
        data=urlencode(form).encode(),
        headers={
            "Accept": "application/json",
            "Authorization": f"Basic {base64.b64encode(who.encode()).decode()}",
        },
    )
    try:
        with _opener.open(request, timeout=TIMEOUT_S) as answer:
            found: object = json.loads(answer.read(ANSWER_BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            raise OncelogError(
                f"the token provider {place} answered {error.code} {error.reason}; are id, secret and scope right?"
            ) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise OncelogError(f"no token from {place}: {reason}") from error
    fields = found if isinstance(found, dict) else {}
    token = fields.get("access_token")
    if not isinstance(token, str) or not token:
        raise OncelogError(f"the answer of {place} has no access_token")
    lifetime_s = fields.get("expires_in")
    return token, float(lifetime_s) if isinstance(lifetime_s, int | float) else None
