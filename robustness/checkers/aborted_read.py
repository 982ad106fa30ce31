"""aborted-read: what was aborted, or refused, is never seen at read_committed.

A transaction that failed or was aborted, and a plain send that was refused for good. A plain send may not be seen at
any isolation level; INFO may turn out either way.
"""

from robustness.checkers.evidence import all_reads, must_not_be_there, writer_of
from robustness.checkers.findings import Findings, reader, seen, writer
from robustness.checkers.verdict import Verdict
from robustness.history import FinalRead, History, PlainSend
from robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("aborted-read")
    refused = {
        value: written
        for value, written in writer_of(history).items()
        if must_not_be_there(written.by)
    }
    read_partitions = {(final.topic, final.partition) for final in history.all(FinalRead)}
    for one in all_reads(history):
        by = refused[one.read.value].by if one.read.value in refused else None
        if one.is_committed:
            read_partitions.add((one.read.topic, one.read.partition))
        if by is not None and (one.is_committed or isinstance(by, PlainSend)):
            findings.broken.append(f"{writer(by)} wrote {seen(one.read)}, seen by {reader(one.by)}")
    findings.judged = sum(
        (written.send.topic, written.send.partition) in read_partitions
        for written in refused.values()
    )
    return findings.verdict("nothing refused or aborted lies in a partition that was read")
