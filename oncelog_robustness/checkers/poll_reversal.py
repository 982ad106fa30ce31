"""poll-reversal: a consumer that was not repositioned receives ever higher offsets, and never one twice."""

from oncelog_robustness.checkers.findings import Findings, place, reader, seen
from oncelog_robustness.checkers.polling import steps
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("poll-reversal")
    for position, before, read, poll in steps(history):
        findings.judged += 1
        if read.offset < position:
            after = (
                f"after it was moved to {place(read.topic, read.partition, position)}"
                if before is None
                else f"after {seen(before)}"
            )
            findings.broken.append(f"{reader(poll)} was handed {seen(read)} {after}")
    return findings.verdict("no consumer was handed a record from a known position on")
