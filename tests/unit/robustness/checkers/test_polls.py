"""A consumer that nobody moved reads forward, and passes over nothing that is there."""

from oncelog_robustness.checkers import poll_reversal, poll_skip
from tests.unit.robustness.checkers.made_history import RC, RU, MadeHistory


def log_with_gaps() -> MadeHistory:
    """Offset 1 is a marker, 2 and 3 are aborted, 4 is a marker."""
    made = MadeHistory()
    made.final("t-0", "0 a", "2 x", "3 y", "5 b", "6 c", isolation=RU)
    made.final("t-0", "0 a", "5 b", "6 c", isolation=RC)
    return made


def test_reading_over_markers_and_aborted_records_is_fine():
    made = log_with_gaps()
    made.positioned("t-0@0")
    made.poll("t-0@0 a", "t-0@5 b")
    made.poll("t-0@6 c")
    made.assert_ok(poll_skip.check, judged=3)
    made.assert_ok(poll_reversal.check, judged=3)


def test_a_record_skipped_between_two_polls_is_named():
    made = log_with_gaps()
    made.positioned("t-0@0")
    made.poll("t-0@0 a")
    made.poll("t-0@6 c")
    made.assert_broken(poll_skip.check, "'b' at t-0@5", "after 'a'", "c#1")


def test_a_record_skipped_at_the_beginning_is_named():
    made = log_with_gaps()
    made.positioned("t-0@0")
    made.poll("t-0@5 b", "t-0@6 c")
    made.assert_broken(poll_skip.check, "'a'", "moved to t-0@0", "(1 in all)")


def test_an_aborted_record_skipped_at_read_uncommitted_is_named():
    made = log_with_gaps()
    made.positioned("t-0@0")
    made.poll("t-0@0 a", "t-0@2 x", "t-0@5 b", isolation=RU)
    made.assert_broken(poll_skip.check, "'y'")


def test_a_consumer_that_was_moved_skips_nothing():
    made = log_with_gaps()
    made.positioned("t-0@0")
    made.poll("t-0@0 a")
    made.positioned("t-0@6")
    made.poll("t-0@6 c")
    made.positioned("t-0@0 t-1@0")
    made.poll("t-0@0 a")
    made.assert_ok(poll_skip.check)
    made.assert_ok(poll_reversal.check)


def test_a_partition_taken_away_and_given_again_begins_anew():
    made = log_with_gaps()
    made.positioned("t-0@0 t-1@0")
    made.poll("t-0@0 a")
    made.positioned("t-1@0")
    made.positioned("t-0@6 t-1@0")
    made.poll("t-0@6 c")
    made.assert_ok(poll_skip.check)


def test_a_first_read_without_a_known_position_is_a_beginning():
    made = log_with_gaps()
    made.poll("t-0@5 b")
    made.assert_unknown(poll_skip.check)
    made.assert_unknown(poll_reversal.check)
    made.poll("t-0@6 c")
    made.assert_ok(poll_skip.check, judged=1)


def test_a_new_incarnation_has_no_position():
    made = log_with_gaps()
    made.positioned("t-0@0")
    made.poll("t-0@0 a")
    made.poll("t-0@6 c", client="c#2")
    made.assert_ok(poll_skip.check, judged=1)


def test_what_is_gone_at_the_end_was_not_skipped(made):
    made.positioned("t-0@0")
    made.poll("t-0@9 z k")
    made.final("t-0", "9 z k", start=4)
    made.assert_ok(poll_skip.check)


def compacted_by_some() -> MadeHistory:
    """The leader of the end still has `a`, of the same key as `b`, which was written at 100 ms."""
    made = MadeHistory()
    made.txn("t-0@0 a k", at=(1, 9))
    made.txn("t-0@1 c other", at=(20, 29))
    made.txn("t-0@2 b k", at=(100, 109))
    made.final("t-0", "0 a k", "1 c other", "2 b k", at=(900, 909))
    return made


def test_a_leader_that_has_compacted_more_skips_nothing():
    made = compacted_by_some()
    made.positioned("t-0@0", at=(190, 199))
    made.poll("t-0@1 c other", "t-0@2 b k", at=(200, 209))
    made.assert_ok(poll_skip.check, judged=2)


def test_nobody_may_take_the_newest_of_a_key_away():
    made = compacted_by_some()
    made.positioned("t-0@0", at=(40, 49))
    made.poll("t-0@1 c other", at=(50, 59))
    made.assert_broken(poll_skip.check, "'a' at t-0@0", "(1 in all)")


def test_the_newest_of_a_key_is_skipped_by_no_compaction():
    made = compacted_by_some()
    made.final("t-0", "0 a k", "1 c other", "2 b k", "3 d third", at=(910, 919))
    made.positioned("t-0@1", at=(190, 199))
    made.poll("t-0@3 d third", at=(200, 209))
    made.assert_broken(poll_skip.check, "'c' at t-0@1", "(2 in all)")


def test_without_a_final_read_a_skip_cannot_be_judged(made):
    made.final("t-0", "0 a", "1 b", isolation=RU)
    made.positioned("t-0@0")
    made.poll("t-0@1 b")
    made.assert_unknown(poll_skip.check)


def test_going_back_is_named(made):
    made.positioned("t-0@4")
    made.poll("t-0@5 b", "t-0@6 c", client="c#1")
    made.poll("t-0@5 b", client="c#1")
    made.assert_broken(poll_reversal.check, "'b' at t-0@5", "after 'c'", "c#1")


def test_going_below_the_position_is_named(made):
    made.positioned("t-0@4")
    made.poll("t-0@3 a")
    made.assert_broken(poll_reversal.check, "'a'", "moved to t-0@4")


def test_the_same_record_again_is_named_even_in_one_poll(made):
    made.poll("t-0@3 a", "t-1@1 x", "t-0@3 a")
    made.assert_broken(poll_reversal.check, "after 'a' at t-0@3")
