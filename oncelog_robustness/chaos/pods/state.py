"""What the API says about a pod, and what of it nobody has done on purpose. Pure: from the API's own JSON to values."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

OUT_OF_MEMORY: Final = "OOMKilled"
COMPONENT: Final = "app.kubernetes.io/component"
INSTANCE: Final = "app.kubernetes.io/instance"
PARTS_OF_ORDINALS: Final = frozenset(("controller", "storage", "coordinator", "listener"))
"""Roles whose pods have a number in their names that stays."""


@dataclass(frozen=True, slots=True)
class Container:
    name: str
    restarts: int
    is_ready: bool
    waits_for: str
    """Why it does not run, in Kubernetes' word; empty when it runs."""
    ended: str
    """How it ended the last time: reason and exit code; empty when it never has."""


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    uid: str
    role: str
    machine: str
    """Empty until it has one."""
    ip: str
    machine_ip: str
    born: str
    is_ready: bool
    is_leaving: bool
    """Its deletion has begun."""
    reason: str
    """Of its end, such as Evicted."""
    shares_processes: bool
    keeps_data: bool
    """Has a volume that outlives it."""
    image: str
    """Of its first container."""
    containers: tuple[Container, ...]
    environment: Mapping[str, str]
    """Of its first container: what stands there as a value."""
    helpers: frozenset[str]
    """Ephemeral containers that run."""

    @property
    def container(self) -> str:
        """The one that is the role's process."""
        return self.containers[0].name if self.containers else ""

    @property
    def restarts(self) -> int:
        return sum(one.restarts for one in self.containers)

    @property
    def number(self) -> int | None:
        """Of a pod that keeps its name."""
        last = self.name.rpartition("-")[2]
        return int(last) if self.role in PARTS_OF_ORDINALS and last.isdigit() else None


@dataclass(frozen=True, slots=True)
class Said:
    """What a command in a container wrote, and its exit code."""

    text: str
    code: int


def pod_from(content: Mapping[str, Any]) -> Pod:
    """`content` is a Pod as the API's JSON has it."""
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
    """By the names that a plan has: role and number. A role without numbers counts from 1, the oldest first."""
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
    """A process that ended, or a pod that went, and no fault had been given to it."""

    pod: Pod
    container: str
    """Whose last words are to be read; empty: it went with its pod."""
    text: str


def losses(before: Mapping[str, Pod], after: Mapping[str, Pod], struck: set[str]) -> Iterator[Loss]:
    """By uid. Of roles that are struck only what no fault brings about: memory that ran out."""
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
