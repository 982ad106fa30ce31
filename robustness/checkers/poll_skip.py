"""poll-skip: a consumer passes over nothing that is there at its isolation level.

Gaps are normal: control batches, aborted records, what was compacted away or deleted. What a final read of the same
isolation level shows inside a gap was there to be handed out when the consumer passed it: a read_committed reader goes
no further than what is decided, and what is decided does not change.
"""

from bisect import bisect_left
from typing import NamedTuple

from robustness.checkers.evidence import FinalLog, final_logs
from robustness.checkers.findings import Findings, place, reader, seen
from robustness.checkers.polling import Step, steps
from robustness.checkers.verdict import Verdict
from robustness.history import FinalRead, History, Isolation, Read
from robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("poll-skip")
    logs = {
        (isolation, spot): _Log.of(log)
        for isolation in Isolation
        for spot, log in final_logs(history, isolation).items()
    }
    for step in steps(history):
        log = logs.get((step.poll.isolation, (step.read.topic, step.read.partition)))
        if log is not None:
            findings.judged += 1
            _judge(findings, step, log)
    return findings.verdict(
        "no consumer was handed a record of a partition that was read at the end"
    )


class _Log(NamedTuple):
    final: FinalRead
    reads: list[Read]
    offsets: list[int]

    @classmethod
    def of(cls, log: FinalLog) -> "_Log":
        reads = sorted(log.read.reads, key=lambda read: read.offset)
        return cls(log.read, reads, [read.offset for read in reads])


def _judge(findings: Findings, step: Step, log: _Log) -> None:
    first = bisect_left(log.offsets, step.position)
    skipped = bisect_left(log.offsets, step.read.offset) - first
    if skipped <= 0:
        return
    begin = (
        f"moved to {place(step.read.topic, step.read.partition, step.position)}"
        if step.before is None
        else f"after {seen(step.before)}"
    )
    skipped_first = log.reads[first]
    findings.breaks(
        (skipped_first.topic, skipped_first.partition, skipped_first.offset),
        f"{reader(step.poll)}, {begin}, was handed {seen(step.read)} and skipped"
        f" {seen(skipped_first)} ({skipped} in all), which {reader(log.final)} shows",
    )
