"""What a replica called synced and committed is still in its own log after its machine lost power.

The other replicas would bring it back, and hide the lie. So a log that was read right behind the power cut, before the
node began again, counts; one that was read at the end shows less.
"""

from robustness.checkers.cluster_case import Case, PartitionKey, key_of, named
from robustness.checkers.verdict import Verdict
from robustness.history import History
from robustness.observations import Observations, ReplicaLog, Synced


def check(_history: History, observations: Observations) -> Verdict:
    case = Case("fsync-lie")
    promises: dict[tuple[int, str, int], list[Synced]] = {}
    for synced in observations.synced:
        promises.setdefault((synced.node_id, synced.topic, synced.partition), []).append(synced)
    if not promises:
        case.cannot("no replica was seen to sync every append")
    for log in observations.logs:
        for synced in promises.get((log.node_id, log.topic, log.partition), ()):
            if synced.at_ms <= log.at_ms:
                _judge(case, key_of(log), log, synced)
    return case.verdict()


def _judge(case: Case, key: PartitionKey, log: ReplicaLog, synced: Synced) -> None:
    case.judge()
    if log.end_offset < synced.end_offset:
        case.broken(
            f"{named(key)} on node {log.node_id}: synced and committed up to {synced.end_offset} at"
            f" {synced.at_ms} ms, at {log.at_ms} ms the log ends at {log.end_offset}"
        )
