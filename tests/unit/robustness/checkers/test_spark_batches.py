"""Each micro-batch is in the sink exactly once, or not at all if nobody was told that it is."""

import pytest
from oncelog_robustness.checkers.spark_batches import check
from oncelog_robustness.workload_facts import SparkBatchEnded, SparkTask
from tests.unit.robustness.checkers.made_history import MadeHistory, assert_broken


def tried(made: MadeHistory, attempt: str, task: int, branch: str, *values: str) -> None:
    made.note(
        SparkTask(
            sink="s",
            query="q",
            batch=3,
            attempt=attempt,
            task=task,
            branch=branch,
            values=tuple(("t", task, value) for value in values),
        )
    )


def ended(made: MadeHistory, attempt: str, outcome: str, *winners: tuple[int, str]) -> None:
    made.note(
        SparkBatchEnded(
            sink="s", query="q", batch=3, attempt=attempt, outcome=outcome, winners=winners
        )
    )


def batch(outcome: str | None, zero: list[str], one: list[str], named: bool = True) -> MadeHistory:
    """Two tasks; task 0 was tried twice, and the second try (0.1) is named."""
    made = MadeHistory()
    tried(made, "n1", 0, "0.0", "a", "b")
    tried(made, "n1", 0, "0.1", "A", "B")
    tried(made, "n1", 1, "1.0", "C")
    if outcome is not None:
        ended(made, "n1", outcome, *([(0, "0.1"), (1, "1.0")] if named else []))
    made.final("t-0", *zero, end=9)
    made.final("t-1", *one, end=9)
    return made


WHOLE = (["0 A", "1 B"], ["0 C"])
NAMED = pytest.mark.parametrize("named", [True, False])


@NAMED
def test_a_committed_batch_that_is_there_once_is_fine(named):
    batch("ok", *WHOLE, named=named).assert_ok(check, judged=1)


@NAMED
def test_a_committed_batch_that_is_not_there_is_named(named):
    verdict = batch("ok", [], [], named=named).judged_by(check)
    assert_broken(verdict, "batch 3 of q in sink s", "n1", "missing", "(ok)")


@NAMED
@pytest.mark.parametrize("outcome", ["info", None])
def test_a_batch_of_which_nobody_knows_is_there_or_not(named, outcome):
    batch(outcome, *WHOLE, named=named).assert_ok(check)
    batch(outcome, [], [], named=named).assert_ok(check)


@NAMED
@pytest.mark.parametrize("outcome", ["ok", "info"])
@pytest.mark.parametrize(
    ("zero", "one", "missing"),
    [(["0 A"], ["0 C"], "'B'"), (["0 A", "1 B"], [], "'C'"), ([], ["0 C"], "of task 0")],
)
def test_half_a_batch_is_named(outcome, zero, one, missing, named):
    if named and not zero:
        missing = "'A'"
    batch(outcome, zero, one, named).assert_broken(check, "missing", missing)


def test_a_try_that_was_not_named_is_named():
    verdict = batch("ok", ["0 A", "1 B", "2 a"], ["0 C"]).judged_by(check)
    assert_broken(verdict, "'0.1' for task 0", "'a' at t-0@2", "(0.0)")


def test_two_tries_of_one_task_are_named():
    verdict = batch(None, ["0 A", "1 B", "2 a", "3 b"], ["0 C"]).judged_by(check)
    assert_broken(verdict, "(0.0)", "(0.1)")


def test_an_attempt_that_failed_is_not_there():
    batch("fail", [], []).assert_ok(check)
    batch("fail", *WHOLE).assert_broken(check, "failed", "'A' at t-0@0")


def test_two_attempts_are_named():
    made = batch("ok", ["0 A", "1 B", "5 D"], ["0 C"])
    tried(made, "n2", 0, "0.0", "D")
    ended(made, "n2", "info", (0, "0.0"))
    made.assert_broken(check, "there 2 times", "n1", "n2", "'D' at t-0@5")


def test_a_second_attempt_that_lost_is_fine():
    made = batch("fail", [], [])
    tried(made, "n2", 0, "0.0", "D")
    ended(made, "n2", "ok", (0, "0.0"))
    made.final("t-0", "5 D")
    made.assert_ok(check, judged=1)


def test_a_try_without_values_may_win(made):
    tried(made, "n1", 0, "0.0", "A")
    tried(made, "n1", 1, "1.0")
    ended(made, "n1", "ok", (0, "0.0"), (1, "1.0"))
    made.final("t-0", "0 A")
    made.assert_ok(check)


def test_what_was_told_last_but_unknown_does_not_hide_an_answer():
    made = batch("ok", [], [])
    ended(made, "n1", "info", (0, "0.1"), (1, "1.0"))
    made.assert_broken(check, "(ok)")


def test_a_partition_that_was_not_read_leaves_it_open():
    made = MadeHistory()
    tried(made, "n1", 0, "0.0", "A")
    tried(made, "n1", 1, "1.0", "B")
    ended(made, "n1", "ok", (0, "0.0"), (1, "1.0"))
    made.final("t-0", "0 A")
    made.assert_unknown(check, "'B' in t-1", "not read")
    MadeHistory().assert_unknown(check, "no task")
