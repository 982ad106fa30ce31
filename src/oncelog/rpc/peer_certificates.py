"""Checks the certificates of connected callers: a stream between processes ends when the certificate that opened it
does.

TLS checks a certificate when a connection begins, and a stream lasts for as long as its processes. So a server looks at
its callers once a second. It ends a stream whose certificate has expired, or is of a CA that is not trusted any more.
The caller opens another one with its present certificate, or is refused.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from oncelog.errors import OncelogError
from oncelog.rpc.sessions import PeerTls

if TYPE_CHECKING:
    from cryptography import x509

LOOK_EVERY_S: Final = 1.0
_PEM_KEY: Final = "x509_pem_cert"
_CHAIN_KEY: Final = "x509_pem_cert_chain"
_CHAIN_MAX: Final = 8


class PeerCertificate:
    """The certificate of one caller, and the certificates between it and the CA."""

    def __init__(self, chain: Sequence["x509.Certificate"]) -> None:
        self._chain = tuple(chain)

    def refusal(self, authorities: Sequence["x509.Certificate"], now_s: float) -> str:
        """Return why this certificate could open no connection now; empty: it could. `now_s`: Unix time in seconds."""
        expires = self._chain[0].not_valid_after_utc
        if _has_expired(self._chain[0], now_s):
            return f"the caller's certificate expired at {expires:%Y-%m-%d %H:%M:%S} UTC"
        if not self._is_issued_by(authorities, now_s):
            return "the caller's certificate is of a CA that is not trusted, or has expired"
        return ""

    def _is_issued_by(self, authorities: Sequence["x509.Certificate"], now_s: float) -> bool:
        """Return True if the certificate was issued by one of these CAs, directly or through its chain.

        A CA or certificate of the chain that has expired does not count.
        """
        authorities = [one for one in authorities if not _has_expired(one, now_s)]
        between = [one for one in self._chain[1:] if not _has_expired(one, now_s)]
        current = self._chain[0]
        for _ in range(_CHAIN_MAX):
            if any(current == one or _has_issued(one, current) for one in authorities):
                return True
            issuer = next((one for one in between if _has_issued(one, current)), None)
            if issuer is None or issuer == current:
                return False
            current = issuer
        return False


class PeerCertificates:
    """The certificates of all callers that are connected to one server. The server runs `run` in a task."""

    def __init__(self, tls: PeerTls) -> None:
        self._tls = tls
        self._ca = b""
        self._authorities: list[x509.Certificate] = []
        self._held: dict[object, tuple[PeerCertificate, Callable[[str], None]]] = {}

    def hold(
        self, auth_context: Mapping[str, Sequence[bytes]], end: Callable[[str], None]
    ) -> Callable[[], None]:
        """Check the certificate of a stream from now on. Return the function to call when the stream is over.

        `end` is called once with a reason, when the certificate could open no connection any more.
        """
        key = object()
        self._held[key] = (_certificate_of(auth_context), end)

        def forget() -> None:
            self._held.pop(key, None)

        return forget

    def refusal(self, auth_context: Mapping[str, Sequence[bytes]], now_s: float) -> str:
        """Return why a single call on an open connection is refused; empty: its certificate is good."""
        self._read_authorities()
        return _certificate_of(auth_context).refusal(self._authorities, now_s)

    async def run(self) -> None:
        """Check the certificates of all streams once a second, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.look(time.time())

    def look(self, now_s: float) -> None:
        self._read_authorities()
        for key, (certificate, end) in list(self._held.items()):
            reason = certificate.refusal(self._authorities, now_s)
            if reason:
                del self._held[key]
                end(reason)

    def _read_authorities(self) -> None:
        """Read the CA file again. If it is just being written, the CAs known so far stay."""
        from cryptography import x509

        with contextlib.suppress(OncelogError, ValueError):
            ca = self._tls.read_ca()
            if ca != self._ca:
                self._authorities = x509.load_pem_x509_certificates(ca)
                self._ca = ca


def _certificate_of(auth_context: Mapping[str, Sequence[bytes]]) -> PeerCertificate:
    from cryptography import x509

    pem = b"\n".join((*auth_context.get(_PEM_KEY, ()), *auth_context.get(_CHAIN_KEY, ())))
    return PeerCertificate(x509.load_pem_x509_certificates(pem))


def _has_issued(issuer: "x509.Certificate", certificate: "x509.Certificate") -> bool:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _has_expired(certificate: "x509.Certificate", now_s: float) -> bool:
    return now_s >= certificate.not_valid_after_utc.timestamp()
