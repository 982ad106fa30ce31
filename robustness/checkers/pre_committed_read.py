"""pre-committed-read: nothing is seen at read_committed before its transaction was asked to commit.

Held against the moment the commit was asked for, or, where nobody wrote that down, against the beginning of the
transaction. A transaction that read its own write read it before its commit as well. And nothing at all is read, at any
isolation level, before somebody began to send it.
"""

from robustness.checkers.evidence import Seen, Written, all_reads, writer_of
from robustness.checkers.findings import Findings, reader, seen, writer
from robustness.checkers.verdict import Verdict
from robustness.history import History, PlainSend, Transaction
from robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("pre-committed-read")
    writers = writer_of(history)
    for one in all_reads(history):
        written = writers.get(one.read.value or "")
        if written is not None:
            _judge(findings, one, written)
    return findings.verdict("nothing was read of which the sender is known")


def _judge(findings: Findings, one: Seen, written: Written) -> None:
    by = written.by
    findings.judged += 1
    if one.by is by:
        findings.broken.append(f"{writer(by)} read its own {seen(one.read)} before its end")
        return
    handed_ms = one.by.completed_ms
    if isinstance(one.by, Transaction) and one.by.asked_ms is not None:
        handed_ms = one.by.asked_ms
    if handed_ms is None:
        return
    if handed_ms < by.invoked_ms:
        findings.broken.append(
            f"{reader(one.by)} saw {seen(one.read)} before {writer(by)} began to send it"
        )
    elif isinstance(by, PlainSend) or not one.is_committed or by.asked_ms is None:
        return
    elif handed_ms < by.asked_ms:
        findings.broken.append(
            f"{reader(one.by)} saw {seen(one.read)}, but {writer(by)} asked for its {by.ending}"
            f" only at {by.asked_ms} ms"
        )
