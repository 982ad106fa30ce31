"""Whoever leads has all that any earlier leader called committed.

A leader's high watermark says: this much is on every in-sync replica. The next leader is chosen among these, so its log
reaches at least as far, whatever its own high watermark says at first. A log that is cut by the high watermark, and
not by leader epochs, loses exactly this (KIP-101, KIP-279).
"""

from robustness.checkers.cluster_case import Case, PartitionKey, key_of, name_of
from robustness.checkers.verdict import Verdict
from robustness.history import History
from robustness.observations import Observations, ReplicaState


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("committed-records-gone")
    committed: dict[PartitionKey, dict[int, ReplicaState]] = {}
    shortest: dict[PartitionKey, dict[int, ReplicaState]] = {}
    for state in observations.replicas:
        if not state.is_leader:
            continue
        epochs = committed.setdefault(key_of(state), {})
        known = epochs.get(state.leader_epoch)
        if known is None or state.high_watermark > known.high_watermark:
            epochs[state.leader_epoch] = state
        ends = shortest.setdefault(key_of(state), {})
        known = ends.get(state.leader_epoch)
        if known is None or state.end_offset < known.end_offset:
            ends[state.leader_epoch] = state
    for key, ends in shortest.items():
        _judge_partition(case, committed[key], ends)
    return case.verdict()


def _judge_partition(
    case: Case, committed: dict[int, ReplicaState], shortest: dict[int, ReplicaState]
) -> None:
    furthest: ReplicaState | None = None
    for leader_epoch in sorted(shortest):
        leader = shortest[leader_epoch]
        case.judge()
        if furthest is not None and leader.end_offset < furthest.high_watermark:
            case.broken(
                f"{name_of(leader)}: node {furthest.node_id}, leader in epoch {furthest.leader_epoch}, had"
                f" committed up to {furthest.high_watermark} at {furthest.at_ms} ms; node {leader.node_id},"
                f" leader in epoch {leader_epoch}, had a log up to {leader.end_offset} at {leader.at_ms} ms"
            )
        most = committed[leader_epoch]
        if furthest is None or most.high_watermark > furthest.high_watermark:
            furthest = most
