"""What a group has committed, and whether it gets on."""

from oncelog_robustness.checkers import group_offsets, spurious_zero_offset, stuck_group
from oncelog_robustness.history import Ending, Outcome
from oncelog_robustness.workload_facts import GroupProgress
from tests.unit.robustness.checkers.made_history import MadeHistory, assert_broken


def test_the_offset_of_the_last_commit_is_fine(made):
    made.txn(offsets="g: t-0@3")
    made.fetched("g: t-0@3")
    made.committed("g: t-0@5")
    made.fetched("g: t-0@5", final=True)
    made.assert_ok(group_offsets.check, judged=2)


def test_an_offset_of_an_aborted_transaction_is_named(made):
    made.txn(offsets="g: t-0@3")
    made.txn(offsets="g: t-0@5", ending=Ending.ABORT, client="w#7")
    made.fetched("g: t-0@5")
    made.assert_broken(group_offsets.check, "group g", "t-0@5", "w#7", "abort ok")


def test_an_unknown_transaction_that_left_nothing_was_aborted(made):
    made.txn("o-0@0 a", offsets="g: t-0@3", outcome=Outcome.INFO, client="w#7")
    made.final("o-0", end=2)
    made.fetched("g: t-0@3", final=True)
    made.assert_broken(group_offsets.check, "w#7", "never committed")


def test_an_offset_of_an_unknown_transaction_may_count(made):
    made.txn(offsets="g: t-0@3")
    made.txn("o-0@0 a", offsets="g: t-0@5", outcome=Outcome.INFO)
    made.fetched("g: t-0@5", final=True)
    made.assert_ok(group_offsets.check)


def test_an_unknown_transaction_need_not_count(made):
    made.txn(offsets="g: t-0@3")
    made.txn(offsets="g: t-0@5", outcome=Outcome.INFO)
    made.fetched("g: t-0@3", final=True)
    made.assert_ok(group_offsets.check)


def test_the_offset_of_a_visible_transaction_counts(made):
    made.txn(offsets="g: t-0@3")
    made.txn("o-0@0 a", offsets="g: t-0@5", outcome=Outcome.INFO)
    made.final("o-0", "0 a")
    made.fetched("g: t-0@3", final=True)
    made.assert_broken(group_offsets.check, "t-0@3", "committed 5 after")


def test_an_offset_that_nobody_committed_is_named(made):
    made.txn(offsets="g: t-0@3")
    made.fetched("g: t-0@4")
    made.assert_broken(group_offsets.check, "t-0@4", "nobody committed")


def test_an_offset_told_before_its_commit_began_is_named(made):
    made.committed("g: t-0@3")
    made.fetched("g: t-0@5")
    made.committed("g: t-0@5")
    made.assert_broken(group_offsets.check, "t-0@5", "nobody committed")


def test_an_older_offset_at_the_end_is_named(made):
    made.txn(offsets="g: t-0@3", client="w#1")
    made.txn(offsets="g: t-0@5", client="w#2")
    made.fetched("g: t-0@3", final=True)
    made.assert_broken(group_offsets.check, "w#1", "w#2", "committed 5 after")


def test_an_older_offset_is_named_before_the_end_as_well(made):
    made.txn(offsets="g: t-0@3", client="w#1")
    made.txn(offsets="g: t-0@5", client="w#2")
    made.fetched("g: t-0@3")
    made.assert_broken(group_offsets.check, "w#1", "w#2", "committed 5 after")


def test_an_older_offset_may_be_a_fetch_under_way(made):
    made.txn(offsets="g: t-0@3", at=(10, 20))
    made.txn(offsets="g: t-0@5", at=(30, 40))
    made.fetched("g: t-0@3", at=(39, 50))
    made.assert_ok(group_offsets.check)


def test_an_older_offset_may_be_fetched_in_the_same_millisecond(made):
    made.txn(offsets="g: t-0@3", at=(10, 20))
    made.txn(offsets="g: t-0@5", at=(40, 40))
    made.fetched("g: t-0@3", at=(40, 40))
    made.assert_ok(group_offsets.check)


def test_an_unanswered_commit_may_have_come_after_the_fetch(made):
    made.txn(offsets="g: t-0@3")
    made.txn("o-0@0 a", offsets="g: t-0@5", outcome=Outcome.INFO)
    made.fetched("g: t-0@3")
    made.final("o-0", "0 a")
    made.fetched("g: t-0@5", final=True)
    made.assert_ok(group_offsets.check, judged=2)


def test_of_two_commits_under_way_together_either_may_be_last(made):
    made.txn(offsets="g: t-0@5", client="w#1", at=(10, 40))
    made.txn(offsets="g: t-0@3", client="w#2", at=(20, 30))
    for offset in (3, 5):
        made.fetched(f"g: t-0@{offset}", final=True)
    made.assert_ok(group_offsets.check, judged=2)


def test_an_offset_of_a_transaction_is_as_old_as_its_commit(made):
    made.txn(offsets="g: t-0@3", client="w#1", taken_ms=20, asked_ms=60, at=(10, 70))
    made.committed("g: t-0@5", client="c#1", at=(30, 40))
    made.fetched("g: t-0@3", final=True)
    made.assert_broken(group_offsets.check, "w#1", "c#1", "committed 5 after")


def test_an_offset_may_be_the_newer_amid_its_commit(made):
    made.txn(offsets="g: t-0@3", taken_ms=35, asked_ms=60, at=(10, 70))
    made.committed("g: t-0@5", at=(30, 40))
    made.fetched("g: t-0@3", final=True)
    made.assert_ok(group_offsets.check)


def test_a_refused_commit_outside_transactions_does_not_count(made):
    made.committed("g: t-0@3")
    made.committed("g: t-0@5", outcome=Outcome.FAIL)
    made.fetched("g: t-0@5")
    made.assert_broken(group_offsets.check, "never committed")


def test_a_deletion_is_a_commit_of_nothing(made):
    made.fetched("g: t-0@-1")
    made.committed("g: t-0@3")
    made.committed("g: t-0@-1")
    made.fetched("g: t-0@-1")
    made.committed("g: t-0@5")
    made.fetched("g: t-0@5", final=True)
    made.assert_ok(group_offsets.check, judged=3)


def test_a_deleted_offset_that_comes_back_is_named(made):
    made.committed("g: t-0@3", client="c#1")
    made.committed("g: t-0@-1", client="admin#1")
    made.fetched("g: t-0@3", final=True)
    made.assert_broken(group_offsets.check, "c#1", "admin#1", "committed -1 after")


def test_an_offset_that_is_gone_again_after_a_deletion_is_named(made):
    made.committed("g: t-0@-1", client="admin#1")
    made.committed("g: t-0@3", client="c#1")
    made.fetched("g: t-0@-1", final=True)
    made.assert_broken(group_offsets.check, "admin#1", "c#1", "committed 3 after")


def test_an_offset_gone_before_its_deletion_began_is_named(made):
    made.committed("g: t-0@3", client="c#1")
    made.fetched("g: t-0@-1")
    made.committed("g: t-0@-1")
    made.assert_broken(group_offsets.check, "as if nobody", "c#1", "committed 3 after")


def test_an_unanswered_deletion_may_come_at_any_time(made):
    made.committed("g: t-0@-1", outcome=Outcome.INFO)
    made.committed("g: t-0@3")
    for offset in (3, -1):
        made.fetched(f"g: t-0@{offset}", final=True)
    made.assert_ok(group_offsets.check, judged=2)


def test_a_group_of_which_no_commit_is_known_is_not_judged(made):
    made.fetched("g: t-0@5", final=True)
    made.assert_unknown(group_offsets.check)


def test_a_group_that_keeps_its_offset_is_fine(made):
    made.fetched("g: t-0@-1")
    made.committed("g: t-0@3")
    made.fetched("g: t-0@3")
    made.fetched("h: t-0@-1")
    made.assert_ok(spurious_zero_offset.check, judged=1)


def test_a_group_that_forgets_its_offset_is_named():
    for forgotten in (-1, 0):
        made = MadeHistory()
        made.txn(offsets="g: t-0@3", client="w#3")
        made.fetched(f"g: t-0@{forgotten}")
        verdict = made.judged_by(spurious_zero_offset.check)
        assert_broken(verdict, f"told {forgotten}", "group g", "t-0", "w#3", "committed 3")


def test_an_offset_that_was_told_before_is_known(made):
    made.fetched("g: t-0@3", client="admin#4")
    made.fetched("g: t-0@-1")
    made.assert_broken(spurious_zero_offset.check, "admin#4", "was told 3")


def test_a_fetch_under_way_with_the_first_commit_proves_nothing(made):
    made.committed("g: t-0@3", at=(10, 40))
    made.fetched("g: t-0@-1", at=(39, 60))
    made.txn(offsets="h: t-0@3", outcome=Outcome.INFO)
    made.fetched("h: t-0@-1")
    made.assert_unknown(spurious_zero_offset.check)


def test_a_group_that_may_have_been_set_back_is_not_judged(made):
    made.committed("g: t-0@3")
    made.committed("g: t-0@0", outcome=Outcome.INFO)
    made.fetched("g: t-0@0")
    made.assert_unknown(spurious_zero_offset.check)


def test_a_commit_of_zero_long_before_excuses_nothing(made):
    made.committed("g: t-0@0")
    made.committed("g: t-0@3")
    made.fetched("g: t-0@0")
    made.assert_broken(spurious_zero_offset.check, "told 0")


def progress(committed: int) -> MadeHistory:
    made = MadeHistory()
    made.note(
        GroupProgress(group="g", waited_ms=900, partitions=(("t", 0, committed, 7), ("t", 1, 2, 2)))
    )
    return made


def test_a_group_that_has_read_everything_is_fine():
    progress(7).assert_ok(stuck_group.check, judged=2)
    progress(8).assert_ok(stuck_group.check)


def test_a_group_that_stands_still_is_named():
    verdict = progress(4).judged_by(stuck_group.check)
    assert_broken(verdict, "group g", "stands at 4", "t-0", "below 7", "900 ms")
    progress(-1).assert_broken(stuck_group.check)


def test_without_a_group_nothing_is_stuck():
    MadeHistory().assert_unknown(stuck_group.check)
