"""Each batch of a log is followed by the next offset; only compaction makes holes.

A hole that only one replica has is found by comparing replicas (`cluster_replicas`). A hole that all replicas have
is not: its records were removed, or never written, on all of them alike.
"""

from itertools import pairwise

from oncelog_robustness.checkers.cluster_case import Case, compacted_partitions, key_of, named
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("hole-in-log")
    compacted = compacted_partitions(observations)
    for log in observations.logs:
        if key_of(log) in compacted:
            case.cannot(f"{named(key_of(log))} is compacted")
            continue
        for first, second in pairwise(log.batches):
            case.judge()
            if second.base_offset != first.last_offset + 1:
                case.broken(
                    f"{named(key_of(log))} on node {log.node_id}: behind the batch"
                    f" {first.base_offset}..{first.last_offset} stands one at {second.base_offset}"
                )
    return case.verdict()
