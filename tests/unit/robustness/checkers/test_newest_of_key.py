"""The last record of a key is the last one committed for it."""

from oncelog_robustness.checkers.newest_of_key import check
from oncelog_robustness.history import Ending, Outcome
from oncelog_robustness.workload_facts import KeyDeleted
from tests.unit.robustness.checkers.story import Story, assert_broken, assert_ok, assert_unknown


def deleted(story: Story, with_value: str, offset: int = -1, key: str = "k") -> None:
    story.note(KeyDeleted(topic="t", partition=0, key=key, offset=offset, with_value=with_value))


def two_values() -> Story:
    story = Story()
    story.txn("t-0@0 old k")
    story.txn("t-0@2 new k")
    return story


def test_the_last_committed_value_is_there():
    story = two_values()
    story.final("t-0", "2 new k", end=4)
    assert_ok(story.judged_by(check), judged=1)


def test_an_older_value_is_named_also_where_no_offset_was_told():
    for offset in ("2", "?"):
        story = Story()
        story.txn("t-0@0 old k")
        story.txn(f"t-0@{offset} new k")
        story.final("t-0", "0 old k", end=4)
        assert_broken(story.judged_by(check), "'k' in t-0", "'old' at t-0@0", "'new'")


def test_a_key_that_is_gone_without_having_been_deleted_is_named():
    story = two_values()
    story.final("t-0", "3 other q", end=5)
    assert_broken(story.judged_by(check), "'k' in t-0", "gone", "'new'")


def test_a_deleted_key_that_is_back_is_named():
    story = Story()
    story.txn("t-0@0 old k", "t-0@1 other q")
    story.txn("t-0@3 last q")
    deleted(story, "last", offset=4)
    story.final("t-0", "0 old k", "3 last q", end=6)
    assert_broken(story.judged_by(check), "'old' at t-0@0", "deleted it")


def test_a_deleted_key_may_be_a_tombstone_or_gone():
    for final in (("3 last q", "4 - k"), ("3 last q",)):
        story = Story()
        story.txn("t-0@0 old k")
        story.txn("t-0@3 last q")
        deleted(story, "last")
        story.final("t-0", *final, end=6)
        assert_ok(story.judged_by(check), judged=2)


def test_a_tombstone_below_the_last_value_is_named():
    story = Story()
    story.txn("t-0@0 first q")
    deleted(story, "first", offset=1)
    story.txn("t-0@3 new k")
    story.final("t-0", "0 first q", "1 - k", end=5)
    assert_broken(story.judged_by(check), "t-0@1", "'new'")


def test_what_may_be_committed_later_may_be_the_newest_or_not():
    for final in ("0 sure k", "2 perhaps k"):
        story = Story()
        story.txn("t-0@0 sure k")
        story.txn("t-0@2 perhaps k", outcome=Outcome.INFO)
        story.final("t-0", final, end=4)
        assert_ok(story.judged_by(check), judged=1)


def test_what_was_aborted_counts_for_nothing():
    story = Story()
    story.txn("t-0@0 sure k")
    story.txn("t-0@2 gone k", ending=Ending.ABORT)
    deleted(story, "gone", offset=3)
    story.final("t-0", "0 sure k", end=5)
    assert_ok(story.judged_by(check), judged=1)


def test_what_cannot_be_told_is_not_judged():
    assert_unknown(Story().judged_by(check), "nothing with a key")
    story = two_values()
    story.final("t-0", "0 old k", end=4, complete=False)
    assert_unknown(story.judged_by(check), "not complete")
    two_writers = Story()
    two_writers.txn("t-0@0 old k", client="a#1")
    two_writers.txn("t-0@2 new k", client="b#1")
    two_writers.final("t-0", "0 old k", end=4)
    assert_unknown(two_writers.judged_by(check), "nothing with a key")
    beyond = two_values()
    beyond.final("t-0", "0 old k", end=2)
    assert_unknown(beyond.judged_by(check), "nothing with a key")
