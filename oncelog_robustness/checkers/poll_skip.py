"""poll-skip: a consumer skips no record that is in the log at its isolation level.

Gaps between the offsets of two records are normal: markers, aborted records, what was compacted or deleted. But a
record inside the gap that a final read of the same isolation level shows was skipped. The consumer could have
returned it: a read_committed reader goes no further than what is decided, and what is decided does not change.

There is one exception: a newer record of the key was being written by then. Each replica compacts on its own, so
the leader of that moment may have removed a record that the leader at the end still has.
"""

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

from oncelog_robustness.checkers.evidence import FinalLog, Written, final_logs, writer_of
from oncelog_robustness.checkers.findings import Findings, place, reader, seen
from oncelog_robustness.checkers.polling import Step, steps
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import FinalRead, History, Isolation, Read
from oncelog_robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("poll-skip")
    writers = writer_of(history)
    logs = {
        (isolation, spot): _Log.of(log, writers)
        for isolation in Isolation
        for spot, log in final_logs(history, isolation).items()
    }
    for step in steps(history):
        log = logs.get((step.poll.isolation, (step.read.topic, step.read.partition)))
        if log is not None:
            findings.judged += 1
            if step.read.offset > step.position:
                _judge(findings, step, log)
    return findings.verdict(
        "no consumer was handed a record of a partition that was read at the end"
    )


class _Log(NamedTuple):
    final: FinalRead
    reads: list[Read]
    offsets: list[int]
    superseded_ms: list[int | None]
    """The time from which a newer record of each read's key may have been there, in milliseconds; None: never."""

    @classmethod
    def of(cls, log: FinalLog, writers: Mapping[str, Written]) -> "_Log":
        reads = sorted(log.read.reads, key=lambda read: read.offset)
        superseded_ms: list[int | None] = []
        newer_ms: dict[str, int] = {}
        for read in reversed(reads):
            superseded_ms.append(None if read.key is None else newer_ms.get(read.key))
            if read.key is not None:
                written = None if read.value is None else writers.get(read.value)
                at_ms = 0 if written is None else written.by.invoked_ms
                newer_ms[read.key] = min(at_ms, newer_ms.get(read.key, at_ms))
        return cls(log.read, reads, [read.offset for read in reads], superseded_ms[::-1])

    def between(self, step: Step) -> list[Read]:
        """Return the records that the poll skipped and that compaction cannot have removed before the poll ended."""
        first = bisect_left(self.offsets, step.position)
        last = bisect_left(self.offsets, step.read.offset)
        if last <= first:
            return []
        until_ms = step.poll.completed_ms
        return [
            read
            for read, since_ms in zip(
                self.reads[first:last], self.superseded_ms[first:last], strict=True
            )
            if since_ms is None or (until_ms is not None and until_ms < since_ms)
        ]


def _judge(findings: Findings, step: Step, log: _Log) -> None:
    skipped = log.between(step)
    if not skipped:
        return
    begin = (
        f"moved to {place(step.read.topic, step.read.partition, step.position)}"
        if step.before is None
        else f"after {seen(step.before)}"
    )
    skipped_first = skipped[0]
    findings.breaks(
        (skipped_first.topic, skipped_first.partition, skipped_first.offset),
        f"{reader(step.poll)}, {begin}, was handed {seen(step.read)} and skipped"
        f" {seen(skipped_first)} ({len(skipped)} in all), which {reader(log.final)} shows",
    )
