"""A payment is in the database and in the topic, or in neither."""

from oncelog_robustness.checkers.half_payment import check
from oncelog_robustness.history import Outcome
from oncelog_robustness.workload_facts import PaymentsBooked
from tests.unit.robustness.checkers.made_history import MadeHistory


def payments(*values: str, final=("0 one", "1 two"), **read) -> MadeHistory:
    made = MadeHistory()
    made.txn("p-0@0 one", "p-0@1 two", client="app#1", outcome=Outcome.INFO)
    made.final("p-0", *final, **read)
    booked = tuple((value, "pay", "42:7", 900) for value in values)
    made.note(PaymentsBooked(topic="p", partitions=1, payments=booked))
    return made


def test_what_is_in_both_is_fine():
    payments("one", "two").assert_ok(check, judged=2)


def test_what_is_in_neither_is_fine():
    payments(final=()).assert_unknown(check, "no payment was booked")


def test_a_payment_that_is_only_in_the_database_is_named():
    made = payments("one", "two", "gone")
    made.assert_broken(check, "'gone' is in the database", "42:7", "900 ms", "not in p")


def test_a_payment_that_is_only_in_the_topic_is_named():
    payments("one").assert_broken(check, "'two' at p-0@1", "app#1", "not in the database")


def test_a_payment_that_is_there_twice_is_named():
    made = payments("one", "two", final=("0 one", "1 two", "2 one"))
    made.assert_broken(check, "'one' at p-0@0", "2 times")


def test_a_topic_that_was_not_read_to_its_end_says_nothing():
    made = payments("one", "gone", complete=False)
    made.assert_unknown(check, "p-0 was not read from 0 to its end")
