"""Orders from a topic into a Delta table, and from the table into another topic: each order once in both.

    python lakehouse.py localhost:9092 /data/lakehouse

It ends when it has done what was there at its start. After any crash start it again.
"""

import os
import sys

from pyspark.sql import DataFrame, SparkSession

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
DELTA = "io.delta:delta-spark_2.13:4.4.1"
COLUMNS = "id BIGINT, account STRING, amount BIGINT"


def session() -> SparkSession:
    catalog = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
    return (
        SparkSession.builder.appName("lakehouse")
        .config("spark.jars.packages", DELTA)
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", catalog)
        .getOrCreate()
    )


def ingest(spark: SparkSession, log: dict[str, str], folder: str) -> None:
    """Topic → table. Delta keeps the number of this application's last batch, and skips a batch that it has."""

    def write(rows: DataFrame, batch_id: int) -> None:
        batch = {"txnAppId": "orders-to-table", "txnVersion": str(batch_id)}
        rows.write.format("delta").mode("append").options(**batch).save(f"{folder}/orders")

    orders = (
        spark.readStream.format("oncelog")
        .options(
            **log, subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="50000"
        )
        .load()
        .selectExpr(f"from_json(CAST(value AS STRING), '{COLUMNS}') AS parsed")
    )
    query = orders.select("parsed.*").writeStream.foreachBatch(write)
    query = query.option("checkpointLocation", f"{folder}/checkpoints/ingest")
    query.trigger(availableNow=True).start().awaitTermination()


def publish(spark: SparkSession, log: dict[str, str], folder: str) -> None:
    """Table → topic. The log keeps the number of the sink's last batch, and skips a batch that it has."""
    table = spark.readStream.format("delta").load(f"{folder}/orders")
    query = (
        table.selectExpr("account AS key", "to_json(struct(*)) AS value")
        .writeStream.format("oncelog")
        .options(**log, topic="ledger", transactionalId="orders-from-table")
        .option("checkpointLocation", f"{folder}/checkpoints/publish")
    )
    query.trigger(availableNow=True).start().awaitTermination()


def main(bootstrap: str, folder: str) -> None:
    spark = session()
    log = {"bootstrap.servers": bootstrap}
    spark.sql(f"CREATE TABLE IF NOT EXISTS delta.`{folder}/orders` ({COLUMNS}) USING delta")
    ingest(spark, log, folder)
    publish(spark, log, folder)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
