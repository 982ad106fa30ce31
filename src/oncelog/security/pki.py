"""A development CA, and certificates for every role of a cluster and for clients, as PEM files.

For laptops and tests. A cluster that lasts takes its certificates from a CA that somebody looks after (cert-manager).
"""

import datetime
import ipaddress
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog.errors import OncelogError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

ROLES: Final = (
    "controller",
    "coordinator",
    "storage",
    "marker-sender",
    "listener",
    "gateway",
)
CLUSTER_NAME: Final = "oncelog.internal"
DAYS_DEFAULT: Final = 365
_CA_DAYS: Final = 3650
_ORGANIZATION: Final = "oncelog"
_NAME_LETTERS_MAX: Final = 64
"""X.509's bound of a common name, in letters."""
_CLOCK_SKEW: Final = datetime.timedelta(minutes=5)


class Identity(NamedTuple):
    """A certificate that was just made for a node or a user: its name, the files of certificate and key, and when it
    expires.
    """

    name: str
    certificate: Path
    key: Path
    ends: datetime.datetime


def make_development_pki(
    folder: Path, hosts: Sequence[str] = (), *, days: int = DAYS_DEFAULT, force: bool = False
) -> list[Identity]:
    """Make a certificate for every role in `folder`, and the CA that signs them if there is none yet.

    Raises OncelogError for files that exist, unless `force`: then certificates are renewed, and the CA stays.
    """
    _prepare(folder)
    authority = _Authority(folder)
    found = [folder / f"{role}.pem" for role in ROLES if (folder / f"{role}.pem").exists()]
    if found and not force:
        raise OncelogError(f"{found[0]} exists; --force renews the certificates, and keeps the CA")
    return [
        authority.issue(role, (f"{role}.{CLUSTER_NAME}", CLUSTER_NAME, "localhost", *hosts), days)
        for role in ROLES
    ]


def make_client_certificate(
    folder: Path, user: str, *, days: int = DAYS_DEFAULT, force: bool = False
) -> Identity:
    """Make a client's certificate with CN=user, signed by the CA in `folder`. Raises OncelogError."""
    is_file_name = user.isprintable() and "/" not in user and not user.startswith(".")
    if not 0 < len(user) <= _NAME_LETTERS_MAX or user in (*ROLES, "ca") or not is_file_name:
        raise OncelogError(f"{user!r} cannot be the name of a client's certificate; choose another")
    _prepare(folder)
    if (folder / f"{user}.pem").exists() and not force:
        raise OncelogError(f"{folder / f'{user}.pem'} exists; --force renews it")
    return _Authority(folder).issue(user, (), days)


def make_authority(folder: Path) -> None:
    """Make the CA of a folder, if there is none yet. Raises OncelogError."""
    _prepare(folder)
    _Authority(folder)


def make_certificate(folder: Path, name: str, hosts: Sequence[str], *, days: float) -> Identity:
    """Make a new certificate with these names, signed by the CA in `folder`. Raises OncelogError."""
    _prepare(folder)
    return _Authority(folder).issue(name, hosts, days)


def is_lasting(
    certificate: bytes, ca: bytes, hosts: Sequence[str], left: datetime.timedelta
) -> bool:
    """Return True if this PEM certificate is of the CA, has these names, and is valid for longer than `left`."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature

    try:
        found = x509.load_pem_x509_certificate(certificate)
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(ca))
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    ends = datetime.datetime.now(datetime.UTC) + left
    return all(_general_name(one) in names for one in hosts) and found.not_valid_after_utc > ends


def _prepare(folder: Path) -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise OncelogError(
            "certificates need the package cryptography: pip install 'oncelog[security]'"
        ) from error
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise OncelogError(f"cannot make the folder {folder}: {error.strerror}") from error


class _Authority:
    """The development CA in a folder, which signs certificates. It is made if there is none."""

    def __init__(self, folder: Path) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa

        self._folder = folder
        certificate, key = folder / "ca.pem", folder / "ca.key"
        if certificate.exists() != key.exists():
            raise OncelogError(f"{folder} has one of ca.pem and ca.key; it needs both, or none")
        if not key.exists():
            self._make(certificate, key)
        try:
            self.certificate = x509.load_pem_x509_certificate(certificate.read_bytes())
            found = serialization.load_pem_private_key(key.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise OncelogError(f"{folder} holds a CA that cannot be read: {error}") from error
        if not isinstance(found, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise OncelogError(
                f"{key} is of the type {type(found).__name__}; use a CA with an elliptic curve or RSA"
            )
        self._key = found

    def _make(self, certificate: Path, key: Path) -> None:
        made = _new_key()
        name = _name("oncelog development CA")
        builder = _builder(name, name, made, _CA_DAYS)
        write_private(key, _key_pem(made))
        write_private(
            certificate, _certificate_pem(_signed(builder, made, made, is_authority=True))
        )

    def issue(self, name: str, hosts: Sequence[str], days: float) -> Identity:
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID

        made = _new_key()
        # Java takes the common name for a host where there is no other: a user's certificate proves no server.
        servers = [ExtendedKeyUsageOID.SERVER_AUTH] if hosts else []
        builder = _builder(_name(name), self.certificate.subject, made, days).add_extension(
            x509.ExtendedKeyUsage([*servers, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        if hosts:
            addresses = ["127.0.0.1", "::1"]
            names: list[x509.GeneralName] = []
            for host in dict.fromkeys([*hosts, *addresses]):
                names.append(_general_name(host))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        signed = _signed(builder, made, self._key, is_authority=False)
        files = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        write_private(files[1], _key_pem(made))
        write_private(files[0], _certificate_pem(signed))
        return Identity(name, *files, signed.not_valid_after_utc)


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        pass
    try:
        return x509.DNSName(host)
    except ValueError as error:
        raise OncelogError(f"{host!r} is no host name or address: {error}") from error


def _name(text: str) -> "x509.Name":
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, text),
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
        ]
    )


def _new_key() -> "ec.EllipticCurvePrivateKey":
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _builder(
    subject: "x509.Name", issuer: "x509.Name", key: "ec.EllipticCurvePrivateKey", days: float
) -> "x509.CertificateBuilder":
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _signed(
    builder: "x509.CertificateBuilder",
    key: "ec.EllipticCurvePrivateKey",
    signer: "ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey",
    *,
    is_authority: bool,
) -> "x509.Certificate":
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    usage = x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
    signer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    return (
        builder.add_extension(
            x509.BasicConstraints(is_authority, 0 if is_authority else None), critical=True
        )
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(signer_id, critical=False)
        .sign(signer, hashes.SHA256())
    )


def _certificate_pem(certificate: "x509.Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: "ec.EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write_private(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, readable by its owner only. Raises OncelogError."""
    partial = path.with_name(f"{path.name}.partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        partial.replace(path)
    except OSError as error:
        raise OncelogError(f"cannot write {path}: {error.strerror}") from error
