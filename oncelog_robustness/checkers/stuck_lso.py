"""stuck-lso: after healing the read_committed end of each partition reaches its high watermark.

The two ends come from two requests, between which records may be written. So a read_committed end below the high
watermark breaks the rule only in two cases:

- the read_committed end was requested later than the high watermark;
- the read_uncommitted read shows data above the read_committed end, whose sender had finished before that end was
  requested.

A transaction that its client still holds open excuses the partition.
"""

from collections.abc import Mapping

from oncelog_robustness.checkers.evidence import FinalLog, FinalState, Written, writer_of
from oncelog_robustness.checkers.findings import Findings, place, reader
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import FinalRead, History, Partition, Transaction
from oncelog_robustness.observations import Observations


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("stuck-lso")
    final = FinalState.of(history)
    writers = writer_of(history)
    running = _running(history, final)
    for (topic, partition), committed in final.committed.items():
        uncommitted = final.uncommitted.get((topic, partition))
        if uncommitted is None or (topic, partition) in running:
            continue
        findings.judged += 1
        is_later = uncommitted.is_before(committed.read)
        is_below = committed.read.end_offset < uncommitted.read.end_offset
        above = _data_above(committed.read, uncommitted, writers)
        if (is_later and is_below) or above:
            shown = f", which has {above[0]!r} at {above[1]}" if above else ""
            findings.broken.append(
                f"{place(topic, partition)}: {reader(committed.read)} ends at"
                f" {committed.read.end_offset}, below {uncommitted.read.end_offset} of"
                f" {reader(uncommitted.read)}{shown}"
            )
    return findings.verdict("no partition was read at both levels at the end, with nothing open")


def _running(history: History, final: FinalState) -> dict[Partition, None]:
    """Return the partitions in which a client that still lived had a transaction open while they were read at the
    end."""
    ends = {spot: log.read for spot, log in final.committed.items()}
    found: dict[Partition, None] = {}
    for transaction in history.all(Transaction):
        for send in transaction.sends:
            spot = (send.topic, send.partition)
            read = ends.get(spot)
            if (
                read is not None
                and transaction.completed_ms is not None
                and transaction.completed_ms >= read.invoked_ms
                and transaction.invoked_ms <= (read.completed_ms or read.invoked_ms)
            ):
                found[spot] = None
    return found


def _data_above(
    committed: FinalRead, uncommitted: FinalLog, writers: Mapping[str, Written]
) -> tuple[str, int] | None:
    for read in uncommitted.read.reads:
        written = writers.get(read.value or "")
        if read.offset < committed.end_offset or read.value is None or written is None:
            continue
        ended_ms = written.by.completed_ms
        if (written.by.invoked_ms if ended_ms is None else ended_ms) < committed.invoked_ms:
            return read.value, read.offset
    return None
