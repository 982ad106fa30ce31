"""The permissions that each fault needs. The chart's Role and ClusterRole have these rules; a test compares them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog_robustness.fault_plan import NETWORK, OF_MACHINES, FaultKind


@dataclass(frozen=True, slots=True, order=True)
class Verb:
    group: str
    resource: str
    """The resource of the API, with its subresource behind a slash, such as `pods/exec`."""
    verb: str


def _verbs(group: str, resource: str, *verbs: str) -> frozenset[Verb]:
    return frozenset(Verb(group, resource, verb) for verb in verbs)


EXEC: Final = _verbs("", "pods/exec", "get", "create")
"""The permission to run a command in a pod.
Opening its websocket is a `get`, and for newer servers a `create` as well."""
TO_LOOK: Final = _verbs("", "pods", "get", "list") | _verbs("", "pods/log", "get") | EXEC
"""The permissions that every run needs, to see the pods, why one ended, and what the gateway answers."""
_DELETE: Final = _verbs("", "pods", "delete")
_CUT: Final = _verbs("", "pods/ephemeralcontainers", "patch")
_ROLL: Final = frozenset(
    verb
    for kind in ("statefulsets", "deployments")
    for verb in _verbs("apps", kind, "get", "list", "patch")
)
OF_NODES: Final = _verbs("", "nodes", "list", "get", "patch")
"""The permissions on nodes. Nodes are in no namespace, so these stand in a ClusterRole."""
_EVICT: Final = _verbs("", "pods/eviction", "create")

NEEDED: Final[Mapping[FaultKind, frozenset[Verb]]] = {
    FaultKind.KILL: _DELETE | EXEC,
    FaultKind.KILL_ALL: _DELETE,
    FaultKind.RESTART: _DELETE,
    FaultKind.ROLLING_RESTART: _ROLL,
    FaultKind.PAUSE: EXEC,
    FaultKind.DATABASE_OUTAGE: _DELETE | EXEC,
    FaultKind.REDIS_OUTAGE: _DELETE | EXEC,
    FaultKind.DISK_FULL: EXEC,
    **{kind: _CUT | EXEC for kind in NETWORK if kind not in (FaultKind.CLOG, FaultKind.GHOST)},
    FaultKind.MACHINE_DRAIN: _EVICT | OF_NODES,
    FaultKind.MACHINE_LOST: _DELETE | OF_NODES,
    FaultKind.CLIENT_KILL: frozenset(),
}
"""The permissions that each kind of fault needs. Kinds that are missing here cannot be given to pods."""


def needed(kinds: Iterable[FaultKind]) -> frozenset[Verb]:
    """Return the permissions that a run with these faults needs."""
    return TO_LOOK.union(*(NEEDED[kind] for kind in kinds))


IN_A_NAMESPACE: Final = needed(kind for kind in NEEDED if kind not in OF_MACHINES)
WITH_MACHINES: Final = needed(NEEDED) - OF_NODES
"""The permissions that all faults need in the namespace, without `OF_NODES`."""
