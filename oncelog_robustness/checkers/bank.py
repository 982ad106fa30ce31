"""bank: transfers between accounts move money and make none, so at read_committed the sum over all accounts is what
was paid in.

The rule is judged at the end, over all bookings in the bank's topic. It is also judged at each read that saw every
transfer whole or not at all.
"""

from oncelog_robustness.checkers.evidence import FinalState, writer_of
from oncelog_robustness.checkers.findings import Findings, place, seen, span, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, Read, Transaction
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import BankOpened, BankRead, booking_of, facts_of


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("bank")
    totals: dict[str, int] = {}
    for _, bank in facts_of(history, BankOpened):
        totals[bank.topic] = bank.total
        _judge_end(findings, history, bank)
    for entry, read in facts_of(history, BankRead):
        if not read.is_consistent or read.topic not in totals:
            continue
        findings.judged += 1
        found = sum(amount for _, amount in read.balances)
        if found != totals[read.topic]:
            balances = ", ".join(f"{account} {amount}" for account, amount in read.balances)
            findings.broken.append(
                f"{entry.client} ({span(entry)}) saw {found} in {read.topic} instead of"
                f" {totals[read.topic]}: {balances}"
            )
    return findings.verdict("no bank was opened")


def _judge_end(findings: Findings, history: History, bank: BankOpened) -> None:
    final = FinalState.of(history)
    bookings: list[tuple[Read, int]] = []
    for number in range(bank.partitions):
        log = final.committed.get((bank.topic, number))
        if log is None or not log.read.is_complete or log.read.start_offset > 0:
            findings.unclear.append(f"{place(bank.topic, number)} was not read from 0 to its end")
            return
        for read in log.read.reads:
            booking = booking_of(read.value or "")
            if booking is not None:
                bookings.append((read, booking.amount))
    findings.judged += 1
    found = sum(amount for _, amount in bookings)
    if found != bank.total:
        suspect = _half_visible(history, bookings)
        findings.broken.append(
            f"the final reads of {bank.topic} add up to {found} instead of {bank.total}{suspect}"
        )


def _half_visible(history: History, bookings: list[tuple[Read, int]]) -> str:
    """Return words for a verdict, about the first transfer of which one booking is visible without the others. The
    text is empty if there is none."""
    here = {read.value or "": read for read, _ in bookings}
    writers = writer_of(history)
    for value, read in here.items():
        written = writers.get(value)
        if written is None:
            return f": nobody is known to have sent {seen(read)}"
        by = written.by
        if isinstance(by, Transaction):
            gone = [send.value for send in by.sends if send.value not in here]
            if gone:
                return f": {seen(read)} of {writer(by)} is there, {gone[0]!r} is not"
    return ""
