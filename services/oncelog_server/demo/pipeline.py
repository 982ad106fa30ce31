"""The Spark driver of the demo, a program of its own: `python -m oncelog_server.demo.pipeline SETTINGS.json`.

It is an ordinary PySpark Structured Streaming job: read a topic, transform each chunk, write to several topics. One
streaming write carries them all: the `topic` column says where a record goes. So one decision covers the ledger, the
refunds and the rejected payments of a micro-batch together. The transformation keeps no state between chunks, so the
only things to survive a crash are Spark's checkpoint and the sink's decisions.

SIGTERM stops the query between micro-batches; SIGKILL is what the demo does to it.
"""

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from oncelog_server.cli.client_config import spark_options
from oncelog_server.demo.netting import Output, net_payments, net_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

OUTPUT_SCHEMA = "topic string, key binary, value binary"
STOP_CHECK_S = 1
# A driver that is killed every minute never earns back what the optimising compiler costs it.
QUICK_START_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """The settings of the demo's Spark driver. `numeric_columns` is None for payments, else the columns to
    sum per key.
    """

    bootstrap: str
    input_topic: str
    checkpoint: str
    transactional_id: str
    offsets_per_trigger: int
    numeric_columns: tuple[str, ...] | None
    scratch: str
    client_config: str = ""
    """Path of the `client.properties` to log in with; empty: no login."""

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)))


def read_settings(path: Path) -> PipelineSettings:
    """Read the settings that `PipelineSettings.write` has written."""
    content = json.loads(path.read_text())
    columns = content.pop("numeric_columns")
    return PipelineSettings(**content, numeric_columns=None if columns is None else tuple(columns))


def transformation(
    numeric_columns: tuple[str, ...] | None,
) -> Callable[[Iterable["pa.RecordBatch"]], Iterator["pa.RecordBatch"]]:
    """Return the function that Spark runs over the Arrow batches of one partition. Columns key and value go in,
    OUTPUT_SCHEMA comes out.
    """

    def transform(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
        for batch in batches:
            records = zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True)
            yield _arrow(
                net_payments(records)
                if numeric_columns is None
                else net_rows(records, numeric_columns)
            )

    return transform


def _arrow(outputs: list[Output]) -> "pa.RecordBatch":
    import pyarrow as pa

    schema = pa.schema([("topic", pa.string()), ("key", pa.binary()), ("value", pa.binary())])
    columns = zip(*outputs, strict=True) if outputs else ([], [], [])
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def start_session(scratch: str, jvm_options: str = QUICK_START_JVM) -> "SparkSession":
    """Start a Spark session in this process with two cores, reachable from this machine only."""
    from pyspark.sql import SparkSession

    return (
        SparkSession.builder.master("local[2]")
        .appName("oncelog demo")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", jvm_options)
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.local.dir", scratch)
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.log.level", "WARN")
        .getOrCreate()
    )


def start_query(spark: "SparkSession", settings: PipelineSettings) -> "StreamingQuery":
    """Start the streaming query from its checkpoint, or from the beginning when there is none."""
    login = spark_options(settings.client_config)
    source = (
        spark.readStream.format("oncelog")
        .options(**login)
        .option("bootstrap.servers", settings.bootstrap)
        .option("subscribe", settings.input_topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(settings.offsets_per_trigger))
        .load()
        .select("key", "value")
    )
    return (
        source.mapInArrow(transformation(settings.numeric_columns), OUTPUT_SCHEMA)
        .writeStream.format("oncelog")
        .options(**login)
        .option("bootstrap.servers", settings.bootstrap)
        .option("transactionalId", settings.transactional_id)
        .option("checkpointLocation", settings.checkpoint)
        .outputMode("append")
        .trigger(processingTime="0 seconds")
        .start()
    )


def main(arguments: list[str]) -> int:
    settings = read_settings(Path(arguments[0]))
    run_until_stopped(lambda: start_session(settings.scratch), settings)
    return 0


def run_until_stopped(
    make_session: Callable[[], "SparkSession"], settings: PipelineSettings
) -> None:
    """Run the query until SIGTERM. Raises the error that ended the query before that, if any."""
    is_stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_stopping.set())
    spark = make_session()
    query = start_query(spark, settings)
    while not query.awaitTermination(STOP_CHECK_S):
        if is_stopping.is_set():
            query.stop()
            break
    spark.stop()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
