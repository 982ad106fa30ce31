"""unseen-after-healing: what is committed and in the log is seen at read_committed.

The log is what the final read_uncommitted read shows. A value of an answered commit, or of an acknowledged plain send,
that it has and the later read_committed read has not, is unseen, whether it was skipped or the end lies below it.
"""

from robustness.checkers.evidence import FinalState, Presence, must_be_there, writes
from robustness.checkers.findings import Findings, place, reader, said_of, writer
from robustness.checkers.verdict import Verdict
from robustness.history import History
from robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("unseen-after-healing")
    final = FinalState.of(history)
    for send, by in writes(history):
        committed = final.committed.get((send.topic, send.partition))
        uncommitted = final.uncommitted.get((send.topic, send.partition))
        if not must_be_there(by) or committed is None or uncommitted is None:
            continue
        if send.value not in uncommitted.offsets or not committed.is_after(by):
            continue
        presence = committed.presence(send._replace(offset=uncommitted.offsets[send.value]))
        if presence is Presence.UNREAD:
            findings.unclear.append(
                f"{reader(committed.read)} of {place(send.topic, send.partition)} is not complete,"
                f" so {send.value!r} may be there"
            )
            continue
        findings.judged += 1
        if presence in (Presence.ABSENT, Presence.BEYOND):
            where = place(send.topic, send.partition, uncommitted.offsets[send.value])
            findings.broken.append(
                f"{writer(by)} sent {said_of(send)}; {reader(uncommitted.read)} has it at {where},"
                f" {reader(committed.read)}, which ends at {committed.read.end_offset}, has not"
            )
    return findings.verdict("no committed value lies in a log that was read at both levels")
