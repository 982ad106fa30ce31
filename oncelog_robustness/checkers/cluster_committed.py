"""A leader has every record that any earlier leader called committed.

A leader's high watermark says: this much is on every in-sync replica. The next leader is chosen among these, so its
log reaches at least as far, whatever its own high watermark says at first. A follower that cuts its log at the high
watermark, and not by leader epochs, may lose such records (KIP-101, KIP-279).

Within one leader epoch the same holds from each moment on. A node that still leads, or leads again after a restart
of its process, has what it called committed before.
"""

from oncelog_robustness.checkers.cluster_case import Case, PartitionKey, key_of, name_of
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations, ReplicaState


class Committed:
    """The highest high watermark that was seen of each leader epoch's leader, by partition. The simulator asks
    `lacking` at every step, the checker at the end."""

    def __init__(self) -> None:
        self._furthest: dict[PartitionKey, dict[int, ReplicaState]] = {}

    def add(self, state: ReplicaState) -> None:
        if not state.is_leader:
            return
        epochs = self._furthest.setdefault(key_of(state), {})
        known = epochs.get(state.leader_epoch)
        if known is None or state.high_watermark > known.high_watermark:
            epochs[state.leader_epoch] = state

    def lacking(self, leader: ReplicaState, *, also_of_its_epoch: bool = True) -> str | None:
        """Return a sentence if this leader's log ends below what a leader of an earlier epoch had committed; None
        if it does not, or the replica is no leader.

        With `also_of_its_epoch`, what was committed in this leader's own epoch counts as well. That is right only while
        no state later than this one was added.
        """
        if not leader.is_leader:
            return None
        earlier = [
            state
            for leader_epoch, state in self._furthest.get(key_of(leader), {}).items()
            if leader_epoch < leader.leader_epoch + also_of_its_epoch
            and state.high_watermark > leader.end_offset
        ]
        if not earlier:
            return None
        most = max(earlier, key=lambda state: state.high_watermark)
        return (
            f"{name_of(leader)}: node {most.node_id}, leader in epoch {most.leader_epoch}, had committed up to"
            f" {most.high_watermark} at {most.at_ms} ms; node {leader.node_id}, leader in epoch"
            f" {leader.leader_epoch}, had a log up to {leader.end_offset} at {leader.at_ms} ms"
        )


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("committed-records-gone")
    committed = Committed()
    shortest: dict[tuple[PartitionKey, int], ReplicaState] = {}
    fell_short: dict[tuple[PartitionKey, int], str] = {}
    for state in observations.replicas:
        committed.add(state)
        if not state.is_leader:
            continue
        key = key_of(state), state.leader_epoch
        sentence = committed.lacking(state)
        if sentence is not None:
            fell_short.setdefault(key, sentence)
        known = shortest.get(key)
        if known is None or state.end_offset < known.end_offset:
            shortest[key] = state
    for key, state in shortest.items():
        case.judge()
        # An earlier leader may be seen to have committed it only after a later one was seen without it.
        sentence = fell_short.get(key) or committed.lacking(state, also_of_its_epoch=False)
        if sentence is not None:
            case.broken(sentence)
    return case.verdict()
