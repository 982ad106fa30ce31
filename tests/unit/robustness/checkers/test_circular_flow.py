"""No committed transactions each know what the other wrote."""

from oncelog_robustness.checkers.circular_flow import check
from oncelog_robustness.history import Ending, Outcome
from tests.unit.robustness.checkers.made_history import assert_broken


def test_a_chain_is_fine(made):
    made.txn("t-0@0 a", client="w#1")
    made.txn("t-1@0 b", client="w#2", reads=("t-0@0 a",))
    made.txn("t-2@0 c", client="w#3", reads=("t-0@0 a", "t-1@0 b"))
    made.assert_ok(check, judged=3)


def test_two_that_read_each_other_are_named(made):
    made.txn("t-0@0 a", client="w#1", reads=("t-1@0 b",), outcome=Outcome.INFO)
    made.txn("t-1@0 b", client="w#2", reads=("t-0@0 a",))
    made.assert_broken(check, "w#1", "w#2", "'a' at t-0@0", "'b' at t-1@0")


def test_a_cycle_of_three_is_named_once_and_shortest(made):
    made.txn("t-0@0 a", client="w#1", reads=("t-2@0 c",))
    made.txn("t-1@0 b", client="w#2", reads=("t-0@0 a",))
    made.txn("t-2@0 c", client="w#3", reads=("t-1@0 b",))
    made.txn("t-3@0 d", client="w#4", reads=("t-0@0 a",))
    verdict = made.judged_by(check)
    assert_broken(verdict, "'a'", "'b'", "'c'")
    assert len(verdict.proof) == 1
    assert "w#4" not in verdict.proof[0]


def test_a_cycle_through_the_order_of_one_client_is_named(made):
    made.txn("t-0@0 a", client="w#1", reads=("t-1@0 b",))
    made.txn("t-1@0 b", client="w#2", at=(100, 150), reads=("t-2@0 c",))
    made.txn("t-2@0 c", client="w#1", at=(200, 250))
    made.assert_broken(check, "w#1", "w#2", "before")


def test_the_order_of_an_unanswered_client_proves_nothing(made):
    made.txn("t-0@0 a", client="w#1", reads=("t-1@0 b",), outcome=Outcome.INFO)
    made.txn("t-1@0 b", client="w#2", at=(100, 150), reads=("t-2@0 c",))
    made.txn("t-2@0 c", client="w#1", at=(200, 250))
    made.assert_ok(check)


def test_interleaved_writes_are_normal(made):
    made.txn("t-0@0 a", "t-0@2 c", client="w#1", at=(10, 90), reads=("t-1@0 d",))
    made.txn("t-0@1 b", "t-1@0 d", client="w#2", at=(20, 30))
    made.assert_ok(check)


def test_aborted_transactions_take_no_part(made):
    made.txn("t-0@0 a", client="w#1", reads=("t-1@0 b",), ending=Ending.ABORT)
    made.txn("t-1@0 b", client="w#2", reads=("t-0@0 a",))
    made.assert_unknown(check)


def test_a_long_chain_needs_no_recursion(made):
    for number in range(5_000):
        reads = (f"t-0@{number - 1} v{number - 1}",) if number else ()
        made.txn(f"t-0@{number} v{number}", client=f"w#{number}", reads=reads)
    made.assert_ok(check, judged=4_999)
