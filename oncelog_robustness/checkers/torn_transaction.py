"""torn-transaction: at the end a transaction is in the logs as a whole or not at all, whatever answer its client
received.

A send that was not acknowledged may never have arrived. It counts only if the client asked for a commit, because
then it had flushed everything before. What compaction or a moved log start may have removed does not count. What
lies above the read_committed end is undecided, which `stuck-lso` judges.
"""

from oncelog_robustness.checkers.evidence import FinalState, Presence, Written
from oncelog_robustness.checkers.findings import Findings, place, said_of, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import Ending, History, Transaction
from oncelog_robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("torn-transaction")
    final = FinalState.of(history)
    for transaction in history.all(Transaction):
        _judge(findings, final, transaction)
    return findings.verdict("no transaction wrote twice into partitions that were read at the end")


def _judge(findings: Findings, final: FinalState, transaction: Transaction) -> None:
    here, gone, unread = [], [], []
    for send in transaction.sends:
        presence = final.committed_presence(Written(send, transaction))
        if presence is Presence.PRESENT:
            here.append(send)
        elif presence is Presence.UNREAD:
            unread.append(send)
        elif presence is Presence.ABSENT and (
            transaction.ending is Ending.COMMIT or send.offset is not None
        ):
            gone.append(send)
    if len(here) + len(gone) < 2 and not (here and unread):
        return
    findings.judged += 1
    if here and gone:
        findings.broken.append(
            f"of {writer(transaction)} {len(here)} of {len(transaction.sends)} sends are visible:"
            f" {said_of(here[0])} is, {said_of(gone[0])} is not"
        )
    elif here and unread:
        findings.unclear.append(
            f"the final read of {place(unread[0].topic, unread[0].partition)} is not complete, so"
            f" {said_of(unread[0])} of {writer(transaction)} may be there"
        )
