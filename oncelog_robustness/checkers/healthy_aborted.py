"""healthy-transaction-aborted: a transaction that its client ends within its time-out is aborted by nobody else.

The checker looks at each transaction whose client received the answer that it is over, or that its producer is fenced.
By the client's monotonic clock the time-out had not passed then. Such a transaction breaks the rule unless something
else had a right to abort it:

- another client that called `init_transactions` for the transactional id meanwhile, or whose earlier call of it was
  never answered;
- a late copy of a call of `init_transactions`, because of a fault or of a call that took long. Such a call fences
  every producer that was opened before it;
- an operator, who may end any transaction;
- the wall clock, where it was changed and decides: a coordinator that takes a shard over has nothing else to go by.

A client that received no answer, or only the answer to its own abort, proves nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.ids import TRANSACTION_STATE_TOPIC
from oncelog_robustness.checkers.findings import Findings, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import (
    Ending,
    Fault,
    History,
    Outcome,
    Transaction,
    WorkloadFact,
)
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import ProducerReady, facts_of

OPENS_AT_ONCE_MS: Final = 2_000
"""The longest call of `init_transactions`, in milliseconds, of which surely only one request was sent. A longer one
may have been repeated by the client or a listener."""
_OPERATE: Final = "operate"
_CLOCKS: Final = ("clock-skew", "clock-jump")
_COPY_NOTHING: Final = (*_CLOCKS, "client-kill", _OPERATE)
"""The kinds of faults, as `fault_plan` names them, during which a call of `init_transactions` counts as sent once. They
lose no response after which a client or a listener would send it again. During any other fault a call may leave a late
copy."""
_FOR_EVER: Final = 2**62


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("healthy-transaction-aborted")
    openings: dict[str, list[WorkloadFact]] = {}
    for entry, fact in facts_of(history, ProducerReady):
        openings.setdefault(fact.transactional_id, []).append(entry)
    circumstances = _Circumstances(history.all(Fault), observations)
    for transaction in history.all(Transaction):
        told_ms = _told_ms(transaction)
        if told_ms is None:
            continue
        others = openings.get(transaction.transactional_id, [])
        if transaction.is_taken and not circumstances.are_clear(transaction, told_ms, others):
            continue
        findings.judged += 1
        if transaction.is_taken:
            findings.broken.append(
                f"{writer(transaction)} was told that it is over or its producer fenced"
                f" {told_ms - transaction.invoked_ms} ms after its begin, with a time-out of"
                f" {transaction.timeout_ms} ms, and nobody else had asked for its end:"
                f" {transaction.error[:200]}"
            )
    return findings.verdict("no client kept a transaction within a time-out that it wrote down")


def _told_ms(by: Transaction) -> int | None:
    """Return when the client received the answer that its transaction is committed, or was ended by others, in
    milliseconds. None if it received neither, or only after the time-out."""
    is_answered = by.is_taken or (by.ending is Ending.COMMIT and by.outcome is Outcome.OK)
    if by.timeout_ms is None or by.completed_ms is None or not is_answered:
        return None
    return by.completed_ms if by.completed_ms - by.invoked_ms < by.timeout_ms else None


@dataclass(frozen=True, slots=True)
class _Circumstances:
    faults: Sequence[Fault]
    observations: Observations

    def are_clear(self, by: Transaction, told_ms: int, openings: Sequence[WorkloadFact]) -> bool:
        """True if nobody but the cluster can have ended the transaction: no other producer of its id, no late copy of a
        request, no operator and no changed clock. `told_ms` is when its client learned of the end, `openings` are all
        calls of `init_transactions` for its id."""
        own = [one for one in openings if one.client == by.client and _end_of(one) <= by.invoked_ms]
        if len(own) != 1:
            return False
        for one in openings:
            is_before = _end_of(one) < own[0].invoked_ms or one is own[0]
            if one.invoked_ms <= told_ms and not (is_before and self._came_once(one)):
                return False
        if any(one.kind == _OPERATE and one.invoked_ms <= told_ms for one in self.faults):
            return False
        return self._has_its_time(by, told_ms)

    def _came_once(self, opening: WorkloadFact) -> bool:
        ended_ms = _end_of(opening)
        return ended_ms - opening.invoked_ms < OPENS_AT_ONCE_MS and not any(
            one.invoked_ms <= ended_ms
            and _end_of(one) >= opening.invoked_ms
            and one.kind not in _COPY_NOTHING
            for one in self.faults
        )

    def _has_its_time(self, by: Transaction, told_ms: int) -> bool:
        """True if the coordinator measured the time-out rightly: no wall clock was changed, or no other coordinator
        took the transaction over while it was open. Only a take-over makes the coordinator go by the wall clock."""
        if not any(one.kind in _CLOCKS and one.invoked_ms <= told_ms for one in self.faults):
            return True
        name = by.transactional_id
        states = self.observations.states
        shard = next((one.shard for one in states if one.transactional_id == name), None)
        taken_over_ms = [
            one.at_ms
            for one in self.observations.shards
            if (one.topic, one.shard) == (TRANSACTION_STATE_TOPIC, shard)
        ]
        # Without such a take-over, the owner of the shard is not known.
        return bool(taken_over_ms) and not any(
            by.invoked_ms <= at_ms <= told_ms for at_ms in taken_over_ms
        )


def _end_of(one: WorkloadFact | Fault) -> int:
    return _FOR_EVER if one.completed_ms is None else one.completed_ms
