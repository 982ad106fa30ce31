"""Nothing of a fenced producer is committed once its successor is ready."""

from oncelog_robustness.checkers.zombie_write import check
from oncelog_robustness.history import Ending, Outcome
from oncelog_robustness.workload_facts import ProducerReady
from tests.unit.robustness.checkers.made_history import MadeHistory

PAY = ProducerReady(transactional_id="pay", protocol="TV1")


def two_producers() -> MadeHistory:
    """w#1 is ready at 10 ms, its successor w#2 at 50 ms."""
    made = MadeHistory()
    made.note(PAY, client="w#1", at=(5, 10))
    made.note(PAY, client="w#2", at=(40, 50))
    return made


def test_what_was_asked_before_the_successor_may_be_committed():
    made = two_producers()
    made.txn("t-0@0 a", tid="pay", at=(20, 60), asked_ms=50)
    made.txn("t-0@2 b", tid="pay", client="w#2", at=(70, 90), asked_ms=80)
    made.final("t-0", "0 a", "2 b")
    made.assert_unknown(check, "fenced")


def test_a_zombie_that_was_aborted_is_fine():
    made = two_producers()
    made.txn("t-0@0 a", tid="pay", at=(60, 70), asked_ms=65, outcome=Outcome.FAIL)
    made.final("t-0", end=2)
    made.assert_ok(check, judged=1)


def test_a_zombie_that_began_after_its_successor_is_named():
    made = two_producers()
    made.txn("t-0@0 a", tid="pay", at=(60, 70), outcome=Outcome.INFO)
    made.poll("t-0@0 a")
    made.assert_broken(check, "w#2", "50 ms", "'a'", "w#1", "t-0@0")


def test_a_zombie_that_asked_after_its_successor_is_named():
    made = two_producers()
    made.txn("t-0@0 a", tid="pay", at=(20, 70), asked_ms=51, outcome=Outcome.INFO)
    made.final("t-0", "0 a")
    made.assert_broken(check, "'a'", "w#1")


def test_a_zombie_with_an_answered_commit_is_named_unread():
    made = two_producers()
    made.txn("t-0@0 a", tid="pay", at=(20, 70), asked_ms=51)
    made.assert_broken(check, "w#1", "told that its commit is done")


def test_what_a_dead_client_had_open_is_aborted_by_its_successor():
    made = two_producers()
    made.txn("t-0@0 a", tid="pay", at=(20, None), ending=Ending.NONE, outcome=Outcome.INFO)
    made.final("t-0", end=2)
    made.assert_ok(check, judged=1)
    made.final("t-0", "0 a")
    made.assert_broken(check, "'a'")


def test_the_same_client_with_a_new_producer_is_no_zombie():
    made = two_producers()
    made.note(PAY, client="w#1", at=(55, 58))
    made.txn("t-0@0 a", tid="pay", at=(60, 70), asked_ms=65)
    made.final("t-0", "0 a")
    made.assert_unknown(check)


def test_two_that_overlapped_may_have_come_in_either_order(made):
    made.note(PAY, client="w#1", at=(5, 45))
    made.note(PAY, client="w#2", at=(40, 50))
    made.txn("t-0@0 a", tid="pay", at=(60, 70), asked_ms=65)
    made.final("t-0", "0 a")
    made.assert_unknown(check)


def test_an_unanswered_successor_and_another_id_fence_nobody(made):
    made.note(PAY, client="w#1", at=(5, 10))
    made.note(PAY, client="w#2", at=(40, None))
    made.note(ProducerReady(transactional_id="o", protocol="TV1"), client="w#3", at=(40, 50))
    made.txn("t-0@0 a", tid="pay", at=(60, 70), asked_ms=65)
    made.assert_unknown(check)


def test_the_successor_that_is_ready_first_counts(made):
    made.note(PAY, client="w#1", at=(5, 10))
    made.note(PAY, client="w#2", at=(20, 90))
    made.note(PAY, client="w#3", at=(30, 40))
    made.txn("t-0@0 a", tid="pay", at=(60, 70), asked_ms=65)
    made.assert_broken(check, "w#3")
