"""stuck-group: after healing, each group that a workload waited for has read every record."""

from oncelog_robustness.checkers.findings import Findings, place
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import GroupProgress, facts_of


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("stuck-group")
    for entry, fact in facts_of(history, GroupProgress):
        for topic, partition, committed, wanted in fact.partitions:
            findings.judged += 1
            if committed < wanted:
                findings.broken.append(
                    f"group {fact.group} stands at {committed} in {place(topic, partition)}, below"
                    f" {wanted}, after {fact.waited_ms} ms of waiting, as {entry.client} saw"
                )
    return findings.verdict("nobody waited for a group after healing")
