"""processed-once: each input of a consume-transform-produce group is in exactly one committed transaction.

Twice means that two committed transactions of a group consumed the same record. Never means that a record lies
below the group's final offset, and no transaction that is or may be committed consumed it. A group is not judged if
it commits offsets outside transactions, or if its transactions do not tell what they read.
"""

from typing import NamedTuple

from oncelog_robustness.checkers.commits_of_groups import GroupPartition
from oncelog_robustness.checkers.evidence import FinalLog, FinalState
from oncelog_robustness.checkers.findings import Findings, place, reader, seen, writer
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, OffsetsCommitted, OffsetsFetched, Read, Transaction
from oncelog_robustness.observations import Observations


class _Taken(NamedTuple):
    read: Read
    by: Transaction


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("processed-once")
    final = FinalState.of(history)
    untold: dict[GroupPartition, None] = _committed_outside(history)
    taken: dict[GroupPartition, dict[int, list[_Taken]]] = {}
    maybe: dict[GroupPartition, dict[int, None]] = {}
    for by in history.all(Transaction):
        is_committed = final.decided(by) if by.offsets is not None else False
        if by.offsets is None or is_committed is False:
            continue
        for topic, partition, upto in by.offsets.offsets:
            key = (by.offsets.group, topic, partition)
            reads = [
                read
                for read in by.reads
                if (read.topic, read.partition) == key[1:] and read.offset < upto
            ]
            if not reads:
                untold[key] = None
            for read in reads:
                if is_committed:
                    taken.setdefault(key, {}).setdefault(read.offset, []).append(_Taken(read, by))
                else:
                    maybe.setdefault(key, {})[read.offset] = None
    for key, by_offset in taken.items():
        if key not in untold:
            _judge_twice(findings, key, by_offset)
    _judge_never(findings, history, final, untold, taken, maybe)
    return findings.verdict("no transaction committed offsets of a group with what it had read")


def _committed_outside(history: History) -> dict[GroupPartition, None]:
    return {
        (committed.committed.group, topic, partition): None
        for committed in history.all(OffsetsCommitted)
        for topic, partition, _ in committed.committed.offsets
    }


def _judge_twice(
    findings: Findings, key: GroupPartition, by_offset: dict[int, list[_Taken]]
) -> None:
    for takers in by_offset.values():
        findings.judged += 1
        if len(takers) > 1:
            first, second, *others = takers
            sentence = (
                f"group {key[0]} consumed {seen(first.read)} in two committed transactions:"
                f" by {writer(first.by)} and by {writer(second.by)}"
            )
            for _ in (first, *others):
                findings.breaks((*key, first.read.offset), sentence)


def _judge_never(
    findings: Findings,
    history: History,
    final: FinalState,
    untold: dict[GroupPartition, None],
    taken: dict[GroupPartition, dict[int, list[_Taken]]],
    maybe: dict[GroupPartition, dict[int, None]],
) -> None:
    ends = {
        (fetched.fetched.group, topic, partition): offset
        for fetched in history.all(OffsetsFetched)
        if fetched.is_final
        for topic, partition, offset in fetched.fetched.offsets
    }
    for key, end in ends.items():
        log = final.committed.get((key[1], key[2]))
        if log is None or key in untold or key not in taken:
            continue
        for read in _visible_below(log, end):
            if read.offset not in taken[key] and read.offset not in maybe.get(key, {}):
                findings.broken.append(
                    f"group {key[0]} stands at {place(key[1], key[2], end)}, but no committed"
                    f" transaction consumed {seen(read)}, which {reader(log.read)} shows"
                )


def _visible_below(log: FinalLog, end: int) -> list[Read]:
    return [read for read in log.read.reads if read.offset < end]
