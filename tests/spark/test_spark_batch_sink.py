"""Batch jobs through the sink: atomic, and with a jobId written once however often they run."""

import pytest
from pyspark.errors import AnalysisException, PythonException
from tests.spark.call_proxy import Fault

ROWS = [f"row-{number:04}" for number in range(50)]


def write(lab, rows, schema="value string", mode="append", partitions=2, **options):
    frame = lab.spark.createDataFrame(
        [(row,) if isinstance(row, str) else row for row in rows], schema
    )
    lab.write(frame.repartition(partitions), mode, **options)


def test_job_with_an_id_is_written_once_however_often_it_runs(lab):
    write(lab, ROWS, jobId="2026-11-21")
    assert lab.visible_settled() == ROWS
    ends = lab.ends(lab.sink)
    lab.proxy.reset()
    write(lab, ROWS, jobId="2026-11-21")
    assert lab.proxy.calls["Produce"] == 0
    assert lab.ends(lab.sink) == ends
    write(lab, ["other"], jobId="2026-11-22")
    write(lab, ROWS, jobId="2026-11-21")
    assert lab.visible_settled() == ["other", *ROWS]


def test_job_that_is_run_again_with_other_rows_is_refused(lab):
    write(lab, ROWS, jobId="2026-11-21")
    with pytest.raises(Exception, match=r"50 rows and has 51 now.*a jobId of their own"):
        write(lab, [*ROWS, "more"], jobId="2026-11-21")
    assert lab.visible_settled() == ROWS
    write(lab, [*ROWS, "more"], jobId="2026-11-21", verifyReplay="false")
    assert lab.visible_settled() == ROWS


def test_job_without_an_id_is_written_each_time(lab):
    write(lab, ROWS)
    write(lab, ROWS)
    assert lab.visible_settled() == sorted(ROWS * 2)


def test_job_whose_commit_fails_shows_nothing_and_can_run_again(lab):
    lab.proxy.plan("CommitBatch", Fault.REFUSE)
    with pytest.raises(Exception, match="a fault of the test"):
        write(lab, ROWS, jobId="j")
    assert lab.visible_settled() == []
    write(lab, ROWS, jobId="j")
    assert lab.visible_settled() == ROWS


def test_task_killed_in_a_job_is_retried_and_shows_once(lab):
    plan = lab.proxy.plan("Produce", Fault.KILL_CALLER_AFTER)
    write(lab, ROWS)
    assert plan.happened.is_set()
    assert lab.visible_settled() == ROWS


def test_job_without_rows_commits_nothing_visible(lab):
    write(lab, [], jobId="empty")
    assert lab.visible_settled() == []


def test_topic_column_and_partition_column_choose_the_place(lab):
    rows = [("a", lab.sink, 0), ("b", lab.source, 1), ("c", lab.sink, 2)]
    write(lab, rows, "value string, topic string, partition int")
    lab.wait_decided(lab.sink)
    lab.wait_decided(lab.source)
    found = lab.reader(subscribe=f"{lab.sink},{lab.source}").load().collect()
    assert sorted((row.value.decode(), row.topic, row.partition) for row in found) == rows


def test_record_larger_than_a_batch_goes_alone(lab):
    write(lab, ["x" * 700_000, "small"])
    assert sorted(map(len, lab.visible_settled())) == [5, 700_000]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"mode": "overwrite"}, "a log cannot be overwritten"),
        ({"schema": "id string"}, "needs a column value"),
        ({"transactionalId": ""}, "option transactionalId is required"),
        ({"oncelog.x": "1"}, "option oncelog.x is unknown"),
    ],
)
def test_job_that_cannot_be_written_is_refused_with_the_way_out(lab, arguments, text):
    with pytest.raises((AnalysisException, PythonException), match=text) as refused:
        write(lab, ["row"], **arguments)
    lines = [line for line in str(refused.value).splitlines() if line and "SQLSTATE" not in line]
    # Where Spark simplifies tracebacks it drops causes, and with them our first line.
    assert text in lines[0] or text in lines[-1], "the line that helps is the first or the last"


def test_record_above_the_topics_limit_is_named(lab):
    with pytest.raises(Exception, match=r"refuses a batch of \d+ bytes.*max.message.bytes"):
        write(lab, ["x" * 1_500_000])
    assert lab.visible_settled() == []
