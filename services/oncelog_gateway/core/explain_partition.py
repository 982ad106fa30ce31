"""Rules that explain what holds a partition's last stable offset, and who will end that."""

import shlex

from oncelog.wording import counted
from oncelog_gateway.core.diagnosis import (
    Command,
    Diagnosis,
    Evidence,
    PartitionFacts,
    seconds,
)
from oncelog_gateway.core.endings import Ending, abort_command, ending_of
from oncelog_gateway.core.held_back import LONG_MS
from oncelog_gateway.core.transaction_events import what_is_held


def explain_partition(facts: PartitionFacts, owner: Diagnosis | None) -> Diagnosis:
    """Return the diagnosis of a partition. `owner` is the diagnosis of the transaction that holds its last stable
    offset; None: no coordinator knows one.
    """
    if facts.leader < 0:
        return _without_leader(facts)
    if facts.failure:
        return Diagnosis(
            "unknown",
            f"The leader of {facts.name} on node {facts.leader} did not answer: {facts.failure}.",
            next_commands=(Command("oncelog nodes list", "shows whether the node lives"),),
            unknown=(facts.failure,),
        )
    if facts.holder is None:
        return Diagnosis(
            "healthy",
            f"Nothing holds {facts.name} back: read_committed may read to the high watermark, offset "
            f"{facts.high_watermark}.",
            evidence=_offsets(facts),
            next_commands=(
                Command(
                    f"oncelog transactions describe-producers --topic {shlex.quote(facts.partition.topic)} "
                    f"--partition {facts.partition.partition}",
                    "shows who writes to it",
                ),
            ),
        )
    return _hanging(facts) if facts.holder.is_hanging else _held(facts, owner)


def _without_leader(facts: PartitionFacts) -> Diagnosis:
    nodes = ", ".join(map(str, facts.dead_replicas))
    return Diagnosis(
        "no-leader",
        f"{facts.name} has no leader: nobody can read or write it, and markers wait.",
        (f"Replicas on nodes that do not live: {nodes}.",) if nodes else (),
        next_commands=(
            Command(
                "oncelog nodes list", f"shows the nodes{f': start {nodes} again' if nodes else ''}"
            ),
            Command("oncelog transactions markers", "shows the markers that wait"),
        ),
    )


def _hanging(facts: PartitionFacts) -> Diagnosis:
    holder = facts.holder
    assert holder is not None, facts
    abort = abort_command(facts.partition, holder.start_offset, holder.producer_epoch)
    findings = [
        f"The transaction of producer {holder.producer_id}, epoch {holder.producer_epoch}, began at offset "
        f"{holder.start_offset} and is open here.",
        "No coordinator has it open, so no marker will come: its records were written behind the coordinator's back.",
        f"read_committed stops at offset {facts.last_stable_offset} for good: {counted(facts.held_back, 'offset')} "
        "held back.",
    ]
    ages = (("first", holder.first_record_age_ms), ("last", holder.idle_ms))
    known = [
        f"its {which} record here is {seconds(age)} old" for which, age in ages if age is not None
    ]
    if known:
        findings.insert(1, f"I{', and '.join(known)[1:]}.")
    if holder.transactional_id:
        findings.append(
            f"The producer id belongs to {holder.transactional_id!r}, which is {holder.state} at its coordinator."
        )
    return Diagnosis(
        "hanging-transaction",
        f"A hanging transaction holds {facts.name} at offset {facts.last_stable_offset}; {Ending.NEVER.value}.",
        tuple(findings),
        _offsets(facts),
        (
            Command(abort, "shows what the abort would do; it writes nothing"),
            Command(
                f"{abort} --execute",
                "writes the abort marker; refused when a coordinator owns the transaction after all",
                is_safe=False,
            ),
        ),
    )


def _held(facts: PartitionFacts, owner: Diagnosis | None) -> Diagnosis:
    holder = facts.holder
    assert holder is not None, facts
    name = holder.transactional_id or f"producer {holder.producer_id}"
    held = f"{facts.name} is held back from offset {facts.last_stable_offset} on by {name}"
    told = what_is_held([facts])
    if owner is None:
        why = ending_of(None, is_hanging=holder.is_hanging).value
        return Diagnosis(
            "unknown",
            f"{held}, which {told}: {why}.",
            evidence=_offsets(facts),
            next_commands=(_again(facts),),
        )
    # Where the owner's verdict says the same, it is said once.
    which = "" if f"{told}." in owner.verdict else f", which {told}"
    # The transaction may hold more partitions than were looked at for it.
    is_slow = owner.incident == "open" and (holder.age_ms or 0) >= LONG_MS
    return Diagnosis(
        "open-and-slow" if is_slow else owner.incident,
        f"{held}{which}. {owner.verdict}",
        owner.findings,
        (*_offsets(facts), *owner.evidence),
        owner.next_commands,
        owner.unknown,
    )


def _again(facts: PartitionFacts) -> Command:
    return Command(f"oncelog transactions explain {shlex.quote(facts.name)}", "asks again")


def _offsets(facts: PartitionFacts) -> tuple[Evidence, ...]:
    source = f"leader on node {facts.leader}"
    return (
        Evidence("last stable offset", str(facts.last_stable_offset), source),
        Evidence("high watermark", str(facts.high_watermark), source),
    )
