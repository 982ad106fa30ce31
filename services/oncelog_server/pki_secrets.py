"""Certificates of a release in Kubernetes, made as `oncelog pki` makes them, and kept in Secrets: a Job of the chart.

    python -m oncelog_server.pki_secrets --namespace prod --prefix log --identity listener=log-listener,localhost

The CA is the Secret <prefix>-ca. Each identity is <prefix>-<name>-tls with tls.crt, tls.key and ca.crt, as cert-manager
has them. A certificate stays while the CA signed it, it has these names, and more than a third of its time is left.
"""

import argparse
import base64
import datetime
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

from oncelog.errors import OncelogError
from oncelog.security.pki import is_lasting, make_authority, make_certificate

CONFLICT: Final = 409
NOT_FOUND: Final = 404


class Wanted(NamedTuple):
    """One part of the release, and the names under which it is reached."""

    name: str
    hosts: tuple[str, ...]


class Secrets(Protocol):
    """Of one namespace."""

    def read(self, name: str) -> dict[str, bytes] | None: ...

    def create(self, name: str, data: Mapping[str, bytes], kind: str) -> bool:
        """False: somebody else was first."""

    def replace(self, name: str, data: Mapping[str, bytes]) -> None: ...


def keep_certificates(
    secrets: Secrets, prefix: str, identities: Sequence[Wanted], days: int
) -> list[str]:
    """Returns the Secrets that were written. Raises OncelogError."""
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
            if known is not None or not secrets.create(secret, data, "kubernetes.io/tls"):
                secrets.replace(secret, data)
            written.append(secret)
    return written


def _take_authority(secrets: Secrets, name: str, folder: Path) -> bool:
    """Puts the CA into the folder; True: it is a new one."""
    known = secrets.read(name)
    if known is None:
        make_authority(folder)
        data = {
            "tls.crt": (folder / "ca.pem").read_bytes(),
            "tls.key": (folder / "ca.key").read_bytes(),
        }
        if secrets.create(name, data, "Opaque"):
            return True
        known = secrets.read(name) or {}
    for key, file in (("tls.crt", "ca.pem"), ("tls.key", "ca.key")):
        if key not in known:
            raise OncelogError(f"the Secret {name} has no {key}; delete it, and a new CA is made")
        (folder / file).write_bytes(known[key])
    return False


class ApiSecrets:
    """By the Kubernetes API, from within a pod."""

    def __init__(self, namespace: str) -> None:
        from kubernetes import client, config

        config.load_incluster_config()
        self._client: Any = client
        self._api: Any = client.CoreV1Api()
        self._namespace = namespace

    def read(self, name: str) -> dict[str, bytes] | None:
        try:
            found = self._api.read_namespaced_secret(name, self._namespace)
        except self._client.ApiException as error:
            if error.status == NOT_FOUND:
                return None
            raise _refused(f"read the Secret {name}", error) from error
        return {key: base64.b64decode(value) for key, value in (found.data or {}).items()}

    def create(self, name: str, data: Mapping[str, bytes], kind: str) -> bool:
        try:
            self._api.create_namespaced_secret(self._namespace, self._body(name, data, kind))
        except self._client.ApiException as error:
            if error.status == CONFLICT:
                return False
            raise _refused(f"make the Secret {name}", error) from error
        return True

    def replace(self, name: str, data: Mapping[str, bytes]) -> None:
        body = self._body(name, data, "kubernetes.io/tls")
        try:
            self._api.replace_namespaced_secret(name, self._namespace, body)
        except self._client.ApiException as error:
            raise _refused(f"write the Secret {name}", error) from error

    def _body(self, name: str, data: Mapping[str, bytes], kind: str) -> Any:
        encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
        metadata = self._client.V1ObjectMeta(
            name=name, labels={"app.kubernetes.io/part-of": "oncelog"}
        )
        return self._client.V1Secret(metadata=metadata, type=kind, data=encoded)


def _refused(what: str, error: Any) -> OncelogError:
    return OncelogError(f"Kubernetes does not let this Job {what}: {error.status} {error.reason}")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m oncelog_server.pki_secrets", allow_abbrev=False, description=__doc__
    )
    made.add_argument("--namespace", required=True)
    made.add_argument("--prefix", required=True, help="of the names of the Secrets")
    made.add_argument("--days", type=int, default=365, help="how long a certificate is valid")
    made.add_argument(
        "--identity", action="append", required=True, type=_identity, metavar="NAME=HOST,HOST"
    )
    return made


def _identity(text: str) -> Wanted:
    name, mark, hosts = text.partition("=")
    if not (name and mark and all(hosts.split(","))):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=HOST,HOST")
    return Wanted(name, tuple(hosts.split(",")))


def main() -> int:
    options = parser().parse_args()
    try:
        written = keep_certificates(
            ApiSecrets(options.namespace), options.prefix, options.identity, options.days
        )
    except OncelogError as error:
        print(f"no certificates: {error}", file=sys.stderr)
        return 1
    print(f"written: {', '.join(written)}" if written else "every certificate is there and lasts")
    return 0


if __name__ == "__main__":
    sys.exit(main())
