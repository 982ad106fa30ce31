"""TLS contexts made from PEM files (KIP-651), and contexts that follow changes of their files.

TLS 1.2 and 1.3 with forward secrecy and authenticated encryption only (Mozilla's "intermediate" list without DHE).

A changed file makes a new context for new connections; older connections keep theirs. No session is resumed across
that change, because a resumed session skips the check of the client's certificate:

- TLS 1.3 resumes by tickets. A server here sends none.
- TLS 1.2 also resumes from a cache in the server's context. So the context itself must be replaced: give
  `ReloadingContext.current()` to each accepted connection. A new context every few minutes bounds how long a client
  whose certificate has expired may resume.

Where a server takes one context for good, `ReloadingContext.fronting()` swaps it within each handshake. OpenSSL keeps
the cache of the first context then, so that way is open only where no client certificate is asked for.
"""

import contextlib
import hashlib
import re
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Literal

CIPHERS_OF_TLS_1_2 = ":".join(
    f"ECDHE-{key}-{cipher}"
    for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
    for key in ("ECDSA", "RSA")
)
Protocols = Literal["TLSv1.2,TLSv1.3", "TLSv1.3"]
"""The values of Kafka's `ssl.enabled.protocols` that are safe."""
CHECK_INTERVAL_S = 1.0
CONTEXT_AGE_MAX_S = 300.0


class ClientCertificates(Enum):
    """Whether clients must, may or need not show a certificate: the values of Kafka's `ssl.client.auth`."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """The paths of the PEM files of one TLS endpoint. Without a key file the key stands in the certificate's file."""

    certificate_chain: Path | None = None
    key: Path | None = None
    key_password: Path | None = None
    """The file whose first line is the password of an encrypted key."""
    authorities: Path | None = None
    """The file with the CA certificates that the other side's certificate must lead to."""

    def paths(self) -> list[Path]:
        paths = (self.certificate_chain, self.key, self.key_password, self.authorities)
        return [path for path in paths if path is not None]


class TlsFileError(Exception):
    """A TLS file is missing or holds something else. The text names the file and the way out."""


def server_context(
    files: TlsFiles,
    client_certificates: ClientCertificates = ClientCertificates.NONE,
    *,
    protocols: Protocols = "TLSv1.2,TLSv1.3",
) -> ssl.SSLContext:
    """Return a server's TLS context. Raises `TlsFileError`."""
    if files.certificate_chain is None:
        raise TlsFileError("a TLS listener needs a certificate: name the PEM file of its chain")
    context = _context(ssl.PROTOCOL_TLS_SERVER)
    if protocols == "TLSv1.3":
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 0
    # OpenSSL's own list has X448 and P-521 too, which are outside Mozilla's profiles. Every client has P-256.
    context.set_ecdh_curve("prime256v1")
    _load_certificate(context, files)
    if client_certificates is not ClientCertificates.NONE:
        if files.authorities is None:
            raise TlsFileError(
                f"client certificates are {client_certificates.value}, but no file of authorities says whose are valid"
            )
        _load_authorities(context, files.authorities)
        is_required = client_certificates is ClientCertificates.REQUIRED
        context.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return context


def client_context(
    files: TlsFiles, *, checks_host_name: bool = True, key_password: str = ""
) -> ssl.SSLContext:
    """Return a client's TLS context; without authorities it trusts those of the machine. Raises `TlsFileError`.

    `key_password` is for a key without a file of its password.
    """
    context = _context(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_host_name
    if files.authorities is None:
        context.load_default_certs()
    else:
        _load_authorities(context, files.authorities)
    if files.certificate_chain is not None:
        _load_certificate(context, files, key_password)
    return context


class ReloadingContext:
    """A TLS context made from files that may change. It looks at them when it is asked, at most once a second.

    While new files cannot be used, as between the writes of a certificate and of its key, the last good context stays.
    `report` gets the error once, and gets one line for each reload.
    """

    def __init__(
        self,
        files: TlsFiles,
        build: Callable[[TlsFiles], ssl.SSLContext],
        report: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Build the first TLS context from the files at once. Raises `TlsFileError`."""
        self._files, self._build, self._report, self._clock = files, build, report, clock
        self._digest = self._read_digest()
        self._context = build(files)
        self._built_at = self._checked_at = clock()
        self._reported = ""

    def current(self) -> ssl.SSLContext:
        """Return the context for the next handshake."""
        now = self._clock()
        if now - self._checked_at >= CHECK_INTERVAL_S:
            self._checked_at = now
            self._check(now)
        return self._context

    def fronting(self) -> ssl.SSLContext:
        """Return one TLS context that never changes, for servers that take only one. It switches to the newest context
        in each handshake."""
        front = self._build(self._files)
        assert front.verify_mode is ssl.CERT_NONE, "a resumed session skips a changed authority"

        def use_current(tls: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
            tls.context = self.current()

        front.sni_callback = use_current
        return front

    def _check(self, now: float) -> None:
        try:
            digest = self._read_digest()
            is_changed = digest != self._digest
            if not is_changed and now - self._built_at < CONTEXT_AGE_MAX_S:
                self._reported = ""
                return
            self._context = self._build(self._files)
        except TlsFileError as error:
            if str(error) != self._reported:
                self._reported = str(error)
                self._report(f"TLS files not reloaded, the former ones stay in use: {error}")
            return
        self._digest, self._built_at, self._reported = digest, now, ""
        if is_changed:
            self._report(f"TLS files reloaded: {', '.join(map(str, self._files.paths()))}")

    def _read_digest(self) -> bytes:
        """Return a hash of the files' contents, which shows any change: also a rename, a changed link, and a write
        within one clock tick."""
        digest = hashlib.sha256()
        for path in self._files.paths():
            digest.update(hashlib.sha256(_read(path)).digest())
        return digest.digest()


def _context(protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers(CIPHERS_OF_TLS_1_2)
    context.options |= ssl.OP_NO_COMPRESSION
    return context


def _load_authorities(context: ssl.SSLContext, path: Path) -> None:
    text = _pem(path, "CERTIFICATE", "a CA certificate")
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise TlsFileError(f"{path}: a CA certificate in it is damaged ({_words(error)})") from None


def _load_certificate(context: ssl.SSLContext, files: TlsFiles, key_password: str = "") -> None:
    chain = files.certificate_chain
    assert chain is not None
    key = files.key or chain
    _pem(chain, "CERTIFICATE", "a certificate")
    _pem(key, "PRIVATE KEY", "a private key")

    def password() -> str:
        if key_password:
            return key_password
        if files.key_password is None:
            raise TlsFileError(
                f"{key}: the key is encrypted; name the file that holds its password, or give ssl.key.password"
            )
        return _read(files.key_password).decode("utf-8", "replace").split("\n")[0].rstrip("\r")

    try:
        context.load_cert_chain(chain, key, password)
    except ssl.SSLError as error:
        said = _words(error)
        if "mismatch" in said:
            way_out = f"the key is not the one of the certificate {chain}; write both files anew"
        elif key_password:
            way_out = f"it cannot be read ({said}); is its password right?"
        elif files.key_password is not None:
            way_out = f"it cannot be read ({said}); is the password in {files.key_password} right?"
        else:
            way_out = f"the certificate {chain} or this key is damaged ({said})"
        raise TlsFileError(f"{key}: {way_out}") from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsFileError(
            f"{path}: {error.strerror}; check the path and its permissions"
        ) from None


def _pem(path: Path, label: str, wanted: str) -> str:
    """Return the file's text, if it has a PEM block with that label. Raises `TlsFileError` if not; it says that
    `wanted`, such as a certificate, is needed."""
    content = _read(path)
    text = content.decode("ascii", "ignore")  # bundles of authorities have names in their comments
    if re.search(rf"-----BEGIN (?:[A-Z0-9]+ )*{label}-----", text):
        return text
    raise TlsFileError(f"{path}: {_what_it_is(content, path)}; {wanted} in PEM is needed")


def _what_it_is(content: bytes, path: Path) -> str:
    if content.startswith((b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")):
        return (
            f"it is a Java keystore (JKS); convert it: keytool -importkeystore -srckeystore {path} -destkeystore "
            f"{path}.p12 -deststoretype PKCS12, then openssl pkcs12 -in {path}.p12 -out {path}.pem"
        )
    if re.match(rb"\x30[\x80-\x84]?.{0,4}?\x02\x01\x03\x30", content, re.DOTALL):
        return f"it is a PKCS12 keystore; convert it: openssl pkcs12 -in {path} -out {path}.pem"
    if content.startswith(b"\x30"):
        return f"it is DER; convert it: openssl x509 -inform der -in {path} -out {path}.pem, or openssl pkey for a key"
    labels = re.findall(rb"-----BEGIN ([A-Z0-9 ]+)-----", content)
    if labels:
        return f"it holds only {', '.join(sorted({label.decode() for label in labels}))}"
    return "it is empty" if not content.strip() else "it is no PEM file"


def _words(error: Exception) -> str:
    """Return the readable part of an error of OpenSSL."""
    with contextlib.suppress(AttributeError, TypeError):
        return str(error.reason).replace("_", " ").lower()  # type: ignore[attr-defined]
    return str(error)
