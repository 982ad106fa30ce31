"""delayed-end-txn-tv1, delayed-end-txn-tv2: a request to end one transaction never decides another.

How it could: a client asks for the end of one transaction, receives no answer, and goes on. Its request arrives
when the next transaction with the same producer id and epoch is open, and ends that one. In TV2 (KIP-890) each
transaction has an epoch of its own, so the late request is refused. In TV1, the protocol before, only the
coordinator can tell that it is late. Two things show it from outside:

- a transaction is visible though its client asked for an abort, or for nothing at all: a late commit did it;
- values of an answered commit are gone, and an earlier transaction of the same transactional id asked for an abort.
"""

from oncelog_robustness.checkers.evidence import (
    FinalState,
    Presence,
    Seen,
    Written,
    first_committed_sight,
)
from oncelog_robustness.checkers.findings import Findings, reader, said_of, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import Ending, History, Outcome, Transaction
from oncelog_robustness.observations import Observations


def check_tv1(history: History, observations: Observations) -> Verdict:
    return _check(history, "TV1", "delayed-end-txn-tv1")


def check_tv2(history: History, observations: Observations) -> Verdict:
    return _check(history, "TV2", "delayed-end-txn-tv2")


def _check(history: History, protocol: str, name: str) -> Verdict:
    findings = Findings(name)
    final = FinalState.of(history)
    transactions = history.all(Transaction)
    unasked = {
        send.value
        for by in transactions
        if by.protocol == protocol and by.ending is not Ending.COMMIT
        for send in by.sends
    }
    visible = first_committed_sight(history, unasked)
    aborted_before: dict[str, Transaction] = {}
    for transaction in transactions:
        if transaction.protocol == protocol:
            if transaction.ending is not Ending.COMMIT:
                _judge_unasked(findings, transaction, visible, final)
            elif transaction.outcome is Outcome.OK:
                earlier = aborted_before.get(transaction.transactional_id)
                _judge_committed(findings, transaction, earlier, final)
        if transaction.ending is Ending.ABORT:
            aborted_before[transaction.transactional_id] = transaction
    return findings.verdict(
        f"no {protocol} transaction was aborted, left open, or followed an abort"
    )


def _judge_unasked(
    findings: Findings, by: Transaction, visible: dict[str, Seen], final: FinalState
) -> None:
    if not any((send.topic, send.partition) in final.committed for send in by.sends) and not any(
        send.value in visible for send in by.sends
    ):
        return
    findings.judged += 1
    for send in by.sends:
        if send.value in visible:
            one = visible[send.value]
            findings.broken.append(
                f"{seen(one.read)} of {writer(by)} is committed, though that client never asked"
                f" for a commit: seen by {reader(one.by)}"
            )
            return


def _judge_committed(
    findings: Findings, by: Transaction, earlier: Transaction | None, final: FinalState
) -> None:
    if earlier is None:
        return
    presences = [final.committed_presence(Written(send, by)) for send in by.sends]
    if all(presence is None for presence in presences):
        return
    findings.judged += 1
    for send, presence in zip(by.sends, presences, strict=True):
        if presence is Presence.ABSENT:
            findings.broken.append(
                f"{said_of(send)} of {writer(by)} is gone; before it {writer(earlier)} had asked"
                " for an abort"
            )
            return
