"""What was acknowledged is there at the end, unless it was deleted or compacted away."""

from oncelog_robustness.checkers import torn_transaction
from oncelog_robustness.checkers.lost_write import check
from oncelog_robustness.history import RECORDS_DELETED_FROM, Ending, Outcome
from oncelog_robustness.workload_facts import KeyDeleted
from tests.unit.robustness.checkers.made_history import RC, RU, MadeHistory, assert_broken


def test_acknowledged_values_that_are_there_are_fine(made):
    made.plain("t-0@0 a")
    made.txn("t-0@1 b", "t-1@0 c")
    made.finals("t-0", "0 a", "1 b")
    made.finals("t-1", "0 c")
    made.assert_ok(check, judged=3)


def test_a_lost_plain_send_is_named(made):
    made.plain("t-0@0 a")
    made.plain("t-0@1 b", client="p#7")
    made.finals("t-0", "0 a", end=2)
    made.assert_broken(check, "p#7", "'b'", "t-0@1", "ms")


def test_a_lost_send_of_a_committed_transaction_is_named(made):
    made.txn("t-0@0 a", "t-1@0 b", client="w#3", tid="pay")
    made.finals("t-0", "0 a")
    made.finals("t-1", end=2)
    made.assert_broken(check, "w#3", "pay", "'b'", "t-1@0")


def test_a_committed_send_without_offset_can_be_lost(made):
    made.txn("t-0@? a")
    made.finals("t-0", end=2)
    made.assert_broken(check, "'a'")


def test_a_log_that_ends_below_an_acknowledged_offset_lost_it(made):
    made.plain("t-0@9 a")
    made.finals("t-0", end=5)
    made.assert_broken(check, "t-0@9", "0 to 5")


def test_what_was_not_acknowledged_may_be_missing(made):
    made.plain("t-0@0 a")
    made.plain("t-0@? b", outcome=Outcome.INFO)
    made.plain("t-0@? c", outcome=Outcome.FAIL)
    made.txn("t-0@3 d", outcome=Outcome.INFO)
    made.txn("t-0@4 e", ending=Ending.ABORT)
    made.txn("t-0@5 f", ending=Ending.NONE, outcome=Outcome.FAIL)
    made.finals("t-0", "0 a", end=9)
    made.assert_ok(check, judged=1)


def test_only_what_lies_below_a_moved_start_may_be_gone(made):
    made.plain("t-0@0 a")
    made.plain("t-0@5 b")
    made.finals("t-0", "5 b", start=3)
    made.assert_ok(check)
    made.plain("t-0@7 c")
    made.finals("t-0", "5 b", start=3, end=8)
    made.assert_broken(check, "'c'")


def test_compaction_may_take_all_but_the_newest_value_of_a_key(made):
    made.plain("t-0@0 a k")
    made.plain("t-0@1 b k")
    made.finals("t-0", "1 b k")
    made.assert_ok(check, judged=2)


def test_compaction_may_not_take_the_newest_value_of_a_key(made):
    made.plain("t-0@0 a k")
    made.plain("t-0@1 b k")
    made.finals("t-0", "0 a k", end=2)
    made.assert_broken(check, "'b'")


def test_a_newer_value_of_an_aborted_one_supersedes_nothing(made):
    made.plain("t-0@0 a k")
    made.txn("t-0@1 b k", ending=Ending.ABORT)
    made.final("t-0", "1 b k", isolation=RU)
    made.final("t-0", end=3)
    made.assert_broken(check, "'a'")


def test_a_tombstone_supersedes(made):
    made.plain("t-0@0 a k")
    made.finals("t-0", "1 - k")
    made.assert_ok(check)


def test_what_the_log_has_above_the_stable_end_is_not_lost(made):
    made.plain("t-0@0 a")
    made.txn("t-0@1 b")
    made.final("t-0", "0 a", "1 b", isolation=RU)
    made.final("t-0", "0 a", end=1)
    made.assert_ok(check, judged=2)


def test_what_the_log_lacks_above_the_stable_end_is_lost(made):
    made.txn("t-0@1 b")
    made.final("t-0", "0 a", isolation=RU, end=2)
    made.final("t-0", "0 a", end=1)
    made.assert_broken(check, "'b'")


def test_an_incomplete_final_read_misses_nothing(made):
    made.plain("t-0@0 a")
    made.plain("t-0@1 b")
    made.final("t-0", "0 a", end=2, complete=False)
    made.assert_unknown(check, "not complete", "'b'")


def test_an_incomplete_final_read_hides_nothing_of_others(made):
    made.plain("t-0@0 a")
    made.final("t-0", end=1)
    made.final("t-0", end=1, complete=False)
    made.assert_broken(check, "'a'")


def test_a_send_that_ended_after_the_final_read_is_not_judged(made):
    made.plain("t-0@0 a", at=(1, 50))
    made.final("t-0", end=0, isolation=RC, at=(20, 30))
    made.assert_unknown(check, "nothing acknowledged")


def deleted(offset: int, **how) -> MadeHistory:
    """Key k is deleted at `offset` of t-0, by the transaction that wrote b."""
    made = MadeHistory()
    made.txn("t-0@0 a k")
    made.txn("t-0@1 b x", client="w#8", **how)
    fact = KeyDeleted(topic="t", partition=0, key="k", offset=offset, with_value="b")
    made.note(fact, client="w#8")
    return made


def test_a_tombstone_that_is_there_or_has_a_successor_is_fine():
    made = deleted(2)
    made.finals("t-0", "1 b x", "2 - k")
    made.assert_ok(check, judged=3)
    made.finals("t-0", "1 b x", "7 c k")
    made.assert_ok(check, judged=3)


def test_a_lost_tombstone_is_named():
    made = deleted(2)
    made.finals("t-0", "0 a k", "1 b x", end=4)
    made.assert_broken(check, "w#8", "'k' at t-0@2", "neither")


def test_a_tombstone_not_acknowledged_or_committed_may_miss():
    for made in (deleted(-1), deleted(2, ending=Ending.ABORT), deleted(2, outcome=Outcome.INFO)):
        made.finals("t-0", "0 a k", "1 b x", end=4)
        made.assert_ok(check)


def test_a_value_below_the_start_of_an_uncut_log_is_lost(made):
    made.plain("t-0@0 a")
    made.txn("t-1@? b", "t-1@7 c")
    made.finals("t-0", "5 x", start=5)
    made.finals("t-1", "7 c", start=7)
    made.assert_ok(check)
    made.history.facts[RECORDS_DELETED_FROM] = "t u"
    made.assert_ok(check)
    made.history.facts[RECORDS_DELETED_FROM] = "u"
    verdict = made.judged_by(check)
    assert_broken(verdict, "p#1", "'a' to t-0@0", "of 5 to 7")
    assert "'b' to t-1" in verdict.proof[1]
    made.assert_broken(torn_transaction.check, "1 of 2 sends")


def test_a_tombstone_below_the_start_of_an_uncut_log_is_lost():
    made = deleted(2)
    made.finals("t-0", start=9, end=9)
    made.assert_ok(check)
    made.history.facts[RECORDS_DELETED_FROM] = ""
    assert any("deleted key 'k'" in one for one in made.judged_by(check).proof)
