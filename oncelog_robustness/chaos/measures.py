"""The measures of a run, computed from its history without I/O: availability, commit latencies, recoveries
after faults, hits of each role."""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, Self

from oncelog_robustness.chaos.plan import role_of
from oncelog_robustness.fault_plan import FAMILIES, FaultKind
from oncelog_robustness.history import (
    Ending,
    Fault,
    FinalRead,
    History,
    Outcome,
    PlainSend,
    Poll,
    Transaction,
)

FAULT_PLAN: Final = "fault-plan"
"""The client name under which a history holds the faults of the plan; workloads kill their own clients beside it."""
GAP_MS_MIN: Final = 1_000
KILLS: Final = frozenset((FaultKind.KILL, FaultKind.KILL_ALL))
_ENDED: Final = frozenset(FAMILIES["ended"])
"""The kinds of faults that end a process, which is soon back. All other faults last as long as the plan says."""


@dataclass(frozen=True, slots=True)
class Commit:
    client: str
    began_ms: int
    """The time at which the transaction began, in milliseconds of the run."""
    asked_ms: int
    ended_ms: int

    @property
    def latency_ms(self) -> int:
        return self.ended_ms - self.asked_ms


@dataclass(frozen=True, slots=True)
class Recovery:
    """The time from the begin of a fault to the next commit of a transaction that was begun after it."""

    fault: Fault
    role: str
    ms: int | None
    """The time to the next commit in milliseconds; None if nothing was committed any more."""
    is_watched: bool = True
    """True if the client that commits was not itself killed in this time. Otherwise its own restart is part of the
    time."""
    gap_ms: int | None = None
    """The longest time without a commit from the begin of the fault to the first commit after its end, in
    milliseconds. A time in which the client that commits was itself killed does not count. None: there was no such
    commit, or no time that counts."""


@dataclass(frozen=True, slots=True)
class Lag:
    at_ms: int
    records: int
    """The number of records by which the partition that is farthest behind lags."""
    partition: str


@dataclass(frozen=True, slots=True)
class RoleSummary:
    role: str
    hits: int
    recoveries: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    kills: int
    """The number of recoveries that were from a kill alone.

    A recovery does not count if another process was frozen, cut off or without its database meanwhile. Neither does it
    if the client that commits was killed itself. The time to the next commit then says nothing of the kill.
    """
    kills_p99_ms: int | None


@dataclass(frozen=True, slots=True)
class Measures:
    from_ms: int
    until_ms: int
    """The end of the time in which clients worked, in milliseconds of the run."""
    commits: tuple[Commit, ...]
    """The commits of the producer that never pauses, in the order in which they ended."""
    gaps: tuple[tuple[int, int], ...]
    """The stretches of a second or more without a commit, each as (from, until) in milliseconds."""
    recoveries: tuple[Recovery, ...]
    roles: tuple[RoleSummary, ...]
    lags: tuple[Lag, ...]
    transactions: Mapping[str, int]
    """The number of transactions of all workloads, by ending and outcome, such as `commit ok`."""

    @property
    def availability(self) -> float:
        """Return the share of the time, from 0 to 1, that lies outside of stretches of a second or more
        without a commit."""
        lost_ms = sum(until - since for since, until in self.gaps)
        return 1 - lost_ms / max(1, self.until_ms - self.from_ms)


@dataclass(frozen=True, slots=True)
class Tried:
    """The size of a history: the numbers of its operations, sends and records read, and its faults."""

    operations: Mapping[str, int]
    """The number of operations of each kind."""
    sends: int
    records_read: int
    faults: tuple[Fault, ...]
    by_library: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """The number of transactions by client library and how they ended."""

    @classmethod
    def of(cls, history: History) -> Self:
        return cls(
            operations=Counter(type(one).__name__ for one in history.operations),
            sends=sum(len(one.sends) for one in history.all(Transaction))
            + len(history.all(PlainSend)),
            records_read=sum(len(one.reads) for one in history.all(Poll))
            + sum(len(one.reads) for one in history.all(FinalRead)),
            faults=tuple(history.all(Fault)),
            by_library=Counter(
                (one.library, f"{one.ending} {one.outcome}") for one in history.all(Transaction)
            ),
        )


def percentile(values: Sequence[int], share: float) -> int | None:
    """Return the least value that `share` of the values do not exceed; None if there are none."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def planned_faults(history: History) -> list[Fault]:
    return planned(history.all(Fault))


def planned(faults: Sequence[Fault]) -> list[Fault]:
    return [fault for fault in faults if fault.client == FAULT_PLAN]


def measure(
    history: History,
    pulse: str,
    from_ms: int,
    until_ms: int,
    roles: Sequence[str],
    lags: Sequence[Lag],
) -> Measures:
    """Compute the measures of a run in which clients worked from `from_ms` until `until_ms`. `pulse` is the name of the
    client that commits without a pause; its restarts are called `pulse#1`, `pulse#2` and so on."""
    commits = commits_of(history, pulse)
    faults = planned_faults(history)
    return measures_from(commits, faults, transactions_of(history), from_ms, until_ms, roles, lags)


def commits_of(history: History, pulse: str) -> list[Commit]:
    """Return the commits of the client `pulse`, in the order in which they ended."""
    return sorted(
        (
            Commit(one.client, one.invoked_ms, one.asked_ms, one.completed_ms)
            for one in history.all(Transaction)
            if one.client.partition("#")[0] == pulse
            and one.asked_ms is not None
            and one.completed_ms is not None
            and (one.ending, one.outcome) == (Ending.COMMIT, Outcome.OK)
        ),
        key=lambda commit: commit.ended_ms,
    )


def measures_from(
    commits: Sequence[Commit],
    faults: Sequence[Fault],
    transactions: Mapping[str, int],
    from_ms: int,
    until_ms: int,
    roles: Sequence[str],
    lags: Sequence[Lag],
) -> Measures:
    """Compute the measures of a run in which clients worked from `from_ms` until `until_ms`. `commits` are those of the
    client that commits without a pause, `transactions` are counts by how they ended."""
    absences = _absences(commits, faults)
    recoveries = tuple(_recovery(fault, commits, absences) for fault in faults)
    return Measures(
        from_ms=from_ms,
        until_ms=until_ms,
        commits=tuple(commits),
        gaps=_gaps(commits, from_ms, until_ms),
        recoveries=recoveries,
        roles=tuple(_summary(role, recoveries, faults) for role in roles),
        lags=tuple(lags),
        transactions=dict(sorted(transactions.items())),
    )


def _next(commits: Sequence[Commit], at_ms: int) -> Commit | None:
    """Return the first commit of a transaction that was begun at `at_ms` or later. The commits are of one client at a
    time, so a transaction that began later also ended later."""
    at = bisect_left(commits, at_ms, key=lambda commit: commit.began_ms)
    return commits[at] if at < len(commits) else None


def _absences(commits: Sequence[Commit], faults: Sequence[Fault]) -> list[tuple[int, int]]:
    """Return when the client that never pauses was away: from each kill of it by the plan until its next
    commit, as (from, until) in milliseconds."""
    started_ms: dict[str, int] = {}
    for commit in commits:
        started_ms.setdefault(commit.client, commit.began_ms)
    found = []
    for fault in faults:
        after = _next(commits, fault.invoked_ms)
        if fault.kind != FaultKind.CLIENT_KILL or after is None:
            continue
        if started_ms[after.client] >= fault.invoked_ms:
            found.append((fault.invoked_ms, after.ended_ms))
    return found


def _recovery(
    fault: Fault, commits: Sequence[Commit], absences: Sequence[tuple[int, int]]
) -> Recovery:
    after = _next(commits, fault.invoked_ms)
    role = role_of(fault.target)
    gap_ms = _longest_gap(fault, commits, absences)
    if after is None:
        return Recovery(fault, role, None, gap_ms=gap_ms)
    is_watched = not any(
        since < after.ended_ms and until > fault.invoked_ms for since, until in absences
    )
    return Recovery(fault, role, after.ended_ms - fault.invoked_ms, is_watched, gap_ms)


def _longest_gap(
    fault: Fault, commits: Sequence[Commit], absences: Sequence[tuple[int, int]]
) -> int | None:
    """Return the fault's `Recovery.gap_ms`."""
    begun_ms, done_ms = fault.invoked_ms, fault.completed_ms or fault.invoked_ms
    ends = [begun_ms]
    for at in range(
        bisect_right(commits, begun_ms, key=lambda commit: commit.ended_ms), len(commits)
    ):
        ends.append(commits[at].ended_ms)
        if ends[-1] >= done_ms:
            break
    if len(ends) == 1 or ends[-1] < done_ms:
        return None
    return max(
        (
            until - since
            for since, until in pairwise(ends)
            if not any(left < until and back > since for left, back in absences)
        ),
        default=None,
    )


def _gaps(commits: Sequence[Commit], from_ms: int, until_ms: int) -> tuple[tuple[int, int], ...]:
    ends = [from_ms, *(one.ended_ms for one in commits if from_ms <= one.ended_ms <= until_ms)]
    ends.append(until_ms)
    return tuple((since, until) for since, until in pairwise(ends) if until - since >= GAP_MS_MIN)


def _is_alone(recovery: Recovery, faults: Sequence[Fault]) -> bool:
    """True if no lasting fault, such as a pause or a partition, was under way between the kill and the next
    commit."""
    began_ms = recovery.fault.invoked_ms
    ended_ms = began_ms + (recovery.ms or 0)
    return not any(
        one.kind not in _ENDED
        and one.invoked_ms < ended_ms
        and (one.completed_ms is None or one.completed_ms > began_ms)
        for one in faults
    )


def _summary(role: str, recoveries: Sequence[Recovery], faults: Sequence[Fault]) -> RoleSummary:
    own = [one for one in recoveries if one.role == role]
    known = [one.ms for one in own if one.ms is not None]
    kills = [
        one.ms
        for one in own
        if one.ms is not None
        and one.fault.kind in KILLS
        and one.is_watched
        and _is_alone(one, faults)
    ]
    return RoleSummary(
        role=role,
        hits=len(own),
        recoveries=len(known),
        p50_ms=percentile(known, 0.5),
        p99_ms=percentile(known, 0.99),
        max_ms=max(known, default=None),
        kills=len(kills),
        kills_p99_ms=percentile(kills, 0.99),
    )


def transactions_of(history: History) -> Counter[str]:
    """Return the number of transactions by ending and outcome, such as `commit ok`."""
    return Counter(f"{one.ending} {one.outcome}" for one in history.all(Transaction))
