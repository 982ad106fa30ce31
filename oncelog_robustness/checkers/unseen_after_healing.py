"""unseen-after-healing: what is committed and in the log is seen at read_committed.

The final read_uncommitted read shows the log. It may have a value of an answered commit, or of an acknowledged
plain send, that the later read_committed read lacks. That value is unseen, whether it was skipped or lies above the
read's end.

The rule is also broken if only one of the two final reads gets to the end of a partition. The other did not give up
too early then: it is stuck.
"""

from oncelog_robustness.checkers.evidence import FinalState, Presence, must_be_there, writes
from oncelog_robustness.checkers.findings import Findings, place, reader, said_of, span, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import FinalRead, History
from oncelog_robustness.observations import Observations


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
        if send.value in committed.offsets:
            findings.judged += 1
            continue
        presence = committed.presence(send._replace(offset=uncommitted.offsets[send.value]))
        if presence is Presence.UNREAD:
            if not uncommitted.read.is_complete:
                findings.unclear.append(
                    f"{reader(committed.read)} of {place(send.topic, send.partition)} is not"
                    f" complete, so {send.value!r} may be there"
                )
            continue
        findings.judged += 1
        if presence in (Presence.ABSENT, Presence.BEYOND):
            where = place(send.topic, send.partition, uncommitted.offsets[send.value])
            findings.broken.append(
                f"{writer(by)} sent {said_of(send)}; {reader(uncommitted.read)} has it at {where},"
                f" {reader(committed.read)}, which ends at {committed.read.end_offset}, has not"
            )
    for spot, committed in final.committed.items():
        uncommitted = final.uncommitted.get(spot)
        if uncommitted is not None:
            _judge_stuck(findings, committed.read, uncommitted.read)
    return findings.verdict("no committed value lies in a log that was read at both levels")


def _judge_stuck(findings: Findings, first: FinalRead, second: FinalRead) -> None:
    if first.is_complete is second.is_complete:
        return
    stuck, whole = (second, first) if first.is_complete else (first, second)
    findings.broken.append(
        f"{reader(stuck)} of {place(stuck.topic, stuck.partition)} ({span(stuck)}) never got from"
        f" {stuck.start_offset} to {stuck.end_offset}, while {reader(whole)} got to"
        f" {whole.end_offset}"
    )
