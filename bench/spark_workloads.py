"""The workload `spark`: rows a second through the Spark source and sink, warm, in a local session on two cores."""

import json
import os
import subprocess
import sys

from bench.brokers import create_topic, oncelog
from bench.client_workloads import RECORD_BYTES_SMALL, send_many
from bench.results import Measurement
from bench.runner import ShowStep

SOURCE_BAR = 300_000
SINK_BAR = 150_000
PARTITIONS = 2
SPARK_TIMEOUT_S = 600


def spark(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure reading a topic into nothing, and writing generated rows into a topic; best turn of
    several, the first being cold."""
    rows, turns = (200_000, 2) if is_quick else (2_000_000, 4)
    with oncelog() as server:
        show_step(f"filling a topic with {rows:,} records")
        for topic in ("spark-in", "spark-out"):
            create_topic(server.bootstrap, topic, PARTITIONS)
        send_many(server.bootstrap, "spark-in", RECORD_BYTES_SMALL, rows, PARTITIONS)
        show_step("Spark reads and writes")
        command = [sys.executable, "-m", "bench.spark_job", server.bootstrap, str(rows), str(turns)]
        result = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=SPARK_TIMEOUT_S,
            check=False,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        )
    if result.returncode != 0:
        raise RuntimeError(f"the Spark job failed:\n{_cause(result.stderr)}")
    seconds = json.loads(result.stdout.splitlines()[-1])
    return [
        Measurement(
            "spark",
            f"source, {rows:,} rows",
            "rows/s",
            rows / min(seconds["read_s"]),
            bar=SOURCE_BAR,
        ),
        Measurement(
            "spark", f"sink, {rows:,} rows", "rows/s", rows / min(seconds["write_s"]), bar=SINK_BAR
        ),
    ]


def _cause(text: str) -> str:
    """Return the lines of a Spark failure that are not stack frames of the JVM."""
    lines = [line for line in text.splitlines() if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(lines[-25:])
