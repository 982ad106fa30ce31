"""Why a consumer group does not get on."""

import shlex
from dataclasses import dataclass

from oncelog.ids import Partition
from oncelog.wording import counted
from oncelog_gateway.core.diagnosis import (
    Command,
    Diagnosis,
    Evidence,
    HolderFacts,
    PartitionFacts,
)


@dataclass(frozen=True, slots=True)
class Behind:
    """What comes after a committed offset, as far as it was read."""

    records: int = 0
    """Of committed transactions, or of none."""
    aborted: int = 0
    markers: int = 0
    is_whole: bool = True
    """Everything up to the high watermark was read."""


@dataclass(frozen=True, slots=True)
class OffsetFacts:
    partition: Partition
    offset: int | None
    """None: not known."""
    lag: int | None
    behind: Behind | None = None
    """Of a partition with lag, where its leader could be read."""
    held: PartitionFacts | None = None

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
    """Whose offsets an open transaction commits."""
    holder: HolderFacts | None = None
    """That transaction."""
    unknown: tuple[str, ...] = ()


def explain_group(facts: GroupFacts, owner: Diagnosis | None) -> Diagnosis:
    """`owner`: the diagnosis of the transaction that holds offsets or the input back."""
    if facts.pending:
        return _unstable(facts, owner)
    lagging = [one for one in facts.offsets if one.lag]
    if not lagging:
        return _nothing_behind(facts)
    held = [one for one in lagging if one.held is not None and one.held.holder is not None]
    if held:
        return _held_back(facts, held, owner)
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


def _held_back(facts: GroupFacts, held: list[OffsetFacts], owner: Diagnosis | None) -> Diagnosis:
    names = ", ".join(one.name for one in held)
    return Diagnosis(
        "input-held-back" if owner is None else owner.incident,
        f"Group {facts.group_id!r} cannot read on in {names}: an open transaction holds its last stable offset."
        + (f" {owner.verdict}" if owner is not None else ""),
        owner.findings if owner is not None else (),
        (_state(facts), *(owner.evidence if owner is not None else ())),
        owner.next_commands
        if owner is not None
        else (Command(f"oncelog transactions explain {shlex.quote(held[0].name)}", "says who"),),
        facts.unknown,
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
        *(f"{one.name}: committed offset {one.offset}, lag {one.lag}." for one in lagging[:10]),
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
