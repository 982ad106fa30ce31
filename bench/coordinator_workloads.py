"""Workloads of the coordinator: how soon its shards are loaded after a crash, and what many ids take in memory."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.results import Measurement, percentile
from bench.runner import ShowStep

OPEN_TRANSACTIONS = 10_000
FINISHED_BEFORE = 100_000
RECOVERY_BAR_S = 2.0
IDS = 100_000
MEMORY_BAR_MB = 300
TIMEOUT_S = 900


def coordinator_recovery(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """From the coordinator's start to all its shards loaded: storage runs, its pages are warm."""
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


def coordinator_memory(is_quick: bool, show_step: ShowStep) -> list[Measurement]:
    """Resident memory of a process with a controller, a storage node and a coordinator that has loaded its ids."""
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


def _child(command: str, folder: str, *numbers: int) -> dict[str, float]:
    result = subprocess.run(
        [sys.executable, "-m", "bench.coordinator_child", command, folder, *map(str, numbers)],
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=Path(__file__).resolve().parents[1],
    )
    found: dict[str, float] = json.loads(result.stdout.splitlines()[-1])
    return found
