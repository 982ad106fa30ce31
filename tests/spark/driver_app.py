"""A Spark driver of its own: copies one topic into another exactly once, until what was there at its start is done.

Exits 0 when the query ended well; prints the reason and exits 3 when it failed.
"""

import argparse
import os
import sys


def arguments():
    parser = argparse.ArgumentParser()
    for name in ("bootstrap", "source", "sink", "checkpoint", "transactional_id"):
        parser.add_argument(name)
    parser.add_argument("--offsets-per-trigger", default="500000")
    parser.add_argument("--master", default="local[2,2]")
    parser.add_argument("--remote", help="the address of a server of Spark Connect, which runs all")
    parser.add_argument("--python", default=sys.executable, help="of the executors")
    parser.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--task-s", type=float, default=0, help="what each task waits")
    return parser.parse_args()


def waiting(wait_s):
    def wait(batches):
        import time

        for batch in batches:
            time.sleep(wait_s)
            yield batch

    return wait


def session(given):
    from pyspark.sql import SparkSession
    from tests.spark.session import spark_session

    if given.remote:
        return SparkSession.builder.remote(given.remote).getOrCreate()
    settings = dict(one.split("=", 1) for one in given.conf)
    return spark_session("driver-app", master=given.master, settings=settings)


def main(given):
    os.environ["PYSPARK_PYTHON"] = given.python
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.errors import StreamingQueryException

    spark = session(given)
    rows = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", given.bootstrap)
        .option("subscribe", given.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", given.offsets_per_trigger)
        .load()
        .select("key", "value")
    )
    if given.task_s:
        rows = rows.mapInArrow(waiting(given.task_s), "key binary, value binary")
    query = (
        rows.writeStream.format("oncelog")
        .option("bootstrap.servers", given.bootstrap)
        .option("topic", given.sink)
        .option("transactionalId", given.transactional_id)
        .option("checkpointLocation", given.checkpoint)
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
    main(arguments())
