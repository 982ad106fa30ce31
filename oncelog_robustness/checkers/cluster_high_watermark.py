"""The high watermark never goes back on a replica while its process lives, unless the replica was emptied on
purpose.

When a process starts again, its high watermark may be lower: it has only what its last checkpoint said. A new
leader has the high watermark that its last fetch as a follower returned (KIP-101). No record is lost by either, and
`cluster_committed` judges that the records are there. Within one process a follower cuts its log back by leader
epochs only, so it never cuts what is committed.
"""

from oncelog_robustness.checkers.cluster_case import Case, PartitionKey, key_of, name_of
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations, ReplicaState


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("high-watermark-went-back")
    latest: dict[tuple[PartitionKey, int, int, int], ReplicaState] = {}
    for state in observations.replicas:
        replica = (key_of(state), state.node_id, state.node_incarnation, state.start_over_count)
        before = latest.get(replica)
        latest[replica] = state
        if before is None:
            continue
        case.judge()
        if state.high_watermark < before.high_watermark:
            case.broken(
                f"{name_of(state)} on node {state.node_id}: the high watermark was"
                f" {before.high_watermark} at {before.at_ms} ms (leader epoch {before.leader_epoch}) and"
                f" {state.high_watermark} at {state.at_ms} ms (leader epoch {state.leader_epoch})"
            )
    return case.verdict()
