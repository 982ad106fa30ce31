"""Lists what is wrong in a cluster: each trouble with its age and what to do about it, the worst first.

The console's overview, `GET /v1/cluster/health`, `oncelog health` and `oncelog mcp` take their answers from here. All
that is wrong with one transaction is one row: what it blocks, that it is late, and that nobody decides it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from oncelog.wording import counted
from oncelog_gateway.core.node_troubles import (
    Queue,
    Seen,
    behind,
    fenced,
    leaderless,
    queues,
    silent,
    unanswered,
    unowned,
)
from oncelog_gateway.core.transaction_troubles import (
    BlockedGroup,
    Hang,
    Undecided,
    hanging,
    undecided,
)
from oncelog_gateway.core.trouble import Check, Look, Trouble


@dataclass(frozen=True, slots=True)
class OverviewFacts:
    hanging: Sequence[Hang] = ()
    blocked: Sequence[BlockedGroup] = ()
    undecided: Sequence[Undecided] = ()
    """The oldest of the transactions that are late, and of the two-phase ones that are open for long."""
    undecided_count: int = 0
    leaderless: Sequence[Seen] = ()
    unanswered: Sequence[Seen] = ()
    """Partitions whose leader does not answer. Their `what` is Kafka's name of the error."""
    unowned: Sequence[Seen] = ()
    """Shards without a coordinator, such as `transaction shards 0–3`."""
    fenced: Sequence[Seen] = ()
    """Nodes that are fenced, as they do not answer the controller. Their `what` names the roles of each."""
    behind: Sequence[Seen] = ()
    """Partitions with a replica out of sync."""
    queues: Sequence[Queue] = ()
    silent: Mapping[Check, Sequence[str]] = field(default_factory=dict)
    """By check, the errors of the roles that it needed and that did not answer: its result is not known."""
    node_count: int = 0
    partition_count: int = 0
    unasked_count: int = 0
    """Number of partitions beyond the limit, whose leaders were not asked what holds them back."""
    open_count: int = 0
    group_count: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    look: Look
    text: str
    troubles: tuple[Trouble, ...]
    looked_at: Mapping[Check, str]
    """The good result of each check that found no trouble, in words, such as `every replica is in sync`."""

    @property
    def counts(self) -> str:
        """The number of troubles of each urgency, in words: `1 to act on, 3 to look at.`"""
        acts = sum(one.look == "bad" for one in self.troubles)
        looks = len(self.troubles) - acts
        words = [f"{acts} to act on"] * bool(acts) + [f"{looks} to look at"] * bool(looks)
        return f"{', '.join(words)}."


def verdict_of(facts: OverviewFacts) -> Verdict:
    found = (
        *leaderless(facts.leaderless),
        *unanswered(facts.unanswered),
        *hanging(facts.hanging, facts.blocked),
        *unowned(facts.unowned),
        *undecided(facts.undecided, facts.undecided_count, facts.blocked),
        *queues(facts.queues),
        *silent(facts.silent),
        *fenced(facts.fenced),
        *behind(facts.behind),
    )
    troubles = tuple(sorted(found, key=lambda one: one.look != "bad"))
    troubled = {one.check for one in troubles}
    looked_at = {check: text for check, text in _looked_at(facts).items() if check not in troubled}
    if not troubles:
        return Verdict("good", f"All is well: {'; '.join(looked_at.values())}.", (), looked_at)
    worst = troubles[0]
    since = f" (for {worst.since.words})" if worst.since.words else ""
    more = len(troubles) - 1
    text = f"{worst.sentence}{since}{f'; and {more} more' if more else ''}."
    return Verdict(worst.look, text, troubles, looked_at)


def _looked_at(facts: OverviewFacts) -> Mapping[Check, str]:
    opened = counted(facts.open_count, "open transaction")
    unasked = counted(facts.unasked_count, "partition")
    return {
        "nodes": f"{counted(facts.node_count, 'node')} live",
        "coordinators": "every shard has a coordinator",
        "leaders": f"{counted(facts.partition_count, 'partition')} have a leader",
        "partitions": "every replica is in sync",
        "transactions": f"{opened}, none hangs or is late"
        + (f"; what holds {unasked} back was not asked" if facts.unasked_count else ""),
        "groups": f"{counted(facts.group_count, 'group')}, none is blocked",
        "markers": "no marker waits",
    }
