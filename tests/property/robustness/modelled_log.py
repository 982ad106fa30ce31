"""A correct log with transactions, in memory: what the modelled run runs against.

A decision is one moment, its markers reach the partitions one by one, and the last stable offset of each partition
waits for its own. The group's offsets wait for theirs, and the one whose record came last wins.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from oncelog_robustness.history import Isolation, Partition

RC = Isolation.READ_COMMITTED
PARTITIONS: list[Partition] = [("t", 0), ("t", 1), ("t", 2)]
KEYED: Partition = ("k", 0)
INPUT: Partition = ("t", 0)
OUTPUT: Partition = ("out", 0)


class RefusedError(Exception):
    """Not done, and never will be."""


class UnansweredError(Exception):
    """Nobody knows."""


@dataclass(eq=False)
class Open:
    """A transaction in the model. `verdict` is None until it is decided."""

    tid: str
    epoch: int
    firsts: dict[Partition, int] = field(default_factory=dict)
    offsets: tuple[int, int] | None = None
    """Next offset of the group, and when it came to the group coordinator."""
    verdict: bool | None = None
    unmarked: list[Partition] = field(default_factory=list)
    is_offset_pending: bool = False


@dataclass
class Record:
    offset: int
    value: str
    key: str | None
    txn: Open | None


@dataclass
class Log:
    records: list[Record] = field(default_factory=list)
    start: int = 0
    end: int = 0
    open: list[Open] = field(default_factory=list)

    @property
    def stable(self) -> int:
        return min((txn.firsts[self.name] for txn in self.open), default=self.end)

    name: Partition = ("", 0)


class Broker:
    def __init__(self, draw: random.Random) -> None:
        self.draw = draw
        self.logs = {name: Log(name=name) for name in [*PARTITIONS, KEYED, OUTPUT]}
        self.epochs: dict[str, int] = {}
        self.ongoing: dict[str, Open] = {}
        self.undelivered: list[Open] = []
        self.group_offset = (-1, -1)
        """The committed offset, and when its record came."""
        self.records_of_group = 0
        self.plain_offset = -1

    def append(self, name: Partition, value: str, key: str | None, txn: Open | None) -> int:
        log = self.logs[name]
        if txn is not None and name not in txn.firsts:
            txn.firsts[name] = log.end
            log.open.append(txn)
        log.records.append(Record(log.end, value, key, txn))
        log.end += 1
        return log.end - 1

    def transaction(self, tid: str, epoch: int) -> Open:
        if self.epochs[tid] != epoch:
            raise RefusedError(tid)
        if tid not in self.ongoing:
            self.ongoing[tid] = Open(tid, epoch)
        return self.ongoing[tid]

    def decide(self, txn: Open, verdict: bool) -> None:
        txn.verdict = verdict
        txn.unmarked = list(txn.firsts)
        txn.is_offset_pending = txn.offsets is not None
        self.undelivered.append(txn)
        del self.ongoing[txn.tid]

    def end(self, tid: str, epoch: int, txn: Open | None, verdict: bool) -> None:
        """An ending names its transaction: one that comes late decides no other."""
        if self.epochs[tid] != epoch:
            raise RefusedError(tid)
        if txn is not None and self.ongoing.get(tid) is txn:
            self.decide(txn, verdict)

    def fence(self, tid: str) -> int:
        if tid in self.ongoing:
            self.decide(self.ongoing[tid], False)
        self.epochs[tid] = self.epochs.get(tid, -1) + 1
        return self.epochs[tid]

    def deliver_one(self) -> None:
        """One marker, or the group's offsets, of one decided transaction."""
        if not self.undelivered:
            return
        txn = self.draw.choice(self.undelivered)
        if txn.is_offset_pending and (not txn.unmarked or self.draw.random() < 0.5):
            txn.is_offset_pending = False
            if txn.verdict and txn.offsets is not None and txn.offsets[1] > self.group_offset[1]:
                self.group_offset = txn.offsets
        elif txn.unmarked:
            name = txn.unmarked.pop(self.draw.randrange(len(txn.unmarked)))
            log = self.logs[name]
            log.open.remove(txn)
            log.end += 1
        if not txn.unmarked and not txn.is_offset_pending:
            self.undelivered.remove(txn)

    def is_group_stable(self) -> bool:
        waiting = [*self.ongoing.values(), *self.undelivered]
        return not any(txn.offsets and txn in self.undelivered for txn in waiting)

    def visible(self, name: Partition, isolation: Isolation, position: int) -> Iterator[Record]:
        log = self.logs[name]
        upto = log.stable if isolation is RC else log.end
        for record in log.records:
            is_aborted = record.txn is not None and record.txn.verdict is False
            if max(position, log.start) <= record.offset < upto and not (
                isolation is RC and is_aborted
            ):
                yield record

    def compact(self) -> None:
        """Aborted records go, and all of a key but the newest that is committed, below the stable end."""
        log = self.logs[KEYED]
        newest = {one.key: one.offset for one in self.visible(KEYED, RC, 0)}
        log.records = [
            one
            for one in log.records
            if one.offset >= log.stable or newest.get(one.key) == one.offset
        ]
