"""Reads and writes Secrets in Kubernetes, for a Job of the Helm chart that makes passwords and certificates."""

import base64
from collections.abc import Mapping
from typing import Final, Protocol

from oncelog.errors import OncelogError

CONFLICT: Final = 409
NOT_FOUND: Final = 404
OPAQUE: Final = "Opaque"
TLS: Final = "kubernetes.io/tls"
KEPT: Final = {"helm.sh/resource-policy": "keep"}
"""Annotation that makes Helm keep the Secret. An older version of the chart listed the Secret among its objects, so an
upgrade from it would delete the Secret.
"""


class _ApiException(Protocol):
    """The error that the Kubernetes client raises when the API refuses a request."""

    status: int
    reason: str


class Secrets(Protocol):
    """Reads and writes the Secrets of one namespace. `ApiSecrets` does it through the Kubernetes API."""

    def read(self, name: str) -> dict[str, bytes] | None: ...

    def create(self, name: str, data: Mapping[str, bytes], kind: str) -> bool:
        """Create a Secret and return True. False: a Secret of this name exists."""

    def write(self, name: str, data: Mapping[str, bytes]) -> None:
        """Write these keys of the Secret `name`, which must exist; its other keys stay as they are."""


class ApiSecrets:
    """Reads and writes Secrets by the Kubernetes API, from within a pod."""

    def __init__(self, namespace: str) -> None:
        from kubernetes import client, config

        config.load_incluster_config()
        self._client = client
        self._api = client.CoreV1Api()
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
        metadata = self._client.V1ObjectMeta(
            name=name, labels={"app.kubernetes.io/part-of": "oncelog"}, annotations=KEPT
        )
        made = self._client.V1Secret(metadata=metadata, type=kind, data=_encoded(data))
        try:
            self._api.create_namespaced_secret(self._namespace, made)
        except self._client.ApiException as error:
            if error.status == CONFLICT:
                return False
            raise _refused(f"make the Secret {name}", error) from error
        return True

    def write(self, name: str, data: Mapping[str, bytes]) -> None:
        change = {"metadata": {"annotations": KEPT}, "data": _encoded(data)}
        try:
            self._api.patch_namespaced_secret(name, self._namespace, change)
        except self._client.ApiException as error:
            raise _refused(f"write the Secret {name}", error) from error


def _encoded(data: Mapping[str, bytes]) -> dict[str, str]:
    return {key: base64.b64encode(value).decode() for key, value in data.items()}


def _refused(what: str, error: _ApiException) -> OncelogError:
    return OncelogError(f"Kubernetes does not let this Job {what}: {error.status} {error.reason}")
