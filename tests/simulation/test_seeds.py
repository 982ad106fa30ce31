"""Many seeds find nothing, and a seed is the same run whatever Python makes of hashes (ADR 0021)."""

import os
import subprocess
import sys

import pytest

IS_FULL = os.environ.get("ONCELOG_SIMULATION_FULL") == "1"
SEEDS = 2000 if IS_FULL else 200
DIGESTS = 50 if IS_FULL else 8
TIMEOUT_S = 20_000 if IS_FULL else 900


def simulate(*arguments, hash_seed="0"):
    return subprocess.run(
        [sys.executable, "-m", "robustness.simulator", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=TIMEOUT_S,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "COLUMNS": "150"},
    )


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_seeds_find_nothing():
    first = 1_001 if IS_FULL else 1
    done = simulate("--seeds", str(SEEDS), "--first-seed", str(first), "--jobs", "2")
    print(done.stdout)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert f"{SEEDS} seeds" in done.stdout


@pytest.mark.timeout(TIMEOUT_S + 30)
def test_a_seed_is_one_run_under_two_hash_seeds():
    runs = [
        sorted(
            simulate("--seeds", str(DIGESTS), "--digests", "--jobs", "2", hash_seed=hash_seed)
            .stdout.strip()
            .splitlines()
        )
        for hash_seed in ("1", "2")
    ]
    assert len(runs[0]) == DIGESTS, runs[0]
    assert runs[0] == runs[1]


def test_another_seed_is_another_run():
    lines = simulate("--seeds", "3", "--scenario", "storm", "--digests", "--jobs", "2").stdout
    digests = {line.split()[-1] for line in lines.strip().splitlines()}
    assert len(digests) == 3, lines


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--scenario", "nosuch"], "there is no scenario 'nosuch'; there are: "),
        (["--planted", "nosuch"], "nosuch"),
        (["--seeds", "0"], "--seeds"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_wrong_use_is_told_in_a_line(arguments, told):
    done = simulate(*arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr
