"""TLS between the processes of a cluster: each proves its role by a certificate of the cluster's CA.

A certificate carries the names `<role>.oncelog.internal` and `oncelog.internal` (`oncelog pki` makes them). A caller
checks the second one; a server reads the first one and allows each method to the roles that call it (`callers.py`).
Files are read again for each new connection of a caller, and by a server whenever they have changed: a renewed
certificate is used from the next connection on. `peer_certificates.py` ends the connections that use an old one.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import grpc

from oncelog.errors import OncelogError
from oncelog.rpc.callers import ROLES
from oncelog.rpc.channel import CLUSTER_NAME
from oncelog.rpc.node_settings import NodeSettings
from oncelog.rpc.sessions import SessionLimits

_NAMES_KEY: Final = "peer_dns"
"""gRPC's property with host names alone.
`x509_subject_alternative_name` also has e-mail addresses and URIs, which clients get."""


@dataclass(frozen=True, slots=True)
class MutualTls:
    """The paths of one process's PEM files for TLS: its certificate, its key, and the cluster's CA."""

    certificate: Path
    key: Path
    ca: Path

    def _read(self) -> tuple[bytes, bytes, bytes]:
        """Return the contents of certificate, key and CA file. Raises OncelogError that names the file."""
        return _read(self.certificate), _read(self.key), _read(self.ca)

    def read_ca(self) -> bytes:
        """Return the contents of the CA file. Raises OncelogError that names the file."""
        return _read(self.ca)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Return gRPC's credentials for calls to other processes. Raises OncelogError that names a file."""
        certificate, key, ca = self._read()
        return grpc.ssl_channel_credentials(ca, key, certificate)

    def server_credentials(self) -> grpc.ServerCredentials:
        """Return gRPC's credentials for a server. When a file has changed, later connections use the new one.

        Raises OncelogError that names the file it cannot read.
        """
        last = hashlib.sha256(b"".join(self._read())).digest()

        def configuration() -> grpc.ServerCertificateConfiguration:
            certificate, key, ca = self._read()
            return grpc.ssl_server_certificate_configuration([(key, certificate)], ca)

        def changed() -> grpc.ServerCertificateConfiguration | None:
            """Return the new certificates; None: the files have not changed, or are just being written."""
            nonlocal last
            try:
                digest = hashlib.sha256(b"".join(self._read())).digest()
                if digest == last:
                    return None
                found = configuration()
            except OncelogError:
                return None
            last = digest
            return found

        return grpc.dynamic_ssl_server_credentials(
            configuration(), changed, require_client_authentication=True
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise OncelogError(
            f"cannot read {path} for TLS between processes: {error.strerror}; `oncelog pki` makes such files"
        ) from error


def limits_of(settings: NodeSettings) -> SessionLimits:
    """Return the bounds of this process's sessions (streams of calls to other processes), with its TLS files if it has
    any.
    """
    certificate, key = settings.tls_certificate_file, settings.tls_key_file
    ca = settings.tls_ca_file
    tls = MutualTls(certificate, key, ca) if certificate and key and ca else None
    return replace(settings.session_limits, tls=tls)


def role_of(auth_context: Mapping[str, Sequence[bytes]]) -> str:
    """Return the role that the other side's certificate names; empty: it names none."""
    for name in auth_context.get(_NAMES_KEY, ()):
        role, dot, rest = name.decode(errors="replace").partition(".")
        if dot and rest == CLUSTER_NAME and role in ROLES:
            return role
    return ""
