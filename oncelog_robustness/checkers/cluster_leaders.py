"""Each leader epoch of a partition has one leader, and leader epochs never go back.

A leader is a process. A process that starts again registers again, which ends the epochs in which its predecessor
led. Otherwise a request to the predecessor that arrives late would be taken for one to the new process.
"""

from oncelog_robustness.checkers.cluster_case import Case, PartitionKey, key_of, name_of, named
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations, ReplicaState


class Leaders:
    """The first leader that was seen in each leader epoch, by partition. The simulator asks `rival` at every step,
    the checker at the end."""

    def __init__(self) -> None:
        self._leaders: dict[tuple[PartitionKey, int], ReplicaState] = {}

    def rival(self, state: ReplicaState) -> str | None:
        """Return a sentence if another node, or another process of the same node, was seen to lead this partition
        in this epoch; else None."""
        if not state.is_leader or state.leader_epoch < 0:
            return None
        first = self._leaders.setdefault((key_of(state), state.leader_epoch), state)
        if (first.node_id, first.node_incarnation) == (state.node_id, state.node_incarnation):
            return None
        is_same_node = first.node_id == state.node_id
        again = f" in its process {state.node_incarnation}" if is_same_node else ""
        return (
            f"{name_of(state)} in leader epoch {state.leader_epoch}: node {first.node_id} led at"
            f" {first.at_ms} ms, node {state.node_id}{again} at {state.at_ms} ms"
        )

    def __len__(self) -> int:
        return len(self._leaders)


def check_one_leader(_history: History, observations: Observations) -> Verdict:
    case = Case("two-leaders-of-an-epoch")
    leaders = Leaders()
    for state in observations.replicas:
        sentence = leaders.rival(state)
        if sentence is not None:
            case.broken(sentence)
    case.judge(len(leaders))
    return case.verdict()


def check_epochs(_history: History, observations: Observations) -> Verdict:
    """Check two rules. The leader epoch of a replica does not go back while its process lives. In a log, no batch
    has a lower leader epoch than the batch before it."""
    case = Case("leader-epoch-went-back")
    latest: dict[tuple[PartitionKey, int, int], ReplicaState] = {}
    for state in observations.replicas:
        if state.leader_epoch < 0:
            continue
        replica = (key_of(state), state.node_id, state.node_incarnation)
        before = latest.get(replica)
        latest[replica] = state
        case.judge()
        if before is not None and state.leader_epoch < before.leader_epoch:
            case.broken(
                f"{name_of(state)} on node {state.node_id} was in leader epoch {before.leader_epoch} at"
                f" {before.at_ms} ms and in {state.leader_epoch} at {state.at_ms} ms"
            )
    for log in observations.logs:
        for first, second in zip(log.batches, log.batches[1:], strict=False):
            case.judge()
            if second.leader_epoch < first.leader_epoch:
                case.broken(
                    f"{named(key_of(log))} on node {log.node_id}: the batch at {first.base_offset} is of"
                    f" leader epoch {first.leader_epoch}, the one behind it at {second.base_offset} of"
                    f" {second.leader_epoch}"
                )
    return case.verdict()
