"""inconsistent-offsets: acknowledgements and readers agree on what lies where.

One offset holds one value, one value has one offset, and it lies in the partition it was sent to. What one reader saw
twice is `duplicate`; here two tellers disagree: two readers, or a reader and the acknowledgement.
"""

from typing import NamedTuple

from robustness.checkers.evidence import all_reads, writes
from robustness.checkers.findings import Findings, place, reader, writer
from robustness.checkers.verdict import Verdict
from robustness.history import FinalRead, History, Operation, PlainSend, Poll, Transaction
from robustness.observations import Observations


class _Told(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: str | None
    by: Operation
    is_send: bool

    def who(self) -> str:
        if self.is_send and isinstance(self.by, Transaction | PlainSend):
            return f"as acknowledged to {writer(self.by)}"
        return f"as seen by {reader(self.by)}"

    def teller(self) -> tuple[str, bool, int]:
        """Polls of one client are one teller, each final read is one of its own."""
        own = self.by.invoked_ms if isinstance(self.by, FinalRead) else -1
        return self.by.client, isinstance(self.by, Poll | FinalRead), own


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("inconsistent-offsets")
    holders: dict[tuple[str, int, int], _Told] = {}
    homes: dict[str, _Told] = {}
    told_before: dict[tuple[str, str, int, int], None] = {}
    sent_to: dict[str, tuple[str, int]] = {}
    for send, by in writes(history):
        sent_to[send.value] = (send.topic, send.partition)
        if send.offset is not None:
            told = _Told(send.topic, send.partition, send.offset, send.value, by, True)
            _hold(findings, told, holders, homes, told_before)
    for read, holder, _ in all_reads(history):
        told = _Told(read.topic, read.partition, read.offset, read.value, holder, False)
        wanted = sent_to.get(read.value or "", (read.topic, read.partition))
        if wanted != (read.topic, read.partition):
            key = ("elsewhere", read.topic, read.partition, read.offset)
            if key not in told_before:
                told_before[key] = None
                findings.broken.append(
                    f"{read.value!r} was sent to {place(*wanted)}, but is at"
                    f" {place(*told[:3])} {told.who()}"
                )
        _hold(findings, told, holders, homes, told_before)
    return findings.verdict("nothing was acknowledged with an offset, and nothing was read")


def _hold(
    findings: Findings,
    told: _Told,
    holders: dict[tuple[str, int, int], _Told],
    homes: dict[str, _Told],
    told_before: dict[tuple[str, str, int, int], None],
) -> None:
    """Compare with the first that told of the offset, and with the first that told of the value."""
    findings.judged += 1
    spot = (told.topic, told.partition, told.offset)
    holder = holders.setdefault(spot, told)
    if holder.value != told.value and (told.value or "", *spot) not in told_before:
        told_before[(told.value or "", *spot)] = None
        findings.broken.append(
            f"{place(*spot)} is {holder.value!r} {holder.who()}, but {told.value!r} {told.who()}"
        )
    if told.value is None:
        return
    home = homes.setdefault(told.value, told)
    if (home.topic, home.partition) != spot[:2] or home.offset == told.offset:
        return
    if home.teller() != told.teller() and (told.value, *spot) not in told_before:
        told_before[(told.value, *spot)] = None
        findings.broken.append(
            f"{told.value!r} is at {place(*home[:3])} {home.who()}, but at {place(*spot)}"
            f" {told.who()}"
        )
