"""All commits of a group's offsets, in transactions and outside, each with its client and whether it was done."""

from typing import NamedTuple

from oncelog_robustness.checkers.evidence import FinalState
from oncelog_robustness.checkers.findings import span, writer
from oncelog_robustness.history import GroupOffsets, History, OffsetsCommitted, Outcome, Transaction

GroupPartition = tuple[str, str, int]
"""A group, a topic and a partition number."""


class GroupCommit(NamedTuple):
    offset: int
    by: Transaction | OffsetsCommitted
    is_done: bool | None
    """True if the commit was done; None if nobody knows."""

    @property
    def ended_ms(self) -> int | None:
        """The latest time, in milliseconds, at which the group coordinator can have received the commit. None:
        nobody knows.

        For a transaction it is the time when its offsets were accepted, not when it committed. A commit outside the
        transaction in between is newer and replaces these offsets (docs/kafka-facts.md, 5.2).
        """
        if self.by.outcome is not Outcome.OK:
            return None
        if isinstance(self.by, Transaction):
            for known_ms in (self.by.offsets_taken_ms, self.by.asked_ms):
                if known_ms is not None:
                    return known_ms
        return self.by.completed_ms

    def who(self) -> str:
        if isinstance(self.by, Transaction):
            return writer(self.by)
        return f"{self.by.client} ({self.by.outcome}, {span(self.by)})"


def commits_of_groups(history: History) -> dict[GroupPartition, list[GroupCommit]]:
    """Return the commits of each group and partition, in the order in which they began."""
    final = FinalState.of(history)
    found: dict[GroupPartition, list[GroupCommit]] = {}

    def add(
        offsets: GroupOffsets, by: Transaction | OffsetsCommitted, is_done: bool | None
    ) -> None:
        for topic, partition, offset in offsets.offsets:
            commit = GroupCommit(offset, by, is_done)
            found.setdefault((offsets.group, topic, partition), []).append(commit)

    for transaction in history.all(Transaction):
        if transaction.offsets is not None:
            add(transaction.offsets, transaction, final.decided(transaction))
    for committed in history.all(OffsetsCommitted):
        is_done = {Outcome.OK: True, Outcome.FAIL: False, Outcome.INFO: None}[committed.outcome]
        add(committed.committed, committed, is_done)
    for commits in found.values():
        commits.sort(key=lambda commit: commit.by.invoked_ms)
    return found
