"""What one producer sent later lies higher."""

from oncelog_robustness.checkers.send_reversal import check
from oncelog_robustness.history import Ending, Outcome


def test_sends_in_order_are_fine(made):
    made.txn("t-0@0 a", "t-1@5 b", "t-0@1 c")
    made.txn("t-0@3 d", ending=Ending.ABORT)
    made.plain("t-0@9 e", client="w#1")
    made.assert_ok(check, judged=3)


def test_a_reversal_inside_a_transaction_is_named(made):
    made.txn("t-0@1 a", "t-0@0 b", client="w#8")
    made.assert_broken(check, "w#8", "'a' to t-0@1 and then 'b' to t-0@0")


def test_an_unacknowledged_send_in_between_hides_nothing(made):
    made.txn("t-0@1 a", "t-0@? b", "t-0@0 c", outcome=Outcome.INFO)
    made.assert_broken(check, "'c'")


def test_a_reversal_between_operations_is_named(made):
    made.plain("t-0@5 a", client="p#2")
    made.plain("t-0@4 b", client="p#2")
    made.assert_broken(check, "p#2", "'a' to t-0@5", "'b' to t-0@4")


def test_a_reversal_is_found_behind_what_came_between(made):
    made.txn("t-0@5 a")
    made.txn("t-1@0 x")
    made.txn("t-0@? b", outcome=Outcome.INFO)
    made.txn("t-0@4 c")
    made.assert_broken(check, "'a'", "'c'")


def test_operations_under_way_together_have_no_order(made):
    made.plain("t-0@5 a", at=(10, 50))
    made.plain("t-0@4 b", at=(20, 40))
    made.assert_unknown(check, "no producer")


def test_one_that_was_never_answered_is_before_nothing(made):
    made.txn("t-0@9 a", outcome=Outcome.INFO, at=(10, None))
    made.txn("t-0@4 b", at=(20, 40))
    made.assert_unknown(check)


def test_two_producers_have_no_order(made):
    made.plain("t-0@5 a", client="p#1")
    made.plain("t-0@4 b", client="p#2")
    made.assert_unknown(check)
