"""A failing test is told, whatever garbage it leaves behind (tests/conftest.py)."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FAILING = """
import asyncio, gc

def leave(phase="stop", info=None):
    if phase != "stop":
        return
    loop = asyncio.new_event_loop()
    future = loop.create_future()
    try:
        sum([1, 2 / 0])
    except ZeroDivisionError as error:
        future.set_exception(error)
    ring = [future]
    ring.append(ring)
    loop.close()

def test_it():
    gc.callbacks.append(leave)  # so that there is garbage at any time
    gc.set_threshold(30)
    values = [1]
    assert values == [{"a": [(1, 2), (3, 4)]}][0]["a"][0] + tuple(one for one in (3, 4)), "a text"
"""


def test_a_failure_with_unseen_futures_left_is_told(tmp_path):
    (tmp_path / "test_failing.py").write_text(FAILING)
    (tmp_path / "empty.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest"),
            *("-c", tmp_path / "empty.ini", tmp_path / "test_failing.py"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed" in done.stdout
    assert "a text" in done.stdout
    assert "INTERNALERROR" not in done.stdout
