"""Each input of a group is in exactly one committed transaction."""

from oncelog_robustness.checkers.processed_once import check
from oncelog_robustness.history import Ending, Outcome
from tests.unit.robustness.checkers.made_history import MadeHistory


def pipeline(*steps: tuple[str, str, str, Outcome], outputs=("0 A", "2 B")) -> MadeHistory:
    """Input `in-0` holds a, b and c at 0, 1 and 2; each step is (input, output, next offset, outcome)."""
    made = MadeHistory()
    for number, (source, target, upto, outcome) in enumerate(steps):
        made.txn(
            target,
            reads=(source,),
            offsets=f"g: in-0@{upto}",
            outcome=outcome,
            client=f"m#{number}",
        )
    made.final("in-0", "0 a", "1 b", "2 c")
    made.final("out-0", *outputs)
    return made


A = ("in-0@0 a", "out-0@0 A", "1", Outcome.OK)
B = ("in-0@1 b", "out-0@2 B", "2", Outcome.OK)


def test_once_each_is_fine():
    made = pipeline(A, B)
    made.fetched("g: in-0@2", final=True)
    made.assert_ok(check, judged=2)


def test_twice_is_named():
    made = pipeline(A, B, ("in-0@1 b", "out-0@4 b2", "2", Outcome.OK))
    made.assert_broken(check, "group g", "'b' at in-0@1", "m#1", "m#2")


def test_a_repetition_after_an_abort_is_once():
    aborted = ("in-0@0 a", "out-0@9 a0", "1", Outcome.FAIL)
    pipeline(aborted, A, B).assert_ok(check, judged=2)


def test_a_repetition_is_once_if_an_unknown_one_left_nothing():
    unknown = ("in-0@0 a", "out-0@9 a0", "1", Outcome.INFO)
    pipeline(unknown, A, B).assert_ok(check)


def test_a_repetition_is_twice_if_an_unknown_one_is_visible():
    unknown = ("in-0@0 a", "out-0@9 a0", "1", Outcome.INFO)
    made = pipeline(unknown, A, B, outputs=("0 A", "2 B", "9 a0"))
    made.assert_broken(check, "'a' at in-0@0")


def test_never_is_named():
    made = pipeline(A, ("in-0@2 c", "out-0@2 C", "3", Outcome.OK), outputs=("0 A", "2 C"))
    made.fetched("g: in-0@3", final=True)
    made.assert_broken(check, "group g", "stands at in-0@3", "'b' at in-0@1")


def test_what_an_undecided_one_may_have_consumed_does_not_miss():
    made = pipeline(
        A,
        ("in-0@1 b", "x-0@0 B", "2", Outcome.INFO),
        ("in-0@2 c", "out-0@2 C", "3", Outcome.OK),
        outputs=("0 A", "2 C"),
    )
    made.fetched("g: in-0@3", final=True)
    made.assert_ok(check)


def test_what_lies_above_the_final_offset_is_still_to_come():
    made = pipeline(A)
    made.fetched("g: in-0@1", final=True)
    made.assert_ok(check, judged=1)


def test_a_read_at_the_committed_offset_was_not_consumed(made):
    for client, reads, upto in (("m#1", ("in-0@0 a", "in-0@1 b"), 1), ("m#2", ("in-0@1 b",), 2)):
        made.txn(f"out-0@{upto} v{upto}", reads=reads, offsets=f"g: in-0@{upto}", client=client)
    made.assert_ok(check, judged=2)


def test_groups_are_told_apart_and_outside_commits_excluded():
    made = pipeline(A, B)
    made.txn("o2-0@0 x", reads=("in-0@0 a",), offsets="h: in-0@1")
    made.assert_ok(check, judged=3)
    made.committed("g: in-0@0")
    made.committed("h: in-0@0")
    made.assert_unknown(check)


def test_transactions_that_tell_no_reads_are_not_judged(made):
    made.txn("out-0@0 A", offsets="g: in-0@1", ending=Ending.COMMIT)
    made.assert_unknown(check)
