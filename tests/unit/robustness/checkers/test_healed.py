"""After healing everything committed is seen, and the stable end is the end."""

from oncelog_robustness.checkers import stuck_lso, unseen_after_healing
from oncelog_robustness.history import Ending, Outcome
from tests.unit.robustness.checkers.made_history import RC, RU, MadeHistory


def committed() -> MadeHistory:
    made = MadeHistory()
    made.plain("t-0@0 a", client="p#1")
    made.txn("t-0@1 b", client="w#2")
    made.txn("t-0@3 c", ending=Ending.ABORT)
    made.final("t-0", "0 a", "1 b", "3 c", isolation=RU, end=5)
    return made


def test_committed_values_that_are_seen_are_fine():
    made = committed()
    made.final("t-0", "0 a", "1 b", end=5)
    made.assert_ok(unseen_after_healing.check, judged=2)
    made.assert_ok(stuck_lso.check, judged=1)


def test_a_committed_value_that_is_passed_over_is_named():
    made = committed()
    made.final("t-0", "0 a", end=5)
    made.assert_broken(unseen_after_healing.check, "'b'", "t-0@1", "w#2")
    made.assert_ok(stuck_lso.check)


def test_a_committed_value_above_the_stable_end_is_named_by_both():
    made = committed()
    made.final("t-0", "0 a", end=1)
    made.assert_broken(unseen_after_healing.check, "'b'", "ends at 1")
    made.assert_broken(stuck_lso.check, "t-0", "ends at 1", "below 5", "'b' at 1")


def test_an_unknown_transaction_that_is_not_seen_was_aborted(made):
    made.txn("t-0@0 a", outcome=Outcome.INFO)
    made.final("t-0", "0 a", isolation=RU)
    made.final("t-0", end=2)
    made.assert_unknown(unseen_after_healing.check)
    made.assert_ok(stuck_lso.check)


def test_reads_that_are_incomplete_at_both_levels_leave_it_open(made):
    made.plain("t-0@0 a")
    made.final("t-0", "0 a", isolation=RU, end=5, complete=False)
    made.final("t-0", end=5, complete=False)
    made.assert_unknown(unseen_after_healing.check, "not complete", "'a'")


def test_a_partition_read_to_its_end_at_one_level_only_is_named():
    made = committed()
    made.final("t-0", "0 a", end=5, complete=False, at=(100, 60_100))
    made.assert_broken(
        unseen_after_healing.check,
        "read_committed read",
        "t-0 (100 ms to 60100 ms) never got from 0 to 5",
    )


def test_one_level_alone_cannot_be_judged():
    made = committed()
    made.assert_unknown(unseen_after_healing.check)
    made.assert_unknown(stuck_lso.check)


def test_only_a_marker_seen_before_the_stable_end_is_judged(made):
    made.txn("t-0@0 a")
    made.final("t-0", "0 a", end=1)
    made.final("t-0", "0 a", isolation=RU, end=2)
    made.assert_ok(stuck_lso.check)
    made.final("t-0", "0 a", end=1)
    made.assert_broken(stuck_lso.check, "ends at 1", "below 2")


def test_data_above_the_stable_end_is_judged_if_sent_before(made):
    made.txn("t-0@0 a", ending=Ending.NONE, outcome=Outcome.INFO, at=(1, None))
    made.final("t-0", end=0)
    made.final("t-0", "0 a", isolation=RU, end=1)
    made.assert_broken(stuck_lso.check, "'a' at 0")


def test_data_sent_after_the_stable_end_is_no_matter(made):
    made.final("t-0", end=0)
    made.txn("t-0@0 a")
    made.final("t-0", "0 a", isolation=RU, end=2)
    made.assert_ok(stuck_lso.check)


def test_who_still_holds_a_transaction_excuses_its_partition(made):
    made.txn("t-0@0 a", at=(1, 500))
    made.final("t-0", "0 a", isolation=RU, end=1, at=(100, 110))
    made.final("t-0", end=0, at=(120, 130), isolation=RC)
    made.assert_unknown(stuck_lso.check, "nothing open")
