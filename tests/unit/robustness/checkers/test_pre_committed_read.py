"""Nothing is seen at read_committed before its commit was asked for."""

from oncelog_robustness.checkers.pre_committed_read import check
from oncelog_robustness.history import Ending, Outcome
from tests.unit.robustness.checkers.made_history import RU


def test_a_read_after_the_commit_was_asked_for_is_fine(made):
    made.txn("t-0@0 a", at=(10, 50), asked_ms=30)
    made.poll("t-0@0 a", at=(5, 30))
    made.assert_ok(check, judged=1)


def test_a_read_before_the_commit_was_asked_for_is_named(made):
    made.txn("t-0@0 a", at=(10, 50), asked_ms=30, client="w#4")
    made.poll("t-0@0 a", at=(5, 29), client="c#2")
    made.assert_broken(check, "'a'", "t-0@0", "w#4", "c#2", "only at 30 ms")


def test_a_read_uncommitted_reader_may_be_early(made):
    made.txn("t-0@0 a", at=(10, 50), asked_ms=30)
    made.poll("t-0@0 a", at=(5, 29), isolation=RU)
    made.assert_ok(check)


def test_without_the_moment_of_asking_the_beginning_counts(made):
    made.txn("t-0@0 a", at=(10, 50), outcome=Outcome.INFO)
    made.poll("t-0@0 a", at=(5, 10))
    made.assert_ok(check)
    made.poll("t-0@0 a", at=(5, 9))
    made.assert_broken(check, "began to send")


def test_a_transaction_that_read_before_the_other_asked_is_named(made):
    made.txn("t-0@0 a", at=(10, 50), asked_ms=30)
    made.txn("out-0@0 b", reads=("t-0@0 a",), at=(5, 60), asked_ms=20, client="m#1")
    made.assert_broken(check, "m#1", "'a'")


def test_a_transaction_that_ended_later_may_have_read_later(made):
    made.txn("t-0@0 a", at=(10, 50), asked_ms=30)
    made.txn("out-0@0 b", reads=("t-0@0 a",), at=(5, 60), client="m#1")
    made.assert_ok(check)


def test_a_transaction_that_read_its_own_write_is_named(made):
    made.txn("t-0@0 a", reads=("t-0@0 a",), client="m#1")
    made.assert_broken(check, "m#1", "'a' at t-0@0 before its own end")


def test_a_plain_value_read_before_it_was_sent_is_named(made):
    made.plain("t-0@0 a", at=(10, 50), client="p#3")
    made.poll("t-0@0 a", at=(1, 9), isolation=RU)
    made.assert_broken(check, "p#3", "'a'")


def test_what_has_no_time_is_not_judged_against_time(made):
    made.poll("t-0@0 a")
    made.assert_unknown(check, "sender")
    made.txn("t-0@0 a", at=(100, 150), ending=Ending.COMMIT)
    made.history.operations.pop(0)
    made.poll("t-0@0 a", at=(5, None))
    made.assert_ok(check)
