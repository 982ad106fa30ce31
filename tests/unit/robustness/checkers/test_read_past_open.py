"""A read_committed reader never passes the first record of an open transaction."""

from oncelog_robustness.checkers.read_past_open import check
from oncelog_robustness.history import Ending, Outcome
from tests.unit.robustness.checkers.made_history import RU, MadeHistory


def open_until_30() -> MadeHistory:
    made = MadeHistory()
    made.txn("t-0@5 a", "t-0@7 b", at=(10, 50), asked_ms=30, client="w#2")
    made.txn("t-0@6 c", at=(10, 20), asked_ms=15, client="v#1")
    return made


def test_reads_below_it_and_after_it_are_fine():
    made = open_until_30()
    made.poll("t-0@4 x", at=(20, 25))
    made.poll("t-0@5 a", "t-0@6 c", at=(20, 30))
    made.assert_ok(check, judged=3)


def test_a_read_past_it_while_it_was_open_is_named():
    made = open_until_30()
    made.poll("t-0@6 c", at=(20, 29), client="c#9")
    made.assert_broken(check, "c#9", "'c'", "t-0@5", "w#2", "30 ms")


def test_a_transaction_that_read_past_it_is_named():
    made = open_until_30()
    made.txn("o-0@0 z", reads=("t-0@6 c",), at=(20, 40), asked_ms=28, client="m#1")
    made.assert_broken(check, "m#1", "t-0@5")


def test_another_partition_and_another_level_are_fine():
    made = open_until_30()
    made.poll("t-1@6 x", at=(20, 29))
    made.poll("t-0@6 c", at=(20, 29), isolation=RU)
    made.assert_unknown(check)


def test_one_that_may_have_been_decided_by_others_proves_nothing(made):
    for number, (ending, outcome) in enumerate(
        ((Ending.COMMIT, Outcome.INFO), (Ending.COMMIT, Outcome.FAIL), (Ending.ABORT, Outcome.OK))
    ):
        made.txn(f"t-0@{number} v{number}", ending=ending, outcome=outcome, asked_ms=90, at=(1, 95))
    made.txn("t-0@3 w", ending=Ending.NONE, outcome=Outcome.INFO, at=(1, None))
    made.poll("t-0@9 z", at=(20, 29))
    made.assert_unknown(check)
