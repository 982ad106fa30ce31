"""newest-of-key: the newest record of a key at the end is the last one committed for it, or a later one.

A consumer that reads a compacted topic from its start keeps the last record of each key. So an older value, or a
deleted key that is back, means that cleaning removed or kept the wrong record.

The order of a key's records is the order in which their writer sent them, because offsets may be unknown. So only
keys that one transactional id alone wrote are judged. A record with an unknown outcome may be the newest or not. A
key whose last record is a tombstone may be gone.
"""

from typing import NamedTuple

from oncelog_robustness.checkers.evidence import (
    FinalLog,
    FinalState,
    Presence,
    Written,
    must_be_there,
)
from oncelog_robustness.checkers.findings import Findings, place, reader, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, Read, Send, Transaction
from oncelog_robustness.observations import Observations
from oncelog_robustness.workload_facts import KeyDeleted, facts_of

_Key = tuple[str, int, str]
"""A topic, a partition number and a key."""


class _Change(NamedTuple):
    """One record that a transaction wrote to a key. The changes of a key are kept in the order in which they were
    sent."""

    by: Transaction
    value: str | None
    """The value of the record; None for a tombstone."""
    offset: int | None

    def text(self) -> str:
        what = "deleted it" if self.value is None else f"wrote {self.value!r}"
        return f"{writer(self.by)} {what}"


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("newest-of-key")
    final = FinalState.of(history)
    for key, changes in _changes(history).items():
        log = final.committed.get(key[:2])
        if log is None or len({one.by.transactional_id for one in changes}) > 1:
            continue
        last = max((at for at, one in enumerate(changes) if must_be_there(one.by)), default=None)
        if last is None or not all(log.is_after(one.by) for one in changes):
            continue
        if _is_beyond(final, log, key, changes[last]):
            continue
        if not log.read.is_complete:
            findings.unclear.append(f"{reader(log.read)} of {place(*key[:2])} is not complete")
            continue
        findings.judged += 1
        _judge(findings, log, key, changes, last)
    return findings.verdict("nothing with a key was committed where the log was read at the end")


def _changes(history: History) -> dict[_Key, list[_Change]]:
    deletions: dict[str, list[KeyDeleted]] = {}
    for _, deleted in facts_of(history, KeyDeleted):
        deletions.setdefault(deleted.with_value, []).append(deleted)
    found: dict[_Key, list[_Change]] = {}
    for by in history.all(Transaction):
        # A writer sends its tombstones after all its values.
        behind = [one for send in by.sends for one in deletions.get(send.value, ())]
        for send in by.sends:
            if send.key is not None:
                key = (send.topic, send.partition, send.key)
                found.setdefault(key, []).append(_Change(by, send.value, send.offset))
        for one in behind:
            offset = None if one.offset < 0 else one.offset
            key = (one.topic, one.partition, one.key)
            found.setdefault(key, []).append(_Change(by, None, offset))
    return found


def _is_beyond(final: FinalState, log: FinalLog, key: _Key, change: _Change) -> bool:
    """True if the change lies where this checker cannot judge it: above the end that read_committed reached, or
    below a log start that has moved. Other checkers judge that."""
    if change.offset is not None:
        return not log.read.start_offset <= change.offset < log.read.end_offset
    if change.value is None:
        return log.read.start_offset > 0
    send = Send(key[0], key[1], change.value, None, key[2])
    presence = final.committed_presence(Written(send, change.by))
    return presence in (Presence.BEYOND, Presence.DELETED)


def _judge(findings: Findings, log: FinalLog, key: _Key, changes: list[_Change], last: int) -> None:
    what = f"key {key[2]!r} in {place(*key[:2])}"
    newest = max((one for one in log.read.reads if one.key == key[2]), key=_offset, default=None)
    if newest is None:
        if all(one.value is not None for one in changes[last:]):
            findings.broken.append(
                f"{what} is gone from {reader(log.read)}, though {changes[last].text()}"
            )
        return
    at = _place_of(newest, changes)
    if at is not None and at < last:
        findings.broken.append(
            f"{what} has {seen(newest)} as its newest record in {reader(log.read)}, but later"
            f" {changes[last].text()}"
        )


def _offset(read: Read) -> int:
    return read.offset


def _place_of(read: Read, changes: list[_Change]) -> int | None:
    """Return which of `changes` this read shows, as an index; the last one of those that fit. None for a value that
    no writer recorded."""
    same = [at for at, one in enumerate(changes) if one.value == read.value]
    exact = [at for at in same if changes[at].offset == read.offset]
    unsure = [at for at in same if changes[at].offset is None]
    return max(exact or unsure or same, default=None)
