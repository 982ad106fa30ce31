"""A plan that hits every role equally often: each role's time is cut into slots, and each slot has one fault.

Within a role one fault follows the other, so of three replicas two are never taken away by chance alone (KILL_ALL does
that on purpose); across roles faults overlap as they like. Each role has a deck: a card for each fault that it may get.
It is shuffled and dealt, so each kind comes in its proportion, and none again before the deck is used up. The plan of a
seed depends on the seed, the time and the targets, not on how the run goes.
"""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from oncelog_robustness.chaos.links import CLIENTS
from oncelog_robustness.fault_plan import FaultKind, PlannedFault
from oncelog_server.cluster.plan import (
    CONTROLLER,
    COORDINATOR,
    GATEWAY,
    LISTENER,
    MARKER_SENDER,
    POSTGRES,
    REDIS,
    ROLES,
    STORAGE,
)

CardT = TypeVar("CardT")

HITS_PER_MINUTE: Final = 2.2
"""The hits of each role per minute: twenty in ten minutes, with a reserve for faults that cannot be carried out."""
REPLICAS: Final = 3
"""The replicas of each topic that a run writes, where the cluster has as many nodes."""
MACHINES: Final = "machines"
"""The role name of the machines on which processes run, where chaos can take machines away."""
MACHINE_SHARE: Final = 0.2
"""The hits of machines as a share of a role's.
Machines are struck more seldom, since each takes processes of every role with it."""
SLOT_SHARE_MAX: Final = 0.6
"""The share of a slot that a fault may last; the rest is for the recovery."""

_ANY: Final = {
    FaultKind.KILL: 3,
    FaultKind.PAUSE: 2,
    FaultKind.RESTART: 1,
    FaultKind.PARTITION: 2,
    FaultKind.PARTITION_ONE_WAY: 1,
    FaultKind.PARTITION_PAIR: 1,
    FaultKind.DELAY: 1,
    FaultKind.CLOG: 1,
    FaultKind.RESET: 1,
    FaultKind.KILL_ALL: 1,
    FaultKind.ROLLING_RESTART: 1,
    FaultKind.CLOCK_SKEW: 1,
}
DECKS: Final[Mapping[str, Mapping[FaultKind, int]]] = {
    CONTROLLER.role: _ANY,
    STORAGE.role: {**_ANY, FaultKind.DISK_FULL: 2},
    COORDINATOR.role: _ANY,
    MARKER_SENDER.role: _ANY,
    LISTENER.role: {**_ANY, FaultKind.GHOST: 2},
    GATEWAY.role: _ANY,
    POSTGRES: {FaultKind.DATABASE_OUTAGE: 1},
    REDIS: {FaultKind.REDIS_OUTAGE: 1},
    CLIENTS: {FaultKind.CLIENT_KILL: 4, FaultKind.RESET: 1, FaultKind.DELAY: 1},
}
"""The decks of a cluster of processes: for each role, how many cards of each kind of fault. They are the
weights by which a plan deals faults."""
_OF_MACHINES: Final = {FaultKind.MACHINE_DRAIN: 1, FaultKind.MACHINE_LOST: 1}
_OF_PODS: Final = {
    FaultKind.KILL: 6,
    FaultKind.PAUSE: 2,
    FaultKind.RESTART: 1,
    FaultKind.PARTITION: 1,
    FaultKind.PARTITION_ONE_WAY: 1,
    FaultKind.PARTITION_PAIR: 1,
    FaultKind.DELAY: 1,
    FaultKind.RESET: 1,
    FaultKind.KILL_ALL: 1,
    FaultKind.ROLLING_RESTART: 1,
}
POD_DECKS: Final[Mapping[str, Mapping[FaultKind, int]]] = {
    **dict.fromkeys((role.role for role in ROLES), _OF_PODS),
    STORAGE.role: {**_OF_PODS, FaultKind.DISK_FULL: 1},
    POSTGRES: {FaultKind.DATABASE_OUTAGE: 1},
    REDIS: {FaultKind.REDIS_OUTAGE: 1},
    CLIENTS: {FaultKind.CLIENT_KILL: 1},
    MACHINES: _OF_MACHINES,
}
"""The decks (weights of the kinds of faults, for each role) of a cluster of pods: mostly kills, since these
are what the owner of a machine fears."""
_OF_CONTAINERS: Final = {**_OF_PODS, FaultKind.KILL: 10}
CONTAINER_DECKS: Final[Mapping[str, Mapping[FaultKind, int]]] = {
    **dict.fromkeys((role.role for role in ROLES), _OF_CONTAINERS),
    POSTGRES: {FaultKind.DATABASE_OUTAGE: 1},
    REDIS: {FaultKind.REDIS_OUTAGE: 1},
    CLIENTS: {FaultKind.CLIENT_KILL: 1},
    MACHINES: {FaultKind.MACHINE_LOST: 1, FaultKind.PARTITION: 1},
}
"""The decks (weights of the kinds of faults, for each role) of a cluster of containers: mostly kills."""

LASTS_MS: Final[Mapping[FaultKind, tuple[int, int]]] = {
    FaultKind.KILL: (200, 4_000),
    FaultKind.PAUSE: (500, 12_000),
    FaultKind.RESTART: (0, 500),
    FaultKind.ROLLING_RESTART: (0, 0),
    FaultKind.KILL_ALL: (200, 1_500),
    FaultKind.PARTITION: (1_000, 12_000),
    FaultKind.PARTITION_ONE_WAY: (1_000, 12_000),
    FaultKind.PARTITION_PAIR: (1_000, 12_000),
    FaultKind.DELAY: (2_000, 10_000),
    FaultKind.CLOG: (500, 8_000),
    FaultKind.RESET: (0, 0),
    FaultKind.GHOST: (300, 4_000),
    FaultKind.DISK_FULL: (1_000, 8_000),
    FaultKind.CLOCK_SKEW: (2_000, 10_000),
    FaultKind.DATABASE_OUTAGE: (500, 8_000),
    FaultKind.REDIS_OUTAGE: (500, 4_000),
    FaultKind.CLIENT_KILL: (0, 0),
    FaultKind.MACHINE_DRAIN: (2_000, 15_000),
    FaultKind.MACHINE_LOST: (2_000, 15_000),
    FaultKind.OPERATE: (1_000, 10_000),
}
_NODES: Final = (CONTROLLER.role, STORAGE.role, COORDINATOR.role, MARKER_SENDER.role)
_TALKS_TO: Final[Mapping[str, frozenset[str]]] = {
    CONTROLLER.role: frozenset((*_NODES, LISTENER.role, GATEWAY.role, POSTGRES)),
    STORAGE.role: frozenset((*_NODES, LISTENER.role, REDIS)),
    COORDINATOR.role: frozenset((*_NODES, LISTENER.role, REDIS)) - {COORDINATOR.role},
    MARKER_SENDER.role: frozenset(_NODES) - {MARKER_SENDER.role},
    LISTENER.role: frozenset((*_NODES, CLIENTS)) - {MARKER_SENDER.role},
    GATEWAY.role: frozenset((CONTROLLER.role,)),
}
"""The roles that each role talks to; a partition between two that never talk would break nothing."""
_WHOLE_ROLE: Final = frozenset((FaultKind.KILL_ALL, FaultKind.ROLLING_RESTART))


def hits_for(duration_ms: int, role: str, hits_per_minute: float = HITS_PER_MINUTE) -> int:
    """Return how many faults of this role a run of `duration_ms` has."""
    rate = hits_per_minute * (MACHINE_SHARE if role == MACHINES else 1)
    return max(1, math.ceil(rate * duration_ms / 60_000))


def name_of(fault: PlannedFault) -> str:
    """Return the fault's name, which is unique in a plan."""
    return f"{fault.kind} {fault.target} at {fault.at_ms}"


def role_of(target: str) -> str:
    """Return the role of a fault's target. The target is a process (`storage-2`), a pair of them (the first
    counts), or a role."""
    first = target.partition("+")[0]
    name, _, number = first.rpartition("-")
    return name if number.isdigit() else first


def plan_chaos(
    members: Mapping[str, Sequence[str]],
    duration_ms: int,
    can: Callable[[FaultKind], bool],
    draw: random.Random,
    *,
    decks: Mapping[str, Mapping[FaultKind, int]] = DECKS,
    hits_per_minute: float = HITS_PER_MINUTE,
) -> list[PlannedFault]:
    """Return the planned faults in order of their beginnings. `members` has the processes of each role; a
    role of one thing has its own name as its member. `can` says which kinds of faults are possible."""
    faults: list[PlannedFault] = []
    everybody = [name for names in members.values() for name in names]
    for number, (role, names) in enumerate(members.items()):
        hits = hits_for(duration_ms, role, hits_per_minute)
        # One slot is left for the roles' slots to begin one after the other, or all would be struck at once.
        slot_ms = duration_ms / (hits + 1)
        phase_ms = slot_ms * number / len(members)
        deck = [kind for kind, cards in decks[role].items() if can(kind) for _ in range(cards)]
        if not deck:
            continue
        kinds = _dealt(deck, hits, draw)
        targets = _dealt(names, hits, draw)
        for slot, (kind, name) in enumerate(zip(kinds, targets, strict=True)):
            shortest, longest = LASTS_MS[kind]
            limit = max(shortest, int(slot_ms * SLOT_SHARE_MAX))
            lasts_ms = draw.randint(shortest, max(shortest, min(longest, limit)))
            spare_ms = max(0.0, slot_ms * SLOT_SHARE_MAX - lasts_ms)
            faults.append(
                PlannedFault(
                    at_ms=int(phase_ms + slot * slot_ms + draw.uniform(0, spare_ms)),
                    lasts_ms=lasts_ms,
                    kind=kind,
                    target=_target(kind, role, name, everybody, draw),
                    strength=round(draw.random(), 3),
                )
            )
    return sorted(faults, key=lambda fault: (fault.at_ms, fault.target, fault.kind))


def _target(
    kind: FaultKind, role: str, name: str, everybody: Sequence[str], draw: random.Random
) -> str:
    if kind in _WHOLE_ROLE:
        return role
    if kind is FaultKind.PARTITION_PAIR:
        met = [one for one in everybody if one != name and role_of(one) in _TALKS_TO[role]]
        return f"{name}+{draw.choice(met)}"
    return name


def _dealt(deck: Sequence[CardT], count: int, draw: random.Random) -> list[CardT]:
    """Deal `count` cards (faults or targets) from the deck, which is shuffled anew each time it is used
    up."""
    dealt: list[CardT] = []
    while len(dealt) < count:
        shuffled = list(deck)
        draw.shuffle(shuffled)
        dealt += shuffled
    return dealt[:count]
