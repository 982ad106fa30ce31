"""Writing inside foreachBatch: one sink, numbered by Spark's batches, exactly once, in every output mode."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import expr
from tests.spark.call_proxy import Fault

ROWS = [f"row-{number:04}" for number in range(40)]


def counted_by_last_digit(lab):
    """A stream of (last digit, how often): only outputMode update or complete can show it as it grows."""
    limit = str(len(ROWS) + 2)  # two markers
    frame = lab.stream(startingOffsets="earliest", maxOffsetsPerTrigger=limit)
    return frame.groupBy(expr("right(cast(value AS string), 1)").alias("digit")).count()


def run(lab, **options):
    """The recipe of docs/spark.md, to its end."""

    def write(frame, batch_id):
        rows = frame.selectExpr("digit AS key", "concat(digit, ':', count) AS value")
        lab.write(rows, batchId=batch_id, **options)

    query = (
        counted_by_last_digit(lab)
        .writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", lab.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180), "the query does not end"


@pytest.mark.slow
def test_foreach_batch_is_exactly_once_in_update_mode(lab):
    lab.fill(ROWS)
    lab.fill(["one-more-1"])
    lab.proxy.plan("CommitBatch", Fault.REFUSE_AFTER, skip=1)
    with pytest.raises(StreamingQueryException, match="a fault of the test"):
        run(lab)
    grown = sorted([*(f"{digit}:4" for digit in range(10)), "1:5"])
    assert lab.visible_settled() == grown

    # Spark runs the function again for the same batch.
    lab.proxy.reset()
    run(lab)
    assert lab.proxy.calls["Produce"] == 0
    assert lab.visible_settled() == grown
    sink = lab.describe()
    assert (sink.last_committed_batch_id, sink.query_id) == (1, "batchId")
    assert len(sink.decisions) == 2


def test_update_mode_of_the_stream_itself_is_refused_by_spark(lab):
    """When Spark's Python data sources learn it, this fails, and docs/spark.md can forget the recipe."""
    frame = counted_by_last_digit(lab).selectExpr("digit AS key", "string(count) AS value")
    query = frame.writeStream.format("oncelog").outputMode("update").options(**lab.to_sink)
    with pytest.raises(Exception, match=r"(?i)update"):
        query.option("checkpointLocation", lab.checkpoint).trigger(
            availableNow=True
        ).start().awaitTermination(120)
