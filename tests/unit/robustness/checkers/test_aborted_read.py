"""What was aborted or refused is never seen."""

from oncelog_robustness.checkers.aborted_read import check
from oncelog_robustness.history import Ending, Outcome
from oncelog_robustness.workload_facts import KeyDeleted
from tests.unit.robustness.checkers.made_history import RU, MadeHistory, assert_broken


def aborted_and_committed() -> MadeHistory:
    made = MadeHistory()
    made.txn("t-0@0 a", ending=Ending.ABORT, client="w#2")
    made.txn("t-0@2 b")
    return made


def test_aborted_values_that_nobody_saw_are_fine():
    made = aborted_and_committed()
    made.poll("t-0@2 b")
    made.final("t-0", "2 b")
    made.assert_ok(check, judged=1)


def test_a_read_uncommitted_reader_may_see_them():
    made = aborted_and_committed()
    made.poll("t-0@0 a", isolation=RU)
    made.final("t-0", "0 a", "2 b", isolation=RU)
    made.final("t-0", "2 b")
    made.assert_ok(check, judged=1)


def test_a_poll_of_an_aborted_value_is_named():
    made = aborted_and_committed()
    made.poll("t-0@0 a", "t-0@2 b", client="c#4")
    made.assert_broken(check, "'a'", "t-0@0", "w#2", "c#4", "abort ok")


def test_a_final_read_of_an_aborted_value_is_named():
    made = aborted_and_committed()
    made.final("t-0", "0 a", "2 b")
    made.assert_broken(check, "'a'", "final read_committed read")


def test_a_transaction_that_read_an_aborted_value_is_named():
    made = aborted_and_committed()
    made.txn("out-0@0 c", reads=("t-0@0 a",), client="m#1")
    made.assert_broken(check, "'a'", "m#1")


def test_a_refused_commit_is_an_abort(made):
    made.txn("t-0@0 a", outcome=Outcome.FAIL)
    made.final("t-0", "0 a")
    made.assert_broken(check, "commit fail")


def test_a_refused_plain_send_may_not_be_seen_at_any_level(made):
    made.plain("t-0@? a", outcome=Outcome.FAIL)
    made.final("t-0", end=1)
    made.assert_ok(check)
    made.final("t-0", "0 a", isolation=RU)
    made.assert_broken(check, "'a'", "read_uncommitted")


def test_nobody_knows_of_info_and_of_a_client_that_died(made):
    made.txn("t-0@0 a", ending=Ending.ABORT, outcome=Outcome.INFO)
    made.txn("t-0@1 b", outcome=Outcome.INFO)
    made.txn("t-0@2 c", ending=Ending.NONE, outcome=Outcome.INFO)
    made.final("t-0", "0 a", "1 b", "2 c")
    made.assert_unknown(check, "nothing refused or aborted")


def test_aborted_values_that_nobody_looked_for_are_not_judged():
    aborted_and_committed().assert_unknown(check)


def test_an_aborted_tombstone_is_named(made):
    made.txn("t-0@0 a k", ending=Ending.ABORT, client="w#8")
    made.note(KeyDeleted(topic="t", partition=0, key="k", offset=1, with_value="a"))
    made.final("t-0", "7 - k")
    made.assert_ok(check)
    made.final("t-0", "1 - k")
    made.assert_broken(check, "w#8", "None at t-0@1")


def test_a_value_that_is_seen_often_is_told_once_and_counted():
    made = aborted_and_committed()
    made.txn("t-0@7 z", ending=Ending.ABORT)
    for _ in range(3):
        made.poll("t-0@0 a")
    made.poll("t-0@7 z")
    verdict = made.judged_by(check)
    assert_broken(verdict, "'a'", "(and 2 more of it)")
    assert len(verdict.proof) == 2
