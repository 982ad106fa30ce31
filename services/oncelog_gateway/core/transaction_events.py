"""Helpers of the rules that explain transactions: what the newest events tell, the state as evidence, and where readers
stop.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from typing import Final

from oncelog.telemetry.events import Event
from oncelog.wording import counted
from oncelog_gateway.core.diagnosis import (
    RECENT_MS,
    Command,
    Evidence,
    PartitionFacts,
    TransactionFacts,
    ago,
    client_of,
)
from oncelog_gateway.core.endings import shell_word
from oncelog_gateway.core.held_back import holds_back

LOOP_PAUSE_MS: Final = 5_000
"""A client whose last refusal is older than this has stopped asking."""
LOOP_COUNT: Final = 3
"""At least this many refusals count as a loop."""


def newest(events: Iterable[Event], fits: Callable[[Event], bool]) -> Event | None:
    found = None
    for event in events:
        if fits(event):
            found = event
    return found


def is_activity(event: Event) -> bool:
    """True if the producer itself caused the event, by a request or by writing."""
    if event.kind == "transaction":
        return event.text("request") in ("InitProducerId", "AddPartitions", "EndTxn")
    return event.kind in ("opened", "verified")


def last_activity(facts: TransactionFacts, ended: Event) -> Event | None:
    return newest(
        facts.events,
        lambda e: (
            e.time_ms <= ended.time_ms and e is not ended and not e.text("bump") and is_activity(e)
        ),
    ) or newest(facts.events, lambda e: e.time_ms < ended.time_ms and is_activity(e))


def silence_of(facts: TransactionFacts, ended: Event) -> int:
    last = last_activity(facts, ended)
    return 0 if last is None else max(ended.time_ms - last.time_ms, 0)


def old_client(facts: TransactionFacts, ended: Event | None) -> str:
    """Return in words which client used the transactional id before the event `ended`; None: the last one that is
    known.
    """
    known = newest(
        facts.events,
        lambda e: bool(e.text("client_host")) and (ended is None or e.time_ms < ended.time_ms),
    )
    return "its producer" if known is None else client_of(known)


def aborted_after(facts: TransactionFacts, ended: Event) -> bool:
    return any(
        e.text("state") in ("PrepareAbort", "CompleteAbort") and e.time_ms >= ended.time_ms
        for e in facts.events
    )


def repeated_refusals(facts: TransactionFacts, errors: Set[str]) -> list[Event] | None:
    """Return the recent refusals with one of these errors if a client repeats its request in a loop: there are several,
    and the last is a moment old. Otherwise return None.
    """
    found = [
        e
        for e in facts.events
        if e.kind == "refused" and e.text("error") in errors and facts.now - e.time_ms <= RECENT_MS
    ]
    if not found or facts.now - found[-1].time_ms > LOOP_PAUSE_MS:
        return None
    return found if sum(max(e.number("count"), 1) for e in found) >= LOOP_COUNT else None


def loop_finding(facts: TransactionFacts, loop: list[Event]) -> str:
    count = sum(max(e.number("count"), 1) for e in loop)
    return (
        f"{loop[-1].text('request')} of {client_of(loop[-1])} was refused with {loop[-1].text('error')} {count} times "
        f"or more since {ago(facts.now, loop[0].time_ms)}."
    )


def last_change(facts: TransactionFacts) -> tuple[str, ...]:
    last = newest(facts.events, lambda e: e.kind == "transaction")
    if last is None:
        return ()
    return (
        f"Last change, {ago(facts.now, last.time_ms)}: {last.text('state')} by {last.text('request')}.",
    )


def last_heard(facts: TransactionFacts) -> list[str]:
    if not facts.events:
        return []
    last = facts.events[-1]
    return [f"The last that was heard of it, {ago(facts.now, last.time_ms)}: {activity(last)}."]


def activity(event: Event) -> str:
    if event.kind == "opened":
        return f"its first record in {event.text('topic')}-{event.number('partition')}"
    if event.kind == "verified":
        return f"a write to {event.text('names')}"
    if event.kind == "transaction":
        added = event.text("added")
        return f"{event.text('request')}" + (f" with {added}" if added else "")
    return event.kind.replace("_", " ")


def what_is_held(held: Sequence[PartitionFacts]) -> str:
    """Return in words how many offsets a transaction holds back in these partitions together."""
    return holds_back(sum(one.held_back for one in held), [one.name for one in held])


def where_readers_stop(held: Sequence[PartitionFacts]) -> list[str]:
    """Return a sentence for each partition: the offset at which read_committed readers stop. For several partitions it
    also says how much is held back in each.
    """
    return [
        f"{one.name}: read_committed stops at offset {one.last_stable_offset}"
        + (f", {counted(one.held_back, 'offset')} held back." if len(held) > 1 else ".")
        for one in held
    ]


def state_evidence(facts: TransactionFacts) -> tuple[Evidence, ...]:
    source = f"coordinator on node {facts.coordinator}"
    return (
        Evidence("state", facts.state or "not known", source),
        Evidence("producer", f"{facts.producer_id}, epoch {facts.producer_epoch}", source),
        Evidence("events", str(len(facts.events)), "history of the gateway"),
    )


def timeline_command(facts: TransactionFacts) -> Command:
    return Command(
        f"oncelog transactions timeline {shell_word(facts.transactional_id)}",
        "shows every step with its cause",
    )
