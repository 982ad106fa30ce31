"""Faults given to pods. These kinds mean something else here than their names say:

- KILL deletes the pod without grace, or ends its processes by SIGKILL from within. The second needs a pod that shares
  its process namespace (the chart's `chaos.enabled`): nothing can kill the first process of its own namespace. A pod
  gets it once: Kubernetes makes a container wait longer each time it ends, and that wait is not ours to measure.
- PAUSE is SIGSTOP to every process of the pod, and needs the same namespace. The longest pause is shorter than
  liveness probes allow.
- RESTART deletes the pod with its own grace: it drains. ROLLING_RESTART is `kubectl rollout restart`.
- A partition drops packets in the pod's network, the kubelet's probes as well. Connections survive when TCP
  retransmits for longer. RESET answers every packet of a second with a TCP reset.
- DISK_FULL fills the volume of a node with a file, where the volume is a small file system of its own.
- A lost pod comes back by its controller: a fault ends when every pod of the role is Ready again.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from oncelog.errors import OncelogError
from oncelog.wording import counted
from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.chaos.plan import MACHINES, name_of, role_of
from oncelog_robustness.chaos.pods.machines import Machines
from oncelog_robustness.chaos.pods.network import HELPER, cut_script, heal_script, helper_patch
from oncelog_robustness.chaos.pods.state import Pod, losses, named
from oncelog_robustness.fault_plan import NETWORK, OF_MACHINES, FaultKind, PlannedFault

if TYPE_CHECKING:
    from oncelog_robustness.chaos.pods.api import Kubernetes

LOOK_S: Final = 0.25
COME_BACK_S: Final = 180.0
ROLL_S: Final = 600.0
FIND_S: Final = 60.0
HELPER_START_S: Final = 30.0
RESET_S: Final = 1.0
LAST_LINES: Final = 8
DATA: Final = "/var/lib/oncelog"
FILLED: Final = f"{DATA}/.chaos-filled"
PAUSED: Final = "paused"
_DOWN: Final = frozenset(
    (
        FaultKind.KILL,
        FaultKind.KILL_ALL,
        FaultKind.RESTART,
        FaultKind.DATABASE_OUTAGE,
        FaultKind.REDIS_OUTAGE,
    )
)
"""The kinds of faults after which another process runs in the pod, unless the old one was only paused."""

ResultT = TypeVar("ResultT")


class PodInjector:
    """Begins and ends planned faults on the pods of a release, and on their machines, through the Kubernetes
    API."""

    def __init__(
        self,
        kubernetes: "Kubernetes",
        machines: Machines,
        kinds: frozenset[FaultKind],
        counts: dict[str, int],
        tools_image: str,
        kill_client: Callable[[float], str],
    ) -> None:
        """Make an injector. `kinds` are the faults that it can give; `counts` says how many pods each role has when all
        is well. `tools_image` is the image of the helper containers that change a pod's network. `kill_client` kills
        one of the running clients, chosen by a number from 0 to 1, and returns its name."""
        self._kubernetes = kubernetes
        self._machines = machines
        self._kinds = kinds
        self._counts = counts
        self._tools_image = tools_image
        self._kill_client = kill_client
        self._threads = ThreadPoolExecutor(24, thread_name_prefix="injector")
        self._is_closing = threading.Event()
        self._under_way: dict[str, PlannedFault] = {}
        self._struck: dict[str, list[Pod]] = {}
        self._looking = threading.Lock()
        self._known = self._struck_pods()
        self._reported: set[tuple[str, str, int]] = set()
        self.findings: list[str] = []
        self.facts: dict[str, str] = {}
        self.missed: set[str] = set()

    def can(self, kind: FaultKind) -> bool:
        return kind in self._kinds

    async def begin(self, fault: PlannedFault) -> None:
        self._under_way[name_of(fault)] = fault
        try:
            await self._call(self._begin, fault)
        except OncelogError as error:
            self.findings.append(f"{name_of(fault)} could not be carried out: {error}")
            self.missed.add(name_of(fault))

    async def end(self, fault: PlannedFault) -> None:
        try:
            await self._call(self._end, fault)
        except OncelogError as error:
            self.findings.append(f"{name_of(fault)} could not be ended: {error}")
        finally:
            self._under_way.pop(name_of(fault), None)

    async def heal(self) -> None:
        for fault in list(self._under_way.values()):
            await self.end(fault)
        try:
            await self._call(self._machines.take_back_all)
        except OncelogError as error:
            self.findings.append(f"the machines do not heal: {error}")
        await self._call(self._await_roles, tuple(self._counts), "the end of all faults")

    async def look_for_dead(self) -> None:
        """Report each pod that ended although no fault was given to it; its controller starts it again."""
        try:
            await self._call(self._look)
        except OncelogError:
            # The API may be away for a moment; the next look sees as much.
            return

    def close(self) -> None:
        """Stop waiting for pods, and make each machine that was taken away schedulable again."""
        self._is_closing.set()
        self._threads.shutdown(cancel_futures=True)
        self._machines.take_back_all()

    async def _call(self, work: Callable[..., ResultT], *arguments: object) -> ResultT:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(*arguments))

    # -------------------------------------------------------------------------------------------------- faults

    def _begin(self, fault: PlannedFault) -> None:
        name, kind = name_of(fault), fault.kind
        if kind is FaultKind.CLIENT_KILL:
            self.facts[name] = killed = self._kill_client(fault.strength)
            if not killed:
                self.missed.add(name)
        elif kind in OF_MACHINES:
            self.facts[name] = self._machines.strike(fault)
        elif kind is FaultKind.ROLLING_RESTART:
            self._roll(fault.target)
        elif kind is FaultKind.KILL_ALL:
            pods = [one for one in self._named().values() if one.role == fault.target]
            self._strike(fault, pods)
            for pod in pods:
                self._kubernetes.delete(pod, 0)
        elif kind in NETWORK:
            self._cut(fault)
        else:
            self._strike_one(fault, self._find(fault.target))

    def _strike_one(self, fault: PlannedFault, pod: Pod) -> None:
        self._strike(fault, [pod])
        match fault.kind:
            case FaultKind.RESTART:
                self._kubernetes.delete(pod)
            case FaultKind.PAUSE:
                self._signal(pod, "STOP")
            case FaultKind.DISK_FULL:
                self._fill(pod)
            case FaultKind.KILL:
                self._kill(fault, pod)
            case FaultKind.DATABASE_OUTAGE | FaultKind.REDIS_OUTAGE:
                if fault.strength >= 0.5 and FaultKind.PAUSE in self._kinds:
                    # This is noted first, because a signal without a response may have stopped the pod.
                    self.facts[name_of(fault)] = PAUSED
                    self._signal(pod, "STOP")
                else:
                    self._kill(fault, pod)
            case _:
                raise AssertionError(f"pods have no {fault.kind}")

    def _strike(self, fault: PlannedFault, pods: Sequence[Pod]) -> None:
        if not pods:
            raise OncelogError(f"{fault.target} has no pod")
        self._struck[name_of(fault)] = list(pods)

    def _kill(self, fault: PlannedFault, pod: Pod) -> None:
        by_signal = pod.shares_processes and not pod.restarts and fault.strength < 0.5
        if by_signal:
            self._signal(pod, "KILL")
        else:
            self._kubernetes.delete(pod, 0)
        self.facts[name_of(fault)] = f"{pod.name}, {'SIGKILL' if by_signal else 'deleted'}"

    def _signal(self, pod: Pod, signal: str) -> None:
        # -1 is every process that this user may signal but the shell itself and the first of the namespace, which is
        # Kubernetes' own.
        said = self._kubernetes.execute(pod, pod.container, "sh", "-c", f"kill -{signal} -1")
        # Killed with the rest, a shell may not live to tell.
        if said.code > 0 and signal != "KILL":
            raise OncelogError(f"SIG{signal} in {pod.name}: {said.text.strip()}")

    def _roll(self, role: str) -> None:
        kind, thing = self._kubernetes.workload(role)
        at = datetime.now(UTC).isoformat()
        self._kubernetes.restart_rollout(kind, thing["metadata"]["name"], at)
        deadline = time.monotonic() + ROLL_S
        while not self._is_closing.is_set():
            _, thing = self._kubernetes.workload(role)
            if is_rolled_out(thing):
                return
            if time.monotonic() > deadline:
                raise OncelogError(f"{role} is not rolled out within {ROLL_S:.0f} s")
            time.sleep(LOOK_S)

    def _fill(self, pod: Pod) -> None:
        free = f"$(df -B1 --output=avail {DATA} | tail -1)"
        # What other writers leave meanwhile, and blocks that are kept back, go to the second file.
        script = f"fallocate -l {free} {FILLED}; dd if=/dev/zero of={FILLED}.2 bs=4k; true"
        self._kubernetes.execute(pod, pod.container, "sh", "-c", script)

    def _cut(self, fault: PlannedFault) -> None:
        first, _, second = fault.target.partition("+")
        pod = self._find(first)
        # Clients come from anywhere, so a pod cut off from them is cut off from everybody.
        peers = [self._find(second).ip] if second and second != CLIENTS else []
        self._strike(fault, [pod])
        self._need_helper(pod)
        self._in_helper(pod, f"{heal_script()}; {cut_script(fault, peers)}")
        if fault.kind is FaultKind.RESET:
            time.sleep(RESET_S)
            self._in_helper(pod, heal_script())

    def _need_helper(self, pod: Pod) -> None:
        if HELPER in pod.helpers:
            return
        self._kubernetes.add_container(pod, helper_patch(self._tools_image, pod.container))
        deadline = time.monotonic() + HELPER_START_S
        while not self._is_closing.is_set():
            now = self._by_uid(pod)
            if now is None:
                raise OncelogError(f"{pod.name} went before it could be cut off")
            if HELPER in now.helpers:
                return
            if time.monotonic() > deadline:
                raise OncelogError(
                    f"{pod.name}: the container {HELPER} of {self._tools_image} does not start"
                )
            time.sleep(LOOK_S)

    def _in_helper(self, pod: Pod, script: str) -> None:
        said = self._kubernetes.execute(pod, HELPER, "sh", "-c", script)
        if said.code != 0:
            raise OncelogError(f"{pod.name}: {said.text.strip() or f'exit code {said.code}'}")

    # -------------------------------------------------------------------------------------------------- their end

    def _end(self, fault: PlannedFault) -> None:
        began, name = time.monotonic(), name_of(fault)
        pods = self._struck.pop(name, [])
        if fault.kind in OF_MACHINES:
            self._machines.take_back(fault)
            self._await_roles(tuple(self._counts), name)
            self._rebase(set(self._counts))
            return
        if fault.kind is FaultKind.CLIENT_KILL:
            return
        for pod in pods:
            self._undo(fault, pod)
        role = role_of(fault.target)
        is_down = fault.kind in _DOWN and self.facts.get(name) != PAUSED
        if is_down:
            self._await_gone(pods)
        self._await_roles((role,), name)
        self._rebase({role})
        if is_down:
            before = self.facts.get(name, counted(len(pods), "pod"))
            self.facts[name] = f"{before}; Ready {time.monotonic() - began:.1f} s after its time"

    def _undo(self, fault: PlannedFault, pod: Pod) -> None:
        """Undo the fault in the pod. Do nothing if the pod is gone, because the fault went with it."""
        now = self._by_uid(pod)
        if now is None or now.is_leaving:
            return
        try:
            if fault.kind is FaultKind.PAUSE or self.facts.get(name_of(fault)) == PAUSED:
                self._signal(pod, "CONT")
            elif fault.kind is FaultKind.DISK_FULL:
                remove = f"rm -f {FILLED} {FILLED}.2"
                self._kubernetes.execute(pod, pod.container, "sh", "-c", remove)
            elif fault.kind in NETWORK:
                self._in_helper(pod, heal_script())
        except OncelogError:
            if self._by_uid(pod) is not None:
                raise

    def _await_gone(self, pods: Sequence[Pod]) -> None:
        """Wait until the killed pods are seen to be away: the API may call a dead pod Ready for a while."""
        deadline = time.monotonic() + COME_BACK_S
        while not self._is_closing.is_set() and time.monotonic() < deadline:
            now = {one.uid: one for one in self._kubernetes.pods()}
            if all(pod.uid not in now or now[pod.uid].restarts > pod.restarts for pod in pods):
                return
            time.sleep(LOOK_S)

    def _await_roles(self, roles: Sequence[str], after: str) -> None:
        deadline = time.monotonic() + COME_BACK_S
        while not self._is_closing.is_set():
            away = self._away(roles)
            if not away:
                return
            if time.monotonic() > deadline:
                names = ", ".join(away)
                self.findings.append(f"{COME_BACK_S:.0f} s after {after}: {names}")
                return
            time.sleep(LOOK_S)

    def _away(self, roles: Sequence[str]) -> list[str]:
        pods = self._kubernetes.pods()
        findings = []
        for role in roles:
            ready = [
                one for one in pods if one.role == role and one.is_ready and not one.is_leaving
            ]
            if len(ready) < self._counts[role]:
                findings.append(f"{len(ready)} of {self._counts[role]} pods of {role} are Ready")
        return findings

    # -------------------------------------------------------------------------------------------------- looking

    def _named(self) -> dict[str, Pod]:
        return named(self._kubernetes.pods())

    def _find(self, name: str) -> Pod:
        """Return the pod of this name, and wait for it if another fault has taken it away.
        Raises OncelogError when it does not become Ready."""
        deadline = time.monotonic() + FIND_S
        while True:
            # A role of one pod is its own name in a plan.
            everybody = self._named()
            pod = everybody.get(name) or everybody.get(f"{name}-1")
            if pod is not None and pod.is_ready:
                return pod
            if self._is_closing.is_set() or time.monotonic() > deadline:
                raise OncelogError(f"{name} has no pod that is Ready")
            time.sleep(LOOK_S)

    def _by_uid(self, pod: Pod) -> Pod | None:
        return next((one for one in self._kubernetes.pods() if one.uid == pod.uid), None)

    def _struck_pods(self) -> dict[str, Pod]:
        """Return the pods of roles that faults may strike, by uid.
        Pods of Jobs and tests are left out, since they come and go by themselves."""
        return {one.uid: one for one in self._kubernetes.pods() if one.role in self._counts}

    def _roles_struck(self) -> set[str]:
        faults = list(self._under_way.values())
        if any(one.kind in OF_MACHINES for one in faults):
            return {*self._counts, MACHINES, CLIENTS}
        return {role_of(one.target) for one in faults}

    def _look(self) -> None:
        with self._looking:
            # Struck roles are read before and after, because a fault may begin while the API answers.
            struck = self._roles_struck()
            now = self._struck_pods()
            struck |= self._roles_struck()
            found = list(losses(self._known, now, struck))
            self._known = now
        for loss in found:
            key = (loss.pod.uid, loss.text, loss.pod.restarts)
            if key not in self._reported:
                self._reported.add(key)
                self.findings.append(self._with_last_words(loss.text, loss.pod, loss.container))

    def _with_last_words(self, text: str, pod: Pod, container: str) -> str:
        if not container:
            return text
        try:
            words = self._kubernetes.last_words(pod, container, LAST_LINES).strip()
        except OncelogError as error:
            words = str(error)
        return f"{text}; its last words:\n{words}"

    def _rebase(self, roles: set[str]) -> None:
        """Remember the present state of these roles' pods, from which later losses are counted. A fault has
        caused what changed until now."""
        with self._looking:
            now = self._struck_pods()
            kept = {uid: one for uid, one in self._known.items() if one.role not in roles}
            self._known = kept | {uid: one for uid, one in now.items() if one.role in roles}


def is_rolled_out(thing: dict[str, object]) -> bool:
    """True if a StatefulSet or a Deployment, as the API's JSON has it, has rolled out completely."""
    spec, status, metadata = (dict(thing[key]) for key in ("spec", "status", "metadata"))  # type: ignore[call-overload]
    wanted = spec.get("replicas", 1)
    if status.get("observedGeneration", 0) < metadata["generation"]:
        return False
    counts = [status.get(key, 0) for key in ("updatedReplicas", "readyReplicas", "replicas")]
    revisions = status.get("currentRevision"), status.get("updateRevision")
    return counts == [wanted] * 3 and revisions[0] == revisions[1]
