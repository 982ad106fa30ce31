"""The sink on Apache Kafka 4.4: the crash matrix of `test_spark_exactly_once`, as far as Kafka has its calls."""

import os
import random
import shutil
import signal

import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.call_proxy import Fault
from tests.spark.test_spark_exactly_once import always_raising, raising_until

ROWS = [f"row-{number:04}" for number in range(60)]


def test_rows_arrive_once_with_one_transaction_for_each_batch(kafka_lab):
    kafka_lab.fill(ROWS)
    kafka_lab.proxy.reset()
    kafka_lab.copy(limit=20)
    assert kafka_lab.visible_settled() == ROWS
    token = kafka_lab.token()
    assert len(token.batches) >= 3
    assert [one.batch_id for one in token.batches] == list(range(len(token.batches)))
    assert sum(one.row_count for one in token.batches) == len(ROWS)
    # The sink sees once what the cluster is; tasks write nothing.
    assert kafka_lab.proxy.calls["EndTxn"] == len(token.batches)
    assert kafka_lab.proxy.calls["DescribeConfigs"] == 1


def test_task_that_raises_is_retried_and_its_rows_show_once(kafka_lab):
    kafka_lab.fill(ROWS)
    kafka_lab.copy(raising_until(str(kafka_lab.folder / "flag")))
    assert kafka_lab.visible_settled() == ROWS


@pytest.mark.slow
def test_task_that_fails_for_good_leaves_nothing(kafka_lab):
    kafka_lab.fill(ROWS)
    with pytest.raises(StreamingQueryException, match="a fault of the test"):
        kafka_lab.copy(always_raising)
    assert kafka_lab.visible() == []
    kafka_lab.copy()
    assert kafka_lab.visible_settled() == ROWS


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("InitProducerId", Fault.KILL_CALLER_AFTER),
        ("Produce", Fault.KILL_CALLER_AFTER),
        ("EndTxn", Fault.KILL_CALLER),
    ],
)
def test_commit_killed_before_its_effect_is_repeated(kafka_lab, call, fault):
    kafka_lab.fill(ROWS)
    plan = kafka_lab.proxy.plan(call, fault)
    with pytest.raises(StreamingQueryException):
        kafka_lab.copy()
    assert plan.happened.is_set()
    assert kafka_lab.visible() == []
    kafka_lab.copy()
    assert kafka_lab.visible_settled() == ROWS


def test_abort_and_replay_after_a_commit_change_nothing(kafka_lab):
    """Spark calls abort after a commit that took effect and raised, and the restart commits again."""
    kafka_lab.fill(ROWS)
    plan = kafka_lab.proxy.plan("EndTxn", Fault.KILL_CALLER_AFTER)
    with pytest.raises(StreamingQueryException):
        kafka_lab.copy()
    assert plan.happened.is_set()
    assert kafka_lab.visible_settled() == ROWS
    ends = kafka_lab.ends(kafka_lab.sink)
    kafka_lab.proxy.reset()
    kafka_lab.copy()
    assert kafka_lab.proxy.calls["InitProducerId"] == 1
    assert kafka_lab.proxy.calls["Produce"] == 0
    assert kafka_lab.ends(kafka_lab.sink) == ends
    kafka_lab.fill(["later"])
    kafka_lab.copy()
    assert kafka_lab.visible_settled() == ["later", *ROWS]


@pytest.mark.slow
@pytest.mark.parametrize("is_decided", [False, True], ids=["undecided", "decided"])
def test_driver_killed_at_the_decision_leaves_a_whole_batch(kafka_lab, is_decided):
    kafka_lab.fill(ROWS)
    held = kafka_lab.proxy.plan("EndTxn", Fault.CUT_AFTER if is_decided else Fault.HOLD)
    # Whose answer is lost opens another transaction to ask: there it is held.
    again = kafka_lab.proxy.plan("InitProducerId", Fault.HOLD, skip=1)
    driver = kafka_lab.start_driver()
    assert held.happened.wait(150), "the driver did not reach its commit"
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait(20)
    again.times = 0
    kafka_lab.copy()
    assert kafka_lab.visible_settled() == ROWS
    # A request of the dead arrives late.
    ends = kafka_lab.ends(kafka_lab.sink)
    kafka_lab.proxy.reset()
    kafka_lab.fill(["later"])
    kafka_lab.copy()
    assert kafka_lab.visible_settled() == ["later", *ROWS]
    assert sum(kafka_lab.ends(kafka_lab.sink).values()) == sum(ends.values()) + 2


@pytest.mark.slow
def test_two_drivers_on_one_checkpoint_commit_each_batch_once(kafka_lab):
    kafka_lab.fill(ROWS)
    held = kafka_lab.proxy.plan("EndTxn", Fault.HOLD)
    first = kafka_lab.start_driver()
    assert held.happened.wait(150), "the first driver did not reach its commit"
    kafka_lab.copy()
    assert kafka_lab.visible_settled() == ROWS
    held.released.set()
    assert first.wait(150) == 3, "the first driver must fail: the second one has fenced it"
    assert "FENCED" in (kafka_lab.folder / "driver0.log").read_text()
    assert kafka_lab.visible_settled() == ROWS


@pytest.mark.slow
def test_a_driver_that_commits_after_another_one_adds_nothing(kafka_lab):
    """It is held before its commit begins, and finds the batch committed by the time that it goes on."""
    kafka_lab.fill(ROWS)
    held = kafka_lab.proxy.plan("InitProducerId", Fault.HOLD)
    first = kafka_lab.start_driver()
    assert held.happened.wait(150), "the first driver did not reach its commit"
    kafka_lab.copy()
    assert kafka_lab.visible_settled() == ROWS
    held.released.set()
    # Its sink says that the batch is committed, and Spark finds that another driver has written the checkpoint.
    assert first.wait(150) == 3
    assert kafka_lab.visible_settled() == ROWS


@pytest.mark.slow
@pytest.mark.parametrize("call", ["Produce", "EndTxn"])
def test_broker_killed_in_the_middle_of_a_batch_is_waited_for(kafka, kafka_lab, call):
    kafka_lab.fill(ROWS)
    held = kafka_lab.proxy.plan(call, Fault.HOLD)
    query = kafka_lab.start_copy(limit=30)
    assert held.happened.wait(150)
    kafka.broker.kill()
    kafka.broker.start()
    held.released.set()
    assert query.awaitTermination(180)
    assert kafka_lab.visible_settled() == ROWS


@pytest.mark.slow
def test_deleted_checkpoint_is_refused_until_adopted(kafka_lab):
    kafka_lab.fill(ROWS)
    kafka_lab.copy()
    shutil.rmtree(kafka_lab.checkpoint)
    with pytest.raises(StreamingQueryException, match=r"onNewQuery=adopt"):
        kafka_lab.copy()
    assert kafka_lab.visible_settled() == ROWS
    kafka_lab.copy(onNewQuery="adopt")
    assert kafka_lab.visible_settled() == sorted(ROWS * 2)


def test_batch_that_the_driver_cannot_hold_is_refused(kafka_lab):
    kafka_lab.fill(ROWS)
    with pytest.raises(StreamingQueryException, match=r"batch 0 has .*maxBatchBytes=1500\."):
        kafka_lab.copy(maxBatchBytes="1500")
    assert kafka_lab.visible_settled() == []
    # Its offsets are in the checkpoint: a lower limit would not make it smaller.
    kafka_lab.copy(maxBatchBytes="1500", **{"kafka.compression.type": "zstd"})
    assert kafka_lab.visible_settled() == ROWS


def test_batch_jobs_are_atomic_and_named_ones_are_written_once(kafka_lab):
    def write(rows, **options):
        frame = kafka_lab.spark.createDataFrame([(row,) for row in rows], "value string")
        kafka_lab.write(frame.repartition(2), **options)

    write(ROWS, jobId="monday")
    write(ROWS, jobId="monday")
    write(["other"])
    write(["other"])
    with pytest.raises(Exception, match="has 61 rows now, and was committed with 60"):
        write([*ROWS, "more"], jobId="monday")
    write(["numbered"], batchId="0")
    write(["numbered"], batchId="0")
    assert kafka_lab.visible_settled() == ["numbered", "other", "other", *ROWS]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_faults_at_random_and_restarts_show_each_row_once(kafka, kafka_lab, seed):
    chance = random.Random(seed)
    kafka_lab.fill(ROWS)
    calls = ["InitProducerId", "ListOffsets", "Fetch", "Metadata", "Produce", "EndTxn", "EndTxn"]
    kills = [Fault.KILL_CALLER, Fault.KILL_CALLER_AFTER, Fault.CUT, Fault.CUT_AFTER]
    for _ in range(chance.randint(2, 5)):
        kafka_lab.proxy.plan(chance.choice(calls), chance.choice(kills), chance.randrange(6))
    failures = []
    for _ in range(12):
        query = kafka_lab.start_copy(limit=20)
        if chance.random() < 0.2:
            kafka.broker.kill()
            kafka.broker.start()
        try:
            assert query.awaitTermination(180)
            break
        except StreamingQueryException as error:
            failures.append(str(error).splitlines()[0])
    else:
        raise AssertionError(failures)
    kafka_lab.proxy.reset()
    assert kafka_lab.visible_settled() == ROWS, failures
    assert sum(one.row_count for one in kafka_lab.token().batches) == len(ROWS)
