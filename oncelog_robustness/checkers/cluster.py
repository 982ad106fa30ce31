"""The list of the checkers that judge what was observed inside the cluster, in the order of a report."""

from typing import Final

from oncelog_robustness.checkers import (
    cluster_committed,
    cluster_coordinator_epochs,
    cluster_fsync,
    cluster_high_watermark,
    cluster_holes,
    cluster_leaders,
    cluster_metadata,
    cluster_offsets_order,
    cluster_open_transactions,
    cluster_outcomes,
    cluster_producer_ids,
    cluster_replicas,
    cluster_sequences,
    cluster_shard_owners,
    cluster_stable_offset,
    cluster_transitions,
)
from oncelog_robustness.checkers.verdict import Checker

CHECKERS: Final[tuple[Checker, ...]] = (
    cluster_offsets_order.check,
    cluster_high_watermark.check,
    cluster_committed.check,
    cluster_leaders.check_one_leader,
    cluster_leaders.check_epochs,
    cluster_shard_owners.check,
    cluster_coordinator_epochs.check,
    cluster_sequences.check_sequences,
    cluster_sequences.check_producer_epochs,
    cluster_producer_ids.check,
    cluster_metadata.check,
    cluster_transitions.check,
    cluster_outcomes.check,
    cluster_open_transactions.check,
    cluster_stable_offset.check,
    cluster_replicas.check_same_batches,
    cluster_replicas.check_same_bytes,
    cluster_holes.check,
    cluster_fsync.check,
)
