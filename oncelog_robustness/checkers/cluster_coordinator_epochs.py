"""Coordinator epochs that coordinators write never go back.

In a partition this holds for the markers of one producer id, because all of them come from one shard: the partition
of `__transaction_state` that its transactional id belongs to. In a shard's own log it holds for the coordinators'
batches, whose producer epoch is their coordinator epoch (its low 15 bits). A partition of `__consumer_offsets` also
has transactional offsets of clients, with markers. The second rule leaves these out.
"""

from oncelog.ids import INTERNAL_TOPICS
from oncelog_robustness.checkers.cluster_case import (
    Case,
    key_of,
    named,
    with_producer,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import BatchSeen, Observations, ReplicaLog


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("coordinator-epoch-went-back")
    for log in observations.logs:
        _judge_markers(case, log)
        if log.topic in INTERNAL_TOPICS:
            _judge_shard(case, log)
    return case.verdict()


def _judge_markers(case: Case, log: ReplicaLog) -> None:
    latest: dict[int, BatchSeen] = {}
    for batch in with_producer(log):
        if not batch.marker:
            continue
        case.judge()
        before = latest.get(batch.producer_id)
        latest[batch.producer_id] = batch
        if before is not None and batch.coordinator_epoch < before.coordinator_epoch:
            case.broken(
                f"{named(key_of(log))} on node {log.node_id}, producer {batch.producer_id}: the marker at"
                f" {before.base_offset} is of coordinator epoch {before.coordinator_epoch}, the one at"
                f" {batch.base_offset} of {batch.coordinator_epoch}"
            )


def _judge_shard(case: Case, log: ReplicaLog) -> None:
    before: BatchSeen | None = None
    for batch in with_producer(log):
        if batch.is_transactional or batch.is_control:
            continue
        case.judge()
        if before is not None and batch.producer_epoch < before.producer_epoch:
            case.broken(
                f"{named(key_of(log))} on node {log.node_id}: a coordinator of epoch {batch.producer_epoch}"
                f" wrote at {batch.base_offset}, behind one of epoch {before.producer_epoch} at"
                f" {before.base_offset}"
            )
        before = batch
