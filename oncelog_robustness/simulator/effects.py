"""Counts the effects of faults in the simulator, such as a delayed segment.
A plan may strike where nothing can be hurt; only an effect shows that it hurt.

    world.effects[Effect.SEGMENT_DELAYED] += 1

Counting changes nothing: it draws from no stream and adds nothing to the trace.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from oncelog_robustness.fault_plan import OF_MACHINES, FaultKind

UNDOABLE_HERE: Final = frozenset({FaultKind.REDIS_OUTAGE, *OF_MACHINES})
"""The kinds of faults that the simulator cannot do: no role runs with a Redis here, but `make chaos` has one."""


class Effect(StrEnum):
    SEGMENT_DROPPED = "segment-dropped"  # on its way when its connection broke
    SEGMENT_DELAYED = "segment-delayed"
    SEGMENT_HELD = "segment-held"  # by a partition or a clog
    SEGMENT_AFTER_BREAK = (
        "segment-after-break"  # worked on when its sender had given it up: may be sent twice
    )
    SEGMENT_OVERTAKEN = (
        "segment-overtaken"  # the same, behind what its sender sent on a newer connection
    )
    CONNECTING_STUCK = "connecting-stuck"
    UNSYNCED_LOST = "unsynced-lost"  # a file fell back to what was synced
    FILE_TORN = "file-torn"  # a part of what was not synced is there
    NAMES_LOST = "names-lost"  # files made, renamed or removed, and a power cut undid it
    DISK_SLOW = "disk-waited-for"
    DISK_FULL = "write-refused"
    BIT_FLIPPED = "bit-flipped"
    KILLED_IN_STEP = "killed-in-step"  # between two calls for the disk, or in the middle of a write
    CLOCK_SET = "clock-set"
    DATABASE_UNREACHABLE = "database-unreachable"
    ANSWER_LOST = "answer-lost"  # of the database, which did commit
    KILLED = "killed"
    PAUSED = "paused"
    DRAINED = "drained"
    CLIENT_KILLED = "client-killed"
    REPLICAS_MOVED = "replicas-moved"  # accepted; done when the new ones have caught up
    OPERATED = "operated"  # an operator asked for something, and it was done
    VERSION_CHANGED = "version-changed"  # a process came back as one of another version
    SETTING_EXTREME = "setting-extreme"


def never_injected(counts: Iterable[Mapping[str, int]]) -> list[str]:
    """Return the names of the fault kinds that no run had, and of the effects that no fault had. `counts` has
    the counters of each run."""
    found = {name for one in counts for name, count in one.items() if count}
    kinds = [kind.value for kind in FaultKind if kind not in UNDOABLE_HERE]
    return [name for name in kinds if f"fault {name}" not in found] + [
        effect.value for effect in Effect if f"effect {effect.value}" not in found
    ]
