"""zombie-write: no record of a fenced producer is committed once its successor is ready.

A producer is fenced when a later `init_transactions` with its transactional id has returned. Later means that
it was called after that of the fenced producer had returned; two that overlapped may have come in either
order. A transaction that the fenced producer began after that moment, or had begun without a request to
commit, must be aborted.
"""

from bisect import bisect_right
from typing import NamedTuple

from oncelog_robustness.checkers.evidence import Seen, first_committed_sight
from oncelog_robustness.checkers.findings import Findings, reader, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import Ending, History, Outcome, Transaction, WorkloadFact
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import ProducerReady, facts_of


class _Ready(NamedTuple):
    invoked_ms: int
    completed_ms: int
    client: str


class _Readies:
    """The calls of `init_transactions` of one transactional id that returned: who its producers were, and since
    when each was ready."""

    def __init__(self, readies: list[_Ready]) -> None:
        by_call = sorted(readies)
        self._calls = [one.invoked_ms for one in by_call]
        self._soonest = list(by_call)
        for index in range(len(readies) - 2, -1, -1):
            later = self._soonest[index + 1]
            if later.completed_ms < self._soonest[index].completed_ms:
                self._soonest[index] = later
        self._own: dict[str, list[_Ready]] = {}
        for one in sorted(readies, key=lambda ready: ready.completed_ms):
            self._own.setdefault(one.client, []).append(one)

    def of(self, transaction: Transaction) -> _Ready | None:
        own = self._own.get(transaction.client, [])
        at = bisect_right([one.completed_ms for one in own], transaction.invoked_ms)
        return own[at - 1] if at else None

    def successor(self, ready: _Ready) -> _Ready | None:
        """Return the first producer that fenced the one which `ready` describes; None if there is none. It is the
        one whose `init_transactions` returned first, of all calls that began after that of `ready` had returned."""
        at = bisect_right(self._calls, ready.completed_ms)
        return self._soonest[at] if at < len(self._calls) else None


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("zombie-write")
    found: dict[str, list[_Ready]] = {}
    for entry, fact in facts_of(history, ProducerReady):
        if entry.completed_ms is not None:
            found.setdefault(fact.transactional_id, []).append(_ready(entry, entry.completed_ms))
    readies = {name: _Readies(many) for name, many in found.items()}
    fenced: list[tuple[Transaction, _Ready]] = []
    for transaction in history.all(Transaction):
        known = readies.get(transaction.transactional_id)
        ready = None if known is None else known.of(transaction)
        successor = None if known is None or ready is None else known.successor(ready)
        if successor is not None and _is_after(transaction, successor):
            fenced.append((transaction, successor))
    findings.judged = len(fenced)
    values = {send.value for by, _ in fenced for send in by.sends}
    visible = first_committed_sight(history, values)
    for transaction, successor in fenced:
        _judge(findings, transaction, successor, visible)
    return findings.verdict("no transaction is known to be of a producer that was fenced")


def _ready(entry: WorkloadFact, completed_ms: int) -> _Ready:
    return _Ready(entry.invoked_ms, completed_ms, entry.client)


def _is_after(by: Transaction, successor: _Ready) -> bool:
    """True if the client asked for the end of its transaction only after its successor was ready, or never asked.
    Such a transaction must be aborted."""
    if by.asked_ms is not None:
        return by.asked_ms > successor.completed_ms
    # With an ending nobody wrote down when it was asked for: not before the transaction began.
    return by.ending is Ending.NONE or by.invoked_ms > successor.completed_ms


def _judge(
    findings: Findings, by: Transaction, successor: _Ready, visible: dict[str, Seen]
) -> None:
    fenced = f"{successor.client} has been ready since {successor.completed_ms} ms"
    seen_one = next((visible[send.value] for send in by.sends if send.value in visible), None)
    if seen_one is not None:
        findings.broken.append(
            f"{fenced}, but {seen(seen_one.read)} of {writer(by)} is committed:"
            f" seen by {reader(seen_one.by)}"
        )
    elif by.ending is Ending.COMMIT and by.outcome is Outcome.OK and by.sends:
        findings.broken.append(f"{fenced}, but {writer(by)} was told that its commit is done")
