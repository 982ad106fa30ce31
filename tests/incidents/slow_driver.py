"""A Spark driver that is in the middle of its first batch for as long as it lives.

python -m tests.incidents.slow_driver BOOTSTRAP SOURCE_TOPIC SINK_TOPIC CHECKPOINT TRANSACTIONAL_ID
"""

import os
import sys
import time


def rows_then_nothing(batches):
    yield next(batches)
    time.sleep(600)


def main(bootstrap, source, sink, checkpoint, transactional_id):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from tests.spark.session import spark_session

    spark = spark_session("slow-driver")
    read = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .select("key", "value")
    )
    query = (
        read.mapInArrow(rows_then_nothing, read.schema)
        .writeStream.format("oncelog")
        .option("bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("transactionalId", transactional_id)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
