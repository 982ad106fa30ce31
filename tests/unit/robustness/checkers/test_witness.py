"""Of a long history the few operations that show what a verdict says."""

from oncelog_robustness.checkers import circular_flow, duplicate, lost_write, poll_skip
from oncelog_robustness.checkers.witness import witness
from oncelog_robustness.history import FinalRead, PlainSend, Poll, Transaction


def noise(made, count=300):
    for number in range(count):
        made.plain(f"n-0@{number} n{number}", client=f"n#{number % 7}")
        made.poll(f"n-0@{number} n{number}", client="reader#1")


def kinds_that_show(made, check):
    sentence = made.judged_by(check).proof[0]
    found = witness(check, made.history, made.observations, sentence)
    return [type(one) for one in found]


def test_a_lost_write_takes_its_send_and_the_last_read(made):
    noise(made)
    made.plain("t-0@0 a")
    made.finals("t-0", end=1)
    noise(made)
    assert kinds_that_show(made, lost_write.check) == [PlainSend, FinalRead]


def test_a_skip_takes_the_polls_around_it_and_a_last_read(made):
    noise(made)
    made.poll("t-0@0 a")
    made.poll("t-0@2 c")
    made.final("t-0", "0 a", "1 b", "2 c")
    assert kinds_that_show(made, poll_skip.check) == [Poll, Poll, FinalRead]


def test_a_circle_takes_its_transactions(made):
    made.txn("t-0@0 a", client="w#1", at=(5, 50), reads=("t-2@0 c",))
    noise(made)
    made.txn("t-1@0 b", client="w#2", at=(100, 150))
    made.txn("t-2@0 c", client="w#3", at=(10, 200), reads=("t-1@0 b",))
    assert kinds_that_show(made, circular_flow.check) == [Transaction] * 3


def test_a_sentence_with_a_count_is_found_without_it(made):
    """`(and 2 more of it)` changes with what is left out."""
    made.txn("t-0@0 a", client="w#1")
    made.final("t-0", "0 a", "1 a")
    made.final("t-0", "0 a", "1 a")
    noise(made, 20)
    assert len(kinds_that_show(made, duplicate.check)) <= 2


def test_what_is_not_said_is_shown_by_everything(made):
    made.plain("t-0@0 a")
    made.finals("t-0", "0 a")
    found = witness(lost_write.check, made.history, made.observations, "nobody says this")
    assert found == made.history.operations
