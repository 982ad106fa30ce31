"""A Spark driver of its own: copies one topic into another exactly once, until what was there at its start is done.

    python driver_app.py BOOTSTRAP SOURCE_TOPIC SINK_TOPIC CHECKPOINT TRANSACTIONAL_ID [OFFSETS_PER_TRIGGER]

Exits 0 when the query ended well; prints the reason and exits 3 when it failed.
"""

import os
import sys


def main(bootstrap, source, sink, checkpoint, transactional_id, limit="500000"):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.errors import StreamingQueryException
    from tests.spark.session import spark_session

    spark = spark_session("driver-app")
    query = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", limit)
        .load()
        .select("key", "value")
        .writeStream.format("oncelog")
        .option("bootstrap.servers", bootstrap)
        .option("topic", sink)
        .option("transactionalId", transactional_id)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        print(f"FAILED {error}", flush=True)
        os._exit(3)
    print("DONE", flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
