"""At the end a transaction is there as a whole or not at all."""

import pytest
from oncelog_robustness.checkers.torn_transaction import check
from oncelog_robustness.history import Ending, Outcome
from tests.unit.robustness.checkers.made_history import RC, RU, MadeHistory, assert_broken


def two_partitions(first: str | None, second: str | None, **how) -> MadeHistory:
    made = MadeHistory()
    made.txn("t-0@0 a", "t-1@0 b", client="w#5", **how)
    made.finals("t-0", *([first] if first else []), end=2)
    made.finals("t-1", *([second] if second else []), end=2)
    return made


@pytest.mark.parametrize("outcome", list(Outcome))
def test_all_and_nothing_are_both_whole(outcome):
    two_partitions("0 a", "0 b", outcome=outcome).assert_ok(check, judged=1)
    two_partitions(None, None, outcome=outcome).assert_ok(check, judged=1)


@pytest.mark.parametrize("outcome", list(Outcome))
@pytest.mark.parametrize("ending", list(Ending))
def test_half_of_it_is_torn_whatever_the_client_heard(outcome, ending):
    verdict = two_partitions("0 a", None, outcome=outcome, ending=ending).judged_by(check)
    assert_broken(verdict, "w#5", "1 of 2", "'a' to t-0@0 is", "'b' to t-1@0 is not")


def test_half_of_one_partition_is_torn(made):
    made.txn("t-0@0 a", "t-0@1 b", outcome=Outcome.INFO)
    made.finals("t-0", "1 b")
    made.assert_broken(check, "'b' to t-0@1 is")


def test_an_unacknowledged_send_counts_if_a_commit_was_asked_for(made):
    made.txn("t-0@0 a", "t-1@? b", outcome=Outcome.INFO)
    made.finals("t-0", "0 a")
    made.finals("t-1", end=2)
    made.assert_broken(check, "'b'")


def test_an_unacknowledged_send_of_a_dead_client_may_miss(made):
    made.txn("t-0@0 a", "t-1@? b", ending=Ending.NONE, outcome=Outcome.INFO)
    made.finals("t-0", "0 a")
    made.finals("t-1", end=0)
    made.assert_unknown(check, "no transaction")


def test_compacted_and_deleted_values_are_not_missing(made):
    made.txn("t-0@0 a k", "t-1@0 b", "t-2@0 c")
    made.plain("t-0@2 d k")
    made.finals("t-0", "2 d k")
    made.finals("t-1", start=1, end=2)
    made.finals("t-2", "0 c")
    made.assert_unknown(check)


def test_an_undecided_half_is_not_torn(made):
    made.txn("t-0@0 a", "t-1@0 b", "t-2@? c", outcome=Outcome.INFO)
    made.finals("t-0", "0 a")
    for partition, value in (("t-1", "0 b"), ("t-2", "0 c")):
        made.final(partition, value, isolation=RU)
        made.final(partition, isolation=RC, end=0)
    made.assert_unknown(check)


def test_an_incomplete_final_read_leaves_it_open(made):
    made.txn("t-0@0 a", "t-1@0 b")
    made.finals("t-0", "0 a")
    made.final("t-1", end=2, complete=False)
    made.assert_unknown(check, "not complete", "t-1")


def test_a_transaction_amid_the_final_reads_is_not_judged(made):
    made.txn("t-0@0 a", "t-1@0 b", at=(1, 100))
    made.final("t-0", end=0, at=(50, 51))
    made.final("t-1", "0 b", at=(98, 99))
    made.assert_unknown(check)
