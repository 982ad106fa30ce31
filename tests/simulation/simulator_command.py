"""`python -m oncelog_robustness.simulator`, as the gate and the night call it."""

import os
import subprocess
import sys

IS_FULL = os.environ.get("ONCELOG_SIMULATION_FULL") == "1"


def simulate(*arguments, timeout_s, hash_seed="0", columns="150"):
    return subprocess.run(
        [sys.executable, "-m", "oncelog_robustness.simulator", *arguments],
        capture_output=True,
        check=False,
        text=True,
        timeout=timeout_s,
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "COLUMNS": columns},
    )


def output_of_sound(*arguments, timeout_s, **more):
    """What it prints of runs in which nothing is broken."""
    done = simulate(*arguments, timeout_s=timeout_s, **more)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    print(done.stdout)
    return done.stdout


def digests(*arguments, **more):
    return sorted(output_of_sound("--digests", *arguments, **more).splitlines())
