"""The public keys of a token provider (JWKS), read from a file or from an https address.

A lookup may read a disk or wait for a network, so tokens are validated in threads. One thread fetches at a time. A
token with an unknown key id makes a fetch too, as providers change their keys, but at most one every few seconds:
tokens are cheap to invent. While the provider is away its last keys stay in use.
"""

import http.client
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from oncelog.security.jwt_tokens import VerificationKey, parse_key_set
from oncelog.security.sasl import TokenRefusedError
from oncelog.security.tls import TlsFileError, TlsFiles, client_context

BYTES_MAX = 1 << 20
FETCH_TIMEOUT_S = 3.0
REFRESH_S = 3600.0
"""Seconds after which keys are read again: Kafka's `sasl.oauthbearer.jwks.endpoint.refresh.ms`."""
FILE_CHECK_S = 1.0
UNKNOWN_KEY_INTERVAL_S = 5.0


class KeysUnavailableError(Exception):
    """The token provider's keys cannot be read. The text names the file or the address, and the cause."""


class CachedKeys:
    """A `KeySource` that keeps the provider's keys, and reads them again when they are old or when one is missing.
    `report` gets a line for the log when the keys change, or cannot be read."""

    def __init__(
        self,
        read: Callable[[], bytes],
        source: str,
        report: Callable[[str], None],
        *,
        age_max_s: float,
        retry_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._source, self._report, self._clock = read, source, report, clock
        self._age_max_s, self._retry_s = age_max_s, retry_s
        self._lock = threading.Lock()
        self._keys: tuple[VerificationKey, ...] = ()
        self._read_at = self._tried_at = float("-inf")
        self._reads = 0
        self._error = ""

    def keys(self) -> tuple[VerificationKey, ...]:
        is_old = self._clock() - self._read_at >= self._age_max_s
        # With keys in hand nobody waits for another thread's fetch.
        if is_old and self._lock.acquire(blocking=not self._keys):
            try:
                if self._clock() - self._read_at >= self._age_max_s:
                    self._try()
            finally:
                self._lock.release()
        if not self._keys:
            raise TokenRefusedError(f"no keys to verify it with: {self._error}")
        return self._keys

    def refresh(self) -> bool:
        seen = self._reads
        with self._lock:
            if self._reads == seen:
                self._try()
            return self._reads != seen

    def _try(self) -> None:
        """Read the provider's keys again, unless the last try was a moment ago. If that fails, the former keys stay in
        use.
        """
        if self._clock() - self._tried_at < self._retry_s:
            return
        self._tried_at = self._clock()
        try:
            keys = parse_key_set(self._read())
        except (KeysUnavailableError, ValueError) as error:
            said = (
                str(error)
                if isinstance(error, KeysUnavailableError)
                else f"{self._source}: {error}"
            )
            if said != self._error:
                self._report(f"token keys not read, the former ones stay in use: {said}")
            self._error = said
            return
        if keys != self._keys:
            kids = ", ".join(str(key.kid) for key in keys)
            self._report(f"token keys read from {self._source}: {kids}")
        self._keys, self._error = keys, ""
        self._read_at = self._tried_at
        self._reads += 1


def keys_of(
    source: str, report: Callable[[str], None], *, authorities: Path | None = None
) -> CachedKeys:
    """Return the key source for a provider's keys at an https address or in a file. `report` gets a line for the log
    when the keys change, or cannot be read. Raises ValueError."""
    if "://" in source:
        return keys_of_url(source, report, authorities=authorities)
    if authorities is not None:
        raise ValueError(
            f"the CAs of {authorities} check the https address of keys, and {source!r} is a file; leave them out"
        )
    return keys_of_file(Path(source), report)


def keys_of_file(
    path: Path, report: Callable[[str], None], clock: Callable[[], float] = time.monotonic
) -> CachedKeys:
    """Return the key source for a file of keys, which is looked at once a second."""

    def read() -> bytes:
        try:
            return path.read_bytes()
        except OSError as error:
            raise KeysUnavailableError(f"{path}: {error.strerror}; check the path") from None

    return CachedKeys(
        read, str(path), report, age_max_s=FILE_CHECK_S, retry_s=FILE_CHECK_S, clock=clock
    )


def keys_of_url(
    url: str,
    report: Callable[[str], None],
    *,
    authorities: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> CachedKeys:
    """Return the key source for an https address. Raises ValueError for another address, or if the file of authorities
    (CA certificates for TLS) cannot be read.

    That file is read again at each fetch of the keys, so a renewed one counts. While it cannot be read the known keys
    stay.
    """
    if not url.startswith("https://"):
        raise ValueError(f"{url}: keys come over https, or an attacker on the network makes tokens")

    def opener() -> urllib.request.OpenerDirector:
        try:
            context = client_context(TlsFiles(authorities=authorities))
        except TlsFileError as error:
            raise ValueError(str(error)) from None
        return urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), _NoRedirects()
        )

    opener()

    def read() -> bytes:
        ends_at = time.monotonic() + FETCH_TIMEOUT_S
        content = b""
        try:
            with opener().open(url, timeout=FETCH_TIMEOUT_S) as response:
                while part := response.read1(65_536):
                    content += part
                    if len(content) > BYTES_MAX or time.monotonic() > ends_at:
                        raise KeysUnavailableError(
                            f"{url}: more than {BYTES_MAX} bytes, or {FETCH_TIMEOUT_S:.0f} s"
                        )
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise KeysUnavailableError(f"{url}: {reason}") from None
        return content

    return CachedKeys(
        read, url, report, age_max_s=REFRESH_S, retry_s=UNKNOWN_KEY_INTERVAL_S, clock=clock
    )


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """An HTTP handler that follows no redirect, which could lead away from https, or to an address within our
    network."""

    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        raise urllib.error.URLError(f"it redirects to {newurl}; name that address instead")
