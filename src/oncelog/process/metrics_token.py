"""The bearer token that a scrape of `/metrics` must show, if a file with one is configured."""

import hmac
import logging
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError

log = logging.getLogger(__name__)

LETTERS_MIN: Final = 16
SCHEME: Final = "bearer"
_VARIABLE: Final = "ONCELOG_PROCESS_METRICS_TOKEN_FILE"


class MetricsToken:
    """The bearer token in a file. It is read for each scrape, so that a new token holds at once. If the file cannot be
    read any more, the last token holds."""

    def __init__(self, path: Path) -> None:
        """Read the token. Raises OncelogError that names the file, never its content."""
        self._path = path
        self._problem = ""
        try:
            self._token = self._read()
        except ValueError as error:
            raise OncelogError(str(error)) from None

    def admits(self, authorization: str) -> bool:
        """Return True if this `Authorization` header has the right token; an absent header is given as an empty
        text."""
        self._read_again()
        scheme, _, shown = authorization.strip().partition(" ")
        is_equal = hmac.compare_digest(shown.strip().encode("latin-1", "replace"), self._token)
        return is_equal and scheme.lower() == SCHEME

    def _read_again(self) -> None:
        problem = ""
        try:
            self._token = self._read()
        except ValueError as error:
            problem = str(error)
        if problem and problem != self._problem:  # Logged once, not for each scrape.
            log.warning("the token of /metrics stays as it was: %s", problem)
        self._problem = problem

    def _read(self) -> bytes:
        """Return the token in the file. Raises ValueError that names the file."""
        way_out = f"write one with: (umask 077; openssl rand -hex 32 > {self._path}) ({_VARIABLE})"
        try:
            token = self._path.read_bytes().strip()
        except OSError as error:
            raise ValueError(f"cannot read {self._path}: {error.strerror}; {way_out}") from None
        if len(token) < LETTERS_MIN or not token.isascii() or b" " in token:
            raise ValueError(
                f"{self._path} holds no token of at least {LETTERS_MIN} letters without a space; {way_out}"
            )
        return token
