"""The workload `transactions`, and that its history can be found guilty."""

from dataclasses import replace

import pytest
from robustness.checkers.verdict import Answer
from robustness.history import Ending, FinalRead, Isolation, Outcome, Poll, Transaction
from tests.integration.robustness.judged import broken, changed, history_of, kills, verdicts


@pytest.fixture(scope="module")
def history(target):
    return history_of(target, "transactions", life_ms=1_500, rest_ms=300)


def test_everything_happened_and_nothing_is_broken(history):
    ended = [(one.ending, one.outcome) for one in history.all(Transaction)]
    assert ended.count((Ending.COMMIT, Outcome.OK)) > 20
    assert ended.count((Ending.ABORT, Outcome.OK)) > 5
    assert (Ending.NONE, Outcome.FAIL) in ended
    assert kills(history) > 3
    assert any(one.reads for one in history.all(Transaction))
    assert {one.isolation for one in history.all(Poll)} == set(Isolation)
    assert all(one.is_complete for one in history.all(FinalRead))
    assert broken(history) == {}


def committed(history):
    return next(
        one
        for one in history.all(Transaction)
        if one.ending is Ending.COMMIT and one.outcome is Outcome.OK
    )


def test_a_committed_value_that_is_read_nowhere_is_lost(history):
    lost = committed(history).sends[0].value

    def hide(one):
        if isinstance(one, FinalRead | Poll | Transaction):
            return replace(one, reads=tuple(read for read in one.reads if read.value != lost))
        return one

    assert "lost-write" in broken(changed(history, hide))


def test_a_value_that_is_read_twice_is_a_duplicate(history):
    def double(one):
        if isinstance(one, FinalRead) and one.reads:
            last = one.reads[-1]
            return replace(one, reads=(*one.reads, last._replace(offset=last.offset + 1)))
        return one

    assert "duplicate" in broken(changed(history, double))


def test_no_checker_is_broken_by_an_empty_history_and_some_judge(history):
    assert [one for one in verdicts(history).values() if one.answer is Answer.OK]
