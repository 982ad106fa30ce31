"""lost-write: what was acknowledged is there at the end.

Acknowledged is a plain send that was answered, and every send of a transaction whose commit was answered. It may be
gone if the log's start has moved beyond it, or if its topic is compacted (it has a key) and a newer value of its key
is there. A value that lies above the read_committed end but is in the log is not lost: that is `stuck-lso`.
"""

from robustness.checkers.evidence import FinalState, Presence, Written, must_be_there, writes
from robustness.checkers.findings import Findings, place, reader, said_of, writer
from robustness.checkers.verdict import Verdict
from robustness.history import History
from robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("lost-write")
    final = FinalState.of(history)
    for written in writes(history):
        if must_be_there(written.by):
            _judge(findings, final, written)
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
