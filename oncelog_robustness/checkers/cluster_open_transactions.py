"""No transaction stays open after healing: none in a partition, none at its coordinator, and no LSO below its HW.

A transaction that its coordinator has ended but a partition still holds open is a hanging one (KIP-890): its marker
was lost, or data came in behind it. Before healing a marker may be on its way, so nothing is judged then.
"""

from oncelog_robustness.checkers.cluster_case import (
    Case,
    fullest_logs,
    key_of,
    named,
    newest_logs,
    with_producer,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import (
    BatchSeen,
    Observations,
    ReplicaLog,
    ReplicaState,
    StateRecorded,
)

ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("transaction-left-open")
    if not observations.is_healed:
        case.cannot("the run was not healed: what is open may still be ended")
        return case.verdict()
    last: dict[str, StateRecorded] = {}
    for record in sorted(observations.states, key=lambda state: (state.shard, state.offset)):
        last[record.transactional_id] = record
    by_producer = {record.producer_id: record for record in last.values()}
    for log in fullest_logs(observations):
        _judge_log(case, log, by_producer)
    for record in last.values():
        case.judge()
        if record.state not in ENDED:
            case.broken(
                f"{record.transactional_id} is still {record.state} (producer {record.producer_id} epoch"
                f" {record.producer_epoch}, {record.shard}/{record.offset})"
            )
    _judge_last_stable_offsets(case, observations)
    return case.verdict()


def _judge_log(case: Case, log: ReplicaLog, states: dict[int, StateRecorded]) -> None:
    opened: dict[int, BatchSeen] = {}
    for batch in with_producer(log):
        if batch.marker:
            opened.pop(batch.producer_id, None)
        elif batch.is_transactional and not batch.is_control:
            opened.setdefault(batch.producer_id, batch)
    case.judge()
    for producer_id in sorted(opened):
        batch = opened[producer_id]
        state = states.get(producer_id)
        known = (
            "no coordinator recorded this producer id"
            if state is None
            else f"its coordinator says {state.transactional_id} is {state.state}, epoch {state.producer_epoch}"
        )
        case.broken(
            f"{named(key_of(log))}: the transaction of producer {producer_id} epoch {batch.producer_epoch} is"
            f" open since offset {batch.base_offset}; {known}"
        )


def _judge_last_stable_offsets(case: Case, observations: Observations) -> None:
    """Report each partition whose LSO was still below its high watermark: a transaction is open in it. The state
    that counts is the last one seen of a leader of the newest epoch. Partitions of deleted topics are left out."""
    there = newest_logs(observations)
    leaders: dict[tuple[str, str, int], ReplicaState] = {}
    for state in observations.replicas:
        known = leaders.get(key_of(state))
        if key_of(state) not in there:
            # Its topic was deleted, with whatever was open in it.
            continue
        if state.is_leader and (known is None or state.leader_epoch >= known.leader_epoch):
            leaders[key_of(state)] = state
    for key in sorted(leaders):
        state = leaders[key]
        if state.last_stable_offset is None:
            continue
        case.judge()
        if state.last_stable_offset != state.high_watermark:
            case.broken(
                f"{named(key)}: node {state.node_id} still had LSO {state.last_stable_offset} below HW"
                f" {state.high_watermark} when it was seen last, at {state.at_ms} ms"
            )
