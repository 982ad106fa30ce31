"""The workload `plain`, and that its history can be found guilty."""

import pytest
from robustness.history import FinalRead, Outcome, PlainSend, Poll
from tests.integration.robustness.judged import broken, changed, history_of, kills, replace


@pytest.fixture(scope="module")
def history(target):
    return history_of(target, "plain", life_ms=700, rest_ms=300, think_ms=3, poll_pause_ms=200)


def test_everything_happened_and_nothing_is_broken(history):
    outcomes = [one.outcome for one in history.all(PlainSend)]
    assert outcomes.count(Outcome.OK) > 100
    assert Outcome.INFO in outcomes
    assert kills(history) > 3
    assert all(one.is_complete for one in history.all(FinalRead))
    assert broken(history) == {}


def test_an_acknowledged_value_that_is_read_nowhere_is_lost(history):
    sent = [one for one in history.all(PlainSend) if one.outcome is Outcome.OK]
    lost = sent[0].send.value

    def hide(one):
        if isinstance(one, FinalRead | Poll):
            return replace(one, reads=tuple(read for read in one.reads if read.value != lost))
        return one

    assert "lost-write" in broken(changed(history, hide))
