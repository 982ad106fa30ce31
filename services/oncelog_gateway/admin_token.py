"""The token of the role admin that is read from a file. It lets the operator in before any API token exists
(ADR 0030).
"""

import hmac
import logging
import time
from hashlib import sha256
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog.security.api_tokens import digest_of

log = logging.getLogger("oncelog.gateway")

CHECK_INTERVAL_S: Final = 1.0
LETTERS_MIN: Final = 32
_WAY_OUT: Final = (
    "write one with: (umask 077; openssl rand -hex 32 > FILE) (ONCELOG_GATEWAY_ADMIN_TOKEN_FILE)"
)


class AdminTokenFile:
    """The token in a file, which is read again when the file changes. If the file can no longer be read, the last token
    stays valid.
    """

    def __init__(self, path: Path) -> None:
        """Read the file. Raises OncelogError that names the file, never what is in it."""
        self._path = path
        self._checked_at = time.monotonic()
        try:
            self._token = _read(path)
        except ValueError as error:
            raise OncelogError(str(error)) from None

    @property
    def digest(self) -> str:
        return digest_of(self._current())

    def matches(self, digest: str) -> bool:
        return hmac.compare_digest(self.digest, digest)

    def session_key(self) -> bytes:
        """Return the key that signs session cookies, derived from the token. All gateways that have the file have the
        same key.
        """
        return hmac.digest(self._current().encode(), b"oncelog console sessions", sha256)

    def _current(self) -> str:
        now = time.monotonic()
        if now - self._checked_at >= CHECK_INTERVAL_S:
            self._checked_at = now
            try:
                self._token = _read(self._path)
            except ValueError as error:
                log.warning("the admin token stays as it was: %s", error)
        return self._token


def _read(path: Path) -> str:
    """Read the file's one token. Raises ValueError that says what is wrong with the file."""
    try:
        token = path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise ValueError(
            f"the admin token file {path} cannot be read ({error.strerror}); {_WAY_OUT}"
        ) from None
    except UnicodeDecodeError:
        raise ValueError(f"the admin token file {path} holds other signs than ASCII") from None
    if len(token) < LETTERS_MIN or len(token.split()) != 1:
        raise ValueError(
            f"the admin token file {path} must hold one token of at least {LETTERS_MIN} letters; {_WAY_OUT}"
        )
    return token
