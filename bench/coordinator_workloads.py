"""Workloads of the coordinator: how soon its shards are loaded after a crash, and how much memory many ids take."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.apache_kafka import ApacheKafka, formatted_kafka
from bench.brokers import create_topic
from bench.client_workloads import Rounds, rounds_of, row, transactional_producer
from bench.many_transactions import Wanted, make_transactions
from bench.results import Measurement, percentile
from bench.runner import ShowStep

OPEN_TRANSACTIONS = 10_000
FINISHED_BEFORE = 100_000
RECOVERY_BAR_S = 2.0
IDS = 100_000
MEMORY_BAR_MB = 300
TIMEOUT_S = 900
LOADS_TIMEOUT_S = 60
SHARDS = (100, 200)
SHARDS_VARIABLE = "ONCELOG_CONTROLLER_TRANSACTION_SHARD_COUNT"
SHARDS_BAR_MS = 100
OPEN_PRODUCERS = 100
KAFKA_LOADED = re.compile(
    r"Finished loading (\d+) transaction metadata from __transaction_state-(\d+) in (\d+) millis"
)


def coordinator_recovery(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure the time from the coordinator's start to all its shards loaded, while storage
    runs and its pages are warm."""
    scale = 10 if is_quick else 1
    found = []
    for finished, what in ((0, "no history"), (FINISHED_BEFORE, f"{FINISHED_BEFORE:,} before")):
        with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
            show_step(f"filling, {what}")
            _child("fill", folder, OPEN_TRANSACTIONS // scale, finished // scale)
            seconds = []
            for turn in range(1 if is_quick else 3):
                show_step(f"loading, {what}, {turn + 1}")
                seconds.append(_child("load", folder)["seconds"])
        found.append(
            Measurement(
                "coordinator-recovery",
                f"{OPEN_TRANSACTIONS // scale:,} open transactions, {what}",
                "s",
                percentile(seconds, 0.5),
                is_lower_better=True,
                bar=RECOVERY_BAR_S,
            )
        )
    return found


def shard_recovery(is_quick: bool, show_step: ShowStep) -> Iterator[Measurement]:
    """Measure the time from a coordinator's start in a running process until its shards are
    loaded; 100 producers are open."""
    rounds = rounds_of(is_quick)
    for shards in SHARDS:
        loading_ms: Rounds = {"oncelog": []}
        with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
            show_step(f"filling {shards} shards")
            _child("fill", folder, OPEN_PRODUCERS, 0, shards=shards)
            for turn in range(rounds):
                show_step(f"loading {shards} shards, {turn + 1}")
                loaded = _child("load", folder, shards=shards)
                assert loaded["ids"] == OPEN_PRODUCERS, loaded
                loading_ms["oncelog"].append(loaded["seconds"] * 1_000)
        with formatted_kafka(shards=shards) as kafka:
            if kafka is not None:
                loading_ms["kafka"] = list(_kafka_loads(kafka, shards, rounds, show_step))
        what = f"{OPEN_PRODUCERS} open producers on {shards} shards, loaded"
        bar = SHARDS_BAR_MS
        yield row("shard-recovery", what, "ms", loading_ms, is_lower_better=True, bar=bar)


def _kafka_loads(
    kafka: ApacheKafka, shards: int, rounds: int, show_step: ShowStep
) -> Iterator[float]:
    """Yield the time in Kafka's log for the shard that was loaded last: its loading, and its wait for the others."""
    kafka.start()
    create_topic(kafka.bootstrap, "orders", 3)
    # Kafka makes its topic of transactions when a client looks for its coordinator.
    transactional_producer(kafka.bootstrap, "id-0")
    make_transactions(
        kafka.bootstrap, Wanted(OPEN_PRODUCERS, opened=OPEN_PRODUCERS, topic="orders", partitions=3)
    )
    for turn in range(rounds):
        show_step(f"Kafka loads {shards} shards, {turn + 1}")
        kafka.kill()
        seen = len(kafka.log)
        kafka.start()
        deadline = time.monotonic() + LOADS_TIMEOUT_S
        loads: list[Load] = []
        while sum(one.ids for one in loads) < OPEN_PRODUCERS:
            assert time.monotonic() < deadline, f"Kafka has loaded {loads}"
            time.sleep(0.05)
            loads = kafka_loads(kafka.log[seen:])
        yield max(one.taken_ms for one in loads)


class Load(NamedTuple):
    """One shard's loading by Kafka; `taken_ms` includes the wait for the shards before it."""

    ids: int
    taken_ms: float


def kafka_loads(log: str) -> list[Load]:
    """Return the last loading of each shard in the log: after a crash a new leader epoch stops the first,
    which has found nothing."""
    found = {
        shard: Load(int(ids), float(taken_ms)) for ids, shard, taken_ms in KAFKA_LOADED.findall(log)
    }
    return list(found.values())


def coordinator_memory(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Measure the resident memory of a process with a controller, a storage node and a coordinator
    that has loaded its ids."""
    ids = IDS // 10 if is_quick else IDS
    with tempfile.TemporaryDirectory(prefix="oncelog-bench-") as folder:
        show_step(f"filling {ids:,} ids")
        _child("fill", folder, ids, 0)
        show_step("loading")
        loaded = _child("load", folder)
    assert loaded["ids"] == ids, loaded
    return [
        Measurement(
            "coordinator-memory",
            f"resident with {ids:,} ids",
            "MB",
            loaded["resident_bytes"] / 1e6,
            is_lower_better=True,
            bar=MEMORY_BAR_MB,
        )
    ]


def _child(command: str, folder: str, *numbers: int, shards: int = 50) -> dict[str, float]:
    result = subprocess.run(
        [sys.executable, "-m", "bench.coordinator_child", command, folder, *map(str, numbers)],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=Path(__file__).resolve().parents[1],
        env={**os.environ, SHARDS_VARIABLE: str(shards)},
    )
    found: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return found
