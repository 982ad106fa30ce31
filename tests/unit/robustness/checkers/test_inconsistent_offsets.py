"""Acknowledgements and readers agree on what lies where."""

from oncelog_robustness.checkers.inconsistent_offsets import check
from oncelog_robustness.history import Ending, Outcome
from tests.unit.robustness.checkers.made_history import RU


def test_tellers_that_agree_are_fine(made):
    made.txn("t-0@0 a", "t-1@0 b")
    made.plain("t-0@? c", outcome=Outcome.INFO)
    made.poll("t-0@0 a", "t-0@2 c")
    made.finals("t-0", "0 a", "2 c")
    made.finals("t-1", "0 b")
    made.assert_ok(check)


def test_two_acknowledgements_of_one_offset_are_named(made):
    made.plain("t-0@0 a", client="p#1")
    made.txn("t-0@0 b", client="w#2", ending=Ending.ABORT)
    made.assert_broken(check, "t-0@0", "'a'", "'b'", "p#1", "w#2")


def test_a_reader_that_sees_another_value_is_named(made):
    made.plain("t-0@0 a", client="p#1")
    made.poll("t-0@0 b", client="c#3", isolation=RU)
    made.assert_broken(check, "'a'", "'b'", "p#1", "c#3")


def test_two_readers_that_see_two_values_are_named(made):
    made.poll("t-0@0 a", client="c#1")
    made.poll("t-0@0 b", client="c#2")
    made.assert_broken(check, "'a'", "'b'", "c#1", "c#2")


def test_a_value_at_another_offset_than_acknowledged_is_named(made):
    made.plain("t-0@4 a", client="p#1")
    made.final("t-0", "5 a")
    made.assert_broken(check, "t-0@4", "t-0@5", "'a'")


def test_a_value_in_another_partition_is_named(made):
    made.plain("t-0@? a", outcome=Outcome.INFO)
    made.final("t-1", "5 a")
    made.assert_broken(check, "'a' was sent to t-0", "t-1@5")


def test_what_one_reader_saw_twice_is_left_to_duplicate(made):
    made.final("t-0", "0 a", "5 a")
    made.assert_ok(check)


def test_two_final_reads_of_one_client_are_two_tellers(made):
    made.final("t-0", "0 a")
    made.final("t-0", "5 a")
    made.assert_broken(check, "t-0@0", "t-0@5")


def test_a_tombstone_where_a_value_was_is_named(made):
    made.poll("t-0@0 a k")
    made.final("t-0", "0 - k")
    made.assert_broken(check, "'a'", "None")


def test_sends_without_an_offset_tell_nothing(made):
    made.plain("t-0@? a", outcome=Outcome.INFO)
    made.assert_unknown(check)
