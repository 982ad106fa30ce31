"""The calls of Kubernetes that chaos makes, over the official client.

Each raises OncelogError, which says what was asked and what the API answered.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import urllib3
import websocket
from kubernetes import client, config, stream
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.pods.needs import Verb
from oncelog_robustness.chaos.pods.state import INSTANCE, Pod, Said, pod_from

CALL_TIMEOUT_S: Final = 15.0
EXEC_TIMEOUT_S: Final = 30.0
_NOT_FOUND: Final = 404
_TOO_MANY: Final = 429
"""The HTTP status of an eviction that a PodDisruptionBudget does not allow now."""


class Kubernetes:
    """A client of the Kubernetes API for one release in one namespace. Many threads may call it at once."""

    def __init__(self, namespace: str, release: str, context: str) -> None:
        """Connect by the pod's service account, or outside a pod by the kubeconfig. An empty `namespace` means that of
        the account or of the kubeconfig. `context` is one of the kubeconfig; empty: its current one."""
        self._configuration = client.Configuration()
        self.is_inside = False
        try:
            found = self._configure(context)
        except (ConfigException, OSError) as error:
            raise OncelogError(
                f"no Kubernetes: {error}; outside of a cluster there must be a kubeconfig (KUBECONFIG)"
            ) from error
        self.namespace = namespace or found
        self.release = release
        # A proxy for the internet does not lead to a cluster.
        self._configuration.retries = urllib3.Retry(2, backoff_factor=0.2)
        self._local = threading.local()

    def _configure(self, context: str) -> str:
        """Load the access to the API. Return the namespace of the service account or the kubeconfig, which is taken
        when the user names none."""
        if not context:
            try:
                config.load_incluster_config(client_configuration=self._configuration)
            except ConfigException:
                pass
            else:
                self.is_inside = True
                with open("/var/run/secrets/kubernetes.io/serviceaccount/namespace") as lines:
                    return lines.read().strip()
        config.load_kube_config(context=context or None, client_configuration=self._configuration)
        contexts, current = config.list_kube_config_contexts()
        chosen = next((one for one in contexts if one["name"] == context), current)
        return str(chosen["context"].get("namespace") or "default")

    # -------------------------------------------------------------------------------------------------- pods

    def pods(self, selector: str = "") -> list[Pod]:
        """Return the pods that match the label selector; without one, those of the release."""
        selector = selector or f"{INSTANCE}={self.release}"
        content = self._get(
            "list the pods",
            lambda: self._core.list_namespaced_pod(
                self.namespace, label_selector=selector, **self._raw
            ),
        )
        return [pod_from(one) for one in content["items"]]

    def delete(self, pod: Pod, grace_s: int | None = None) -> None:
        """Delete the pod. `grace_s` None: with its own grace; 0: the API forgets it at once.
        A pod that is gone is no error."""
        body = client.V1DeleteOptions(
            grace_period_seconds=grace_s, preconditions=client.V1Preconditions(uid=pod.uid)
        )
        with _failures_named(f"delete {pod.name}", allowed=(_NOT_FOUND, 409)):
            self._core.delete_namespaced_pod(
                pod.name, self.namespace, body=body, _request_timeout=CALL_TIMEOUT_S
            )

    def evict(self, pod: Pod) -> bool:
        """Evict the pod; return False if its PodDisruptionBudget does not allow that now."""
        body = client.V1Eviction(
            metadata=client.V1ObjectMeta(name=pod.name, namespace=self.namespace)
        )
        try:
            with _failures_named(f"evict {pod.name}", allowed=(_NOT_FOUND,)):
                self._core.create_namespaced_pod_eviction(
                    pod.name, self.namespace, body, _request_timeout=CALL_TIMEOUT_S
                )
        except Refused as error:
            if error.status == _TOO_MANY:
                return False
            raise
        return True

    def execute(
        self, pod: Pod, container: str, *command: str, timeout_s: float = EXEC_TIMEOUT_S
    ) -> Said:
        """Run a command in a container and wait for its end."""
        # The client's websocket call exchanges a method of its ApiClient while it runs: one for each call, therefore.
        api = client.CoreV1Api(client.ApiClient(self._configuration))
        with _failures_named(f"run {command[0]} in {pod.name}"), contextlib.closing(api.api_client):
            shell = stream.stream(
                api.connect_get_namespaced_pod_exec,
                pod.name,
                self.namespace,
                container=container,
                command=list(command),
                stdin=False,
                stdout=True,
                stderr=True,
                tty=False,
                _preload_content=False,
                _request_timeout=CALL_TIMEOUT_S,
            )
            with contextlib.closing(shell):
                shell.run_forever(timeout=timeout_s)
                if shell.is_open():
                    raise OncelogError(f"{command[0]} in {pod.name} did not end in {timeout_s:g} s")
                return Said(code=_exit_code(shell), text=shell.read_all())

    def last_words(self, pod: Pod, container: str, lines: int) -> str:
        """Return the last lines of the log of the container's previous process."""
        with _failures_named(f"read the log of {pod.name}"):
            answer = self._core.read_namespaced_pod_log(
                pod.name,
                self.namespace,
                container=container,
                previous=True,
                tail_lines=lines,
                _preload_content=False,
                _request_timeout=CALL_TIMEOUT_S,
            )
            return str(answer.data.decode(errors="replace"))

    def add_container(self, pod: Pod, patch: Mapping[str, Any]) -> None:
        """Add an ephemeral container to the pod, as the patch describes it."""
        with _failures_named(f"add a container to {pod.name}"):
            self._core.patch_namespaced_pod_ephemeralcontainers(
                pod.name, self.namespace, dict(patch), _request_timeout=CALL_TIMEOUT_S
            )

    # ------------------------------------------------------------------------------------------- controllers, nodes

    def workload(self, role: str) -> tuple[str, dict[str, Any]]:
        """Return the kind (StatefulSet or Deployment) and the object of the workload that makes the pods of a
        role."""
        for kind in ("StatefulSet", "Deployment"):
            found = self._get(f"list each {kind}", self._lister(kind, role))["items"]
            if found:
                return kind, found[0]
        raise OncelogError(f"nothing in {self.namespace} makes pods of the role {role}")

    def _lister(self, kind: str, role: str) -> Callable[[], Any]:
        selector = f"{INSTANCE}={self.release},app.kubernetes.io/component={role}"
        listing = {
            "StatefulSet": self._apps.list_namespaced_stateful_set,
            "Deployment": self._apps.list_namespaced_deployment,
        }[kind]
        return lambda: listing(self.namespace, label_selector=selector, **self._raw)

    def restart_rollout(self, kind: str, name: str, at: str) -> None:
        """Restart the pods of a workload one after another, as `kubectl rollout restart` does. `at` is the time for the
        annotation by which it does so."""
        annotations = {"kubectl.kubernetes.io/restartedAt": at}
        patch = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        patching = {
            "StatefulSet": self._apps.patch_namespaced_stateful_set,
            "Deployment": self._apps.patch_namespaced_deployment,
        }[kind]
        with _failures_named(f"restart {kind} {name}"):
            patching(name, self.namespace, patch, _request_timeout=CALL_TIMEOUT_S)

    def is_cordoned(self, machine: str) -> bool:
        content = self._get(
            f"read node {machine}", lambda: self._core.read_node(machine, **self._raw)
        )
        return bool(content["spec"].get("unschedulable"))

    def cordon(self, machine: str, *, is_on: bool) -> None:
        with _failures_named(f"cordon {machine}"):
            self._core.patch_node(
                machine, {"spec": {"unschedulable": is_on}}, _request_timeout=CALL_TIMEOUT_S
            )

    def allows(self, verb: Verb) -> bool:
        """Return whether this account may use the verb in this namespace; the API is asked."""
        resource, _, part = verb.resource.partition("/")
        attributes = client.V1ResourceAttributes(
            group=verb.group,
            resource=resource,
            subresource=part or None,
            verb=verb.verb,
            namespace=None if resource == "nodes" else self.namespace,
        )
        review = client.V1SelfSubjectAccessReview(
            spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes)
        )
        with _failures_named("ask what is allowed"):
            answer = client.AuthorizationV1Api(self._api).create_self_subject_access_review(
                review, _request_timeout=CALL_TIMEOUT_S
            )
            return bool(answer.status.allowed)

    # -------------------------------------------------------------------------------------------------- calls

    @property
    def _raw(self) -> dict[str, Any]:
        return {"_preload_content": False, "_request_timeout": CALL_TIMEOUT_S}

    @property
    def _api(self) -> Any:
        if not hasattr(self._local, "api"):
            self._local.api = client.ApiClient(self._configuration)
        return self._local.api

    @property
    def _core(self) -> Any:
        return client.CoreV1Api(self._api)

    @property
    def _apps(self) -> Any:
        return client.AppsV1Api(self._api)

    def _get(self, what: str, ask: Callable[[], Any]) -> dict[str, Any]:
        with _failures_named(what):
            content: dict[str, Any] = json.loads(ask().data)
            return content
        raise AssertionError("either it answered or it raised")


def _exit_code(shell: Any) -> int:
    """Return the exit code of the shell, or -1 if the container went before it reported one.
    Call it before the output is read, which drops the code."""
    try:
        return int(shell.returncode)
    except (TypeError, KeyError, ValueError, IndexError):
        return -1


class Refused(OncelogError):
    """The Kubernetes API answered a call with a refusal."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


@contextlib.contextmanager
def _failures_named(what: str, allowed: Sequence[int] = ()) -> Iterator[None]:
    try:
        yield
    except ApiException as error:
        if error.status in allowed:
            return
        raise Refused(f"cannot {what}: {_reason(error)}", int(error.status or 0)) from error
    except (urllib3.exceptions.HTTPError, websocket.WebSocketException, OSError) as error:
        raise OncelogError(f"cannot {what}: {error}") from error


def _reason(error: ApiException) -> str:
    """Return why the API refused a call, in its own words."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}".strip()
