"""The offsets of every replica are in order at every moment: log start ≤ LSO ≤ HW ≤ LEO."""

from oncelog_robustness.checkers.cluster_case import Case, name_of
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations, ReplicaState


def disorder(state: ReplicaState) -> str | None:
    """Return what is wrong with the order of these offsets, in a sentence; None if they are in order."""
    start, high, end = state.start_offset, state.high_watermark, state.end_offset
    stable = state.last_stable_offset
    if start <= high <= end and (stable is None or start <= stable <= high):
        return None
    return (
        f"at {state.at_ms} ms {name_of(state)} on node {state.node_id} (leader epoch"
        f" {state.leader_epoch}, {'leader' if state.is_leader else 'follower'}) has log start {start},"
        f" LSO {'unknown' if stable is None else stable}, HW {high}, LEO {end}"
    )


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("offsets-out-of-order")
    for state in observations.replicas:
        case.judge()
        sentence = disorder(state)
        if sentence is not None:
            case.broken(sentence)
    return case.verdict()
