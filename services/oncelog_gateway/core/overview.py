"""One sentence on a cluster: what somebody who opens the console has to know first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from oncelog.wording import counted

Look = Literal["good", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class OverviewFacts:
    hanging: Sequence[str] = ()
    """Partitions, held by a transaction that nobody will end."""
    leaderless: Sequence[str] = ()
    """Partitions that nobody can read or write."""
    fenced: Sequence[int] = ()
    """Node ids that do not answer the controller."""
    late_count: int = 0
    """Transactions open for longer than their timeout."""
    old_two_phase_count: int = 0
    """Transactions that no time-out ends, open for longer than 15 minutes."""
    under_replicated_count: int = 0
    silent_count: int = 0
    """Coordinators that did not answer this page."""
    open_count: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    look: Look
    text: str


def verdict_of(facts: OverviewFacts) -> Verdict:
    """The gravest first. What is wrong is counted, and named where it is one."""
    wrong = [
        _named(facts.hanging, "partition", "held by a hanging transaction"),
        _named(facts.leaderless, "partition", "without a leader"),
    ]
    doubtful = [
        _named([f"node {one}" for one in facts.fenced], "node", "fenced"),
        facts.late_count
        and f"{counted(facts.late_count, 'transaction')} open for longer than "
        f"{'its' if facts.late_count == 1 else 'their'} timeout",
        facts.old_two_phase_count
        and f"{counted(facts.old_two_phase_count, 'two-phase transaction')} open for longer than 15 minutes",
        facts.under_replicated_count
        and f"{counted(facts.under_replicated_count, 'partition')} with a replica out of sync",
        facts.silent_count and f"{counted(facts.silent_count, 'coordinator')} without an answer",
    ]
    reasons = [one for one in (*wrong, *doubtful) if one]
    if reasons:
        return Verdict("bad" if any(wrong) else "warn", f"{'; '.join(reasons)}.")
    opened = (
        f"{counted(facts.open_count, 'transaction')} open, none late"
        if facts.open_count
        else "no transaction is open"
    )
    return Verdict("good", f"All is well: {opened}, every partition has a leader.")


def _named(names: Sequence[str], kind: str, what: str) -> str:
    if not names:
        return ""
    return f"{names[0]} is {what}" if len(names) == 1 else f"{counted(len(names), kind)} {what}"
