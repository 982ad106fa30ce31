"""Finds what is wrong with open transactions for the overview: they hang, are late, are two-phase and undecided, or
block a consumer group.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from oncelog.ids import Partition
from oncelog.wording import counted
from oncelog_gateway.core.endings import abort_command, explain_command, terminate_command
from oncelog_gateway.core.held_back import Holder
from oncelog_gateway.core.trouble import NAMES_MAX, NOT_KNOWN, ROWS_MAX, Since, Trouble, names, page
from oncelog_gateway.core.wording import duration


class Hang(NamedTuple):
    """A hanging transaction in one partition: nobody will end it, and read_committed readers wait behind it."""

    partition: Partition
    holder: Holder
    start_offset: int
    producer_epoch: int
    held_back: int


class Undecided(NamedTuple):
    """A transaction that its coordinator has had open for too long: it is late, or two-phase and not yet decided."""

    transactional_id: str
    age_ms: int
    timeout_ms: int
    is_late: bool
    """True if the transaction is open for longer than its timeout. False: it is two-phase, and open for long."""


class BlockedGroup(NamedTuple):
    group_id: str
    partition: Partition
    held_back: int
    holder: Holder


def hanging(found: Sequence[Hang], blocked: Sequence[BlockedGroup]) -> Iterator[Trouble]:
    waiting: dict[Partition, list[str]] = {}
    for waits in blocked:
        if waits.holder.is_hanging:
            waiting.setdefault(waits.partition, []).append(waits.group_id)
    # The one that holds the longest first; a group that waits makes it worse.
    rows = sorted(
        found,
        key=lambda one: (one.partition not in waiting, -(one.holder.held_for_ms or 0)),
    )
    for one in rows[:ROWS_MAX]:
        yield Trouble(
            "transactions",
            "bad",
            str(one.partition),
            f"is held by a hanging transaction of {one.holder.name}, which nobody will end: "
            f"{counted(one.held_back, 'offset')} held back{_blocks(waiting.get(one.partition, ()), '; it blocks')}",
            Since(one.holder.held_for_ms, not one.holder.is_begin_known),
            "Abort it. The command shows first what it would do.",
            abort_command(one.partition, one.start_offset, one.producer_epoch),
            page("/partition", topic=one.partition.topic, partition=one.partition.partition),
            tuple(waiting.get(one.partition, ())[:NAMES_MAX]),
        )
    if len(rows) > ROWS_MAX:
        yield Trouble(
            "transactions",
            "bad",
            counted(len(rows) - ROWS_MAX, "partition"),
            "more held by a hanging transaction",
            NOT_KNOWN,
            "Look at all of them.",
            "oncelog transactions find-hanging",
            "/partitions",
        )


def undecided(
    found: Sequence[Undecided], found_count: int, blocked: Sequence[BlockedGroup]
) -> Iterator[Trouble]:
    by_holder: dict[str, list[BlockedGroup]] = {}
    for one in blocked:
        if not one.holder.is_hanging:
            by_holder.setdefault(one.holder.name, []).append(one)
    known = {one.transactional_id: one for one in found}
    by_age = sorted(by_holder.values(), key=lambda same: -(same[0].holder.held_for_ms or 0))
    for groups in by_age[:ROWS_MAX]:
        yield _blocking(groups, known.pop(groups[0].holder.transactional_id or "", None))
    if len(by_age) > ROWS_MAX:
        ids = {one.group_id for groups in by_age[ROWS_MAX:] for one in groups}
        yield Trouble(
            "groups",
            "warn",
            counted(len(by_age) - ROWS_MAX, "transaction"),
            f"more block {counted(len(ids), 'group')}",
            NOT_KNOWN,
            "Look at the groups.",
            "oncelog groups list",
            "/groups",
        )
    left = sorted(known.values(), key=lambda one: -one.age_ms)
    yield from map(_late, left[:ROWS_MAX])
    more = found_count - len(found) + max(len(left) - ROWS_MAX, 0)
    if more > 0:
        yield Trouble(
            "transactions",
            "warn",
            counted(more, "transaction"),
            "more open for too long",
            NOT_KNOWN,
            "Look at all of them.",
            "oncelog transactions list --state Ongoing",
            "/transactions?late=1",
        )


def _blocking(groups: Sequence[BlockedGroup], known: Undecided | None) -> Trouble:
    """Return the trouble that one transaction blocks consumer groups. `groups` are all groups that it blocks. `known`
    is the transaction if it is open for too long.
    """
    holder = groups[0].holder
    held = sum({one.partition: one.held_back for one in groups}.values())
    where = names(dict.fromkeys(str(one.partition) for one in groups))
    ids = list(dict.fromkeys(one.group_id for one in groups))
    name = holder.transactional_id
    first = groups[0].partition
    return Trouble(
        "groups",
        "warn",
        holder.name,
        f"{_blocks(ids, 'blocks')}: {counted(held, 'offset')} of {where} held back"
        f"{f'; it {_why(known)}' if known else ''}",
        Since(holder.held_for_ms, not holder.is_begin_known),
        _end_words(known, is_known=holder.is_hanging is not None),
        _end_command(name, known)
        if name
        else f"oncelog transactions explain {shlex.quote(str(first))}",
        page("/transaction", id=name)
        if name
        else page("/partition", topic=first.topic, partition=first.partition),
        tuple(ids[:NAMES_MAX]),
    )


def _late(one: Undecided) -> Trouble:
    return Trouble(
        "transactions",
        "warn",
        one.transactional_id,
        _why(one),
        Since(one.age_ms),
        _end_words(one),
        _end_command(one.transactional_id, one),
        page("/transaction", id=one.transactional_id),
    )


def _why(known: Undecided) -> str:
    if known.is_late:
        return f"is open for longer than its timeout of {duration(known.timeout_ms)}"
    return "is two-phase, and nobody has decided it"


def _end_words(known: Undecided | None, *, is_known: bool = True) -> str:
    if not is_known:
        return "A coordinator did not answer, so it may hang: look again before you end anything."
    if known is None:
        return "Its producer ends it, or its coordinator after the timeout, or you."
    if known.is_late:
        return "Its coordinator should have ended it: see why it did not."
    return "Ask its application, which decides it: no timeout ends it."


def _end_command(name: str, known: Undecided | None) -> str:
    return terminate_command(name) if known is None else explain_command(name)


def _blocks(groups: Sequence[str], verb: str) -> str:
    if not groups:
        return ""
    return f"{verb} {'group' if len(groups) == 1 else 'groups'} {names(groups)}"
