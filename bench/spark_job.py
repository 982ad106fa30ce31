"""A Spark driver that times the source and the sink: `python -m bench.spark_job BOOTSTRAP ROWS TURNS`.

It prints one JSON object: seconds of every turn, the first being cold.
"""

import json
import sys
import tempfile
import time
from typing import TYPE_CHECKING

from oncelog_server.demo.pipeline import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def read_once(spark: "SparkSession", bootstrap: str) -> float:
    """Read topic `spark-in` whole, as a batch, drop it, and return the seconds that this took."""
    started_at = time.perf_counter()
    (
        spark.read.format("oncelog")
        .option("bootstrap.servers", bootstrap)
        .option("subscribe", "spark-in")
        .option("startingOffsets", "earliest")
        .option("endingOffsets", "latest")
        .load()
        .write.format("noop")
        .mode("overwrite")
        .save()
    )
    return time.perf_counter() - started_at


def write_once(spark: "SparkSession", bootstrap: str, rows: int, turn: int) -> float:
    """Write `rows` rows of 100 bytes to topic `spark-out`, as one batch, and return the seconds that this took."""
    value = "cast(lpad(cast(id as string), 100, 'x') as binary) as value"
    started_at = time.perf_counter()
    (
        spark.range(0, rows, 1, 2)
        .selectExpr("cast(cast(id as string) as binary) as key", value)
        .write.format("oncelog")
        .option("bootstrap.servers", bootstrap)
        .option("topic", "spark-out")
        .option("transactionalId", "bench-sink")
        .option("jobId", f"turn-{turn}")
        .mode("append")
        .save()
    )
    return time.perf_counter() - started_at


def main(arguments: list[str]) -> int:
    bootstrap, rows, turns = arguments[0], int(arguments[1]), int(arguments[2])
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-spark-") as scratch:
        spark = start_session(scratch, jvm_options="-XX:+UseSerialGC")
        reads = [read_once(spark, bootstrap) for _ in range(turns)]
        writes = [write_once(spark, bootstrap, rows, turn) for turn in range(turns)]
        spark.stop()
    print(json.dumps({"read_s": reads, "write_s": writes}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
