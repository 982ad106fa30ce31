"""Rules that explain why a consumer group makes no progress."""

import shlex
from dataclasses import dataclass
from typing import Final

from oncelog.ids import Partition
from oncelog.wording import counted
from oncelog_gateway.core.diagnosis import (
    Command,
    Diagnosis,
    Evidence,
    HolderFacts,
    PartitionFacts,
)
from oncelog_gateway.core.held_back import Behind, Holder

PLACES_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class OffsetFacts:
    partition: Partition
    offset: int | None
    """The committed offset; None: not known."""
    lag: int | None
    behind: Behind | None = None
    """The records that the group has not read of a partition with lag; None where the leader could not be read."""
    held: PartitionFacts | None = None
    """The partition's facts, where an open transaction holds back records that the group has not read."""
    held_back: int = 0
    """Number of offsets, a part of `lag`, that an open transaction holds back."""
    is_blocked: bool = False
    """True if the group has read everything before the open transaction that holds back the rest."""

    @property
    def name(self) -> str:
        return f"{self.partition.topic}-{self.partition.partition}"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    group_id: str
    state: str
    member_count: int
    offsets: tuple[OffsetFacts, ...] = ()
    pending: tuple[Partition, ...] = ()
    """Partitions whose offsets an open transaction is about to commit."""
    holder: HolderFacts | None = None
    """The open transaction that is about to commit the pending offsets."""
    unknown: tuple[str, ...] = ()


def explain_group(facts: GroupFacts, owner: Diagnosis | None) -> Diagnosis:
    """Return the diagnosis of a group. `owner` is the diagnosis of the transaction that holds back the group's
    committed offsets or its input; None: there is none.
    """
    if facts.pending:
        return _unstable(facts, owner)
    lagging = [one for one in facts.offsets if one.lag]
    if not lagging:
        return _nothing_behind(facts)
    blocked = [one for one in lagging if one.is_blocked]
    if blocked:
        return _blocked(facts, blocked, owner)
    if all(
        one.behind is not None and one.behind.is_whole and not one.behind.records for one in lagging
    ):
        return _only_markers(facts, lagging)
    return _lags(facts, lagging)


def _nothing_behind(facts: GroupFacts) -> Diagnosis:
    unread = [one.name for one in facts.offsets if one.offset is not None and one.lag is None]
    if unread:
        return _diagnosis(
            facts,
            "unknown",
            f"How far group {facts.group_id!r} is behind in {', '.join(unread)} is not known: no leader answered.",
        )
    if not facts.offsets:
        return _diagnosis(
            facts,
            "no-offsets",
            f"Group {facts.group_id!r} has committed nothing yet"
            + ("." if facts.member_count else ", and it has no members."),
        )
    return _diagnosis(facts, "healthy", f"Group {facts.group_id!r} has read everything.")


def _unstable(facts: GroupFacts, owner: Diagnosis | None) -> Diagnosis:
    names = ", ".join(f"{one.topic}-{one.partition}" for one in facts.pending)
    holder = facts.holder
    who = "a transaction"
    if holder is not None:
        who = (
            f"the open transaction of {holder.transactional_id or f'producer {holder.producer_id}'}"
        )
    findings = [
        "A consumer that starts now is told UNSTABLE_OFFSET_COMMIT and asks again until the transaction has ended: "
        "only then it is decided where the group goes on.",
        *(owner.findings if owner is not None else ()),
    ]
    return Diagnosis(
        "unstable-offset-commit",
        f"The offsets of group {facts.group_id!r} in {names} wait for {who}, which commits them."
        + (f" {owner.verdict}" if owner is not None else ""),
        tuple(findings),
        (_state(facts), *(owner.evidence if owner is not None else ())),
        owner.next_commands if owner is not None else (_look(facts),),
        facts.unknown,
    )


def _blocked(facts: GroupFacts, blocked: list[OffsetFacts], owner: Diagnosis | None) -> Diagnosis:
    names = ", ".join(one.name for one in blocked)
    waiting = counted(sum(one.held_back for one in blocked), "offset")
    hold = "an open transaction holds" if len(blocked) == 1 else "open transactions hold"
    holders = [None if one.held is None else one.held.holder for one in blocked]
    is_young = all(one is not None and _words_of(one).is_young for one in holders)
    stands = "has read up to an open transaction" if is_young else "cannot read on"
    return Diagnosis(
        "input-held-back" if owner is None else owner.incident,
        f"Group {facts.group_id!r} {stands} in {names}: {hold} back {waiting}."
        + (f" {owner.verdict}" if owner is not None else ""),
        (*map(_place, blocked[:PLACES_MAX]), *(owner.findings if owner is not None else ())),
        (_state(facts), *(owner.evidence if owner is not None else ())),
        owner.next_commands
        if owner is not None
        else (Command(f"oncelog transactions explain {shlex.quote(blocked[0].name)}", "says who"),),
        facts.unknown,
    )


def _place(one: OffsetFacts) -> str:
    """Return in words how far the group has read in one partition, and which transaction holds back the rest."""
    place = f"{one.name}: committed offset {one.offset}, lag {one.lag}"
    holder = None if one.held is None else one.held.holder
    if holder is None or not one.held_back:
        return f"{place}."
    return f"{place}, of which {one.held_back} held back by {_words_of(holder).words}."


def _words_of(holder: HolderFacts) -> Holder:
    return Holder(
        holder.transactional_id,
        holder.producer_id,
        holder.age_ms,
        holder.idle_ms,
        holder.is_hanging,
        holder.first_record_age_ms,
    )


def _only_markers(facts: GroupFacts, lagging: list[OffsetFacts]) -> Diagnosis:
    lag = sum(one.lag or 0 for one in lagging)
    markers = sum(one.behind.markers for one in lagging if one.behind is not None)
    aborted = sum(one.behind.aborted for one in lagging if one.behind is not None)
    what = counted(markers, "transaction marker")
    if aborted:
        what += f" and {counted(aborted, 'aborted record')}"
    return _diagnosis(
        facts,
        "lag-of-markers",
        f"Group {facts.group_id!r} has read everything. Its lag of {lag} is {what}: they have offsets, and no consumer "
        "is given them.",
        *(
            f"{one.name}: committed offset {one.offset}, {counted(one.lag or 0, 'offset')} before the end."
            for one in lagging
        ),
    )


def _lags(facts: GroupFacts, lagging: list[OffsetFacts]) -> Diagnosis:
    records = sum(one.behind.records if one.behind is not None else one.lag or 0 for one in lagging)
    is_whole = all(one.behind is not None and one.behind.is_whole for one in lagging)
    count = counted(records, "record") if is_whole else f"{records} records or more"
    idle = "" if facts.member_count else "; it has no members, so nobody reads"
    return _diagnosis(
        facts,
        "behind" if facts.member_count else "no-members",
        f"Group {facts.group_id!r} is {count} behind{idle}.",
        *map(_place, lagging[:PLACES_MAX]),
    )


def _diagnosis(facts: GroupFacts, incident: str, verdict: str, *findings: str) -> Diagnosis:
    return Diagnosis(incident, verdict, findings, (_state(facts),), (_look(facts),), facts.unknown)


def _state(facts: GroupFacts) -> Evidence:
    return Evidence(
        "group", f"{facts.state}, {counted(facts.member_count, 'member')}", "its coordinator"
    )


def _look(facts: GroupFacts) -> Command:
    return Command(
        f"oncelog groups describe {shlex.quote(facts.group_id)}", "shows members and offsets"
    )
