"""Ways to break the history of a correct run, each as a broken log would. None if this run gives no occasion."""

import random
from collections.abc import Callable
from dataclasses import replace

from oncelog_robustness.checkers.evidence import (
    FinalState,
    Presence,
    Written,
    must_be_there,
    writes,
)
from oncelog_robustness.history import (
    Ending,
    FinalRead,
    GroupOffsets,
    History,
    Isolation,
    OffsetsFetched,
    Outcome,
    Poll,
    Read,
    Transaction,
)
from oncelog_robustness.workload_facts import ProducerReady, facts_of
from tests.property.robustness.modelled_log import INPUT
from tests.property.robustness.modelled_run import GROUP

RC, RU = Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED
Breakage = Callable[[History, random.Random], bool]


def _swap_in(history: History, old, new) -> None:
    at = next(at for at, one in enumerate(history.operations) if one is old)
    history.operations[at] = new


def _without(history: History, value: str, isolations=(RC, RU)) -> None:
    for final in history.all(FinalRead):
        if final.isolation in isolations:
            kept = tuple(read for read in final.reads if read.value != value)
            _swap_in(history, final, replace(final, reads=kept))


def _with(history: History, send, isolation=RC) -> None:
    """`send` shows up in the final read of its partition."""
    for final in history.all(FinalRead):
        if (final.topic, final.partition, final.isolation) == (*send[:2], isolation):
            read = Read(send.topic, send.partition, send.offset, send.value, send.key)
            reads = sorted([*final.reads, read], key=lambda one: one.offset)
            _swap_in(history, final, replace(final, reads=tuple(reads)))


def _any(draw: random.Random, many):
    many = list(many)
    return draw.choice(many) if many else None


def _present(history: History) -> list[Written]:
    """Acknowledged values that are there, and whose key no other value has."""
    final = FinalState.of(history)
    return [
        one
        for one in writes(history)
        if must_be_there(one.by)
        and one.send.key is None
        and final.committed_presence(one) is Presence.PRESENT
    ]


def lose_a_value(history: History, draw: random.Random) -> bool:
    chosen = _any(draw, _present(history))
    if chosen is not None:
        _without(history, chosen.send.value)
    return chosen is not None


def hide_a_value_at_read_committed(history: History, draw: random.Random) -> bool:
    chosen = _any(draw, _present(history))
    if chosen is not None:
        _without(history, chosen.send.value, (RC,))
    return chosen is not None


def tear_a_transaction(history: History, draw: random.Random) -> bool:
    final = FinalState.of(history)
    whole = [
        transaction
        for transaction in history.all(Transaction)
        if sum(
            send.key is None
            and final.committed_presence(Written(send, transaction)) is Presence.PRESENT
            for send in transaction.sends
        )
        > 1
    ]
    chosen = _any(draw, whole)
    if chosen is None:
        return False
    gone = [send for send in chosen.sends if send.key is None]
    present = [
        send for send in gone if final.committed_presence(Written(send, chosen)) is Presence.PRESENT
    ]
    _without(history, draw.choice(present).value)
    return True


def show_an_aborted_value(history: History, draw: random.Random) -> bool:
    aborted = [
        send
        for by in history.all(Transaction)
        if by.ending is not Ending.COMMIT
        for send in by.sends
        if send.offset is not None
    ]
    chosen = _any(draw, aborted)
    if chosen is not None:
        _with(history, chosen)
    return chosen is not None


def write_a_value_twice(history: History, draw: random.Random) -> bool:
    chosen = _any(draw, _present(history))
    if chosen is not None:
        _with(history, chosen.send._replace(offset=10_000))
    return chosen is not None


def swap_two_values(history: History, draw: random.Random) -> bool:
    final = _any(draw, [one for one in history.all(FinalRead) if len(one.reads) > 1])
    if final is None:
        return False
    at = draw.randrange(len(final.reads) - 1)
    reads = list(final.reads)
    first, second = reads[at : at + 2]
    reads[at] = first._replace(value=second.value)
    reads[at + 1] = second._replace(value=first.value)
    _swap_in(history, final, replace(final, reads=tuple(reads)))
    return True


def skip_a_record(history: History, draw: random.Random) -> bool:
    """In the middle of what one poll was handed of one partition, and still there at the end. It has no key: one whose
    key was written again may have been compacted away at that moment, so nobody can tell."""
    there = {
        (final.isolation, read.value) for final in history.all(FinalRead) for read in final.reads
    }
    spots = [
        (poll, at)
        for poll in history.all(Poll)
        for at in range(1, len(poll.reads) - 1)
        if poll.reads[at - 1][:2] == poll.reads[at][:2] == poll.reads[at + 1][:2]
        and (poll.isolation, poll.reads[at].value) in there
        and poll.reads[at].key is None
    ]
    chosen = _any(draw, spots)
    if chosen is None:
        return False
    poll, at = chosen
    _swap_in(history, poll, replace(poll, reads=poll.reads[:at] + poll.reads[at + 1 :]))
    return True


def turn_a_poll_round(history: History, draw: random.Random) -> bool:
    spots = [
        (poll, at)
        for poll in history.all(Poll)
        for at in range(len(poll.reads) - 1)
        if poll.reads[at][:2] == poll.reads[at + 1][:2]
    ]
    chosen = _any(draw, spots)
    if chosen is None:
        return False
    poll, at = chosen
    reads = (*poll.reads[:at], poll.reads[at + 1], poll.reads[at], *poll.reads[at + 2 :])
    _swap_in(history, poll, replace(poll, reads=reads))
    return True


def turn_two_sends_round(history: History, draw: random.Random) -> bool:
    spots = [
        (by, first, second)
        for by in history.all(Transaction)
        for second in range(1, len(by.sends))
        for first in range(second)
        if by.sends[first][:2] == by.sends[second][:2]
        and by.sends[first].offset is not None
        and by.sends[second].offset is not None
    ]
    chosen = _any(draw, spots)
    if chosen is None:
        return False
    by, first, second = chosen
    sends = list(by.sends)
    sends[first], sends[second] = (
        sends[first]._replace(offset=sends[second].offset),
        sends[second]._replace(offset=sends[first].offset),
    )
    _swap_in(history, by, replace(by, sends=tuple(sends)))
    return True


def hold_back_the_stable_end(history: History, draw: random.Random) -> bool:
    finals = [one for one in history.all(FinalRead) if one.isolation is RC and one.reads]
    final = _any(draw, finals)
    if final is None:
        return False
    end = draw.choice(final.reads).offset
    reads = tuple(read for read in final.reads if read.offset < end)
    _swap_in(history, final, replace(final, reads=reads, end_offset=end))
    return True


def _asked(history: History) -> list[tuple[Transaction, Read]]:
    return [
        (by, Read(send.topic, send.partition, send.offset, send.value, send.key))
        for by in history.all(Transaction)
        if by.asked_ms is not None and by.ending is Ending.COMMIT and by.outcome is Outcome.OK
        for send in by.sends
        if send.offset is not None and by.asked_ms > by.invoked_ms
    ]


def _poll_at(history: History, when_ms: int, read: Read) -> None:
    history.add(
        Poll(
            client="early#1",
            invoked_ms=when_ms,
            completed_ms=when_ms,
            isolation=RC,
            reads=(read,),
        )
    )


def read_before_the_commit(history: History, draw: random.Random) -> bool:
    chosen = _any(draw, _asked(history))
    if chosen is not None:
        _poll_at(history, chosen[0].asked_ms - 1, chosen[1])
    return chosen is not None


def read_past_an_open_transaction(history: History, draw: random.Random) -> bool:
    chosen = _any(draw, _asked(history))
    if chosen is not None:
        by, read = chosen
        _poll_at(history, by.asked_ms - 1, read._replace(offset=9_999, value="of-somebody"))
    return chosen is not None


def commit_a_zombie(history: History, draw: random.Random) -> bool:
    readies = [(fact.transactional_id, entry) for entry, fact in facts_of(history, ProducerReady)]
    zombies = [
        send
        for by in history.all(Transaction)
        if by.outcome is Outcome.FAIL
        and any(
            tid == by.transactional_id
            and by.invoked_ms < ready.invoked_ms
            and (by.asked_ms is None or by.asked_ms > (ready.completed_ms or 0))
            for tid, ready in readies
        )
        for send in by.sends
        if send.offset is not None
    ]
    chosen = _any(draw, zombies)
    if chosen is not None:
        _with(history, chosen)
    return chosen is not None


def close_a_circle(history: History, draw: random.Random) -> bool:
    writers = {send.value: by for by in history.all(Transaction) for send in by.sends}
    edges = [
        (writers[read.value], by)
        for by in history.all(Transaction)
        if by.outcome is Outcome.OK and by.ending is Ending.COMMIT and by.sends
        for read in by.reads
        if read.value in writers and writers[read.value].outcome is Outcome.OK
    ]
    chosen = _any(draw, edges)
    if chosen is None:
        return False
    first, second = chosen
    send = second.sends[0]
    read = Read(send.topic, send.partition, send.offset or 0, send.value)
    _swap_in(history, first, replace(first, reads=(*first.reads, read)))
    return True


def _moves(history: History) -> list[Transaction]:
    return [
        by
        for by in history.all(Transaction)
        if by.offsets is not None and by.ending is Ending.COMMIT and by.outcome is Outcome.OK
    ]


def process_twice(history: History, draw: random.Random) -> bool:
    chosen = _any(draw, _moves(history))
    if chosen is not None:
        history.add(replace(chosen, client="m#999", sends=()))
    return chosen is not None


def process_never(history: History, draw: random.Random) -> bool:
    """All but one of the inputs below the final offset are in a transaction."""
    final = FinalState.of(history)
    moves = [by for by in _moves(history) if len(_moves(history)) > 1]
    end = max((by.offsets.offsets[0][2] for by in moves if by.offsets), default=0)
    chosen = _any(draw, moves)
    log = final.committed[INPUT]
    if chosen is None or not any(
        read.offset < end and read.value in log.offsets for read in chosen.reads
    ):
        return False
    history.operations.remove(chosen)
    return True


def _fetch_at_the_end(history: History, offset: int) -> None:
    for fetched in history.all(OffsetsFetched):
        if fetched.is_final and fetched.fetched.group == GROUP:
            committed = GroupOffsets(GROUP, ((*INPUT, offset),))
            _swap_in(history, fetched, replace(fetched, fetched=committed))


def tell_an_offset_that_was_never_committed(history: History, draw: random.Random) -> bool:
    if not _moves(history):
        return False
    _fetch_at_the_end(history, 10_000)
    return True


def tell_an_older_offset(history: History, draw: random.Random) -> bool:
    moves = _moves(history)
    last = max((by.invoked_ms for by in moves), default=0)
    older = [
        by.offsets.offsets[0][2]
        for by in moves
        if by.offsets and by.completed_ms is not None and by.completed_ms < last
    ]
    if not older:
        return False
    _fetch_at_the_end(history, draw.choice(older))
    return True


def forget_a_group(history: History, draw: random.Random) -> bool:
    if not _moves(history):
        return False
    _fetch_at_the_end(history, draw.choice([-1, 0]))
    return True
