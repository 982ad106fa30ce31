"""The check of a history that is given as a file. A history in our own format is read in parts, so that it may be long;
Jepsen's is read as a whole."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oncelog.errors import OncelogError
from oncelog_robustness.chaos.measures import (
    Commit,
    Measures,
    Tried,
    commits_of,
    measures_from,
    planned,
    transactions_of,
)
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import Fault, History, Isolation, PlainSend, Transaction
from oncelog_robustness.judging import judge_parts
from oncelog_robustness.verify.histories import is_ours, opened_history, read_foreign
from oncelog_robustness.verify.judging import Anomaly, Judgement, judged, merged_judgement

JOBS: Final = 2
"""The number of parts that are judged at once. Each takes the memory of its own operations."""


@dataclass(frozen=True, slots=True)
class Offline:
    """The result of checking a history's file: the judgement, and the numbers for the report."""

    facts: Mapping[str, str]
    judgement: Judgement
    tried: Tried
    measures: Measures
    notes: tuple[str, ...] = ()
    """The parts of the file that could not be used, a sentence each."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """The numbers that the report needs of one part of a history, besides its verdicts."""

    anomalies: tuple[Anomaly, ...]
    tried: Tried
    commits: tuple[Commit, ...]
    """The commits of the producer that never pauses."""
    transactions: Counter[str]
    began_ms: int | None
    """The begin of the first transaction or send, in milliseconds; None without one."""
    ended_ms: int | None


def judge_history(path: Path, isolation: Isolation) -> Offline:
    """Check the history in a file: one of ours, recognised by its first line, else Jepsen's, whose consumers are taken
    to read at `isolation`.

    Raises OncelogError naming the file, and the line where it is neither.
    """
    with opened_history(path) as plain:
        try:
            if is_ours(plain):
                found = judge_parts(plain, _see, jobs=JOBS)
                return _whole(found.facts, found.verdicts, found.looks)
            given = read_foreign(plain, isolation)
        except (ValueError, TypeError, KeyError, OncelogError) as error:
            raise OncelogError(
                f"--history {path} is no history of ours (JSON lines) nor of Jepsen's Kafka workload (EDN): {error}"
            ) from error
    judgement = judged(given.history)
    seen = _seen(given.history, judgement)
    return Offline(given.history.facts, judgement, seen.tried, _measured([seen]), given.notes)


def measures_of(history: History) -> Measures:
    """Compute the measures of a history from it alone. Its time goes from the first transaction or send to the end of
    the last."""
    return _measured([_seen(history, Judgement((), ()))])


def _see(history: History, verdicts: Sequence[Verdict]) -> _Seen:
    return _seen(history, judged(history, verdicts))


def _seen(history: History, judgement: Judgement) -> _Seen:
    writers = [*history.all(Transaction), *history.all(PlainSend)]
    return _Seen(
        anomalies=judgement.anomalies,
        tried=Tried.of(history),
        commits=tuple(commits_of(history, history.facts.get("pulse", ""))),
        transactions=transactions_of(history),
        began_ms=min((one.invoked_ms for one in writers), default=None),
        ended_ms=max(
            (one.completed_ms for one in writers if one.completed_ms is not None), default=None
        ),
    )


def _whole(facts: dict[str, str], verdicts: Sequence[Verdict], parts: Sequence[_Seen]) -> Offline:
    judgement = merged_judgement(verdicts, (one for part in parts for one in part.anomalies))
    # Each part has all the faults.
    faults = parts[0].tried.faults if parts else ()
    operations: Counter[str] = Counter()
    for part in parts:
        operations.update(part.tried.operations)
    by_library: Counter[tuple[str, str]] = Counter()
    for part in parts:
        by_library.update(part.tried.by_library)
    if faults:
        operations[Fault.__name__] = len(faults)
    tried = Tried(
        operations=operations,
        sends=sum(part.tried.sends for part in parts),
        records_read=sum(part.tried.records_read for part in parts),
        faults=faults,
        by_library=by_library,
    )
    return Offline(facts, judgement, tried, _measured(parts))


def _measured(parts: Sequence[_Seen]) -> Measures:
    faults = planned(parts[0].tried.faults) if parts else []
    transactions: Counter[str] = Counter()
    for part in parts:
        transactions.update(part.transactions)
    return measures_from(
        commits=sorted(
            (one for part in parts for one in part.commits), key=lambda one: one.ended_ms
        ),
        faults=faults,
        transactions=transactions,
        from_ms=min((one.began_ms for one in parts if one.began_ms is not None), default=0),
        until_ms=max((one.ended_ms for one in parts if one.ended_ms is not None), default=0),
        roles=tuple(dict.fromkeys(one.target.rpartition("-")[0] or one.target for one in faults)),
        lags=(),
    )
