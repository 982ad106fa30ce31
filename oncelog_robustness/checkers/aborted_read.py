"""aborted-read: what was aborted, or refused, is never seen at read_committed.

This holds for a transaction that failed or was aborted, and for a plain send (outside transactions) that was
refused for good. Such a plain send may not be seen at any isolation level. What has an unknown outcome (INFO) may
be seen or not.
"""

from oncelog_robustness.checkers.evidence import must_not_be_there, readings, writer_of
from oncelog_robustness.checkers.findings import Findings, reader, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import FinalRead, History, PlainSend
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import KeyDeleted, facts_of


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("aborted-read")
    refused = {
        value: written
        for value, written in writer_of(history).items()
        if must_not_be_there(written.by)
    }
    tombstones = {
        (deleted.topic, deleted.partition, deleted.offset): deleted.with_value
        for _, deleted in facts_of(history, KeyDeleted)
    }
    read_partitions = {(final.topic, final.partition) for final in history.all(FinalRead)}
    for by, reads, is_committed in readings(history):
        for read in reads:
            if is_committed:
                read_partitions.add((read.topic, read.partition))
            value = read.value
            if value is None:
                value = tombstones.get((read.topic, read.partition, read.offset))
            if value not in refused:
                continue
            writer_of_it = refused[value].by
            if is_committed or isinstance(writer_of_it, PlainSend):
                findings.breaks(
                    (value,), f"{writer(writer_of_it)} wrote {seen(read)}, seen by {reader(by)}"
                )
    findings.judged = sum(
        (written.send.topic, written.send.partition) in read_partitions
        for written in refused.values()
    )
    return findings.verdict("nothing refused or aborted lies in a partition that was read")
