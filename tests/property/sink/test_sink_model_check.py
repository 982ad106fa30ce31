"""Every interleaving of two Spark drivers with two tasks each, small enough to visit them all.

Two drivers run batch 0 of one query on the same checkpoint (split brain). At every step the search takes each thing
that may happen next: a call of a driver or of one of its tasks, a deadline, the delivery of markers. A commit's answer
may be lost (the driver then aborts and, if it may, tries again), and a driver may die and leave its tasks running. The
coordinator may die after any number of a step's records. The machine under test is the real one, rebuilt from the
newest record of each key, which is what compaction leaves.

Checked at every step: at most one decision of a batch; its winners are sealed branches of one attempt; a task is told
to skip and a driver is told that its commit holds only when the batch is committed; no producer id ends both ways; and
from every state, once drivers are gone, deadlines and deliveries end every branch.
"""

from functools import cache
from typing import NamedTuple

import pytest
from tests.worlds.sink.sink_shell import QUERY, SINK, nonce, partition

from oncelog.machine import Reply
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.markers import DeliveryOutcome, MarkersDelivered
from oncelog_coordinator.core.sink import SinkMachine
from oncelog_coordinator.core.sink_events import (
    AbortAttempt,
    AttemptTimedOut,
    BranchMessage,
    CommitBatch,
    JoinAttempt,
    OpenAttempt,
    SealBranch,
)
from oncelog_coordinator.core.sink_records import Decide, Outcome, encode_sink_record
from oncelog_coordinator.core.sink_state import markers_wanted

TASKS = (0, 1)
BATCH = 0
LONG_AFTER = 10**9

NONE, JOINED, SEALED, SKIPPED, FAILED = range(5)
IDLE, RUNNING, DONE, STOPPED = range(4)


class DriverState(NamedTuple):
    phase: int = IDLE
    tries_left: int = 1
    tasks: tuple = (NONE, NONE)


class World(NamedTuple):
    held: tuple = ()
    """The newest record of each key, in the order of keys, each as its number in RECORDS."""
    drivers: tuple = (DriverState(), DriverState())
    zombies: frozenset = frozenset()
    """(nonce number, task) of tasks that outlived their driver and are not sealed."""
    committed: tuple = ()
    """Nonce number and winners of the one decision, once it is durable."""
    ended: frozenset = frozenset()
    """(producer id, commit) of the markers that partition leaders have."""
    half_steps_left: int = 0
    """How often the coordinator may yet die inside a step."""
    rows_differ: bool = False
    """The second driver reads other rows: it has an older checkpoint."""


RECORDS = []
NUMBERS = {}


def number_of_record(record):
    if record not in NUMBERS:
        NUMBERS[record] = len(RECORDS)
        RECORDS.append((encode_sink_record(record)[0], record))
    return NUMBERS[record]


@cache
def machine_holding(held):
    """Shared between worlds: `decide` only reads."""
    machine = SinkMachine()
    for offset, number in enumerate(held):
        machine.apply(offset, RECORDS[number][1])
    return machine


def attempts_in(world):
    sink = machine_holding(world.held)._map.sinks.get(SINK)
    return sink.sorted_attempts() if sink is not None else ()


@cache
def decision_of(held, event, now):
    """The reply, and after each of the decision's records: what is held, and the batch's decision if it is one."""
    decision = machine_holding(held).decide(event, now)
    answer = next((e.answer for e in decision.effects if isinstance(e, Reply)), None)
    by_key = {RECORDS[number][0]: number for number in held}
    prefixes = []
    for record in decision.records:
        key, value = encode_sink_record(record)
        by_key.pop(key, None)
        if value is not None:
            by_key[key] = number_of_record(record)
        decides = isinstance(record, Decide) and record.outcome is Outcome.COMMIT
        if decides:
            check_winners(held, record)
        prefixes.append((tuple(by_key[key] for key in sorted(by_key)), record if decides else None))
    return answer, tuple(prefixes)


def check_winners(held, decide):
    attempt = machine_holding(held)._map.attempt(SINK, decide.nonce)
    for producer_id in decide.winners:
        assert attempt.branches[producer_id].is_sealed
    assert {attempt.branches[p].task_partition for p in decide.winners} == set(TASKS)


def step(world, event, now=0):
    """The answer and the world after it; then each world that a crash of the coordinator half way leaves."""
    answer, prefixes = decision_of(world.held, event, now)
    worlds = [world]
    for held, decide in prefixes:
        committed = worlds[-1].committed
        if decide is not None:
            assert not committed, ("a batch is decided once", committed, decide)
            committed = (int.from_bytes(decide.nonce, "big"), decide.winners)
        worlds.append(world._replace(held=held, committed=committed))
    left = world.half_steps_left - 1
    cut = [half._replace(half_steps_left=left) for half in worlds[1:-1]] if left >= 0 else ()
    return answer, worlds[-1], cut


def number_of(driver_index, tries_left):
    return 10 * (driver_index + 1) + tries_left


def producer_id_of(number, task):
    return number * 10 + task


def with_driver(world, index, driver):
    drivers = list(world.drivers)
    drivers[index] = driver
    return world._replace(drivers=tuple(drivers))


def successors(world):
    for index, driver in enumerate(world.drivers):
        if driver.phase == IDLE and driver.tries_left:
            yield from opens(world, index, driver)
        elif driver.phase == RUNNING:
            yield from runs(world, index, driver)
    for number, task in sorted(world.zombies):
        _, after, cut = step(world, seal_event(world, number, task))
        yield from cut
        yield after._replace(zombies=world.zombies - {(number, task)})
    yield from coordinates(world)


def opens(world, index, driver):
    number = number_of(index, driver.tries_left - 1)
    answer, after, cut = step(world, OpenAttempt(1, SINK, nonce(number), 0))
    yield from cut
    assert answer.answer is SinkAnswer.OK
    yield with_driver(after, index, DriverState(RUNNING, driver.tries_left - 1))


def runs(world, index, driver):
    number = number_of(index, driver.tries_left)
    for task in TASKS:
        if driver.tasks[task] == NONE:
            if NONE in driver.tasks[:task]:
                continue  # tasks are alike: the first joins first
            answer, after, cut = step(world, join_event(number, task, index))
            yield from cut
            if answer.answer is SinkAnswer.SKIP:
                assert world.committed, "only a committed batch is skipped"
            yield task_now(after, index, task, {0: JOINED, 1: SKIPPED}.get(answer.answer, FAILED))
        elif driver.tasks[task] == JOINED:
            answer, after, _ = step(world, seal_event(world, number, task))
            yield task_now(after, index, task, FAILED if answer.answer else SEALED)
    if FAILED in driver.tasks:
        yield aborted(world, index, driver, number)
    elif NONE not in driver.tasks and JOINED not in driver.tasks:
        yield from commits(world, index, driver, number)
    # The driver dies; its tasks live on.
    joined = {(number, task) for task in TASKS if driver.tasks[task] == JOINED}
    dead = with_driver(world, index, DriverState(IDLE, driver.tries_left))
    yield dead._replace(zombies=world.zombies | joined)


def commits(world, index, driver, number):
    answer, after, cut = step(world, commit_event(world, number, driver.tasks))
    yield from cut
    match answer.answer:
        case SinkAnswer.OK | SinkAnswer.ALREADY:
            assert after.committed, "a driver is told of a commit that did not happen"
            assert rows_of(world, after.committed[0], 0) == rows_of(world, number, 0), (
                "a driver is told that its rows are committed, and others are"
            )
            yield with_driver(after, index, DriverState(DONE, driver.tries_left))
            yield aborted(after, index, driver, number)  # the answer was lost
        case SinkAnswer.ALREADY_OTHER:
            assert after.committed[0] != number, "this very attempt decided"
            yield with_driver(after, index, DriverState(STOPPED, driver.tries_left))
        case SinkAnswer.FENCED:
            yield aborted(after, index, driver, number)
        case SinkAnswer.REPLAY_REFUSED:
            assert rows_of(world, world.committed[0], 0) != rows_of(world, number, 0)
            yield aborted(after, index, driver, number)
        case unexpected:
            raise AssertionError(unexpected)


def aborted(world, index, driver, number):
    answer, after, _ = step(world, AbortAttempt(1, SINK, (nonce(number),)))
    if world.committed and world.committed[0] == number:
        assert answer.aborted == 0, "a decision was undone"
    return with_driver(after, index, DriverState(IDLE, driver.tries_left))


def coordinates(world):
    for attempt in attempts_in(world):
        if attempt.is_open:
            _, after, cut = step(world, AttemptTimedOut(SINK, attempt.nonce), LONG_AFTER)
        elif attempt.decide is not None:
            _, after, cut = deliver(world, attempt)
        yield from cut
        yield after


def deliver(world, attempt):
    wanted = markers_wanted(attempt, attempt.decide)
    ended = world.ended
    for marker in wanted.markers:
        assert (marker.producer_id, not marker.commit) not in ended, "a branch ended both ways"
        won = bool(world.committed) and marker.producer_id in world.committed[1]
        assert marker.commit is won, "a marker says other than the decision"
        ended |= {(marker.producer_id, marker.commit)}
    event = MarkersDelivered(wanted.decision_key, DeliveryOutcome.DELIVERED)
    answer, after, cut = step(world._replace(ended=ended), event)
    return answer, after, cut


def check_drains(world):
    """With every driver gone, deadlines and deliveries end every branch, and the winners' way is commit."""
    for _ in range(3):
        for attempt in attempts_in(world):
            if attempt.is_open:
                _, world, _ = step(world, AttemptTimedOut(SINK, attempt.nonce), LONG_AFTER)
            else:
                _, world, _ = deliver(world, attempt)
    assert machine_holding(world.held).transaction_views() == ()
    if world.committed:
        assert all((producer_id, True) in world.ended for producer_id in world.committed[1])


def task_now(world, index, task, state):
    tasks = list(world.drivers[index].tasks)
    tasks[task] = state
    return with_driver(world, index, world.drivers[index]._replace(tasks=tuple(tasks)))


def join_event(number, task, index):
    producer_id = producer_id_of(number, task)
    return JoinAttempt(
        1, SINK, nonce(number), QUERY, f"run-{index}", BATCH, task, 0, False, producer_id
    )


def rows_of(world, number, task):
    """The checksum of what a task of this attempt writes."""
    return 5 + task + (100 if world.rows_differ and number >= number_of(1, 0) else 0)


def seal_event(world, number, task):
    written = ((partition(f"orders-{task}"), 0),)
    rows = rows_of(world, number, task)
    return SealBranch(1, SINK, nonce(number), producer_id_of(number, task), 0, written, 1, 1, rows)


def commit_event(world, number, tasks):
    return CommitBatch(
        1,
        SINK,
        BATCH,
        tuple(
            BranchMessage(
                nonce(number), QUERY, True, row_count=1, row_checksum=rows_of(world, number, task)
            )
            if tasks[task] == SKIPPED
            else BranchMessage(
                nonce(number), QUERY, False, task, producer_id_of(number, task), 0, 1
            )
            for task in TASKS
        ),
    )


@pytest.mark.parametrize(
    ("tries", "half_steps", "rows_differ", "states_min"),
    [
        pytest.param((1, 1), 1, False, 40_000, id="the coordinator dies inside a step"),
        pytest.param((1, 1), 0, True, 5_000, id="the second driver reads other rows"),
        pytest.param((2, 1), 0, True, 100_000, id="a driver tries twice", marks=pytest.mark.slow),
    ],
)
def test_no_interleaving_of_two_drivers_breaks_exactly_once(
    tries, half_steps, rows_differ, states_min
):
    drivers = tuple(DriverState(tries_left=count) for count in tries)
    start = World(drivers=drivers, half_steps_left=half_steps, rows_differ=rows_differ)
    seen = {start}
    frontier = [start]
    while frontier:
        following = []
        for world in frontier:
            check_drains(world)
            for after in successors(world):
                if after not in seen:
                    seen.add(after)
                    following.append(after)
        frontier = following
    assert len(seen) > states_min
    assert any(world.committed for world in seen)
