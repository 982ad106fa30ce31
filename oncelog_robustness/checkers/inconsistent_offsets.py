"""inconsistent-offsets: acknowledgements and readers agree on which value has which offset.

One offset holds one value, one value has one offset, and it lies in the partition it was sent to. A value that one
reader saw twice is `duplicate`. Here two witnesses disagree: two readers, or a reader and the acknowledgement.
"""

from typing import NamedTuple

from oncelog_robustness.checkers.evidence import readings, writes
from oncelog_robustness.checkers.findings import Findings, place, reader, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import (
    FinalRead,
    History,
    Operation,
    Partition,
    PlainSend,
    Poll,
    Transaction,
)
from oncelog_robustness.observations import Observations

Spot = tuple[str, int, int]
"""A topic, a partition number and an offset."""


class _Witness(NamedTuple):
    by: Operation
    is_reader: bool

    def words(self) -> str:
        if not self.is_reader and isinstance(self.by, Transaction | PlainSend):
            return f"as acknowledged to {writer(self.by)}"
        return f"as seen by {reader(self.by)}"

    def name(self) -> tuple[str, bool, int]:
        """Return a key of this witness: a reader, or a client whose send was acknowledged. All polls of one client
        count as one witness, each final read as one of its own."""
        own = self.by.invoked_ms if isinstance(self.by, FinalRead) else -1
        return self.by.client, isinstance(self.by, Poll | FinalRead), own


class _Map:
    """The first statement about each offset and each value, with its witness: an acknowledgement or a reader. A later
    statement that contradicts it is reported once."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._holders: dict[Spot, tuple[str | None, _Witness]] = {}
        self._homes: dict[str, tuple[Spot, _Witness]] = {}
        self._reported: dict[tuple[str | None, Spot], None] = {}

    def holds(self, spot: Spot, value: str | None) -> bool:
        """True if the first witness (an acknowledgement or a reader) of this offset named the same value."""
        holder = self._holders.get(spot)
        return holder is not None and holder[0] == value

    def note(self, spot: Spot, value: str | None, witness: _Witness) -> None:
        self._findings.judged += 1
        holder = self._holders.get(spot)
        if holder is None:
            holder = self._holders[spot] = (value, witness)
        elif holder[0] == value:
            return
        if holder[0] != value:
            self.contradict(
                f"{place(*spot)} is {holder[0]!r} {holder[1].words()}, but {value!r}"
                f" {witness.words()}",
                spot,
                value,
            )
        if value is None:
            return
        home = self._homes.setdefault(value, (spot, witness))
        if home[0][2] == spot[2] or home[0][:2] != spot[:2] or home[1].name() == witness.name():
            return
        self.contradict(
            f"{value!r} is at {place(*home[0])} {home[1].words()}, but at {place(*spot)}"
            f" {witness.words()}",
            spot,
            value,
        )

    def contradict(self, words: str, spot: Spot, value: str | None) -> None:
        if (value, spot) not in self._reported:
            self._reported[(value, spot)] = None
            self._findings.broken.append(words)


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("inconsistent-offsets")
    known = _Map(findings)
    sent_to: dict[str, Partition] = {}
    for send, by in writes(history):
        sent_to[send.value] = (send.topic, send.partition)
        if send.offset is not None:
            known.note((send.topic, send.partition, send.offset), send.value, _Witness(by, False))
    for reading in readings(history):
        witness = _Witness(reading.by, True)
        for read in reading.reads:
            spot, value = read[:3], read.value
            if known.holds(spot, value):
                findings.judged += 1
                continue
            topic, partition, _ = spot
            if value in sent_to and sent_to[value] != (topic, partition):
                known.contradict(
                    f"{value!r} was sent to {place(*sent_to[value])}, but is at {place(*spot)}"
                    f" {witness.words()}",
                    spot,
                    value,
                )
            known.note(spot, value, witness)
    return findings.verdict("nothing was acknowledged with an offset, and nothing was read")
