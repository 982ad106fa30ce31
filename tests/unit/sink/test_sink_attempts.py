"""An attempt is opened, aborted, or aborts itself at its deadline: one test a row of their tables."""

import pytest
from tests.worlds.sink.sink_shell import (
    MINUTE_MS,
    TIMEOUT_MS,
    nonce,
    opened,
)

from oncelog.machine import SetTimer
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.sink_registry import EXPIRE_TIMER

# ---------------------------------------------------------------------------------------------------------------- open


def test_each_attempt_raises_the_sink_epoch(shell):
    assert [shell.open(number).sink_epoch for number in (1, 2, 3)] == [1, 2, 3]


def test_sink_epoch_survives_attempts_that_left_nothing_behind():
    shell = opened()
    shell.abort(1)
    shell.restart()
    assert shell.open(2).sink_epoch == 2


def test_repeated_open_gets_the_same_answer_and_appends_nothing(shell):
    first = shell.open(1)
    before = len(shell.log)
    assert shell.open(1) == first
    assert len(shell.log) == before


def test_opening_aborts_the_open_attempt_of_the_sink_only():
    shell = opened(1)
    shell.open(5, sink="other")
    shell.task(1, 0)
    shell.open(2)
    (wanted,) = shell.outbox.values()
    assert [marker.commit for marker in wanted.markers] == [False]
    states = {a.nonce: a.state for a in shell.describe().attempts}
    assert states == {nonce(1): "Aborting", nonce(2): "Open"}
    assert [a.state for a in shell.describe("other").attempts] == ["Open"]


@pytest.mark.parametrize("delivered", [False, True])
def test_committed_nonce_cannot_be_opened_again(shell, delivered):
    shell.committed(1, 0)
    if delivered:
        shell.deliver()
    assert shell.open(1).answer is SinkAnswer.FENCED


def test_superseded_nonce_cannot_open_amid_its_markers():
    shell = opened(1)
    shell.task(1, 0)
    shell.open(2)
    assert shell.open(1).answer is SinkAnswer.FENCED


# -------------------------------------------------------------------------------------------------- abort and deadline


def test_abort_ends_open_attempts_and_leaves_decided_ones_alone(shell):
    shell.committed(1, 0)
    shell.open(2)
    assert shell.abort(1, 2, 77, 2).aborted == 1
    assert shell.abort(1, 2, 77).aborted == 0
    assert shell.describe().last_committed_batch_id == 0


def test_abort_on_an_unknown_sink_is_harmless(shell):
    assert shell.abort(1).aborted == 0
    assert shell.log == []


def test_attempt_that_wrote_nothing_leaves_nothing():
    shell = opened()
    shell.join(1, 0)
    shell.abort(1)
    assert shell.outbox == {}
    assert shell.describe().attempts == ()


@pytest.mark.parametrize("restarted", [False, True])
def test_join_and_seal_renew_the_deadline(restarted):
    shell = opened()
    shell.advance(10 * MINUTE_MS)
    producer_id = shell.join(1, 0).producer_id
    shell.add(producer_id, "orders-0")
    shell.advance(10 * MINUTE_MS)
    shell.seal(1, producer_id)
    if restarted:
        shell.restart()
    shell.advance(TIMEOUT_MS - 1)
    assert shell.labels[-1] != "timed_out"
    shell.advance(1)
    assert shell.labels[-1] == "timed_out"


def test_timeout_is_the_drivers_choice(shell):
    shell.open(1, timeout_ms=5_000)
    shell.advance(5_000)
    assert shell.describe().attempts == ()


def test_early_timer_waits_for_the_rest():
    shell = opened()
    name, (_, event) = next(iter(shell.timers.items()))
    shell.now += 60_000
    decision = shell.machine.decide(event, shell.now)
    assert decision.records == ()
    assert decision.effects == (SetTimer(name, TIMEOUT_MS - 60_000, event),)


def test_a_clock_set_back_grants_one_timeout_more_at_most():
    shell = opened()
    name, (_, event) = next(iter(shell.timers.items()))
    set_back = shell.now - 60 * MINUTE_MS
    (again,) = shell.machine.decide(event, set_back).effects
    assert (again.name, again.after_ms) == (name, TIMEOUT_MS)
    assert shell.machine.decide(again.event, set_back + TIMEOUT_MS).label == "timed_out"
    shell.advance(1_000)
    shell.join(1, 0)
    assert shell.machine.decide(again.event, shell.now).label == "timeout_early"


def test_decided_attempt_has_no_deadline(shell):
    shell.committed(1, 0)
    assert shell.timers == {}
    shell.restart()
    assert list(shell.timers) == [EXPIRE_TIMER]
