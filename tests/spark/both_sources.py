"""A Spark driver of its own that reads one topic with Spark's Kafka source and with ours, in many ways.

    python both_sources.py BOOTSTRAP TOPIC JAR...

Prints one JSON object: way of reading → [rows of the Kafka source, its tasks, rows of ours, our tasks].
"""

import json
import os
import sys


def ways(topic):
    """Name → the options of a batch read."""
    offsets = json.dumps({topic: {"0": 40, "1": 3}})
    ends = json.dumps({topic: {"0": 90, "1": -1}})
    times = json.dumps({topic: {"0": 1_700_000_000_050, "1": 1_700_000_000_002}})
    named = {"subscribe": topic}
    return {
        "whole": named,
        "headers": named | {"includeHeaders": "true"},
        "pattern": {"subscribePattern": f"{topic[:-1]}[{topic[-1]}x]"},
        "assigned": {"assign": json.dumps({topic: [1]})},
        "between offsets": named | {"startingOffsets": offsets, "endingOffsets": ends},
        "from a time": named | {"startingTimestamp": "1700000000005"},
        "until a time": named | {"endingTimestamp": "1700000000005"},
        "between times": named
        | {"startingOffsetsByTimestamp": times, "endingTimestamp": "1700000000070"},
        "as six tasks": named | {"minPartitions": "6"},
        "as ten tasks": named | {"minPartitions": "10"},
        "short tasks": named | {"maxRecordsPerPartition": "13"},
        "short tasks, many": named | {"maxRecordsPerPartition": "30", "minPartitions": "12"},
        "small fetches": named
        | {"kafka.fetch.max.bytes": "1000", "kafka.max.partition.fetch.bytes": "1000"},
        "uncommitted": named | {"kafka.isolation.level": "read_uncommitted"},
        "uncommitted tasks": named
        | {"kafka.isolation.level": "read_uncommitted", "minPartitions": "7"},
    }


def rows_and_tasks(frame):
    from pyspark.sql import functions as f

    found = frame.withColumn("task", f.spark_partition_id()).collect()
    rows = sorted(str(row.asDict(recursive=True) | {"task": None}) for row in found)
    return rows, len({row.task for row in found})


def batch(spark, source, bootstrap, options):
    committed = {"kafka.isolation.level": "read_committed"}
    given = {"kafka.bootstrap.servers": bootstrap} | committed | options
    return rows_and_tasks(spark.read.format(source).options(**given).load())


def stream(spark, source, bootstrap, topic, options):
    """All rows that micro-batches brought, and how many micro-batches there were."""
    given = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        **options,
    }
    found, counts = [], []

    def take(frame, _):
        rows, _ = rows_and_tasks(frame)
        found.extend(rows)
        counts.append(len(rows))

    frame = spark.readStream.format(source).options(**given).load()
    query = frame.writeStream.foreachBatch(take).trigger(availableNow=True).start()
    query.awaitTermination()
    return sorted(found), len(counts)


def main(bootstrap, topic, *jars):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from tests.spark.session import spark_session

    spark = spark_session("both-sources", jars)
    found = {}
    for name, options in ways(topic).items():
        print(f"reading: {name}", file=sys.stderr, flush=True)
        both = [batch(spark, source, bootstrap, options) for source in ("kafka", "oncelog")]
        found[name] = [*both[0], *both[1]]
    limit = {"maxOffsetsPerTrigger": "50", "minPartitions": "4"}
    found["stream"] = [
        *stream(spark, "kafka", bootstrap, topic, limit),
        *stream(spark, "oncelog", bootstrap, topic, limit),
    ]
    print(json.dumps(found), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
