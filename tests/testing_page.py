"""The examples of docs/testing-with-oncelog.md, run as the tests that they are."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "testing-with-oncelog.md"
EXAMPLES = dict(
    re.findall(
        r"^### ([\w.-]+): .*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
)
"""Client library → the example that shows a fault."""


def run_example(library, folder, timeout_s):
    """In a session of its own, without this repository's settings of pytest. Returns what it printed, or fails."""
    (folder / "test_example.py").write_text(EXAMPLES[library])
    (folder / "empty.ini").write_text("[pytest]\n")
    # The one plugin of ours is for a bug of CPython 3.11 that garbage of a client brings out. What else is installed
    # here takes longer to load than the example to run.
    plugins = ["anyio", "oncelog.pytest_plugin", "tests.conftest"]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-c", str(folder / "empty.ini")),
            *(part for plugin in (*plugins, "no:cacheprovider") for part in ("-p", plugin)),
            *(f"--basetemp={folder / 'base'}", str(folder / "test_example.py")),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        timeout=timeout_s,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8_000:] + done.stderr[-2_000:]
    return done.stdout
