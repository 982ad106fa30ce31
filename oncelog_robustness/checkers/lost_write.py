"""lost-write: what was acknowledged is in the log at the end.

Acknowledged is a plain send (outside transactions) that was answered, and every send of a transaction whose commit
was answered. There are two excuses for a missing value. The log's start has moved beyond it, in a topic whose
records a workload deletes. Or its topic is compacted, and a newer value of its key is there. A value that lies
above the read_committed end but is in the log is not lost: that is `stuck-lso`.

A tombstone of a committed transaction is there in the same way, for as long as topics keep them: without it a
deleted key would come back for a consumer that reads from the start.
"""

from oncelog_robustness.checkers.evidence import (
    FinalState,
    Presence,
    Written,
    must_be_there,
    writer_of,
    writes,
)
from oncelog_robustness.checkers.findings import Findings, place, reader, said_of, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import KeyDeleted, facts_of


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("lost-write")
    final = FinalState.of(history)
    for written in writes(history):
        if must_be_there(written.by):
            _judge(findings, final, written)
    _judge_tombstones(findings, final, history)
    return findings.verdict("nothing acknowledged lies in a partition that was read at the end")


def _judge(findings: Findings, final: FinalState, written: Written) -> None:
    send, by = written
    presence = final.committed_presence(written)
    if presence is None:
        return
    log = final.committed[(send.topic, send.partition)]
    if presence is Presence.BEYOND:
        uncommitted = final.uncommitted.get((send.topic, send.partition))
        if uncommitted is None or not uncommitted.is_after(by):
            return
        log, presence = uncommitted, uncommitted.presence(send)
        if presence is Presence.BEYOND:
            presence = Presence.ABSENT
    findings.judged += 1
    if presence is Presence.ABSENT:
        findings.broken.append(
            f"{writer(by)} sent {said_of(send)}, but {reader(log.read)} of"
            f" {log.read.start_offset} to {log.read.end_offset} does not have it"
        )
    elif presence is Presence.UNREAD:
        findings.unclear.append(
            f"{reader(log.read)} of {place(send.topic, send.partition)} is not complete, so"
            f" {send.value!r} of {by.client} may be there"
        )


def _judge_tombstones(findings: Findings, final: FinalState, history: History) -> None:
    deletions = facts_of(history, KeyDeleted)
    writers = writer_of(history) if deletions else {}
    for entry, deleted in deletions:
        log = final.committed.get((deleted.topic, deleted.partition))
        written = writers.get(deleted.with_value)
        if log is None or written is None or deleted.offset < 0:
            continue
        if log.may_begin_later and deleted.offset < log.read.start_offset:
            continue
        if not must_be_there(written.by) or not log.is_after(written.by):
            continue
        findings.judged += 1
        if log.newest.get(deleted.key, -1) >= deleted.offset or not log.read.is_complete:
            continue
        where = place(deleted.topic, deleted.partition, deleted.offset)
        findings.broken.append(
            f"{writer(written.by)} deleted key {deleted.key!r} at {where}, acknowledged to"
            f" {entry.client}, but {reader(log.read)} up to {log.read.end_offset} has neither that"
            " tombstone nor a newer value"
        )
