"""half-payment: a payment of the workload `prepared` is in the database, once, if and only if its record is
committed in the topic, once.

The checker judges the end of the run, when every application has come back and ended what was left (two-phase
commit, KIP-939, ADR 0043).
"""

from collections import Counter

from oncelog_robustness.checkers.evidence import FinalState, writer_of
from oncelog_robustness.checkers.findings import Findings, place, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, Read, Transaction
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import PaymentsBooked, facts_of


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("half-payment")
    for _, booked in facts_of(history, PaymentsBooked):
        _judge(findings, history, booked)
    return findings.verdict("no payment was booked in a database")


def _judge(findings: Findings, history: History, booked: PaymentsBooked) -> None:
    final = FinalState.of(history)
    reads: list[Read] = []
    for number in range(booked.partitions):
        log = final.committed.get((booked.topic, number))
        if log is None or not log.read.is_complete or log.read.start_offset > 0:
            findings.unclear.append(f"{place(booked.topic, number)} was not read from 0 to its end")
            return
        reads += log.read.reads
    written = writer_of(history)
    times = Counter(read.value for read in reads)
    in_database = {value: (name, stored, at) for value, name, stored, at in booked.payments}
    findings.judged += len(in_database.keys() | times.keys())
    for value, (name, stored, at_ms) in in_database.items():
        if not times[value]:
            findings.breaks(
                (name, stored),
                f"{value!r} is in the database, committed at {at_ms} ms with the transaction {stored} of"
                f" {name}, and not in {booked.topic}",
            )
    for read in reads:
        value = read.value or ""
        by = written[value].by if value in written else None
        whose = writer(by) if isinstance(by, Transaction) else "nobody known"
        if value not in in_database:
            findings.breaks(
                (whose,), f"{seen(read)} of {whose} is committed, and not in the database"
            )
        elif times[read.value] > 1:
            findings.breaks((value,), f"{seen(read)} of {whose} is there {times[read.value]} times")
