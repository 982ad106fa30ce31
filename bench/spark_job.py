"""A Spark driver that times one connector: `python -m bench.spark_job FORMAT BOOTSTRAP ROWS TURNS`.

FORMAT is `oncelog`, or `kafka`: Spark's own connector, whose jars come with `spark.jars` of the environment's
`PYSPARK_SUBMIT_ARGS`. It prints one JSON object, of seconds: `Times`.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oncelog_server.demo.pipeline import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_BATCHES = 40
"""Micro-batches of one row."""
WARM_UP_BATCHES = 5


@dataclass(frozen=True)
class Times:
    """The seconds of each turn. All but `cold_read_s` are warm."""

    cold_read_s: float
    read_s: list[float]
    read_one_partition_s: list[float]
    read_one_partition_split_s: list[float]
    write_s: list[float]
    write_parquet_s: list[float]
    micro_batch_s: list[float]


class Job:
    def __init__(self, spark: "SparkSession", connector: str, bootstrap: str) -> None:
        self._spark = spark
        self._connector = connector
        self._servers = {"kafka.bootstrap.servers": bootstrap}

    def read(self, topic: str, **options: str) -> None:
        """Read the topic whole, as a batch, and drop the rows."""
        given = {"subscribe": topic, "kafka.isolation.level": "read_committed"} | options
        frame = self._spark.read.format(self._connector).options(**self._servers, **given).load()
        frame.write.format("noop").mode("overwrite").save()

    def rows(self, count: int) -> "DataFrame":
        """Return `count` rows with values of 100 bytes."""
        value = "cast(lpad(cast(id as string), 100, 'x') as binary) as value"
        key = "cast(cast(id as string) as binary) as key"
        return self._spark.range(0, count, 1, 2).selectExpr(key, value)

    def write(self, count: int, name: str) -> None:
        """Write generated rows to topic `spark-out`, as one batch."""
        writer = self.rows(count).write.format(self._connector).options(**self._servers)
        if self._connector == "oncelog":
            writer = writer.options(transactionalId="bench-sink", jobId=name)
        writer.option("topic", "spark-out").mode("append").save()

    def write_parquet(self, count: int, folder: str) -> None:
        self.rows(count).write.mode("overwrite").parquet(folder)

    def micro_batches(self, checkpoint: str) -> list[float]:
        """Copy a topic in micro-batches of one row; return the seconds of each, but of the first ones."""
        source = self._spark.readStream.format(self._connector).options(**self._servers)
        source = source.option("subscribe", "spark-few").option("startingOffsets", "earliest")
        rows = source.option("maxOffsetsPerTrigger", "1").load().select("key", "value")
        sink = rows.writeStream.format(self._connector).options(**self._servers)
        if self._connector == "oncelog":
            sink = sink.option("transactionalId", f"bench-stream-{time.time_ns()}")
        sink = sink.option("topic", "spark-few-out").option("checkpointLocation", checkpoint)
        query = sink.trigger(availableNow=True).start()
        query.awaitTermination()
        batches = [one for one in query.recentProgress if one.numInputRows]
        assert len(batches) == SMALL_BATCHES, f"{len(batches)} micro-batches of one row"
        return [one.durationMs["triggerExecution"] / 1000 for one in batches[WARM_UP_BATCHES:]]


def seconds(turns: int, act: Callable[[int], object]) -> list[float]:
    """Run `act` with the number of each turn, and once before; return the seconds of each turn but the first."""
    found = []
    for turn in range(turns + 1):
        started_at = time.perf_counter()
        act(turn)
        found.append(time.perf_counter() - started_at)
    return found[1:]


def measured(spark: "SparkSession", arguments: list[str], scratch: Path) -> Times:
    connector, bootstrap, rows, turns = arguments[0], arguments[1], *map(int, arguments[2:4])
    job = Job(spark, connector, bootstrap)
    started_at = time.perf_counter()
    job.read("spark-in")
    cold_s = time.perf_counter() - started_at
    return Times(
        cold_read_s=cold_s,
        read_s=seconds(turns, lambda _: job.read("spark-in")),
        read_one_partition_s=seconds(turns, lambda _: job.read("spark-one")),
        read_one_partition_split_s=seconds(
            turns, lambda _: job.read("spark-one", minPartitions="2")
        ),
        write_s=seconds(turns, lambda turn: job.write(rows, f"{time.time_ns()}-{turn}")),
        write_parquet_s=seconds(turns, lambda _: job.write_parquet(rows, str(scratch / "rows"))),
        micro_batch_s=job.micro_batches(str(scratch / "checkpoint")),
    )


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-spark-") as scratch:
        spark = start_session(scratch, jvm_options="-XX:+UseSerialGC")
        times = measured(spark, arguments, Path(scratch))
        spark.stop()
    print(json.dumps(asdict(times)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
