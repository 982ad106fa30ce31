"""`python -m oncelog_robustness.chaos`, started and waited for."""

import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
TIMEOUT_S = 240


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "oncelog_robustness.chaos", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def chaos(*arguments):
    process = start(*arguments)
    try:
        output, _ = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        # As Ctrl-C: it takes its cluster down before it goes.
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    return process.returncode, output
