"""A record that a replica called synced and committed is still in its log after its machine lost power.

The other replicas would bring a lost record back, and hide the loss. So the logs that count most were read right after
a power cut, before the node started again. A log that was read at the end of the run shows less. The missing part may
be the end of the log. It may also lie further in, where it was not synced while something behind it was. A compacted
log has holes in any case.

Two things take back what was synced, and break no promise: a replica that is emptied on purpose and copied again, and
bits of its disk that turn over.
"""

from typing import Final

from oncelog_robustness.checkers.cluster_case import (
    Case,
    PartitionKey,
    compacted_partitions,
    key_of,
    named,
    newest_logs,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import Fault, History
from oncelog_robustness.observations import Observations, ReplicaLog, Synced

BIT_FLIP: Final = "bit-flip"
"""The kind of the fault that turns bits of a disk, as the fault plan names it."""

_Replica = tuple[int, PartitionKey]
"""A node id and a partition."""


def check(history: History, observations: Observations) -> Verdict:
    case = Case("fsync-lie")
    promises: dict[tuple[int, str, int], list[Synced]] = {}
    for synced in observations.synced:
        promises.setdefault((synced.node_id, synced.topic, synced.partition), []).append(synced)
    if not promises:
        case.cannot("no replica was seen to sync every append")
    emptied = _emptied(observations)
    # At the end nobody knows whether a deleted topic was compacted.
    without_holes = newest_logs(observations).keys() - compacted_partitions(observations)
    is_rotten = any(one.kind == BIT_FLIP for one in history.all(Fault))
    for log in observations.logs:
        if log.is_part and is_rotten:
            case.cannot("bits of disks turned over")
            continue
        for synced in promises.get((log.node_id, log.topic, log.partition), ()):
            since = emptied.get((log.node_id, key_of(log)), ())
            if synced.at_ms <= log.at_ms and not any(
                synced.at_ms <= at_ms <= log.at_ms for at_ms in since
            ):
                _judge(case, log, synced, may_have_holes=key_of(log) not in without_holes)
    return case.verdict()


def _emptied(observations: Observations) -> dict[_Replica, list[int]]:
    """Return, for each replica, the times in milliseconds of all observations in which its process had emptied it,
    to copy it again."""
    found: dict[_Replica, list[int]] = {}
    for state in observations.replicas:
        if state.start_over_count:
            found.setdefault((state.node_id, key_of(state)), []).append(state.at_ms)
    return found


def _judge(case: Case, log: ReplicaLog, synced: Synced, *, may_have_holes: bool) -> None:
    case.judge()
    promised = f"synced and committed up to {synced.end_offset} at {synced.at_ms} ms"
    name = f"{named(key_of(log))} on node {log.node_id}"
    if log.end_offset < synced.end_offset:
        case.broken(f"{name}: {promised}, at {log.at_ms} ms the log ends at {log.end_offset}")
    elif log.whole_until is not None and log.whole_until < synced.end_offset and not may_have_holes:
        case.broken(
            f"{name}: {promised}, at {log.at_ms} ms something is missing or damaged at {log.whole_until},"
            f" though the log ends at {log.end_offset}"
        )
