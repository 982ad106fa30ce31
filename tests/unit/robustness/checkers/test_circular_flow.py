"""No committed transactions each know what the other wrote."""

from oncelog_robustness.checkers.circular_flow import _graph, check
from oncelog_robustness.history import Ending, Outcome, Transaction
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
    made.txn("t-0@0 a", client="w#1", at=(1, 90), reads=("t-2@0 c",))
    made.txn("t-1@0 b", client="w#2", at=(2, 90), reads=("t-0@0 a",))
    made.txn("t-2@0 c", client="w#3", at=(3, 90), reads=("t-1@0 b",))
    made.txn("t-3@0 d", client="w#4", at=(4, 90), reads=("t-0@0 a",))
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
    made.txn("t-1@0 b", client="w#2", at=(100, 250), reads=("t-2@0 c",))
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


def test_only_real_time_refutes_this_cycle(made):
    """Nobody read a value of somebody who had not begun, and no two of them are of one client."""
    made.txn("t-0@0 a", client="w#1", at=(5, 50), reads=("t-2@0 c",))
    made.txn("t-1@0 b", client="w#2", at=(100, 150))
    made.txn("t-2@0 c", client="w#3", at=(10, 200), reads=("t-1@0 b",))
    made.assert_broken(check, "w#1", "was answered before the begin of w#2", "w#3")


def test_real_time_counts_over_many_answers_between(made):
    made.txn("t-0@0 a", client="w#1", at=(5, 50), reads=("t-2@0 c",))
    for number in range(40):
        made.txn(f"t-3@{number} v{number}", client=f"x#{number}", at=(60 + number, 61 + number))
    made.txn("t-1@0 b", client="w#2", at=(200, 250))
    made.txn("t-2@0 c", client="w#3", at=(10, 300), reads=("t-1@0 b",))
    made.assert_broken(check, "w#1", "was answered before the begin of w#2", "w#3")
    assert "x#" not in made.judged_by(check).proof[0]


def test_who_overlaps_may_come_in_either_order(made):
    made.txn("t-0@0 a", client="w#1", at=(5, 120), reads=("t-2@0 c",))
    made.txn("t-1@0 b", client="w#2", at=(100, 150))
    made.txn("t-2@0 c", client="w#3", at=(10, 110), reads=("t-1@0 b",))
    made.assert_ok(check, judged=2)


def test_the_same_millisecond_is_no_order(made):
    made.txn("t-0@0 a", client="w#1", at=(5, 100), reads=("t-2@0 c",))
    made.txn("t-1@0 b", client="w#2", at=(100, 150))
    made.txn("t-2@0 c", client="w#3", at=(10, 200), reads=("t-1@0 b",))
    made.assert_ok(check, judged=2)


def test_who_was_not_answered_precedes_nobody(made):
    made.txn("t-0@0 a", client="w#1", at=(5, 50), reads=("t-2@0 c",), outcome=Outcome.INFO)
    made.txn("t-1@0 b", client="w#2", at=(100, 150))
    made.txn("t-2@0 c", client="w#3", at=(10, 200), reads=("t-1@0 b",))
    made.assert_ok(check, judged=2)


def test_an_answered_one_precedes_one_that_nobody_answered(made):
    made.txn("t-0@0 a", client="w#1", at=(5, 50), reads=("t-2@0 c",))
    made.txn("t-1@0 b", client="w#2", at=(100, None), outcome=Outcome.INFO)
    made.txn("t-2@0 c", client="w#3", at=(10, 200), reads=("t-1@0 b",))
    made.assert_broken(check, "was answered before the begin of w#2")


def test_real_time_takes_no_edge_for_each_pair(made):
    """Ten thousand that all read one of a long transaction: barriers, not fifty million pairs."""
    made.txn("t-0@0 long", client="w#0", at=(0, 100_000))
    for number in range(10_000):
        made.txn(
            f"t-1@{number} v{number}",
            client=f"w#{number + 1}",
            at=(2 * number + 1, 2 * number + 2),
            reads=("t-0@0 long",),
        )
    graph = _graph(made.history.all(Transaction), [])
    assert sum(len(edges) for edges in graph) < 4 * 10_001
    made.assert_ok(check, judged=10_000)
