"""No log holds one value at two offsets."""

from oncelog_robustness.checkers.duplicate import check
from tests.unit.robustness.checkers.story import RU, Story, assert_broken, assert_ok, assert_unknown


def test_values_at_one_offset_each_are_fine():
    story = Story()
    story.plain("t-0@0 a")
    story.poll("t-0@0 a")
    story.poll("t-0@0 a")
    story.finals("t-0", "0 a", "1 b", "2 - k", "3 - k")
    assert_ok(story.judged_by(check), judged=10)


def test_a_value_twice_in_a_final_read_is_named_with_its_sender():
    story = Story()
    story.plain("t-0@0 a", client="p#9")
    story.final("t-0", "0 a", "4 a")
    assert_broken(story.judged_by(check), "'a'", "t-0@0", "t-0@4", "p#9")


def test_a_value_twice_in_the_polls_of_one_consumer_is_named():
    story = Story()
    story.poll("t-0@0 a", client="c#2", isolation=RU)
    story.poll("t-0@4 a", client="c#2", isolation=RU)
    assert_broken(story.judged_by(check), "'a'", "t-0@4", "c#2")


def test_the_same_duplicate_is_told_once_and_many_are_counted():
    story = Story()
    many = [f"{2 * number + more} v{number}" for number in range(13) for more in (0, 1)]
    story.finals("t-0", *many)
    verdict = story.judged_by(check)
    assert_broken(verdict, "'v0'")
    assert len(verdict.proof) == 11
    assert verdict.proof[-1] == "and 3 more"


def test_nothing_read_is_nothing_judged():
    assert_unknown(Story().judged_by(check), "nothing was read")
