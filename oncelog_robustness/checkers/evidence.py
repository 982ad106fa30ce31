"""Reads from a history what became of a value: who sent it, who read it, and whether it is in the log at the end of the
run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from oncelog_robustness.history import (
    RECORDS_DELETED_FROM,
    Ending,
    FinalRead,
    History,
    Isolation,
    Operation,
    Outcome,
    Partition,
    PlainSend,
    Poll,
    Read,
    Send,
    Transaction,
)


class Written(NamedTuple):
    send: Send
    by: Transaction | PlainSend


class Seen(NamedTuple):
    read: Read
    by: Operation


class Reading(NamedTuple):
    """The records that one operation received: a poll, a transaction that read, or a final read."""

    by: Operation
    reads: tuple[Read, ...]
    is_committed: bool
    """True if the operation read at read_committed."""

    @property
    def handed_ms(self) -> int | None:
        """The last moment at which the operation can have received a record, in milliseconds. None: it never ended,
        so there is no such moment."""
        if isinstance(self.by, Transaction) and self.by.asked_ms is not None:
            return self.by.asked_ms
        return self.by.completed_ms


def writes(history: History) -> Sequence[Written]:
    """Return every send, acknowledged or not, in the order in which their operations began."""
    return history.once("writes", lambda: _writes(history))


def _writes(history: History) -> list[Written]:
    writers: list[Transaction | PlainSend] = [*history.all(Transaction), *history.all(PlainSend)]
    return [
        Written(send, by)
        for by in sorted(writers, key=lambda one: one.invoked_ms)
        for send in (by.sends if isinstance(by, Transaction) else (by.send,))
    ]


def writer_of(history: History) -> Mapping[str, Written]:
    return history.once("writers", lambda: {one.send.value: one for one in writes(history)})


def readings(history: History) -> Iterator[Reading]:
    """Yield every reading of the history: by polls, in transactions, and by final reads."""
    for poll in history.all(Poll):
        yield Reading(poll, poll.reads, poll.isolation is Isolation.READ_COMMITTED)
    for transaction in history.all(Transaction):
        if transaction.reads:
            yield Reading(transaction, transaction.reads, True)
    for final in history.all(FinalRead):
        yield Reading(final, final.reads, final.isolation is Isolation.READ_COMMITTED)


def first_committed_sight(history: History, values: Collection[str]) -> dict[str, Seen]:
    """Return, for each of `values` that was read at read_committed, the first such reading."""
    found: dict[str, Seen] = {}
    for by, reads, is_committed in readings(history) if values else ():
        if is_committed:
            for read in reads:
                if read.value is not None and read.value in values:
                    found.setdefault(read.value, Seen(read, by))
    return found


def must_be_there(by: Transaction | PlainSend) -> bool:
    if isinstance(by, PlainSend):
        return by.outcome is Outcome.OK
    return by.ending is Ending.COMMIT and by.outcome is Outcome.OK


def must_not_be_there(by: Transaction | PlainSend) -> bool:
    if isinstance(by, PlainSend):
        return by.outcome is Outcome.FAIL
    is_aborted = by.ending is Ending.ABORT and by.outcome is Outcome.OK
    return is_aborted or by.outcome is Outcome.FAIL


class Presence(StrEnum):
    """Whether a sent value is in the final read of its partition, and if not, whether something excuses its absence."""

    PRESENT = "present"
    ABSENT = "absent"
    SUPERSEDED = "superseded"
    """A newer value of the key is in the final read, so compaction may have removed this one."""
    DELETED = "deleted"
    """The value was, or may have been, below the log's start, in a topic whose records a workload deletes."""
    BEYOND = "beyond"
    """The value lies at or above the end offset of the final read."""
    UNREAD = "unread"
    """The final read of the partition was not complete."""


@dataclass(frozen=True, slots=True)
class FinalLog:
    """One partition at the end of a run, as the final read at one isolation level shows it."""

    read: FinalRead
    offsets: dict[str, int]
    """The first offset of each value."""
    newest: dict[str, int]
    """The highest offset of each key; a tombstone counts."""
    may_begin_later: bool
    """True if a workload may delete records of the log, or nobody knows; otherwise what is missing
    below its start is lost."""

    def presence(self, send: Send) -> Presence:
        if send.value in self.offsets:
            return Presence.PRESENT
        if self.may_begin_later and self.read.start_offset > (send.offset or 0):
            return Presence.DELETED
        newer_than = -1 if send.offset is None else send.offset
        if send.key is not None and self.newest.get(send.key, -1) > newer_than:
            return Presence.SUPERSEDED
        if send.offset is not None and send.offset >= self.read.end_offset:
            return Presence.BEYOND
        return Presence.ABSENT if self.read.is_complete else Presence.UNREAD

    def is_after(self, by: Operation) -> bool:
        """True if the final read began after `by` had ended, or `by` never ended, so that the read could see
        everything that `by` wrote."""
        return by.completed_ms is None or by.completed_ms <= self.read.invoked_ms

    def is_before(self, other: Operation) -> bool:
        ended_ms = self.read.completed_ms
        return ended_ms is not None and ended_ms <= other.invoked_ms


def final_logs(history: History, isolation: Isolation) -> Mapping[Partition, FinalLog]:
    """Return one final read of each partition at this isolation level: the last complete one, or the last one if
    none is complete."""
    return history.once(isolation, lambda: _final_logs(history, isolation))


def _final_logs(history: History, isolation: Isolation) -> dict[Partition, FinalLog]:
    chosen: dict[Partition, FinalRead] = {}
    for final in history.all(FinalRead):
        if final.isolation is not isolation:
            continue
        before = chosen.get((final.topic, final.partition))
        if before is None or final.is_complete or not before.is_complete:
            chosen[(final.topic, final.partition)] = final
    deleted_from = history.facts.get(RECORDS_DELETED_FROM)
    return {
        partition: _log(
            chosen[partition], deleted_from is None or partition[0] in deleted_from.split()
        )
        for partition in sorted(chosen)
    }


def _log(final: FinalRead, may_begin_later: bool) -> FinalLog:
    offsets: dict[str, int] = {}
    newest: dict[str, int] = {}
    for read in final.reads:
        if read.value is not None:
            offsets.setdefault(read.value, read.offset)
        if read.key is not None:
            newest[read.key] = max(read.offset, newest.get(read.key, -1))
    return FinalLog(final, offsets, newest, may_begin_later)


@dataclass(frozen=True, slots=True)
class FinalState:
    """All partitions as the final reads show them, at both isolation levels."""

    committed: Mapping[Partition, FinalLog]
    uncommitted: Mapping[Partition, FinalLog]

    @classmethod
    def of(cls, history: History) -> "FinalState":
        return cls(
            committed=final_logs(history, Isolation.READ_COMMITTED),
            uncommitted=final_logs(history, Isolation.READ_UNCOMMITTED),
        )

    def committed_presence(self, written: Written) -> Presence | None:
        """Return whether a sent value is in the final read_committed read of its partition. None if that read did not
        begin after the writer had ended, or the partition has no such read."""
        send, by = written
        log = self.committed.get((send.topic, send.partition))
        if log is None or not log.is_after(by):
            return None
        found = log.presence(send)
        if found is not Presence.ABSENT or send.offset is not None:
            return found
        # The offset is not known: it may lie above the end that read_committed reached.
        below = self.uncommitted.get((send.topic, send.partition))
        at = -1 if below is None else below.offsets.get(send.value, -1)
        return Presence.BEYOND if at >= log.read.end_offset else Presence.ABSENT

    def decided(self, transaction: Transaction) -> bool | None:
        """True if the transaction committed, False if it aborted, None if neither its client's
        answer nor its values tell."""
        if must_be_there(transaction):
            return True
        if must_not_be_there(transaction):
            return False
        for send in transaction.sends:
            presence = self.committed_presence(Written(send, transaction))
            if presence is Presence.PRESENT:
                return True
            has_arrived = transaction.ending is Ending.COMMIT or send.offset is not None
            if presence is Presence.ABSENT and has_arrived:
                return False
        return None
