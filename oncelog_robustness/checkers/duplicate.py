"""duplicate: no log holds one value at two offsets.

The checker compares the reads of one partition by one reader. Where two readers disagree, `inconsistent_offsets`
reports it.
"""

from oncelog_robustness.checkers.evidence import writer_of
from oncelog_robustness.checkers.findings import Findings, place, reader, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import FinalRead, History, Poll, Read
from oncelog_robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("duplicate")
    writers = writer_of(history)
    found: dict[tuple[str, int, str], tuple[int, int, str]] = {}
    for final in history.all(FinalRead):
        first: dict[tuple[str, int, str], int] = {}
        findings.judged += len(final.reads)
        _compare(first, final.reads, reader(final), found)
    polled: dict[str, dict[tuple[str, int, str], int]] = {}
    for poll in history.all(Poll):
        findings.judged += len(poll.reads)
        _compare(polled.setdefault(poll.client, {}), poll.reads, reader(poll), found)
    for (topic, partition, value), (one, other, who) in found.items():
        by = f", sent once by {writer(writers[value].by)}" if value in writers else ""
        findings.broken.append(
            f"{value!r} is at {place(topic, partition, one)} and at"
            f" {place(topic, partition, other)}{by}, seen by {who}"
        )
    return findings.verdict("nothing was read")


def _compare(
    first: dict[tuple[str, int, str], int],
    reads: tuple[Read, ...],
    who: str,
    found: dict[tuple[str, int, str], tuple[int, int, str]],
) -> None:
    for read in reads:
        if read.value is None:
            continue
        key = (read.topic, read.partition, read.value)
        before = first.setdefault(key, read.offset)
        if before != read.offset:
            found.setdefault(key, (before, read.offset, who))
