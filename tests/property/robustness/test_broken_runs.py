"""What breaks a correct run is caught by the checker that is meant for it."""

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oncelog_robustness.checkers.all import judge
from oncelog_robustness.checkers.verdict import Answer
from tests.property.robustness import breakages
from tests.property.robustness.modelled_run import Run

MEANT_FOR = {
    breakages.lose_a_value: {"lost-write"},
    breakages.hide_a_value_at_read_committed: {"unseen-after-healing", "lost-write"},
    breakages.tear_a_transaction: {"torn-transaction"},
    breakages.show_an_aborted_value: {"aborted-read", "delayed-end-txn-tv1"},
    breakages.write_a_value_twice: {"duplicate"},
    breakages.swap_two_values: {"inconsistent-offsets"},
    breakages.skip_a_record: {"poll-skip"},
    breakages.turn_a_poll_round: {"poll-reversal"},
    breakages.turn_two_sends_round: {"send-reversal"},
    breakages.hold_back_the_stable_end: {"stuck-lso"},
    breakages.read_before_the_commit: {"pre-committed-read"},
    breakages.read_past_an_open_transaction: {"read-past-open-transaction"},
    breakages.commit_a_zombie: {"zombie-write"},
    breakages.close_a_circle: {"circular-information-flow"},
    breakages.process_twice: {"processed-once"},
    breakages.process_never: {"processed-once"},
    breakages.tell_an_offset_that_was_never_committed: {"offsets-outside-transaction"},
    breakages.tell_an_older_offset: {"offsets-outside-transaction"},
    breakages.forget_a_group: {"spurious-zero-offset"},
}


@pytest.mark.parametrize("breakage", MEANT_FOR, ids=lambda one: one.__name__)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_a_broken_run_is_caught(breakage, seed):
    history, observations = _run(seed)
    draw = random.Random(seed + 1)
    assume(breakage(history, draw))
    broken = {
        one.checker: one for one in judge(history, observations) if one.answer is Answer.BROKEN
    }
    assert MEANT_FOR[breakage] <= set(broken), (seed, sorted(broken))
    assert all(1 <= len(one.proof) <= 21 for one in broken.values())


def _run(seed):
    run = Run(seed, steps=600)
    return run.history, run.observations
