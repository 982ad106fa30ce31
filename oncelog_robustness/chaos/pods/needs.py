"""What each fault needs to be allowed. The chart's Role and ClusterRole have these rules; a test compares them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from oncelog_robustness.fault_plan import NETWORK, OF_MACHINES, FaultKind


@dataclass(frozen=True, slots=True, order=True)
class Verb:
    group: str
    resource: str
    """With its part behind a slash, `pods/exec`."""
    verb: str


def _verbs(group: str, resource: str, *verbs: str) -> frozenset[Verb]:
    return frozenset(Verb(group, resource, verb) for verb in verbs)


EXEC: Final = _verbs("", "pods/exec", "get", "create")
"""A connection that becomes a websocket is a `get`, to newer servers a `create` as well."""
TO_LOOK: Final = _verbs("", "pods", "get", "list") | _verbs("", "pods/log", "get") | EXEC
"""Every run needs these: who is there, why it ended, and what the gateway says."""
_DELETE: Final = _verbs("", "pods", "delete")
_CUT: Final = _verbs("", "pods/ephemeralcontainers", "patch")
_ROLL: Final = frozenset(
    verb
    for kind in ("statefulsets", "deployments")
    for verb in _verbs("apps", kind, "get", "list", "patch")
)
OF_NODES: Final = _verbs("", "nodes", "list", "get", "patch")
"""Nodes are in no namespace, so these stand in a ClusterRole."""
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
"""Kinds that are not here cannot be had of pods."""


def needed(kinds: Iterable[FaultKind]) -> frozenset[Verb]:
    """By a run with these faults."""
    return TO_LOOK.union(*(NEEDED[kind] for kind in kinds))


IN_A_NAMESPACE: Final = needed(kind for kind in NEEDED if kind not in OF_MACHINES)
WITH_MACHINES: Final = needed(NEEDED) - OF_NODES
"""Beside `OF_NODES`."""
