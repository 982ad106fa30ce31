"""read-past-open-transaction: a read_committed reader never passes the first record of an open transaction.

A committed transaction was surely open until its producer requested the commit. Before that moment no
read_committed reader may have received a higher offset in a partition that it wrote to. This is how a wrong last
stable offset shows to clients.
"""

from bisect import bisect_right
from typing import NamedTuple

from oncelog_robustness.checkers.evidence import readings
from oncelog_robustness.checkers.findings import Findings, place, reader, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import Ending, History, Outcome, Partition, Read, Transaction
from oncelog_robustness.observations import Observations


class _Open(NamedTuple):
    asked_ms: int
    first_offset: int
    by: Transaction


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("read-past-open-transaction")
    lowest_after = {
        partition: (sorted(one.asked_ms for one in opens), _lowest_from(opens))
        for partition, opens in _open_in(history).items()
    }
    for reading in readings(history):
        handed_ms = reading.handed_ms
        if not reading.is_committed or handed_ms is None:
            continue
        highest: dict[Partition, Read] = {}
        for read in reading.reads:
            spot = (read.topic, read.partition)
            if spot in lowest_after:
                findings.judged += 1
                if spot not in highest or highest[spot].offset < read.offset:
                    highest[spot] = read
        for spot, read in highest.items():
            times, lowest = lowest_after[spot]
            first = bisect_right(times, handed_ms)
            if first < len(times) and lowest[first].first_offset < read.offset:
                still_open = lowest[first]
                findings.breaks(
                    (*spot, still_open.first_offset),
                    f"{reader(reading.by)} saw {seen(read)}, while"
                    f" {place(*spot, still_open.first_offset)} of {writer(still_open.by)} was open:"
                    f" it asked for its commit at {still_open.asked_ms} ms",
                )
    return findings.verdict("no reader and no committed transaction met in one partition")


def _open_in(history: History) -> dict[Partition, list[_Open]]:
    """Return, for each partition, the committed transactions that wrote to it. Each was open until the moment of
    its request to commit."""
    found: dict[Partition, list[_Open]] = {}
    for by in history.all(Transaction):
        if by.asked_ms is None or by.ending is not Ending.COMMIT or by.outcome is not Outcome.OK:
            continue
        first: dict[Partition, int] = {}
        for send in by.sends:
            if send.offset is not None:
                spot = (send.topic, send.partition)
                first[spot] = min(send.offset, first.get(spot, send.offset))
        for spot, offset in first.items():
            found.setdefault(spot, []).append(_Open(by.asked_ms, offset, by))
    return found


def _lowest_from(opens: list[_Open]) -> list[_Open]:
    """Return one transaction for each place in the order of the requests to commit. It is the one with the lowest
    first offset of those from that place on. So the checker finds the lowest offset that was still open at any
    moment."""
    ordered = sorted(opens, key=lambda one: one.asked_ms)
    for index in range(len(ordered) - 2, -1, -1):
        if ordered[index + 1].first_offset < ordered[index].first_offset:
            ordered[index] = ordered[index + 1]
    return ordered
