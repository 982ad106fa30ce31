"""No ending decides a transaction that it was not asked for; TV1 and TV2 are told apart."""

import pytest
from oncelog_robustness.checkers.delayed_end_txn import check_tv1, check_tv2
from oncelog_robustness.history import Ending, Outcome
from tests.unit.robustness.checkers.made_history import assert_broken

BOTH = pytest.mark.parametrize(("protocol", "check"), [("TV1", check_tv1), ("TV2", check_tv2)])


@BOTH
def test_what_was_not_asked_to_commit_and_is_not_there_is_fine(protocol, check, made):
    made.txn("t-0@0 a", ending=Ending.ABORT, outcome=Outcome.INFO, protocol=protocol)
    made.txn("t-0@2 b", ending=Ending.NONE, outcome=Outcome.INFO, protocol=protocol)
    made.txn("t-0@4 c", protocol=protocol)
    made.final("t-0", "4 c")
    made.assert_ok(check, judged=3)


@BOTH
@pytest.mark.parametrize("ending", [Ending.ABORT, Ending.NONE])
@pytest.mark.parametrize("outcome", list(Outcome))
def test_what_was_not_asked_to_commit_but_is_seen_is_named(protocol, check, ending, outcome, made):
    made.txn("t-0@0 a", ending=ending, outcome=outcome, protocol=protocol, client="w#6")
    made.poll("t-0@0 a")
    verdict = made.judged_by(check)
    assert_broken(verdict, "'a'", "t-0@0", "w#6", "never asked")


@BOTH
def test_an_answered_commit_that_is_gone_after_an_abort_is_named(protocol, check, made):
    made.txn("t-0@0 a", ending=Ending.ABORT, outcome=Outcome.INFO, client="w#1", protocol=protocol)
    made.txn("t-0@1 b", "t-0@2 c", client="w#1", protocol=protocol)
    made.final("t-0", "2 c")
    made.assert_broken(check, "'b'", "gone", "abort info")


@BOTH
def test_an_answered_commit_gone_without_abort_is_another_kind(protocol, check, made):
    made.txn("t-0@0 a", ending=Ending.ABORT, tid="other", protocol="TV3")
    made.txn("t-0@1 b", protocol=protocol)
    made.final("t-0", end=3)
    made.assert_unknown(check, protocol)


def test_the_protocols_are_told_apart(made):
    made.txn("t-0@0 a", ending=Ending.ABORT, outcome=Outcome.INFO, protocol="TV1")
    made.final("t-0", "0 a")
    made.assert_broken(check_tv1, "'a'")
    made.assert_unknown(check_tv2, "TV2")


def test_an_unknown_commit_may_be_there_or_not(made):
    made.txn("t-0@0 a", outcome=Outcome.INFO)
    made.txn("t-0@1 b", outcome=Outcome.INFO)
    made.final("t-0", "0 a")
    made.assert_unknown(check_tv1)


def test_what_nobody_looked_for_is_not_judged(made):
    made.txn("t-0@0 a", ending=Ending.NONE, outcome=Outcome.INFO)
    made.assert_unknown(check_tv1)
