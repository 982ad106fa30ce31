"""A plan of faults, drawn from a seed before anything runs: which strikes what and when.
A fault injector carries it out.

The plan is the same for the simulator and for processes; the injector decides what a kind of fault means there. An
injector that cannot do a kind reports it beforehand (`can`), so that no plan is half carried out in silence.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol


class FaultKind(StrEnum):
    KILL = "kill"  # SIGKILL, started again after `lasts_ms`
    POWER_CUT = "power-cut"  # the same, and what was not synced is lost or torn
    PAUSE = "pause"  # SIGSTOP, SIGCONT after `lasts_ms`
    RESTART = "restart"  # SIGTERM: drained, then started again
    ROLLING_RESTART = "rolling-restart"  # each process of a role after the other
    KILL_ALL = "kill-all"  # every process of a role at once
    PARTITION = "partition"  # nothing passes between the target and the rest
    PARTITION_ONE_WAY = "partition-one-way"  # nothing leaves the target
    PARTITION_PAIR = "partition-pair"  # nothing passes between two processes
    DELAY = "delay"  # everything to and from the target is late
    CLOG = "clog"  # bytes are held back, then come all at once
    RESET = "reset"  # every connection of the target breaks
    GHOST = "ghost"  # connections break, but what was sent on them arrives later all the same
    SLOW_DISK = "slow-disk"
    DISK_FULL = "disk-full"
    BIT_FLIP = "bit-flip"  # one bit of a segment that is not being written
    CLOCK_SKEW = "clock-skew"
    CLOCK_JUMP = "clock-jump"
    DATABASE_OUTAGE = "database-outage"
    REDIS_OUTAGE = "redis-outage"
    CLIENT_KILL = "client-kill"
    MACHINE_DRAIN = "machine-drain"  # cordoned, its pods evicted; taken back after `lasts_ms`
    MACHINE_LOST = "machine-lost"  # cordoned, its pods all gone at once
    MOVE = "move"  # an operator gives a partition other replicas
    OPERATE = (
        "operate"  # an operator ends a transaction, drains or removes a node, or changes a feature
    )


FAMILIES: Final[Mapping[str, tuple[FaultKind, ...]]] = {
    "ended": (
        FaultKind.KILL,
        FaultKind.KILL_ALL,
        FaultKind.RESTART,
        FaultKind.ROLLING_RESTART,
        FaultKind.CLIENT_KILL,
        FaultKind.POWER_CUT,
    ),
    "frozen": (FaultKind.PAUSE,),
    "network": (
        FaultKind.PARTITION,
        FaultKind.PARTITION_ONE_WAY,
        FaultKind.PARTITION_PAIR,
        FaultKind.DELAY,
        FaultKind.CLOG,
        FaultKind.RESET,
        FaultKind.GHOST,
    ),
    "disk and clock": (
        FaultKind.DISK_FULL,
        FaultKind.SLOW_DISK,
        FaultKind.BIT_FLIP,
        FaultKind.CLOCK_SKEW,
        FaultKind.CLOCK_JUMP,
    ),
    "machines": (FaultKind.MACHINE_DRAIN, FaultKind.MACHINE_LOST),
    "database": (FaultKind.DATABASE_OUTAGE, FaultKind.REDIS_OUTAGE),
}
"""The kinds of faults in groups, by what they strike: processes (ended or frozen), the network, disks and clocks,
machines, or databases."""

NETWORK: Final = FAMILIES["network"]
OF_MACHINES: Final = FAMILIES["machines"]

ANY: Final = "any"
"""The target of a fault whose injector chooses what it strikes."""
DATABASE: Final = "database"
"""The target of a database outage for all controllers; an outage with one controller as its
target is for that one alone."""
_FIND_THEIR_OWN: Final = frozenset((FaultKind.CLIENT_KILL, FaultKind.MOVE, FaultKind.OPERATE))
WHOLE_ROLE: Final = frozenset((FaultKind.KILL_ALL, FaultKind.ROLLING_RESTART))
_ASKS_THE_DATABASE: Final = "controller"


def storm_targets(kind: FaultKind, roles: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that a storm may have as targets of this kind of fault, in a cluster of these roles and
    processes. For a pair of processes they are the names of each half.

    Storms are for the simulator alone. A kind of fault that it does not have gets no targets.
    """
    if kind is FaultKind.REDIS_OUTAGE or kind in OF_MACHINES:
        return ()
    if kind in _FIND_THEIR_OWN:
        return (ANY,)
    if kind in WHOLE_ROLE:
        return tuple(roles)
    if kind is FaultKind.DATABASE_OUTAGE:
        controllers = [name for name in names if name.rpartition("-")[0] == _ASKS_THE_DATABASE]
        return (DATABASE, _ASKS_THE_DATABASE, *controllers)
    return (*roles, *names)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that begins `at_ms` after the run's beginning and lasts `lasts_ms`. `strength` is from 0 to 1, and
    each kind uses it in its own way, such as for how slow a disk becomes."""

    at_ms: int
    lasts_ms: int
    kind: FaultKind
    target: str
    """The target: a process, `storage-2`; for a role's faults the role, `storage`; for a
    pair `storage-2+listener-1`."""
    strength: float = 0.5


class FaultInjector(Protocol):
    """Carries the planned faults out. One injector works in the simulator, others on real processes, containers or
    pods."""

    def can(self, kind: FaultKind) -> bool: ...

    async def begin(self, fault: PlannedFault) -> None: ...

    async def end(self, fault: PlannedFault) -> None:
        """Undo this fault, whatever other faults go on. When the run heals, it also calls this for every fault that
        has not ended yet."""
        ...

    async def heal(self) -> None:
        """End every fault, repair what is broken, and let every process run."""
        ...


@dataclass(frozen=True, slots=True)
class Storm:
    """The faults that a run may draw: for each kind its rate, its targets and its lengths. The run's seed draws an
    `intensity` by which all rates are multiplied."""

    rates: Mapping[FaultKind, float]
    """The faults per minute of each kind, at intensity 1."""
    targets: Mapping[FaultKind, Sequence[str]]
    lasts_ms: Mapping[FaultKind, tuple[int, int]]
    """The shortest and the longest length of each kind of fault, in milliseconds."""


def plan(
    storm: Storm, duration_ms: int, intensity: float, draw: random.Random
) -> list[PlannedFault]:
    """Draw the faults of a run, and return them in the order of their beginnings. The storm's rates are multiplied by
    `intensity`. The plan depends on the seed alone, not on what happens in the run."""
    faults: list[PlannedFault] = []
    for kind in FaultKind:
        rate = storm.rates.get(kind, 0.0) * intensity
        if rate <= 0:
            continue
        targets = storm.targets[kind]
        shortest, longest = storm.lasts_ms[kind]
        at_ms = 0.0
        while True:
            at_ms += draw.expovariate(rate / 60_000)
            if at_ms >= duration_ms:
                break
            faults.append(
                PlannedFault(
                    at_ms=int(at_ms),
                    lasts_ms=draw.randint(shortest, longest),
                    kind=kind,
                    target=draw.choice(targets),
                    strength=round(draw.random(), 3),
                )
            )
    return sorted(faults, key=lambda fault: fault.at_ms)
