"""A Spark driver of its own that copies a topic, and starts its query again until it ends well.

python traced_app.py BOOTSTRAP SOURCE_TOPIC SINK_TOPIC CHECKPOINT TRANSACTIONAL_ID
"""

import os
import sys


def main(bootstrap, source, sink, checkpoint, transactional_id):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.errors import StreamingQueryException
    from tests.spark.session import spark_session

    spark = spark_session("traced-app")
    rows = spark.readStream.format("oncelog").option("bootstrap.servers", bootstrap)
    rows = rows.option("subscribe", source).option("startingOffsets", "earliest").load()
    writer = rows.select("key", "value").writeStream.format("oncelog")
    writer = writer.option("bootstrap.servers", bootstrap).option("topic", sink)
    writer = writer.option("transactionalId", transactional_id)
    writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    for _ in range(3):
        try:
            writer.start().awaitTermination()
        except StreamingQueryException as error:
            print(f"FAILED {error}", flush=True)
        else:
            print("DONE", flush=True)
            break
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
