"""pre-committed-read: no record is read at read_committed before its client asked for the commit.

The read is compared with the moment of the request to commit or, where that is unknown, with the begin of the
transaction. A transaction that reads a record which it wrote itself breaks the rule as well. No record is read at
any isolation level before its client began to send it.
"""

from oncelog_robustness.checkers.evidence import Reading, readings, writer_of
from oncelog_robustness.checkers.findings import Findings, reader, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, PlainSend, Read, Transaction
from oncelog_robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("pre-committed-read")
    writers = writer_of(history)
    for reading in readings(history):
        handed_ms = reading.handed_ms
        for read in reading.reads:
            written = writers.get(read.value or "")
            if written is not None:
                findings.judged += 1
                if _is_long_over(written.by, handed_ms) and reading.by is not written.by:
                    continue
                problem = _problem(reading, handed_ms, read, written.by)
                if problem:
                    findings.breaks(
                        (read.value,), f"{reader(reading.by)} saw {seen(read)} {problem}"
                    )
    return findings.verdict("nothing was read of which the sender is known")


def _is_long_over(by: Transaction | PlainSend, handed_ms: int | None) -> bool:
    """True if the writer's operation had ended before the record was read, as for most records."""
    return handed_ms is not None and by.completed_ms is not None and by.completed_ms <= handed_ms


def _problem(
    reading: Reading, handed_ms: int | None, read: Read, by: Transaction | PlainSend
) -> str:
    if reading.by is by:
        return f"before its own end: {writer(by)}"
    if handed_ms is None:
        return ""
    if handed_ms < by.invoked_ms:
        return f"before {writer(by)} began to send it"
    if isinstance(by, PlainSend) or not reading.is_committed or by.asked_ms is None:
        return ""
    if handed_ms < by.asked_ms:
        return f"until {handed_ms} ms, but {writer(by)} asked for its {by.ending} only at {by.asked_ms} ms"
    return ""
