"""The crash matrix of the sink, as far as one machine can play it: whatever fails, each row is visible once.

The names F1 to F7 and S5 are those of the fault experiments on which the sink's design rests: F1 a task fails and is
tried again; F2 a task fails for good; F3 a Python worker is killed; F4 and F5 the commit fails before and after its
effect; F7 the driver is killed; S5 two drivers share one checkpoint.
"""

import os
import shutil
import signal

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.call_proxy import Fault

ROWS = [f"row-{number:04}" for number in range(60)]


def raising_until(flag):
    """A transformation that fails in the middle of the rows while the flag is not there, and leaves it behind."""

    def transform(batches):
        from pathlib import Path

        for batch in batches:
            yield batch.slice(0, batch.num_rows // 2)
            if not Path(flag).exists():
                Path(flag).touch()
                raise RuntimeError("a fault of the test")
            yield batch.slice(batch.num_rows // 2)

    return transform


def always_raising(batches):
    yield next(batches)
    raise RuntimeError("a fault of the test")


def test_rows_arrive_once_with_one_attempt_for_each_batch(lab):
    lab.fill(ROWS)
    lab.copy(limit=20)
    assert lab.visible_settled() == ROWS
    sink = lab.describe()
    batches = sink.last_committed_batch_id + 1
    assert batches >= 3
    # The sink opens its attempt while Spark pickles the writer; a Spark that pickles more or less often shows here.
    assert lab.proxy.calls["OpenAttempt"] - 1 == lab.proxy.calls["CommitBatch"] - 1 == batches
    assert sum(decision.row_count for decision in sink.decisions) == len(ROWS)
    assert max(decision.row_count for decision in sink.decisions) <= 20


def test_restart_without_new_data_writes_nothing(lab):
    lab.fill(ROWS[:30])
    lab.copy()
    lab.wait_decided(lab.sink)
    ends = lab.ends(lab.sink)
    lab.proxy.reset()
    lab.copy()
    assert lab.proxy.calls["Produce"] == 0
    assert lab.ends(lab.sink) == ends
    lab.fill(ROWS[30:])
    lab.copy()
    assert lab.visible_settled() == ROWS


def test_f1_task_that_raises_is_retried_and_its_rows_show_once(lab):
    lab.fill(ROWS)
    lab.copy(raising_until(str(lab.folder / "flag")))
    assert lab.visible_settled() == ROWS
    assert lab.proxy.calls["JoinAttempt"] > 2 + 1  # the fill, two tasks, and the repeated one


@pytest.mark.slow
def test_f2_task_that_fails_for_good_leaves_nothing(lab):
    lab.fill(ROWS)
    with pytest.raises(StreamingQueryException, match="a fault of the test"):
        lab.copy(always_raising)
    assert lab.visible() == []
    lab.copy()
    assert lab.visible_settled() == ROWS


@pytest.mark.parametrize(
    ("method", "fault", "skip"),
    [
        ("Produce", Fault.KILL_CALLER, 0),
        ("Produce", Fault.KILL_CALLER_AFTER, 1),
        ("SealBranch", Fault.KILL_CALLER, 0),
        ("SealBranch", Fault.KILL_CALLER_AFTER, 0),
        ("JoinAttempt", Fault.KILL_CALLER_AFTER, 0),
    ],
)
def test_f3_writer_killed_at_any_step_is_replaced(lab, method, fault, skip):
    lab.fill(ROWS)
    plan = lab.proxy.plan(method, fault, skip)
    lab.copy()
    assert plan.happened.is_set()
    assert lab.visible_settled() == ROWS


def test_f4_commit_that_fails_is_repeated_by_the_restart(lab):
    lab.fill(ROWS)
    plan = lab.proxy.plan("CommitBatch", Fault.REFUSE)
    with pytest.raises(StreamingQueryException, match="a fault of the test"):
        lab.copy()
    assert plan.happened.is_set()
    assert lab.proxy.order[-2:] == ["CommitBatch", "AbortAttempt"]
    assert lab.visible_settled() == []
    lab.copy()
    assert lab.visible_settled() == ROWS


def test_f5_abort_and_replay_after_a_commit_change_nothing(lab):
    lab.fill(ROWS)
    lab.proxy.plan("CommitBatch", Fault.REFUSE_AFTER)
    with pytest.raises(StreamingQueryException, match="a fault of the test"):
        lab.copy()
    # Spark aborts what it believes uncommitted. A Spark that no longer does shows here.
    assert lab.proxy.order[-2:] == ["CommitBatch", "AbortAttempt"]
    assert lab.visible_settled() == ROWS
    ends = lab.ends(lab.sink)
    lab.proxy.reset()
    lab.copy()
    assert lab.proxy.calls["CommitBatch"] == 1  # batch 0 again, answered ALREADY
    assert lab.proxy.calls["Produce"] == 0
    assert lab.ends(lab.sink) == ends
    assert lab.visible() == ROWS


@pytest.mark.parametrize(
    "method", ["OpenAttempt", "JoinAttempt", "SealBranch", "CommitBatch", "Produce"]
)
def test_lost_answer_is_asked_for_again_unnoticed(lab, method):
    lab.fill(ROWS)
    plan = lab.proxy.plan(method, Fault.CUT_AFTER, times=2)
    lab.copy()
    assert plan.happened.is_set()
    assert lab.visible_settled() == ROWS


@pytest.mark.parametrize(
    "is_decided", [pytest.param(False, marks=pytest.mark.slow), True], ids=["undecided", "decided"]
)
def test_f7_driver_killed_at_the_decision_leaves_a_whole_batch(lab, is_decided):
    lab.fill(ROWS)
    held = lab.proxy.plan("CommitBatch", Fault.CUT_AFTER if is_decided else Fault.REFUSE)
    again = lab.proxy.plan("CommitBatch", Fault.HOLD)
    aborted = lab.proxy.plan("AbortAttempt", Fault.HOLD)
    driver = lab.start_driver()
    assert held.happened.wait(150), "the driver did not reach its commit"
    # Dead before it receives the outcome, and before it can abort.
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait(20)
    again.times = aborted.times = 0
    lab.proxy.reset()
    lab.copy()
    assert lab.visible_settled() == ROWS
    if is_decided:
        assert lab.proxy.calls["Produce"] == 0
    assert not lab.describe().attempts


@pytest.mark.slow
def test_s5_two_drivers_on_one_checkpoint_commit_each_batch_once(lab):
    lab.fill(ROWS)
    held = lab.proxy.plan("CommitBatch", Fault.HOLD)
    first = lab.start_driver()
    assert held.happened.wait(150), "the first driver did not reach its commit"
    lab.copy()
    assert lab.visible_settled() == ROWS
    held.released.set()
    assert first.wait(150) == 3, "the first driver must fail: its batch was decided by the second"
    log = (lab.folder / "driver0.log").read_text()
    assert "ALREADY_OTHER" in log or "FENCED" in log
    assert lab.visible_settled() == ROWS


@pytest.mark.slow
def test_deleted_checkpoint_is_refused_until_adopted(lab):
    lab.fill(ROWS)
    lab.copy()
    assert lab.visible_settled() == ROWS
    shutil.rmtree(lab.checkpoint)
    with pytest.raises(StreamingQueryException, match=r"onNewQuery=adopt"):
        lab.copy()
    assert lab.visible_settled() == ROWS
    lab.copy(onNewQuery="adopt")
    assert lab.visible_settled() == sorted(ROWS * 2)


def test_cluster_killed_in_the_middle_of_a_query_is_waited_for(lab, server):
    lab.fill(ROWS)
    held = lab.proxy.plan("SealBranch", Fault.HOLD)
    query = lab.start_copy(limit=20)
    assert held.happened.wait(150)
    server.kill()
    server.start()
    held.released.set()
    # The attempt is in the journal and the branch's data in the log: the restarted cluster goes on with both.
    assert query.awaitTermination(180)
    assert lab.visible_settled() == ROWS


def test_task_outside_a_micro_batch_is_refused(lab):
    """The batch's number comes from local properties that Spark does not promise; their absence must not pass."""
    options = lab.to_sink

    def write(_):
        from oncelog.spark.options import parse_sink_options
        from oncelog.spark.sink import StreamWriter

        return [StreamWriter(parse_sink_options(options)).write(iter([])).outcome.row_count]

    with pytest.raises(Exception, match=r"Spark did not give the task .*streaming\.sql\.batchId"):
        lab.spark.sparkContext.parallelize([0], 1).mapPartitions(write).collect()
