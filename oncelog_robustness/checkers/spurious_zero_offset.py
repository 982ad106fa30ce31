"""spurious-zero-offset: a group that has committed an offset never receives the answer that it has none, or 0.

A consumer that receives this answer begins again at the start. Two things prove, before the fetch begins, that a
group has committed: an answered commit above 0, and a fetch that returned an offset above 0. A group is not judged
if a client may have committed 0 meanwhile.
"""

from typing import NamedTuple

from oncelog_robustness.checkers.commits_of_groups import (
    GroupCommit,
    GroupPartition,
    commits_of_groups,
)
from oncelog_robustness.checkers.findings import Findings, place, span
from oncelog_robustness.checkers.verdict import Verdict
from oncelog_robustness.history import History, OffsetsFetched, Operation, Outcome
from oncelog_robustness.observations import Observations


class _Known(NamedTuple):
    ended_ms: int
    invoked_ms: int
    words: str


def check(history: History, observations: Observations) -> Verdict:
    findings = Findings("spurious-zero-offset")
    commits = commits_of_groups(history)
    fetches = history.all(OffsetsFetched)
    first = _first_known(commits, fetches)
    for fetched in fetches:
        for topic, partition, offset in fetched.fetched.offsets:
            key = (fetched.fetched.group, topic, partition)
            known = first.get(key)
            if known is None or known.ended_ms > fetched.invoked_ms:
                continue
            if any(_may_rewind(commit, known) for commit in commits.get(key, [])):
                continue
            findings.judged += 1
            if offset <= 0:
                findings.broken.append(
                    f"{fetched.client} ({span(fetched)}) was told {offset} for group {key[0]} in"
                    f" {place(topic, partition)}, after {known.words}"
                )
    return findings.verdict("no offset was fetched of a group that is known to have committed one")


def _first_known(
    commits: dict[GroupPartition, list[GroupCommit]], fetches: list[OffsetsFetched]
) -> dict[GroupPartition, _Known]:
    """Return, for each group and partition, the first proof that the group had committed an offset above 0."""
    first: dict[GroupPartition, _Known] = {}

    def add(key: GroupPartition, by: Operation, words: str) -> None:
        if by.completed_ms is not None:
            known = _Known(by.completed_ms, by.invoked_ms, words)
            first[key] = min(known, first.get(key, known))

    for key, many in commits.items():
        for commit in many:
            if commit.offset > 0 and commit.by.outcome is Outcome.OK and commit.is_done:
                add(key, commit.by, f"{commit.who()} committed {commit.offset}")
    for fetched in fetches:
        for topic, partition, offset in fetched.fetched.offsets:
            if offset > 0:
                words = f"{fetched.client} ({span(fetched)}) was told {offset}"
                add((fetched.fetched.group, topic, partition), fetched, words)
    return first


def _may_rewind(commit: GroupCommit, known: _Known) -> bool:
    if commit.offset > 0 or commit.is_done is False:
        return False
    return commit.ended_ms is None or commit.ended_ms >= known.invoked_ms
