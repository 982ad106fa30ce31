"""The workload `spark`: our source and sink on oncelog, beside Spark's own connector on Apache Kafka, in turns."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from scripts.maven_jars import fetched_jars

from bench.apache_kafka import CACHE, ROOT
from bench.brokers import create_topic, log_and_kafka
from bench.client_workloads import RECORD_BYTES_SMALL, send_many
from bench.results import Measurement, percentile, spread
from bench.runner import ShowStep
from bench.spark_job import SMALL_BATCHES

CONNECTORS = {"oncelog": "oncelog", "kafka": "kafka"}
"""The broker by its name, and the connector that reads and writes it."""
SOURCE_BAR = 300_000
SINK_BAR = 150_000
SOURCE_KAFKA_BAR = 2.0
SPLIT_BAR = 1.6
PARQUET_BAR = 0.8
MICRO_BATCH_KAFKA_BAR = 1.1
COLD_KAFKA_BAR = 1.2
PARTITIONS = 2
SPARK_TIMEOUT_S = 600

Sessions = list[dict[str, list[float]]]
"""The measurements of each Spark session: seconds by name of a step."""


def spark(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure batches read into nothing, a partition read by two tasks, batches written, micro-batches of
    one row, and the first read of a session."""
    rows, sessions, turns = (200_000, 1, 1) if is_quick else (1_000_000, 3, 3)
    measured: dict[str, Sessions] = {}
    with log_and_kafka() as brokers:
        for name, broker in brokers.items():
            show_step(f"filling topics of {name} with {rows:,} records")
            _fill(broker.bootstrap, rows)
        for session in range(1, sessions + 1):
            for name, broker in brokers.items():
                show_step(f"Spark session {session} of {sessions}, {name}")
                found = _run(CONNECTORS[name], broker.bootstrap, rows, turns)
                measured.setdefault(name, []).append(found)
    yield from _rows(rows, measured["oncelog"], measured.get("kafka", []))


def _fill(bootstrap: str, rows: int) -> None:
    for topic, partitions, count in (
        ("spark-in", PARTITIONS, rows),
        ("spark-one", 1, rows),
        ("spark-few", 1, SMALL_BATCHES),
    ):
        create_topic(bootstrap, topic, partitions)
        send_many(bootstrap, topic, RECORD_BYTES_SMALL, count, partitions)
    create_topic(bootstrap, "spark-out", PARTITIONS)
    create_topic(bootstrap, "spark-few-out", 1)


def _run(connector: str, bootstrap: str, rows: int, turns: int) -> dict[str, list[float]]:
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    if connector == "kafka":
        pom = ROOT / "tests/conformance/java/spark/pom.xml"
        jars = ",".join(map(str, sorted(fetched_jars(CACHE, pom).glob("*.jar"))))
        environment["PYSPARK_SUBMIT_ARGS"] = f"--jars {jars} pyspark-shell"
    command = [sys.executable, "-m", "bench.spark_job", connector, bootstrap, str(rows), str(turns)]
    result = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=SPARK_TIMEOUT_S,
        check=False,
        env=environment,
    )
    if result.returncode != 0:
        raise RuntimeError(f"the Spark job of {connector} failed:\n{_cause(result.stderr)}")
    found = json.loads(result.stdout.splitlines()[-1])
    return {name: one if isinstance(one, list) else [one] for name, one in found.items()}


def _rows(count: int, ours: Sessions, others: Sessions) -> Iterator[Measurement]:
    def times(step: str, sessions: Sessions = ours) -> list[float]:
        return [one for session in sessions for one in session[step]]

    def rate(step: str, sessions: Sessions = ours) -> float | None:
        return count / median(times(step, sessions)) if sessions else None

    def rated(what: str, step: str, bar: float | None, kafka_bar: float | None) -> Measurement:
        rates = [count / one for one in times(step)]
        return Measurement(
            "spark",
            what,
            "rows/s",
            median(rates),
            bar=bar,
            kafka=rate(step, others),
            kafka_bar=kafka_bar,
            spread=spread(rates),
        )

    def ratio(what: str, step: str, by: str, bar: float) -> Measurement:
        return Measurement(
            "spark",
            what,
            "×",
            median(times(by)) / median(times(step)),
            bar=bar,
            kafka=median(times(by, others)) / median(times(step, others)) if others else None,
        )

    def timed(what: str, step: str, unit: str, scale: float, kafka_bar: float) -> Measurement:
        found = [scale * one for one in times(step)]
        return Measurement(
            "spark",
            what,
            unit,
            percentile(found, 0.5),
            is_lower_better=True,
            kafka=scale * percentile(times(step, others), 0.5) if others else None,
            kafka_bar=kafka_bar,
            spread=spread(found),
        )

    yield rated(f"source, {count:,} rows", "read_s", SOURCE_BAR, SOURCE_KAFKA_BAR)
    split = "read_one_partition_split_s"
    yield rated(f"source, {count:,} rows of one partition", "read_one_partition_s", None, None)
    yield ratio("one partition as two tasks by one task", split, "read_one_partition_s", SPLIT_BAR)
    yield rated(f"sink, {count:,} rows", "write_s", SINK_BAR, None)
    yield ratio("sink by parquet of the same rows", "write_s", "write_parquet_s", PARQUET_BAR)
    yield timed("micro-batch of one row", "micro_batch_s", "ms", 1000, MICRO_BATCH_KAFKA_BAR)
    yield timed("first read of a session", "cold_read_s", "s", 1, COLD_KAFKA_BAR)


def _cause(text: str) -> str:
    """Return the lines of a Spark failure that are not stack frames of the JVM."""
    lines = [line for line in text.splitlines() if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(lines[-25:])
