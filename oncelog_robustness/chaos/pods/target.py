"""A release of the chart in a namespace as a target of chaos. It runs already, and chaos neither starts nor
stops it."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.contract import OnProgress
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.plan import MACHINES, POD_DECKS, REPLICAS
from oncelog_robustness.chaos.pods.gateway import ask_gateway, settled
from oncelog_robustness.chaos.pods.injector import DATA, PodInjector, is_rolled_out
from oncelog_robustness.chaos.pods.machines import Machines
from oncelog_robustness.chaos.pods.needs import NEEDED, TO_LOOK, Verb
from oncelog_robustness.chaos.pods.network import HELPER, PROBE, PROBE_DELAY, helper_patch
from oncelog_robustness.chaos.pods.probes import HelperProbe
from oncelog_robustness.chaos.pods.state import INSTANCE, Pod, named
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.fault_plan import NETWORK, OF_MACHINES, FaultKind
from oncelog_robustness.observations import Observations
from oncelog_server.cluster.plan import POSTGRES, REDIS, ROLES, STORAGE

if TYPE_CHECKING:
    from oncelog_robustness.chaos.pods.api import Kubernetes

SETTLE_S: Final = 90.0
WELL_S: Final = 300.0
LOOK_S: Final = 1.0
VOLUME_BYTES_MAX: Final = 4 * 1024**3
"""The size in bytes of the largest file system that is filled.
A larger one may be the machine's own, and filling it would take minutes."""
KAFKA_PORT: Final = 9092
ADVERTISED: Final = "ONCELOG_LISTENER_EXTERNAL_ADVERTISED"
KEEP: Final = (STORAGE.role, POSTGRES)
"""The roles whose pods hold data that no other pod of the role need have."""
STRUCK: Final = (*(role.role for role in ROLES), POSTGRES, REDIS)


class PodTarget:
    """The pods of a release as a target of chaos. `bootstrap` is where clients of this run find the
    listeners; empty: it is looked for. `client_config` is the client.properties with which they log in."""

    decks = POD_DECKS

    def __init__(
        self,
        kubernetes: "Kubernetes",
        bootstrap: str = "",
        tools_image: str = "",
        *,
        on_machines: bool = False,
        client_config: str = "",
    ) -> None:
        self.name = f"release {kubernetes.release} in namespace {kubernetes.namespace}"
        self.client_config = client_config
        self.limits: Sequence[str] = ()
        self.roles: Sequence[str] = (*STRUCK, CLIENTS)
        self._kubernetes = kubernetes
        self._bootstrap = bootstrap
        self._tools_image = tools_image
        self._on_machines = on_machines
        self._kinds: frozenset[FaultKind] = frozenset()
        self._members: dict[str, Sequence[str]] = {}
        self._machines: list[str] = []
        self._nodes = 0

    def start(self, on_progress: OnProgress) -> None:
        """Wait until the release is well, and find out its pods, its bootstrap address and the faults that
        can be given. Raises OncelogError when it does not exist, is not well, or may not be looked at."""
        on_progress(self._kubernetes.namespace, "looking")
        may = {verb: self._kubernetes.allows(verb) for verb in all_verbs()}
        refused = sorted(verb for verb in TO_LOOK if not may[verb])
        if refused:
            raise OncelogError(
                f"this account may not {listed_verbs(refused)}; see docs/kubernetes.md"
            )
        pods = self._await_well()
        forgetful = sorted(one.role for one in pods if one.role in KEEP and not one.keeps_data)
        if forgetful:
            raise OncelogError(
                f"pods of {forgetful[0]} lose their data when they are deleted, and a run would only show that; "
                "install with volumes (persistence.enabled=true)"
            )
        self._take_in(pods)
        self._bootstrap = self._bootstrap or bootstrap_of(pods, self._kubernetes)
        cluster = ask_gateway(self._kubernetes, "/v1/cluster")
        self._nodes = sum(not one["fenced"] for one in cluster["nodes"])
        self._kinds, self.limits = self._possible(pods, may)
        if not self._kinds & set(OF_MACHINES):
            self._members.pop(MACHINES, None)
            self.roles = tuple(self._members)
        on_progress(self._kubernetes.namespace, "ready")

    def _await_well(self) -> list[Pod]:
        """Wait until the release is well and return its pods. An installation or an upgrade may be under way."""
        deadline = time.monotonic() + WELL_S
        while True:
            pods = [one for one in self._kubernetes.pods() if one.role in STRUCK]
            if not pods:
                raise OncelogError(
                    f"namespace {self._kubernetes.namespace} has no pods with the label {INSTANCE}="
                    f"{self._kubernetes.release}; see --namespace and --release"
                )
            trouble = self._trouble(pods)
            if not trouble:
                return pods
            if time.monotonic() > deadline:
                raise OncelogError(f"a run begins when the cluster is well, and {trouble}")
            time.sleep(LOOK_S)

    def _trouble(self, pods: Sequence[Pod]) -> str:
        roles = {one.role for one in pods}
        lacking = [role.role for role in ROLES if role.role not in roles]
        if lacking:
            return f"there are no pods of {', '.join(lacking)}"
        unready = [one.name for one in pods if not one.is_ready or one.is_leaving]
        if unready:
            return f"{', '.join(unready)} not Ready after {WELL_S:.0f} s"
        rolling = [
            role for role in sorted(roles) if not is_rolled_out(self._kubernetes.workload(role)[1])
        ]
        return f"{', '.join(rolling)} still being rolled out" if rolling else ""

    def _take_in(self, pods: Sequence[Pod]) -> None:
        names = named(pods)
        for role in STRUCK:
            own = sorted(name for name, one in names.items() if one.role == role)
            if own:
                self._members[role] = [role] if role in (POSTGRES, REDIS) else own
        self._machines = sorted({one.machine for one in pods})
        self._members[CLIENTS] = [CLIENTS]
        self._members[MACHINES] = [f"{MACHINES}-{n}" for n in range(1, len(self._machines) + 1)]
        self.roles = tuple(self._members)
        self._counts = dict(Counter(one.role for one in pods))
        if not self._tools_image:
            self._tools_image = tools_image_of(pods)

    def _possible(
        self, pods: Sequence[Pod], may: Mapping[Verb, bool]
    ) -> tuple[frozenset[FaultKind], Sequence[str]]:
        """Return the kinds of faults that can be given here, and a sentence for each limit: why another kind cannot be
        given, or what is not seen. `may` says which permissions this account has."""
        reasons: dict[FaultKind, str] = {}
        for kind, verbs in NEEDED.items():
            refused = sorted(verb for verb in verbs if not may[verb])
            if refused:
                reasons[kind] = f"this account may not {listed_verbs(refused)}"
        if not all(one.shares_processes for one in pods):
            reasons.setdefault(
                FaultKind.PAUSE, "pods do not share their processes; the chart has chaos.enabled"
            )
        if reason := self._cannot_cut(pods, reasons):
            reasons.update({kind: reason for kind in NETWORK if kind in NEEDED})
        elif reason := self._helper(pods).fails(PROBE_DELAY):
            reasons[FaultKind.DELAY] = f"no netem: {reason}"
        if reason := self._cannot_fill(pods):
            reasons.setdefault(FaultKind.DISK_FULL, reason)
        if not self._on_machines:
            # Other users may have pods on these machines.
            reasons.update(dict.fromkeys(OF_MACHINES, "machines are struck with --machines"))
        if len(self._machines) < 2:
            alone = "there is one machine, and nowhere else to go"
            reasons.update({kind: reasons.get(kind, alone) for kind in OF_MACHINES})
        dealt = {kind for role in self._members for kind in POD_DECKS[role]}
        limits = [f"no {kind} here: {reasons[kind]}" for kind in FaultKind if kind in reasons]
        if FaultKind.PAUSE in reasons:
            limits.append("kills are deletions here; no process is ended by SIGKILL from within")
        limits.append(
            "files of nodes are not read: what is judged is what clients saw, and what REST says"
        )
        return frozenset(kind for kind in NEEDED if kind in dealt and kind not in reasons), limits

    def _helper(self, pods: Sequence[Pod]) -> HelperProbe:
        """Return a probe of what a helper container may do in a pod. The pod is a gateway's, whose restart
        nobody would notice."""
        pod = next(one for one in pods if one.role == "gateway")
        patch = helper_patch(self._tools_image, pod.container)
        return HelperProbe(self._kubernetes, pod, HELPER, patch)

    def _cannot_cut(self, pods: Sequence[Pod], reasons: Mapping[FaultKind, str]) -> str:
        if FaultKind.PARTITION in reasons:
            return reasons[FaultKind.PARTITION]
        return self._helper(pods).fails(PROBE)

    def _cannot_fill(self, pods: Sequence[Pod]) -> str:
        pod = next(one for one in pods if one.role == STORAGE.role)
        script = f"df -B1 --output=size,target {DATA} | tail -1"
        said = self._kubernetes.execute(pod, pod.container, "sh", "-c", script)
        return why_not_fill(said.text)

    @property
    def bootstrap(self) -> str:
        return self._bootstrap

    @property
    def replicas(self) -> int:
        return min(REPLICAS, self._counts[STORAGE.role])

    @property
    def members(self) -> Mapping[str, Sequence[str]]:
        return self._members

    def injector(self, kill_client: Callable[[float], str]) -> PodInjector:
        machines = Machines(self._kubernetes, self._machines, STRUCK)
        return PodInjector(
            self._kubernetes, machines, self._kinds, self._counts, self._tools_image, kill_client
        )

    def observe(self, at_ms: int) -> Observations:
        """Return no observations: the files of pods are not read."""
        return Observations(is_healed=True)

    def verdicts(self) -> Sequence[Verdict]:
        """Return the verdict on what the gateway reports when the run is over."""
        return (settled(self.ask_gateway, self._nodes, SETTLE_S),)

    def ask_gateway(self, path: str) -> Any:
        """Return the REST response to a GET of `path`.
        Raises OncelogError when no gateway is there, or it does not answer."""
        return ask_gateway(self._kubernetes, path)

    def close(self) -> None:
        """Do nothing: the run did not start this release and does not stop it."""


def all_verbs() -> frozenset[Verb]:
    return TO_LOOK.union(*NEEDED.values())


def listed_verbs(verbs: Iterable[Verb]) -> str:
    by_resource: dict[str, list[str]] = {}
    for one in verbs:
        by_resource.setdefault(one.resource, []).append(one.verb)
    return "; ".join(f"{', '.join(verbs)} {resource}" for resource, verbs in by_resource.items())


def tools_image_of(pods: Sequence[Pod]) -> str:
    """Return the name of the tools image, which has iptables. The name is derived from that of a storage
    pod's image, beside which it lies. Raises OncelogError if that has another form."""
    pod = next(one for one in pods if one.role == STORAGE.role)
    path, found, tag = pod.image.rpartition("/storage")
    if not found:
        raise OncelogError(
            f"{pod.name} runs {pod.image}, which does not name the image of the tools; give --tools-image"
        )
    return f"{path}/tools{tag}"


def bootstrap_of(pods: Sequence[Pod], kubernetes: "Kubernetes") -> str:
    """Return the address at which clients of this run find the listeners. Inside the cluster it is the
    Service's name, since addresses of pods change with each deletion. Raises OncelogError if there is none
    outside."""
    listeners = [one for one in pods if one.role == "listener"]
    if kubernetes.is_inside:
        service = re.sub(r"-listener-\d+$", "-listener", listeners[0].name)
        return f"{service}.{kubernetes.namespace}:{KAFKA_PORT}"
    addresses = outside_addresses(listeners)
    if not addresses:
        raise OncelogError(
            "the listeners have no addresses for clients outside of the cluster; install with "
            "listener.external.enabled=true, or give --bootstrap, or run inside with chaos.job.enabled=true"
        )
    return ",".join(addresses)


def outside_addresses(listeners: Iterable[Pod]) -> list[str]:
    """Return the address that each listener advertises outside, read from its environment:
    `301=$(MACHINE_IP):30094,302=…`."""
    found = []
    for pod in sorted(listeners, key=lambda one: one.name):
        for entry in pod.environment.get(ADVERTISED, "").split(","):
            number, _, address = entry.partition("=")
            if address and number == str(pod.number):
                found.append(address.replace("$(MACHINE_IP)", pod.machine_ip))
    return found


def why_not_fill(size_and_target: str) -> str:
    """Return why the volume on this line of `df` may not be filled; empty when it may."""
    size, _, target = size_and_target.strip().partition(" ")
    if not size.isdigit():
        return f"the size of {DATA} cannot be seen: {size_and_target.strip()}"
    if target.strip() != DATA:
        return f"{DATA} is no volume of its own"
    if int(size) > VOLUME_BYTES_MAX:
        limit = VOLUME_BYTES_MAX // 1024**3
        return (
            f"the volume's file system has {int(size) / 1024**3:.0f} GiB; up to {limit} are filled"
        )
    return ""
