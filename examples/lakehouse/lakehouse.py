"""Orders from a topic into a Delta table, and from the table into another topic: each order once in both.

    python lakehouse.py localhost:9092 /data/lakehouse

It ends when it has done what was there at its start. After any crash start it again.
"""

import os
import sys
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from pyspark.sql import DataFrame, SparkSession

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
COLUMNS = "id BIGINT, account STRING, amount BIGINT"
SCHEMA = pa.schema({"id": pa.int64(), "account": pa.string(), "amount": pa.int64()})
NAME = "orders-to-table"


def ingest(spark: SparkSession, log: dict[str, str], path: str, checkpoint: str) -> None:
    """Topic → table. A commit of the table has the rows of a batch and its number, so no batch is in it twice."""

    def write(rows: DataFrame, batch_id: int) -> None:
        table = DeltaTable(path)
        newest = table.transaction_version(NAME)
        if newest is None or newest < batch_id:
            key = CommitProperties(app_transactions=[Transaction(NAME, batch_id)])
            write_deltalake(table, rows.toArrow(), mode="append", commit_properties=key)

    orders = (
        spark.readStream.format("oncelog")
        .options(**log, subscribe="orders", startingOffsets="earliest")
        .option("maxOffsetsPerTrigger", "100000")
        .load()
        .selectExpr(f"from_json(CAST(value AS STRING), '{COLUMNS}') AS parsed")
    )
    query = orders.select("parsed.*").writeStream.foreachBatch(write)
    query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True)
    query.start().awaitTermination()


def publish(spark: SparkSession, log: dict[str, str], path: str, position: Path) -> None:
    """Table → topic, a version at a time. Its number is that of the batch: the log skips a version that it has."""
    first = int(position.read_text()) + 1 if position.exists() else 1
    sink = {**log, "topic": "ledger", "transactionalId": "orders-from-table"}
    for version in range(first, DeltaTable(path).version() + 1):
        before, after = (
            DeltaTable(path, version=one).file_uris() for one in (version - 1, version)
        )
        if added := sorted(set(after) - set(before)):
            rows = spark.read.schema(COLUMNS).parquet(*added)
            rows = rows.selectExpr("account AS key", "to_json(struct(*)) AS value")
            batch = rows.write.format("oncelog").mode("append").options(**sink)
            batch.option("batchId", version).save()
        new = position.with_suffix(".new")
        new.write_text(str(version))
        new.replace(position)


def main(bootstrap: str, folder: str) -> None:
    spark = SparkSession.builder.appName("lakehouse").getOrCreate()
    path, log = f"{folder}/orders", {"bootstrap.servers": bootstrap}
    DeltaTable.create(path, SCHEMA, mode="ignore")
    ingest(spark, log, path, f"{folder}/checkpoint")
    publish(spark, log, path, Path(folder, "published"))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
