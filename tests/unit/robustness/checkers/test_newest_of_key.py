"""The last record of a key is the last one committed for it."""

from oncelog_robustness.checkers.newest_of_key import check
from oncelog_robustness.history import Ending, Outcome
from oncelog_robustness.workload_facts import KeyDeleted
from tests.unit.robustness.checkers.made_history import MadeHistory


def deleted(made: MadeHistory, with_value: str, offset: int = -1, key: str = "k") -> None:
    made.note(KeyDeleted(topic="t", partition=0, key=key, offset=offset, with_value=with_value))


def two_values() -> MadeHistory:
    made = MadeHistory()
    made.txn("t-0@0 old k")
    made.txn("t-0@2 new k")
    return made


def test_the_last_committed_value_is_there():
    made = two_values()
    made.final("t-0", "2 new k", end=4)
    made.assert_ok(check, judged=1)


def test_an_older_value_is_named_also_where_no_offset_was_told():
    for offset in ("2", "?"):
        made = MadeHistory()
        made.txn("t-0@0 old k")
        made.txn(f"t-0@{offset} new k")
        made.final("t-0", "0 old k", end=4)
        made.assert_broken(check, "'k' in t-0", "'old' at t-0@0", "'new'")


def test_a_key_that_is_gone_without_having_been_deleted_is_named():
    made = two_values()
    made.final("t-0", "3 other q", end=5)
    made.assert_broken(check, "'k' in t-0", "gone", "'new'")


def test_a_deleted_key_that_is_back_is_named(made):
    made.txn("t-0@0 old k", "t-0@1 other q")
    made.txn("t-0@3 last q")
    deleted(made, "last", offset=4)
    made.final("t-0", "0 old k", "3 last q", end=6)
    made.assert_broken(check, "'old' at t-0@0", "deleted it")


def test_a_deleted_key_may_be_a_tombstone_or_gone():
    for final in (("3 last q", "4 - k"), ("3 last q",)):
        made = MadeHistory()
        made.txn("t-0@0 old k")
        made.txn("t-0@3 last q")
        deleted(made, "last")
        made.final("t-0", *final, end=6)
        made.assert_ok(check, judged=2)


def test_a_tombstone_below_the_last_value_is_named(made):
    made.txn("t-0@0 first q")
    deleted(made, "first", offset=1)
    made.txn("t-0@3 new k")
    made.final("t-0", "0 first q", "1 - k", end=5)
    made.assert_broken(check, "t-0@1", "'new'")


def test_what_may_be_committed_later_may_be_the_newest_or_not():
    for final in ("0 sure k", "2 perhaps k"):
        made = MadeHistory()
        made.txn("t-0@0 sure k")
        made.txn("t-0@2 perhaps k", outcome=Outcome.INFO)
        made.final("t-0", final, end=4)
        made.assert_ok(check, judged=1)


def test_what_was_aborted_counts_for_nothing(made):
    made.txn("t-0@0 sure k")
    made.txn("t-0@2 gone k", ending=Ending.ABORT)
    deleted(made, "gone", offset=3)
    made.final("t-0", "0 sure k", end=5)
    made.assert_ok(check, judged=1)


def test_what_cannot_be_told_is_not_judged():
    MadeHistory().assert_unknown(check, "nothing with a key")
    made = two_values()
    made.final("t-0", "0 old k", end=4, complete=False)
    made.assert_unknown(check, "not complete")
    two_writers = MadeHistory()
    two_writers.txn("t-0@0 old k", client="a#1")
    two_writers.txn("t-0@2 new k", client="b#1")
    two_writers.final("t-0", "0 old k", end=4)
    two_writers.assert_unknown(check, "nothing with a key")
    beyond = two_values()
    beyond.final("t-0", "0 old k", end=2)
    beyond.assert_unknown(check, "nothing with a key")
