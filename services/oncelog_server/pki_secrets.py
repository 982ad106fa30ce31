"""Makes the TLS certificates of a Helm release in Kubernetes, as `oncelog pki` makes them, and keeps them in Secrets.

The CA is the Secret <prefix>-ca. Each identity is <prefix>-<name>-tls with tls.crt, tls.key and ca.crt, as cert-manager
has them. A certificate is made anew if another CA signed it, if its names differ, or if less than a third of its time
is left.
"""

import argparse
import datetime
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from oncelog.errors import OncelogError
from oncelog.security.pki import is_lasting, make_authority, make_certificate
from oncelog_server.kube_secrets import OPAQUE, TLS, Secrets


class Wanted(NamedTuple):
    """A certificate that a part of the release needs, with the host names at which that part is reached."""

    name: str
    hosts: tuple[str, ...]


def keep_certificates(
    secrets: Secrets, prefix: str, identities: Sequence[Wanted], days: int
) -> list[str]:
    """Make the certificates that are missing, outdated or end soon, and write them into Secrets. Returns the names of
    the Secrets that were written. Raises OncelogError.
    """
    written = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if _take_authority(secrets, f"{prefix}-ca", folder):
            written.append(f"{prefix}-ca")
        ca = (folder / "ca.pem").read_bytes()
        for one in identities:
            secret = f"{prefix}-{one.name}-tls"
            known = secrets.read(secret)
            if known is not None and is_lasting(
                known.get("tls.crt", b""), ca, one.hosts, datetime.timedelta(days=days) / 3
            ):
                continue
            made = make_certificate(folder, one.name, one.hosts, days=days)
            data = {
                "tls.crt": made.certificate.read_bytes(),
                "tls.key": made.key.read_bytes(),
                "ca.crt": ca,
            }
            if known is not None or not secrets.create(secret, data, TLS):
                secrets.write(secret, data)
            written.append(secret)
    return written


def _take_authority(secrets: Secrets, name: str, folder: Path) -> bool:
    """Write the CA's files from its Secret into the folder. If there is no such Secret, a new CA is made. Returns True
    if it is new.
    """
    known = secrets.read(name)
    if known is None:
        make_authority(folder)
        data = {
            "tls.crt": (folder / "ca.pem").read_bytes(),
            "tls.key": (folder / "ca.key").read_bytes(),
        }
        if secrets.create(name, data, OPAQUE):
            return True
        known = secrets.read(name) or {}
    for key, file in (("tls.crt", "ca.pem"), ("tls.key", "ca.key")):
        if key not in known:
            raise OncelogError(f"the Secret {name} has no {key}; delete it, and a new CA is made")
        (folder / file).write_bytes(known[key])
    return False


def parsed_identity(text: str) -> Wanted:
    name, mark, hosts = text.partition("=")
    if not (name and mark and all(hosts.split(","))):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=HOST,HOST")
    return Wanted(name, tuple(hosts.split(",")))
