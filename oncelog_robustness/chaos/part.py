"""Parts of chaos's runner that are processes of their own. Each is a module with a main.

The proxy carries all connections of a cluster, the lab runs the workloads, and the sampler measures how far the last
stable offset lags. Proxy and lab read commands as lines on their input, answer in lines, and end when their input
does. The sampler is killed.
"""

import contextlib
import subprocess
import sys
from pathlib import Path
from typing import IO, Any, Final

HOME: Final = Path(__file__).parents[2]
"""The folder from which `oncelog_robustness` can be imported, also where it is not installed."""

END_TIMEOUT_S: Final = 5.0


def start_part(
    module: str, *arguments: str, log: Path, output: int | IO[bytes] = subprocess.PIPE
) -> "subprocess.Popen[str]":
    """Start a part of the runner; its stderr goes into `log`.
    Ctrl-C does not reach it: without proxy and lab no cluster drains and no history is written."""
    with log.open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            text=True,
            cwd=HOME,
            start_new_session=True,
        )


def end_part(process: "subprocess.Popen[Any]", timeout_s: float = END_TIMEOUT_S) -> None:
    """Close the part's input, on which it ends, and kill it if that takes longer than `timeout_s` seconds."""
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
