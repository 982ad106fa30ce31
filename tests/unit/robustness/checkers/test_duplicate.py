"""No log holds one value at two offsets."""

from oncelog_robustness.checkers.duplicate import check
from tests.unit.robustness.checkers.made_history import RU, MadeHistory, assert_broken


def test_values_at_one_offset_each_are_fine(made):
    made.plain("t-0@0 a")
    made.poll("t-0@0 a")
    made.poll("t-0@0 a")
    made.finals("t-0", "0 a", "1 b", "2 - k", "3 - k")
    made.assert_ok(check, judged=10)


def test_a_value_twice_in_a_final_read_is_named_with_its_sender(made):
    made.plain("t-0@0 a", client="p#9")
    made.final("t-0", "0 a", "4 a")
    made.assert_broken(check, "'a'", "t-0@0", "t-0@4", "p#9")


def test_a_value_twice_in_the_polls_of_one_consumer_is_named(made):
    made.poll("t-0@0 a", client="c#2", isolation=RU)
    made.poll("t-0@4 a", client="c#2", isolation=RU)
    made.assert_broken(check, "'a'", "t-0@4", "c#2")


def test_the_same_duplicate_is_told_once_and_many_are_counted(made):
    many = [f"{2 * number + more} v{number}" for number in range(13) for more in (0, 1)]
    made.finals("t-0", *many)
    verdict = made.judged_by(check)
    assert_broken(verdict, "'v0'")
    assert len(verdict.proof) == 11
    assert verdict.proof[-1] == "and 3 more"


def test_nothing_read_is_nothing_judged():
    MadeHistory().assert_unknown(check, "nothing was read")
