"""The state of pods as the Kubernetes API tells it, and the changes in it that no fault caused. No calls are
made here."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

OUT_OF_MEMORY: Final = "OOMKilled"
COMPONENT: Final = "app.kubernetes.io/component"
INSTANCE: Final = "app.kubernetes.io/instance"
PARTS_OF_ORDINALS: Final = frozenset(("controller", "storage", "coordinator", "listener"))
"""Roles whose pods keep a number in their names."""


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    restarts: int
    is_ready: bool
    waits_for: str
    """The reason why the container does not run, in Kubernetes' word; empty when it runs."""
    ended: str
    """The container's last end, as reason and exit code; empty if it never ended."""


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    uid: str
    role: str
    machine: str
    """The name of the node under the pod; empty until the pod has one."""
    ip: str
    machine_ip: str
    born: str
    is_ready: bool
    is_leaving: bool
    """True if the pod's deletion has begun."""
    reason: str
    """The reason of the pod's end, such as Evicted."""
    shares_processes: bool
    keeps_data: bool
    """True if the pod has a volume that outlives it."""
    image: str
    """The image of the pod's first container."""
    containers: tuple[Container, ...]
    environment: Mapping[str, str]
    """The environment variables of the pod's first container that are set to plain values."""
    helpers: frozenset[str]
    """The names of the pod's ephemeral containers that run."""

    @property
    def container(self) -> str:
        """Return the name of the container that runs the role's process."""
        return self.containers[0].name if self.containers else ""

    @property
    def restarts(self) -> int:
        return sum(one.restarts for one in self.containers)

    @property
    def number(self) -> int | None:
        """Return the number at the end of the pod's name, for roles whose pods keep their names; None for all
        others."""
        last = self.name.rpartition("-")[2]
        return int(last) if self.role in PARTS_OF_ORDINALS and last.isdigit() else None


@dataclass(frozen=True, slots=True)
class Said:
    """The output and the exit code of a command in a container."""

    text: str
    code: int


def pod_from(content: Mapping[str, Any]) -> Pod:
    """Return the pod that `content`, the API's JSON, describes."""
    metadata, spec = content["metadata"], content["spec"]
    status = content.get("status", {})
    known = {one["name"]: one for one in status.get("containerStatuses", [])}
    conditions = {one["type"]: one["status"] for one in status.get("conditions", [])}
    given = spec["containers"][0].get("env", []) if spec.get("containers") else []
    return Pod(
        name=metadata["name"],
        uid=metadata["uid"],
        role=metadata.get("labels", {}).get(COMPONENT, ""),
        machine=spec.get("nodeName", ""),
        ip=status.get("podIP", ""),
        machine_ip=status.get("hostIP", ""),
        born=metadata.get("creationTimestamp", ""),
        is_ready=conditions.get("Ready") == "True",
        is_leaving="deletionTimestamp" in metadata,
        reason=status.get("reason", ""),
        shares_processes=bool(spec.get("shareProcessNamespace")),
        keeps_data=any("persistentVolumeClaim" in one for one in spec.get("volumes", [])),
        image=spec["containers"][0].get("image", ""),
        containers=tuple(
            _container(one["name"], known.get(one["name"], {})) for one in spec["containers"]
        ),
        environment={one["name"]: one["value"] for one in given if "value" in one},
        helpers=frozenset(
            one["name"]
            for one in status.get("ephemeralContainerStatuses", [])
            if "running" in one.get("state", {})
        ),
    )


def _container(name: str, status: Mapping[str, Any]) -> Container:
    now, last = status.get("state", {}), status.get("lastState", {})
    ended = now.get("terminated") or last.get("terminated")
    return Container(
        name=name,
        restarts=int(status.get("restartCount", 0)),
        is_ready=bool(status.get("ready")),
        waits_for=now.get("waiting", {}).get("reason", ""),
        ended=f"{ended.get('reason', 'Error')}, exit code {ended.get('exitCode')}" if ended else "",
    )


def named(pods: Iterable[Pod]) -> dict[str, Pod]:
    """Return the pods by the names that a plan of faults has: role and number, such as `storage-101`. Pods
    without a number are counted from 1, the oldest first."""
    found: dict[str, Pod] = {}
    without: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=lambda one: (one.born, one.name)):
        if pod.is_leaving:
            continue
        if pod.number is not None:
            found[f"{pod.role}-{pod.number}"] = pod
        else:
            without.setdefault(pod.role, []).append(pod)
    for role, same in without.items():
        found.update({f"{role}-{number}": pod for number, pod in enumerate(same, start=1)})
    return found


@dataclass(frozen=True, slots=True)
class Loss:
    """The loss of a process that ended, or of a pod that went, although no fault was given to it."""

    pod: Pod
    container: str
    """The container whose last log lines are worth reading; empty if it went with its pod."""
    text: str


def losses(before: Mapping[str, Pod], after: Mapping[str, Pod], struck: set[str]) -> Iterator[Loss]:
    """Yield each process that ended and each pod that went between two looks at the pods (by uid), unless a
    fault did it. For roles in `struck`, which have a fault now, only an end by lack of memory counts."""
    for uid, earlier in before.items():
        later = after.get(uid)
        if later is not None:
            yield from _ended(earlier, later, is_struck=earlier.role in struck)
        elif earlier.role not in struck and not earlier.is_leaving:
            yield Loss(earlier, "", f"{earlier.name} was removed, and no fault did it")
    for uid, later in after.items():
        was_evicted = later.reason and (uid not in before or not before[uid].reason)
        if was_evicted and later.role not in struck:
            yield Loss(later, "", f"{later.name} on {later.machine} was ended: {later.reason}")


def _ended(earlier: Pod, later: Pod, *, is_struck: bool) -> Iterator[Loss]:
    known = {one.name: one.restarts for one in earlier.containers}
    for container in later.containers:
        if container.restarts <= known.get(container.name, 0):
            continue
        if is_struck and not container.ended.startswith(OUT_OF_MEMORY):
            continue
        text = f"{later.name} on {later.machine} ended by itself: {container.ended}"
        yield Loss(later, container.name, text)
